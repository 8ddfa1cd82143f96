"""What the words of a question say about its structure: kind of answer, count, superlative, yes/no.

All word lists are data (`english.yaml`). Nothing here knows a KG.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml

MENTION = "entity"
"""Stands for a linked mention in the token list."""

_TOKEN = re.compile(r"[^\W_]+(?:['’.,-]?[^\W_]+)*", re.UNICODE)
_POSSESSIVE = re.compile(r"['’]s?$")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DATE = re.compile(r"[12]\d{3}(-\d\d(-\d\d)?)?")
_ADJECTIVAL = ("ous", "ful", "ive", "ant", "ent", "al", "ed", "ly", "ar", "ble", "ic", "ing")
_OWNING = ("has", "have", "had", "with")
_SUFFIXES = ("ings", "ing", "ers", "ors", "ies", "ed", "es", "er", "or", "s", "e")


@lru_cache(maxsize=1)
def lexicon() -> dict[str, Any]:
    """The word lists."""
    data: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("english.yaml").read_text("utf-8"))
    data["stopwords"] = frozenset(data["stopwords"].split())
    data["forms"] = {form: lemma for lemma, forms in data["lemmas"].items() for form in forms}
    return data


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """A word without its commonest endings, so that forms of one word meet."""
    word = lexicon()["forms"].get(word, word)
    for suffix in _SUFFIXES:
        if word.endswith(suffix) and len(word) - len(suffix) >= 3:
            return word[: -len(suffix)]
    return word


@dataclass(frozen=True, slots=True)
class Token:
    """A word of the question; `mention` is the index of the linked entity it stands for, or -1."""

    text: str
    start: int
    mention: int = -1

    @property
    def lower(self) -> str:
        """The word in lower case, without a possessive ending."""
        return _POSSESSIVE.sub("", self.text.lower())


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison with a number or a date: operator, literal text, and whether it is a year or date."""

    operator: str
    value: str
    is_date: bool


@dataclass(frozen=True, slots=True)
class Superlative:
    """The greatest (`max`) or smallest (`min`) of a quantity named by any of `quantities`."""

    direction: str
    quantities: tuple[str, ...]
    word: str


@dataclass(frozen=True, slots=True)
class QuestionView:
    """A question as the planner sees it.

    Attributes:
        tokens: words; each linked mention is one token.
        words: content words with their token positions.
        expected: noun that names the kind of answer ("languages" in "which languages ..."), or "".
        phrase: the expected noun with the word before it ("feature films").
        kind: person, place, time, number, or "" where the question word does not tell.
        boolean: asks yes or no. counting: asks how many.
        quantities: what "how tall" asks for. comparative: operator and quantities of "longer than".
        comparisons: comparisons with numbers or dates.
        most: noun to be counted per answer in "the most ...", or "". least: the direction is the fewest.
        determined: the expected noun names a class ("which river", "how many films", "the longest river")
            rather than a relation ("what is the capital of").
        same: speaks of what has something in common ("the same director", "together with").
        joint: "or" between two mentions. negated: token position of a negation, or -1.
    """

    tokens: tuple[Token, ...]
    words: tuple[tuple[str, int], ...]
    expected: str = ""
    phrase: str = ""
    kind: str = ""
    boolean: bool = False
    counting: bool = False
    quantities: tuple[str, ...] = ()
    superlative: Superlative | None = None
    comparative: tuple[str, ...] = ()
    comparisons: tuple[Comparison, ...] = ()
    most: str = ""
    least: bool = False
    joint: str = ""
    negated: int = -1
    determined: bool = False
    same: bool = False

    @property
    def constrained(self) -> bool:
        """Whether the question restricts, counts or orders its answers."""
        return bool(self.superlative or self.most or self.comparisons or self.counting)

    @property
    def unlinked(self) -> tuple[str, ...]:
        """Words written like names that belong to no linked mention: the KG may not know what they name.

        () where capitals tell nothing, because every word has one.
        """
        stop, noun = lexicon()["stopwords"], self.phrase.split()
        said = [t for t in self.tokens[1:] if t.mention < 0 and t.text[0].isalpha() and t.lower not in stop]
        named = [t for t in said if t.text[0].isupper()]
        return tuple(t.text for t in named if t.lower not in noun) if len(named) < len(said) else ()

    def mention_position(self, mention: int) -> int:
        """Token position of a mention, -1 if it does not stand in the question."""
        return next((i for i, t in enumerate(self.tokens) if t.mention == mention), -1)

    def distance(self, position: int) -> int:
        """Tokens between a position and the nearest mention."""
        mentions = [i for i, t in enumerate(self.tokens) if t.mention >= 0]
        return min((abs(position - i) for i in mentions), default=0)


