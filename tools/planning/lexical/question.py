"""What the words of a question say about its structure: kind of answer, count, superlative, yes or no.

A text is a question, a claim to check, or a slot to fill (ODA, section 3.1). The word lists are data
(`english.yaml`). Nothing here knows a KG.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import yaml

from triplewise.tools.linking.linker import grammar_of

MENTION = "entity"  # Stands for a linked mention among the words

_TOKEN = re.compile(r"[^\W_]+(?:['’.,-]?[^\W_]+)*", re.UNICODE)
_POSSESSIVE = re.compile(r"['’]s?$")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_DATE = re.compile(r"[12]\d{3}(-\d\d(-\d\d)?)?")
_ADJECTIVAL = ("ous", "ful", "ive", "ant", "ent", "al", "ed", "ly", "ar", "ble", "ic", "ing")
_SUFFIXES = ("ings", "ing", "ers", "ors", "ies", "ed", "es", "er", "or", "s", "e")
_NEGATIONS = ("not", "without", "never", "no")

Form: TypeAlias = Literal["question", "claim", "slot"]

_SLOT = re.compile(r"\s*(\S.*?)\s*\[SEP\]\s*(.*\S)\s*", re.DOTALL)
_LATE_ORDER = re.compile(r",\s*(?:please\s+)?(?:name|list|tell)\s+(?:all|the|me|us|every|any)\b")


@lru_cache(maxsize=1)
def lexicon() -> dict[str, Any]:
    """Return the word lists."""
    data: dict[str, Any] = yaml.safe_load(files(__package__).joinpath("english.yaml").read_text("utf-8"))
    for name in ("stopwords", "asking", "orders", "verbs", "prepositions", "denials", "measures"):
        data[name] = frozenset(data[name].split())
    data["forms"] = {form: lemma for lemma, forms in data["lemmas"].items() for form in forms}
    return data


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return a word without its commonest endings, so that forms of one word meet."""
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
        """The word in lower case without a possessive ending; a mention reads as `MENTION`."""
        return MENTION if self.mention >= 0 else _POSSESSIVE.sub("", self.text.lower())


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
    """A question as the planner reads it.

    Attributes:
        tokens: words; each linked mention is one token.
        words: content words with their token positions.
        expected: noun that names the kind of answer ("languages" in "which languages ..."), or "".
        phrase: the expected noun with the word before it ("feature films"), or after it ("chemical element").
        kind: person, place, time, number, or "" where the question word does not tell.
        boolean: asks yes or no. counting: asks how many. copula: asks whether something is something.
        existential: asks whether there is any, and is read on as "which ...".
        numbers: those that no comparison takes.
        quantities: what "how tall" or "who is Bach" asks for. identity: asks who or what something is.
        comparative: operator and quantities of "longer than".
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
    copula: bool = False
    existential: bool = False
    numbers: tuple[str, ...] = ()
    counting: bool = False
    quantities: tuple[str, ...] = ()
    identity: bool = False
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
    def masked(self) -> str:
        """The question in lower case with every mention replaced by one word."""
        return " ".join(t.lower for t in self.tokens)

    @property
    def unlinked(self) -> tuple[str, ...]:
        """Words written like names that belong to no linked mention: the KG may not know what they name.

        () where capitals tell nothing, because every word has one.
        """
        stop, noun = lexicon()["stopwords"], self.phrase.split()
        plain = [t for t in self.tokens[1:] if t.mention < 0 and t.text[0].isalpha() and t.lower not in stop]
        names = [t for t in plain if t.text[0].isupper()]
        return tuple(t.text for t in names if t.lower not in noun) if len(names) < len(plain) else ()

    def subject(self, name: str) -> int:
        """Return which of two mentions a relation's name makes its subject in a yes-or-no question, or -1.

        By what follows the words of the name: its own preposition ("based in entity") goes before the object,
        another "of" before the subject ("the capital of entity"); a verb whose agent the name says
        ("director", "founded by") makes the other one the subject.
        """
        said, low, copulas = name.lower().split(), [t.lower for t in self.tokens], lexicon()["copulas"]
        stems = [stem(word) for word in said]
        places = [i for i, t in enumerate(self.tokens) if t.mention >= 0]
        for i in reversed([i for i, w in enumerate(low) if i not in places and stem(w) in stems]):
            at, here = stems.index(stem(low[i])), sum(place < i for place in places)  # of the next mention
            before, after = low[i - 1], "".join(low[i + 1 : i + 2])
            is_noun = at == len(said) - 1 and low[i].removesuffix("s") == said[at].removesuffix("s")
            # "manages", for "manager of": the subject is who does it.
            names_agent = said[at].endswith(("er", "or")) and low[i] != said[at]
            is_agent = said[at + 1 :] == ["by"] or (not is_noun and said[at].endswith(("er", "or")))
            if here < 2 and names_agent and said[at + 1 :] == ["of"]:
                return here if after == "by" else 1 - here
            if here < 2 and after and ([after] == said[at + 1 : at + 2] or (after == "by" and is_agent)):
                return 1 - here
            if here < 2 and is_agent and (after == "of" or low[0] not in copulas):
                return here
            if here < 2 and is_noun and after == "of":
                return here
            if here == 1 and is_noun and low[0] in copulas and before == after == MENTION:
                return 0
        return -1

    def mention_position(self, mention: int) -> int:
        """Return the token position of a mention, -1 if it does not stand in the question."""
        return next((i for i, t in enumerate(self.tokens) if t.mention == mention), -1)

    def distance(self, position: int) -> int:
        """Return the number of tokens between a position and the nearest mention."""
        return min((abs(position - i) for i, t in enumerate(self.tokens) if t.mention >= 0), default=0)


def tokenize(question: str, spans: Sequence[tuple[int, int]]) -> tuple[Token, ...]:
    """Return the words of a question; each span (start, end) of a linked mention is one token."""
    tokens = [Token(MENTION, start, i) for i, (start, end) in enumerate(spans) if end > start]
    grammar = grammar_of(question)  # of another language: read as the English words
    for match in _TOKEN.finditer(question):
        if not any(s < match.end() and match.start() < e for s, e in spans):
            word = match.group()
            tokens.append(Token(grammar.get(word.lower(), word), match.start()))
    return tuple(sorted(tokens, key=lambda t: t.start))


def masked(question: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return the question in lower case with mentions masked, so that questions of one wording meet."""
    return " ".join(t.lower for t in tokenize(question, spans))


