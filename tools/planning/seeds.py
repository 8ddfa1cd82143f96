"""Seed questions: an index of asked questions with answers, found by BM25 over entity-masked text.

SymAgent, section 4.1: seeds share the structure of the question, not its entities, so mentions are masked
before they are compared, and seeds with the same masked text are kept together.
"""

from __future__ import annotations

import gzip
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np

from triplewise.tools.core.errors import DataError
from triplewise.tools.planning.lexical.question import masked

_TOPICS = ("topic_entity", "entities", "entity")
_WRAPPERS = ("[]", '""', "“”", "''")


@dataclass(frozen=True, slots=True)
class Seed:
    """A question whose answers are known.

    Attributes:
        topics: its entities as the question writes them, or by name or id.
        answers: ids, names, or values.
        ids: of the topics, in their order, where the file gives them besides.
    """

    question: str
    topics: tuple[str, ...]
    answers: tuple[str, ...]
    ids: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Each topic with what it is found by in a KG, in the order of the question."""
        found = self.ids if len(self.ids) == len(self.topics) else self.topics
        lower = self.question.lower()
        places = [lower.find(t.lower()) for t in self.topics]
        order = sorted(range(len(places)), key=lambda i: places[i] if places[i] >= 0 else len(lower))
        return tuple((self.topics[i], found[i]) for i in order)


@dataclass(frozen=True, slots=True)
class Quality:
    """How well a body reproduces the answers of one seed.

    Attributes:
        precision, recall: of the answers.
        returns: whether the body also leads back to the topic although that is no answer (1), or the topic is
            an answer (-1); 0 if it does not come back.
        condition: what the words of the question ask for besides (see `Conditions`), where that does better.
        other: the chain from a second topic that meets this one in the answers, where that does better.
    """

    precision: float
    recall: float
    returns: int = 0
    condition: str = ""
    other: tuple[tuple[str, bool], ...] = ()

    @property
    def f1(self) -> float:
        """Harmonic mean."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


Signature: TypeAlias = tuple[tuple[str, bool], ...]
"""A body without variables: relations, each with whether it is walked from subject to object."""

Mined: TypeAlias = dict[Signature, Quality]
"""What one seed gave when it was mined."""


class Kept(Protocol):
    """Where mined seeds are kept beyond the process."""

    def find(self, seed: Seed) -> Mined | None:
        """What a seed gave, None if it was not mined yet."""
        ...


@dataclass(frozen=True, slots=True)
class Match:
    """A group of seeds with the same masked text, and its BM25 score relative to the best one."""

    text: str
    seeds: tuple[Seed, ...]
    score: float


def _spans(question: str, names: Iterable[str]) -> list[tuple[int, int]]:
    """Where the names stand in a question, with brackets or quotes around them."""
    found = []
    lower = question.lower()
    for name in names:
        start = question.find(name)
        start = lower.find(name.lower()) if start < 0 else start
        if start >= 0:
            end = start + len(name)
            wrapped = question[start - 1 : start] + question[end : end + 1] in _WRAPPERS
            found.append((start - wrapped, end + wrapped))
    return found