def tokenize(question: str, spans: Sequence[tuple[int, int]]) -> tuple[Token, ...]:
    """Words of a question; each span (start, end) of a linked mention becomes one token."""
    tokens = [Token(MENTION, start, i) for i, (start, end) in enumerate(spans) if end > start]
    for match in _TOKEN.finditer(question):
        if not any(s < match.end() and match.start() < e for s, e in spans):
            tokens.append(Token(match.group(), match.start()))
    return tuple(sorted(tokens, key=lambda t: t.start))


def masked(question: str, spans: Sequence[tuple[int, int]]) -> str:
    """The question in lower case with every mention replaced by one word, so that like questions meet."""
    return " ".join(MENTION if t.mention >= 0 else t.lower for t in tokenize(question, spans))


def view(question: str, spans: Sequence[tuple[int, int]]) -> QuestionView:
    """Read the structure of a question with linked mentions at `spans`."""
    tokens = tokenize(question, spans)
    low = [t.lower if t.mention < 0 else MENTION for t in tokens]
    used: set[int] = set()
    boolean = bool(low) and low[0] in lexicon()["auxiliaries"]
    comparisons = _comparisons(low, used)
    counting = _counting(low, used)
    quantities = _how(low, used)
    most, least = _most(low, used)
    superlative = None if most else _superlative(low, used)
    comparative = () if comparisons else (_comparative(low, used) or _against_mention(low, used))
    expected, kind = _expected(tokens, low)
    phrase = _phrase(low, expected)
    negated = _negated(low, used)
    if quantities or (counting and not expected):
        kind = "number" if "date" not in " ".join(quantities) else "time"
    stop, cues = lexicon()["stopwords"], {*used, negated}
    words = tuple(
        (w, i)
        for i, w in enumerate(low)
        if i not in cues and tokens[i].mention < 0 and w not in stop and not _NUMBER.fullmatch(w)
    )
    return QuestionView(
        tokens,
        words,
        expected,
        phrase,
        kind,
        boolean,
        counting,
        quantities,
        superlative,
        comparative,
        comparisons,
        most,
        least,
        _joint(low),
        negated,
        _determined(low, expected, superlative),
        any(w in lexicon()["same"] for w in low),
    )


def _comparisons(low: Sequence[str], used: set[int]) -> tuple[Comparison, ...]:
    """Comparison phrases followed by a number or date, in the order of the question."""
    found: dict[int, Comparison] = {}
    for phrase, operator in lexicon()["comparisons"]:
        words = phrase.split()
        for i in range(len(low) - len(words)):
            if list(low[i : i + len(words)]) != words or i in used:
                continue
            value = _number_at(low, i + len(words), used)
            if value:
                used.update(range(i, i + len(words)))
                is_date = phrase in lexicon()["temporal"] and bool(_DATE.fullmatch(value))
                found[i] = Comparison(operator, value, is_date)
    return tuple(found[i] for i in sorted(found))


def _against_mention(low: Sequence[str], used: set[int]) -> tuple[str, ...]:
    """ "before" or "after" another entity: its date is compared; the words name which date."""
    for i in range(len(low) - 1):
        if low[i] in ("before", "after") and low[i + 1] == MENTION:
            used.add(i)
            dates = lexicon()["default_dates"]
            said = [w for w in low[:i] if w not in lexicon()["stopwords"] and w != MENTION]
            return ("<" if low[i] == "before" else ">", *said, *dates)
    return ()


def _phrase(low: Sequence[str], expected: str) -> str:
    """The expected noun with the content word right before it ("feature films"), or the noun alone."""
    if not expected or expected not in low:
        return expected
    i = list(low).index(expected)
    before = low[i - 1] if i else ""
    plain = before and before not in lexicon()["stopwords"] and before != MENTION
    return f"{before} {expected}" if plain else expected


def _determined(low: Sequence[str], expected: str, superlative: Superlative | None) -> bool:
    """Whether the expected noun stands right behind which, what or how many, or behind a superlative."""
    if not expected or expected not in low:
        return False
    i = list(low).index(expected)
    return superlative is not None or any(w in ("which", "what", "many") for w in low[max(0, i - 2) : i])


def _joint(low: Sequence[str]) -> str:
    """How mentions are joined: "or" where it stands between two of them, else ""."""
    mentions = [i for i, w in enumerate(low) if w == MENTION]
    return "or" if any("or" in low[a:b] for a, b in itertools.pairwise(mentions)) else ""


def _negated(low: Sequence[str], used: set[int]) -> int:
    """Position of a negation, or -1; the "no" of "no more than" is none."""
    negations = ("not", "without", "never", "no")
    found = (i for i, w in enumerate(low) if w in negations or w.endswith(("n't", "n’t")))
    return next((i for i in found if i not in used), -1)