def view(question: str, spans: Sequence[tuple[int, int]], compares: bool = True) -> QuestionView:
    """Read the structure of a question with linked mentions at `spans`; `compares`: it may compare two."""
    tokens = tokenize(question, spans)
    opening = [t.lower for t in tokens[:3]]
    copula = opening[:1] != [] and opening[0] in lexicon()["copulas"]
    if existential := copula and opening[1:2] == ["there"]:
        said = 3 if opening[2:] and opening[2] in lexicon()["any"] else 2
        tokens = (Token("which", tokens[0].start), *tokens[said:])
    reader = _Reader([t.lower for t in tokens])
    low, stop = reader.low, lexicon()["stopwords"]
    comparisons, counting, quantities = reader.comparisons(), reader.counting(), reader.how()
    most, least = reader.most()
    superlative = None if most else reader.superlative()
    comparative = () if comparisons or not compares else reader.comparative()
    expected, kind = reader.expected()
    if not kind and not counting and expected.removesuffix("s") in lexicon()["dates"]:
        kind = "time"
    at = low.index(expected) if expected in low else -1
    ends = {i for i in (at - 1, at, at + 1) if 0 <= i < len(low) and low[i] not in stop and low[i] != MENTION}
    phrase = low[at - 1 : at + 1] if at - 1 in ends else low[at : at + 2] if at + 1 in ends else [expected]
    is_class = any(w in ("which", "what", "many") for w in low[max(0, at - 2) : max(at, 0)])
    negations = (i for i, w in enumerate(low) if w in _NEGATIONS or w.endswith(("n't", "n’t")))
    negated = next((i for i in negations if i not in reader.used), -1)  # not the "no" of "no more than"
    identity = low[:1] in (["who"], ["what"]) and low[2:] == [MENTION] and low[1] in lexicon()["copulas"]
    if identity:
        quantities, kind = tuple(lexicon()["identity"][low[0]]), ""
    elif quantities or (counting and not expected):
        kind = "time" if any("date" in quantity for quantity in quantities) else "number"
    used = {*reader.used, negated}
    content = [(w, i) for i, w in enumerate(low) if i not in used and tokens[i].mention < 0]
    mentions = [i for i, w in enumerate(low) if w == MENTION]
    return QuestionView(
        tokens,
        words=tuple((w, i) for w, i in content if w not in stop and not _NUMBER.fullmatch(w)),
        expected=expected,
        phrase=" ".join(phrase) if at >= 0 else expected,
        kind=kind,
        # "can you name": an order
        boolean=existential or (bool(low) and low[0] in lexicon()["auxiliaries"] and low[1:2] != ["you"]),
        copula=copula,
        existential=existential,
        numbers=tuple(w.replace(",", "") for w, _ in content if _NUMBER.fullmatch(w)),
        counting=counting,
        quantities=quantities,
        identity=identity,
        superlative=superlative,
        comparative=comparative,
        comparisons=comparisons,
        most=most,
        least=least,
        joint="or" if any("or" in low[a:b] for a, b in itertools.pairwise(mentions)) else "",
        negated=negated,
        determined=at >= 0 and (superlative is not None or is_class),
        same=any(w in lexicon()["same"] for w in low),
    )


