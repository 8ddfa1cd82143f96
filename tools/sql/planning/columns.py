"""Column linking: where the question speaks of which column, by words, stems, short forms and vectors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from triplewise.tools.planning.lexical.question import stem
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.sql.planning.index import Index
from triplewise.tools.sql.planning.reading import Question
from triplewise.tools.sql.planning.words import Key, is_content, lexicon, name_words

LEAST = 0.3
"""Likeness below which a place of the question does not speak of a column."""
NGRAM = 3
"""Words of the longest phrase that is embedded."""


@dataclass(frozen=True, slots=True)
class ColumnMention:
    """Words from `start` to `end` that speak of a column.

    `lexical` is the share of the name that they say in words, `words` how many of its words that are;
    `semantic` is the cosine.
    """

    number: int
    start: int
    end: int
    lexical: float
    semantic: float
    words: int = 0

    def overlaps(self, start: int, end: int) -> bool:
        """Whether it shares a word with a span."""
        return self.start < end and start < self.end


@dataclass(frozen=True)
class ColumnLinks:
    """What the question says of each column.

    `said[n]`: places that name column n in words. `meant[n]`: places that are like it. `whole[n]`: cosine
    with the question as a whole. `kinds[n]`: cosine with what the question word asks for (0 for none).
    `tables`: where the question names a table.
    """

    said: Sequence[Sequence[ColumnMention]]
    meant: Sequence[Sequence[ColumnMention]]
    whole: Sequence[float]
    kinds: Sequence[float]
    names: Sequence[ColumnMention] = ()
    tables: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def naming(self, start: int, end: int) -> float:
        """How fully a span is part of the name of some column."""
        return max((m.lexical for m in self.names if m.start <= start and end <= m.end), default=0.0)


def link_columns(question: Question, index: Index, encoder: Encoder) -> ColumnLinks:
    """Find all places of the question that speak of a column."""
    found = [m for number in range(len(index.views)) for m in _said(number, question, index)]
    kept = [m for m in found if not any(_dominates(other, m) for other in found)]
    said = [[m for m in kept if m.number == n] for n in range(len(index.views))]
    meant, whole, kinds = _meant(question, index, encoder)
    return ColumnLinks(said, meant, whole, kinds, tuple(kept), _tables(question, index))


def _tables(question: Question, index: Index) -> dict[str, tuple[int, int]]:
    """The first place that names each table in all its words."""
    low = [canonical(w.text) for w in question.words]
    found: dict[str, tuple[int, int]] = {}
    for table in {view.column.table for view in index.views}:
        name = [canonical(w) for w in name_words(table)]
        for i in range(len(low) - len(name) + 1):
            if name and low[i : i + len(name)] == name and any(map(is_content, name)):
                found.setdefault(table, (i, i + len(name)))
    return found


@lru_cache(maxsize=16_384)
def canonical(word: str) -> str:
    """The stem of a word, short forms written out."""
    return stem(lexicon()["short_forms"].get(word, word))


def _said(number: int, question: Question, index: Index) -> list[ColumnMention]:
    """Windows of the question that start with a word of the column's name."""
    words = index.views[number].words
    plain = [canonical(w) for w in words]
    content = [p for p, w in zip(plain, words, strict=True) if is_content(w)] or plain
    weights = {p: index.rarity.get(p, 1.0) for p in content}
    total = sum(weights.values())
    found = _joined(number, words, question)
    if not total:
        return found
    low = [canonical(w.text) for w in question.words]
    for start, word in enumerate(low):
        if word in weights:
            end, got = _window(low, start, weights, len(words))
            share = sum(weights[w] for w in got) / total
            if share >= LEAST:
                found.append(ColumnMention(number, start, end, share, 0.0, len(got)))
    return found


def _window(low: Sequence[str], start: int, weights: dict[str, float], size: int) -> tuple[int, set[str]]:
    """How far the words of a name go from here, in any order, with at most two others among them."""
    got, end = {low[start]}, start + 1
    for i in range(start + 1, min(len(low), start + size + 2)):
        if low[i] in weights and low[i] not in got:
            got.add(low[i])
            end = i + 1
    return end, got


def _joined(number: int, words: Key, question: Question) -> list[ColumnMention]:
    """Names written in one word or as initials: `losingteam`, `gp` for "games played"."""
    name = "".join(words)
    found = []
    texts = [w.text for w in question.words]
    for size in (2, 3):
        for start in range(len(texts) - size + 1):
            window = texts[start : start + size]
            initials = "".join(w[0] for w in window)
            if len(name) > 4 and (
                "".join(window) == name or "".join(canonical(w) for w in window) == stem(name)
            ):
                found.append(ColumnMention(number, start, start + size, 1.0, 0.0, size))
            elif len(name) == size and initials == name and all(map(is_content, window)):
                found.append(ColumnMention(number, start, start + size, 0.8, 0.0, size))
    if len(words) > 1 and len(name) > 4:
        found += [ColumnMention(number, i, i + 1, 1.0, 0.0, 1) for i, t in enumerate(texts) if t == name]
    return found


def _dominates(other: ColumnMention, mention: ColumnMention) -> bool:
    """Whether a place is only a part of what another place says more fully."""
    covers = other.start <= mention.start and mention.end <= other.end
    longer = other.words > mention.words
    if other.number == mention.number:
        return covers and longer
    return covers and longer and other.lexical >= mention.lexical


def _meant(
    question: Question, index: Index, encoder: Encoder
) -> tuple[list[list[ColumnMention]], list[float], list[float]]:
    names = [" ".join(view.words) or view.column.name for view in index.views]
    spans = _phrases(question)
    phrases = [" ".join(w.text for w in question.words[a:b]) for a, b in spans]
    kinds = _kinds(question.asked)
    vectors = encoder.encode([*names, question.text, *phrases, *kinds])
    columns, rest = vectors[: len(names)], vectors[len(names) :]
    cosines = columns @ rest.T
    count = 1 + len(phrases)
    near = cosines[:, 1:count]
    meant = [
        [ColumnMention(n, *spans[p], 0.0, float(near[n, p])) for p in np.flatnonzero(near[n] >= LEAST)]
        for n in range(len(names))
    ]
    whole = [float(c) for c in cosines[:, 0]]
    fits = cosines[:, count:].max(axis=1) if kinds else np.zeros(len(names))
    return meant, whole, [float(f) for f in fits]


def _kinds(asked: str) -> list[str]:
    """Words for what a question word asks for."""
    how = lexicon()["how"].get(asked.removeprefix("how "), [])
    kinds: list[str] = lexicon()["kinds_asked"].get(asked, how)
    return [*kinds, "time"] if asked == "how long" else kinds


def _phrases(question: Question) -> list[tuple[int, int]]:
    """Spans of up to three words that neither start nor end with a stop word or a number."""
    fit = [is_content(w.text) and not w.text.replace(".", "").isdigit() for w in question.words]
    return [
        (a, b)
        for a in range(len(fit))
        if fit[a]
        for b in range(a + 1, min(len(fit), a + NGRAM) + 1)
        if fit[b - 1]
    ]