def _number_at(low: Sequence[str], at: int, used: set[int]) -> str:
    """The number at a position, with its unit word, as a plain literal text; "" if there is none."""
    for i in range(at, min(at + 3, len(low))):
        if _NUMBER.match(low[i]) and (
            _NUMBER.fullmatch(low[i]) or re.fullmatch(r"[12]\d{3}-\d\d(-\d\d)?", low[i])
        ):
            used.add(i)
            text = low[i].replace(",", "")
            unit = lexicon()["units"].get(low[i + 1]) if i + 1 < len(low) else None
            if unit:
                used.add(i + 1)
                return f"{float(text) * unit:.10g}"
            return text
        if low[i] not in ("the", "year", "of"):
            return ""
    return ""


def _counting(low: Sequence[str], used: set[int]) -> bool:
    """Whether the question asks how many."""
    for i in range(len(low) - 1):
        if (low[i], low[i + 1]) in (("how", "many"), ("number", "of")) and "most" not in low[:i]:
            used.update((i, i + 1))
            return True
    return False


def _how(low: Sequence[str], used: set[int]) -> tuple[str, ...]:
    """Quantities asked for by "how tall" and the like."""
    for i in range(len(low) - 1):
        if low[i] == "how" and low[i + 1] in lexicon()["how"]:
            used.update((i, i + 1))
            return tuple(lexicon()["how"][low[i + 1]])
    return ()


def _most(low: Sequence[str], used: set[int]) -> tuple[str, bool]:
    """The noun counted in "the most films"; an adjective after "most" is a superlative instead."""
    graded = {*lexicon()["superlatives"]["max"], *lexicon()["how"]}
    no_noun = {*graded, *lexicon()["stopwords"], MENTION}
    for i in range(len(low) - 1):
        word, following = low[i], low[i + 1]
        counted = following not in no_noun and not following.endswith(_ADJECTIVAL)
        # "at least 3" is a comparison, not the fewest of something.
        if word not in ("most", "fewest", "least") or i in used:
            continue
        if counted:
            used.add(i)
            return following, word != "most"
        owned = i > 1 and low[i - 2] in _OWNING and following not in graded
        if owned and i + 2 < len(low) and low[i + 2] not in no_noun:
            # "has the most official languages": what is counted has an adjective.
            used.add(i)
            return low[i + 2], word != "most"
    return "", False


def _superlative(low: Sequence[str], used: set[int]) -> Superlative | None:
    """A superlative adjective and the quantity it compares."""
    for direction in ("max", "min"):
        for i, word in enumerate(low):
            quantities = lexicon()["superlatives"][direction].get(word)
            if quantities and i not in used:
                used.add(i)
                if i and low[i - 1] in ("most", "least"):
                    used.add(i - 1)
                    direction = "min" if low[i - 1] == "least" else direction
                return Superlative(direction, tuple(quantities), word)
    return None


def _comparative(low: Sequence[str], used: set[int]) -> tuple[str, ...]:
    """(operator, quantities...) of a comparative before "than" or between two things."""
    for i, word in enumerate(low):
        if word in lexicon()["comparatives"]:
            used.update(j for j in (i, i + 1) if j < len(low) and low[j] in (word, "than"))
            return tuple(lexicon()["comparatives"][word])
    return ()


def _expected(tokens: Sequence[Token], low: Sequence[str]) -> tuple[str, str]:
    """The noun that names what is asked for, and the kind the question word implies."""
    stop = lexicon()["stopwords"]
    for i, word in enumerate(low):
        if word in ("who", "whom"):
            return "", "person"
        if word == "when":
            return "", "time"
        if word == "where":
            return "", "place"
        if word in ("which", "what") or (word == "many" and i and low[i - 1] == "how"):
            return _noun_after(tokens, low, i, stop), ""
    if low and low[0] in ("name", "list", "give", "show"):
        return _noun_run(tokens, low, 1, stop), ""
    return "", ""


def _noun_after(tokens: Sequence[Token], low: Sequence[str], i: int, stop: frozenset[str]) -> str:
    """The noun after which/what/how many, or after "what is the"."""
    if i + 1 >= len(low):
        return ""
    if low[i + 1] in lexicon()["auxiliaries"]:
        return _noun_run(tokens, low, i + 2, stop, needs_end=True)
    return _noun_run(tokens, low, i + 1, stop)


def _noun_run(
    tokens: Sequence[Token], low: Sequence[str], start: int, stop: frozenset[str], needs_end: bool = False
) -> str:
    """The last content word of the first run of content words; with `needs_end`, before of, in, for..."""
    run: list[str] = []
    graded = {*lexicon()["superlatives"]["max"], *lexicon()["superlatives"]["min"], "most", "least"}
    for i in range(start, len(low)):
        if tokens[i].mention >= 0:
            break
        if low[i] in stop or low[i] in graded:
            if run:
                break
            continue
        run.append(low[i])
        if not needs_end and (len(run) == 2 or low[i].endswith("s")):
            break
    if not run:
        return ""
    # "which film won": a second word is only part of the noun if the first is no noun of its own.
    return run[-1] if needs_end or run[-1].endswith("s") else run[0]