class _Reader:
    """Finds the cues among the words of one question; `used`: their positions, which are no content words."""

    def __init__(self, low: list[str]) -> None:
        self.low = low
        self.used: set[int] = set()

    def comparisons(self) -> tuple[Comparison, ...]:
        """Return comparison phrases followed by a number or date, in the order of the question."""
        low, by_place = self.low, {}
        for phrase, operator in lexicon()["comparisons"]:
            words = phrase.split()
            for i in range(len(low) - len(words)):
                if low[i : i + len(words)] != words or i in self.used:
                    continue
                if value := self._number(i + len(words)):
                    self.used.update(range(i, i + len(words)))
                    dated = phrase in lexicon()["temporal"] and bool(_DATE.fullmatch(value))
                    by_place[i] = Comparison(operator, value, dated)
        return tuple(by_place[i] for i in sorted(by_place))

    def _number(self, at: int) -> str:
        """Return the number at a position, with its unit word, as a plain literal text; "" if none."""
        low = self.low
        for i in range(at, min(at + 3, len(low))):
            if _NUMBER.fullmatch(low[i]) or _DATE.fullmatch(low[i]):
                self.used.add(i)
                text = low[i].replace(",", "")
                unit = lexicon()["units"].get(low[i + 1]) if i + 1 < len(low) else None
                if unit is None:
                    return text
                self.used.add(i + 1)
                return f"{float(text) * unit:.10g}"
            if low[i] not in ("the", "year", "of"):
                break
        return ""

    def counting(self) -> bool:
        """Return whether the question asks how many."""
        for i, pair in enumerate(itertools.pairwise(self.low)):
            if pair in (("how", "many"), ("number", "of")) and "most" not in self.low[:i]:
                self.used.update((i, i + 1))
                return True
        return False

    def how(self) -> tuple[str, ...]:
        """Return the quantities asked for by "how tall" and the like."""
        for i, (word, following) in enumerate(itertools.pairwise(self.low)):
            if word == "how" and following in lexicon()["how"]:
                self.used.update((i, i + 1))
                return tuple(lexicon()["how"][following])
        return ()

    def most(self) -> tuple[str, bool]:
        """Return the noun counted in "the most films", and whether the fewest is meant.

        An adjective after "most" is a superlative; "at least 3" is a comparison.
        """
        no_noun = {*lexicon()["superlatives"]["max"], *lexicon()["how"], *lexicon()["stopwords"], MENTION}
        for i, (word, following) in enumerate(itertools.pairwise(self.low)):
            if word not in ("most", "fewest", "least") or i in self.used:
                continue
            if following not in no_noun and not following.endswith(_ADJECTIVAL):
                self.used.add(i)
                return following, word != "most"
        return "", False

    def superlative(self) -> Superlative | None:
        """Return a superlative adjective and the quantity it compares."""
        for direction in ("max", "min"):
            for i, word in enumerate(self.low):
                quantities = lexicon()["superlatives"][direction].get(word)
                if quantities and i not in self.used:
                    self.used.add(i)
                    if i and self.low[i - 1] in ("most", "least"):
                        self.used.add(i - 1)
                        direction = "min" if self.low[i - 1] == "least" else direction
                    return Superlative(direction, tuple(quantities), word)
        return None

    def comparative(self) -> tuple[str, ...]:
        """Return (operator, quantities...) of a comparative before "than" or between two things.

        So do "before" and "after" another entity: its date is compared.
        """
        low = self.low
        for i, word in enumerate(low):
            if word in lexicon()["comparatives"]:
                self.used.update((i, i + 1) if low[i + 1 : i + 2] == ["than"] else (i,))
                return tuple(lexicon()["comparatives"][word])
        for i, (word, following) in enumerate(itertools.pairwise(low)):
            degree = low[i - 1] if i else ""
            if following == "than" and degree in ("more", "less"):
                self.used.update((i - 1, i, i + 1))
                return (">" if degree == "more" else "<", word)
            if following == "than" and word.endswith("er") and len(word) > 4:
                self.used.update((i, i + 1))
                return (">", word[:-1], word[:-2])
        for i, (word, following) in enumerate(itertools.pairwise(low)):
            if word in ("before", "after") and following == MENTION:
                self.used.add(i)
                content = [w for w in low[:i] if w not in lexicon()["stopwords"] and w != MENTION]
                return ("<" if word == "before" else ">", *(content or lexicon()["default_dates"]))
        return ()

    def expected(self) -> tuple[str, str]:
        """Return the noun that names what is asked for, and the kind the question word implies."""
        low = self.low
        kinds = {"who": "person", "whom": "person", "when": "time", "where": "place"}
        for i, word in enumerate(low):
            if word in kinds:
                return "", kinds[word]
            if word in ("which", "what") or (word == "many" and low[i - 1 : i] == ["how"]):
                verb = low[i + 1 : i + 2] and low[i + 1] in lexicon()["auxiliaries"]
                return self._noun(i + 2, to_end=True) if verb else self._noun(i + 1), ""
        return (self._noun(1) if low and low[0] in ("name", "list", "give", "show") else ""), ""

    def _noun(self, start: int, to_end: bool = False) -> str:
        """Return the noun of the first run of content words; with `to_end`, the last word of the run."""
        run: list[str] = []
        superlatives = lexicon()["superlatives"]
        graded = {*superlatives["max"], *superlatives["min"], "most", "least"}
        for word in self.low[start:]:
            if word == MENTION or (run and (word in lexicon()["stopwords"] or word in graded)):
                break
            if word in lexicon()["stopwords"] or word in graded:
                continue
            run.append(word)
            if not to_end and (len(run) == 2 or word.endswith("s")):
                break
        if not run:
            return ""
        # "which film won": a second word is only part of the noun if the first is no noun of its own.
        return run[-1] if to_end or run[-1].endswith("s") else run[0]