def read_seeds(path: Path) -> Iterator[Seed]:
    """Seeds of a JSON-lines file (plain or .gz) with `question`, `answers`, and the topic.

    The topic stands as `topic_entity`, `entities` or `entity`: a name or an id, a list of them, or a mapping
    mention -> id.

    Raises:
        DataError: naming the line, if a line is no JSON object or lacks a key.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    yield _seed(line, path, number)
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read seed questions: {error}", path) from error


def _seed(line: str, path: Path, number: int) -> Seed:
    """One seed."""
    try:
        record = json.loads(line)
        topics = next((record[k] for k in _TOPICS if record.get(k) is not None), None)
        answers = [a for a in record["answers"] if a is not None]
        question = str(record["question"])
    except (json.JSONDecodeError, KeyError, AttributeError, TypeError) as error:
        raise DataError(
            f"not a seed question ({error!r}); a line needs question, answers and topic_entity or entities",
            path,
            number,
        ) from error
    ids = tuple(str(i) for i in topics.values()) if isinstance(topics, dict) and all(topics.values()) else ()
    return Seed(question, _names(topics), tuple(str(a) for a in answers), ids)


def _names(value: Any) -> tuple[str, ...]:
    """Names or ids out of the forms that datasets use."""
    if value is None:
        return ()
    if isinstance(value, str):
        return (value,)
    return tuple(str(v) for v in value)


class SeedIndex:
    """BM25 over the masked texts of seed questions; unigrams and bigrams, stop words kept.

    Attributes:
        kept: what the seeds gave when they were mined, where that is kept.
    """

    def __init__(self, seeds: Iterable[Seed], name: str = "seeds") -> None:
        self._set_up(grouped(seeds, name), name, None)

    @classmethod
    def of_groups(cls, groups: Mapping[str, Sequence[Seed]], name: str, kept: Kept) -> SeedIndex:
        """An index of seeds grouped by their masked text, mined before."""
        index = cls.__new__(cls)
        index._set_up(groups, name, kept)
        return index

    def _set_up(self, groups: Mapping[str, Sequence[Seed]], name: str, kept: Kept | None) -> None:
        """Index the texts of the groups."""
        import bm25s

        self.name, self.kept = name, kept
        self._texts = list(groups)
        self._groups = groups
        self._index = bm25s.BM25()
        self._index.index([_terms(t) for t in self._texts], show_progress=False)

    def __len__(self) -> int:
        return len(self._texts)

    def search(self, question: str, spans: Iterable[tuple[int, int]], k: int = 5) -> tuple[Match, ...]:
        """The k groups of seeds most like a question whose mentions stand at `spans`, best first.

        A group with exactly the same masked text stands first with score 1.
        """
        text = masked(question, list(spans))
        scores = self._index.get_scores(_terms(text))
        order = np.argsort(-scores, kind="stable")[:k]
        best = float(scores[order[0]]) or 1.0
        found = [
            Match(self._texts[i], tuple(self._groups[self._texts[i]]), float(scores[i]) / best) for i in order
        ]
        if text in self._groups:
            exact = Match(text, tuple(self._groups[text]), 1.0)
            found = [exact, *(m for m in found if m.text != text)]
        return tuple(m for m in found if m.score > 0)


def spans_of(seed: Seed) -> list[tuple[int, int]]:
    """Where the topics of a seed stand in its question."""
    return _spans(seed.question, seed.topics)


def grouped(seeds: Iterable[Seed], name: str) -> dict[str, list[Seed]]:
    """Seeds by their masked text; those without answers or without their topic in the text are left out.

    Raises:
        DataError: none is left.
    """
    groups: dict[str, list[Seed]] = {}
    for seed in seeds:
        spans = _spans(seed.question, seed.topics)
        if spans and seed.answers:
            groups.setdefault(masked(seed.question, spans), []).append(seed)
    if not groups:
        raise DataError(
            "no usable seed question: none has answers and a topic entity named in its text", name
        )
    return groups


def _terms(text: str) -> list[str]:
    """Words and word pairs."""
    words = text.split()
    return [*words, *(f"{a} {b}" for a, b in itertools.pairwise(words))] or [""]


def seed_files(path: str) -> list[Path]:
    """The files that a setting names, joined by commas."""
    return [Path(p.strip()).expanduser() for p in path.split(",") if p.strip()]


@lru_cache(maxsize=8)
def open_seeds(path: str) -> SeedIndex:
    """The index of one file, or of several joined by commas, built once per process.

    Raises:
        DataError: if a file is missing or a line is broken.
    """
    return SeedIndex((s for f in seed_files(path) for s in read_seeds(f)), name=path)
