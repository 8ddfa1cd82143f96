"""Mentions: which spans of a question are likely to be names, before it is asked whose.

A span weighs more the rarer its words are, and where capitals agree with the label; words that questions use
to say what is asked ("name", "director") weigh little. The word lists are data (`kg/words.yaml`).
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources

import yaml

from triplewise.tools.core.names import Span, normalise, spans, tokens
from triplewise.tools.kg.labels import Entry, SpanMatch
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.vocabulary import singulars

TAKEN = 0.75
"""From this weight on, a span is taken for a mention."""
DOUBTFUL = 0.2
"""Below it, a span is never a mention; between the two, only if there is no other."""

_MOST_PARTS = 8
"""Parts of a run that are tried for near names."""

_BRACKETS = re.compile(r"\[([^\[\]]+)\]")
_QUOTES = re.compile(r"\"([^\"]+)\"|“([^”]+)”|«([^»]+)»|„([^“”]+)[“”]|(?<!\w)'([^']+)'(?!\w)")
_JOINING = frozenset(
    {"of", "the", "and", "de", "la", "von", "van", "der", "du", "da", "in", "for", "on", "to"}
)
_VALUE = {"function": 0.05, "common": 0.3, "number": 0.6, "other": 1.0}


@dataclass(frozen=True, slots=True)
class Mention:
    """A span taken for a name, the nodes that bear it, its weight, and whether capitals agree with one."""

    span: Span
    entries: tuple[Entry, ...]
    weight: float
    agrees: bool = False


@dataclass(frozen=True)
class Question:
    """A question with what its writing tells.

    Attributes:
        text: the question. cased: whether its capitals mean something (it has some behind its first word).
        first: end of its first word. quoted: spans in quotation marks.
        relation_words: words by which the graph's profile reads its relations: questions ask by them.
    """

    text: str
    cased: bool
    first: int
    quoted: tuple[Span, ...]
    relation_words: frozenset[str] = frozenset()

    def kind_of(self, word: str) -> str:
        """Return `function`, `common`, `number`, or `other`."""
        if word in _words("function"):
            return "function"
        if word in _words("common") or not self.relation_words.isdisjoint(singulars(word)):
            return "common"
        if len(word) == 1 and word.isascii() and word.isalpha():
            return "common"
        return "number" if word.isdigit() else "other"


def read_question(text: str, profile: Profile) -> Question:
    """Look at how a question is written."""
    words = [token for token in tokens(text) if token.word]
    first = words[0].end if words else 0
    cased = any(_has_capital(word.text) for word in words[1:]) or (len(words) > 0 and _is_odd(words[0].text))
    return Question(text, cased, first, _found(_QUOTES, text), _relation_words(profile))


def bracketed(text: str) -> tuple[Span, ...]:
    """Spans in [brackets]: the writer says that they are the mentions."""
    return _found(_BRACKETS, text)


@lru_cache(maxsize=32)
def _relation_words(profile: Profile) -> frozenset[str]:
    """Return the words by which a profile reads its relations."""
    docs = profile.relations.values()
    texts = (t for d in docs for t in (d.label, d.inverse, d.description, d.subject_type, *d.aliases))
    return frozenset(word for text in texts for word in _word_forms(text))


def weigh(question: Question, match: SpanMatch) -> Mention:
    """A span that is a name, weighed."""
    span, entries = match.span, match.entries
    kinds = [question.kind_of(word) for word in _word_forms(span.text)]
    weight = sum(_VALUE[kind] for kind in kinds if kind != "common")
    weight += min(_VALUE["common"] * kinds.count("common"), 0.6)
    if not kinds:
        weight = (
            0.5 if any(entry.text == span.text for entry in entries) and span.text not in "?.!,;:-" else 0
        )
    agree = any(same_case(span.text, entry.text) for entry in entries)
    capital = _has_capital(span.text) and span.end > question.first and len(span.norm) > 1
    if agree and (capital or "number" in kinds):
        weight += 0.7 + 0.3 * len(kinds)
    elif question.cased and not _has_capital(span.text):
        weight *= 0.8 if agree else 0.4
    if not agree and len(kinds) > 1 and "function" in (kinds[0], kinds[-1]):
        weight -= 0.06  # "in Turkey" is Turkey, unless it is written like a title
    if weight >= DOUBTFUL:
        weight += 0.05 * math.log1p(max(entry.popularity for entry in entries))
    return Mention(span, entries, weight, agree)


def choose(mentions: Iterable[Mention], taken: Sequence[Mention] = ()) -> tuple[Mention, ...]:
    """Mentions that do not overlap, heaviest first: all that are heavy enough, else the one best."""
    ranked = sorted(mentions, key=lambda m: (-m.weight, m.span.start))
    ranked = [m for m in ranked if m.weight >= DOUBTFUL]
    kept = list(taken)
    for mention in ranked:
        if mention.weight >= TAKEN and not _inside_stronger(mention, ranked) and _is_free(mention, kept):
            kept.append(mention)
    return tuple(kept or ranked[:1])


def unnamed_runs(question: Question, kept: Sequence[Mention]) -> tuple[Span, ...]:
    """Spans that look like names but matched none in full: what was quoted, and runs of capitals.

    Where the question has no capitals, and nothing was found: runs of rare words.
    """
    known = {(m.span.start, m.span.end) for m in kept}
    runs = list(question.quoted)
    if question.cased:
        runs += _runs(question, lambda word: _has_capital(word) or word.isdigit())
    elif not any(mention.weight >= TAKEN for mention in kept):
        runs += _runs(question, lambda word: question.kind_of(word.lower()) == "other")
    return tuple(run for run in runs if (run.start, run.end) not in known)


def parts_of(question: Question, run: Span) -> tuple[Span, ...]:
    """The run and, longest first, the runs of words in it that are not all words of every day."""
    shifted = (
        Span(s.start + run.start, s.end + run.start, s.text, s.norm) for s in spans(run.text) if s.norm
    )
    quoted = {(span.start, span.end) for span in question.quoted}
    rare = (s for s in shifted if (s.start, s.end) in quoted or _has_rare_edges(question, s))
    return tuple(dict.fromkeys(rare))[:_MOST_PARTS]


def _has_rare_edges(question: Question, span: Span) -> bool:
    words = _word_forms(span.text)
    return bool(words) and question.kind_of(words[0]) == "other" == question.kind_of(words[-1])


def same_case(written: str, label: str) -> bool:
    """Whether two names agree in every letter, capitals included (accents and signs aside)."""
    return _letters(written) == _letters(label)


def overlap(a: Span, b: Span) -> bool:
    """Whether two spans share characters."""
    return a.start < b.end and b.start < a.end


def _inside_stronger(mention: Mention, ranked: Sequence[Mention]) -> bool:
    """Whether a longer span that is heavy enough holds this one: the longest match wins.

    Capitals come first: in "the Changeling", a node called Changeling, not one called The Changeling.
    """
    return any(
        other.weight >= TAKEN
        and (other.agrees or (other.weight >= mention.weight and not mention.agrees))
        and other.span.start <= mention.span.start
        and mention.span.end <= other.span.end
        and other.span.end - other.span.start > mention.span.end - mention.span.start
        for other in ranked
    )


def _is_free(mention: Mention, kept: Sequence[Mention]) -> bool:
    return not any(overlap(mention.span, other.span) for other in kept)


def _runs(question: Question, wanted: Callable[[str], bool]) -> list[Span]:
    """Runs of wanted words, with joining words (`of the`) inside them."""
    runs: list[tuple[int, int]] = []
    start, end = -1, -1
    for token in tokens(question.text):
        word = token.text
        opening = token.end <= question.first and question.kind_of(word.lower()) in ("function", "common")
        if token.word and wanted(word) and not opening:
            start, end = (token.start if start < 0 else start), token.end
        elif not (start >= 0 and (word.lower() in _JOINING or word in ("-", ".", "&", "'s", "’s", "'"))):
            runs.append((start, end))
            start = -1
    runs.append((start, end))
    return [_span(question.text, a, b) for a, b in runs if a >= 0]


def _found(pattern: re.Pattern[str], text: str) -> tuple[Span, ...]:
    places = (match.span(match.lastindex or 0) for match in pattern.finditer(text))
    return tuple(_span(text, start, end) for start, end in places if normalise(text[start:end]))


def _span(text: str, start: int, end: int) -> Span:
    return Span(start, end, text[start:end], normalise(text[start:end]))


def _word_forms(text: str) -> list[str]:
    return [token.text.lower() for token in tokens(text) if token.word]


def _has_capital(text: str) -> bool:
    return any(c.isupper() for c in text)


def _is_odd(word: str) -> bool:
    """Whether a question's first word is written as a name: `iPhone`, `USA`."""
    return _has_capital(word[1:])


def _letters(text: str) -> str:
    return "".join(c for c in text if c.isalnum()) or text.strip()


@cache
def _words(kind: str) -> frozenset[str]:
    text = resources.files("triplewise.tools.linking").joinpath("words.yaml").read_text(encoding="utf-8")
    return frozenset(yaml.safe_load(text)[kind].split())