def form_of(text: str) -> Form:
    """Return what a text asks for: a slot is `entity [SEP] relation`, a claim ends as a statement does.

    A claim begins neither with a question word, nor with a verb before its subject, nor with an order.
    """
    if slot_of(text) is not None:
        return "slot"
    words = re.findall(r"[\w'’]+", text.casefold().replace("’", "'"))
    if not text.rstrip(" \"'”").endswith((".", "!")) or len(words) < 3:
        return "question"
    lists = lexicon()
    opening = words[1] if words[0] in lists["prepositions"] or words[0] == "please" else words[0]
    if _LATE_ORDER.search(text.casefold()):
        return "question"
    openings = lists["asking"] | lists["orders"] | (lists["verbs"] if opening == words[0] else set())
    return "question" if opening in openings else "claim"


def slot_of(text: str) -> tuple[str, str] | None:
    """Entity and relation of `entity [SEP] relation`; None for any other text."""
    match = _SLOT.fullmatch(text)
    return (match[1], match[2]) if match and "[SEP]" not in match[2] else None


def decides(text: str) -> bool:
    """Whether a text is answered by true or false: a claim, or a question that begins with its verb."""
    first = re.match(r"\W*([\w'’]++)(?! you\b)", text.casefold())
    return form_of(text) == "claim" or bool(first and first[1].replace("’", "'") in lexicon()["verbs"])


def denies(text: str) -> bool:
    """Return whether a text says that something is not so ("was never married", "isn't")."""
    words = re.findall(r"[\w']+", text.casefold().replace("’", "'"))
    return any(word in lexicon()["denials"] or word.endswith("n't") for word in words)
