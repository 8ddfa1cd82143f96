"""Seed questions: questions with known answers, found by BM25 over entity-masked text.

SymAgent, section 4.1: seeds share the structure of a question, so mentions are masked before they are
compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, combinations, pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import json_lines
from triplewise.tools.core.rules import Path as RelationPath
from triplewise.tools.kg.protocol import KnowledgeGraph, batches
from triplewise.tools.language.lexicon import grammar_of, lexicon, root, word_list
from triplewise.tools.language.text import tokenise
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.retrieval.ranking import Bm25

MENTION = "entity"  # replaces a mention in a masked text
FOLDER = "seeds"  # where a KG's folder keeps seeds that were mined ahead
BATCH = 500  # seeds whose topics are named at once
_STRUCTURE = frozenset({"many", "not", "no", "never", "without", "or"})  # stop words that change a question


class Seed(NamedTuple):
    """A question with answers (ids, names or values); `topics`: its entities by mention, name or id."""

    question: str
    topics: tuple[str, ...]
    answers: tuple[str, ...]
    ids: tuple[str, ...] = ()

    @property
    def named(self) -> tuple[tuple[str, str], ...]:
        """Each topic with what it is found by in a KG, in the order of the question."""
        pairs = zip(self.topics, self.ids if len(self.ids) == len(self.topics) else self.topics, strict=True)
        lower = self.question.lower()
        return tuple(sorted(pairs, key=lambda pair: lower.find(pair[0].lower()) % (len(lower) + 1)))

    @property
    def spans(self) -> list[tuple[int, int]]:
        """Where its topics stand in the question."""
        spans = []
        for name in map(re.escape, self.topics):  # a name of one letter stands in other words too
            patterns = (rf"(?<!\w){name}(?!\w)", rf"(?i:(?<!\w){name}(?!\w))", rf"(?i:{name})")
            spans += [m.span() for m in [re.search(p, self.question) for p in patterns] if m][:1]
        return spans


class Quality(NamedTuple):
    """How well a path reproduces the answers of one seed; `returns`: see `Miner._judge`."""

    precision: float
    recall: float
    returns: int = 0

    @property
    def f1(self) -> float:
        """Harmonic mean."""
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


Mined: TypeAlias = dict[RelationPath, Quality]  # what one seed gave


class Match(NamedTuple):
    """A group of seeds with one masked text; its BM25 score relative to the best; see `similarity_of`."""

    text: str
    seeds: tuple[Seed, ...]
    score: float
    similarity: float = 1.0


@dataclass
class SeedIndex:
    """BM25 over the masked texts of one graph's seed questions; unigrams and bigrams, stop words kept."""

    groups: Mapping[str, Sequence[Seed]]  # by their masked text
    hops: int = 3  # of the longest path that is mined
    mined: dict[Seed, Mined] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._texts = list(self.groups)
        self._index = Bm25(list(map(_terms, self._texts)))

    def search(self, question: str, spans: Iterable[tuple[int, int]], k: int = 5) -> tuple[Match, ...]:
        """Return the k groups of seeds most like a question whose mentions stand at `spans`, best first."""
        wording = masked(question, spans)
        scores = self._index.scores(_terms(wording))
        order = np.argsort(-scores, kind="stable")[:k]
        best = float(scores[order[0]]) or 1.0
        ranked = {wording: 1.0} if wording in self.groups else {}
        for i in order:
            ranked.setdefault(self._texts[i], float(scores[i]) / best)
        found = ((text, score) for text, score in ranked.items() if score > 0)
        return tuple(Match(t, tuple(self.groups[t]), score, similarity_of(wording, t)) for t, score in found)

    def matches(
        self, question: str, linked: Sequence[LinkedEntity], k: int
    ) -> list[tuple[LinkedEntity, tuple[Match, ...]]]:
        """Return the groups most like a question with two of its entities masked, then with one.

        Two are matched with seeds that have two, under the entity that comes first in the question.
        """
        matches = list[tuple[LinkedEntity, tuple[Match, ...]]]()
        placed = sorted((e for e in linked if e.start >= 0), key=lambda e: e.start)
        for one, other in combinations(placed, 2):
            ranked = self.search(question, [(one.start, one.end), (other.start, other.end)], k)
            if both := tuple(m for m in ranked if m.text.split().count(MENTION) > 1):
                matches.append((one, both))
        return matches + [(e, self.search(question, [(e.start, e.end)], k)) for e in linked]

    def groups_like(self, question: str, linked: Sequence[LinkedEntity], k: int) -> list[Match]:
        """Return the k groups most like a question, whichever of its entities are masked, best first."""
        found = chain.from_iterable(of for _, of in self.matches(question, linked, k))
        best = {match.text: match for match in sorted(found, key=lambda m: m.score)}
        return sorted(best.values(), key=lambda m: -m.score)[:k]


def masked(question: str, spans: Iterable[tuple[int, int]]) -> str:
    """Return a question in lower case with its mentions masked, so that questions of one wording meet."""
    spans, grammar = list(spans), grammar_of(question)  # of another language: read as the English words
    words = [(start, MENTION) for start, end in spans if end > start]
    words += [
        (token.start, grammar.get(token.text.lower(), token.text.lower()))
        for token in tokenise(question)
        if not any(start < token.end and token.start < end for start, end in spans)
    ]
    return " ".join(word for _, word in sorted(words))


def _terms(masked_text: str) -> list[str]:
    words = masked_text.split()
    return [*words, *(f"{a} {b}" for a, b in pairwise(words))] or [""]


@lru_cache(maxsize=4_096)
def _content(masked_text: str) -> frozenset[str]:
    """Return what a masked question says: stems of its content words, and pairs of neighbours among them."""
    kinds, stop = lexicon().kinds, word_list("stop")
    words = [kinds[word][0] if word in kinds else word for word in masked_text.split()]
    stems = [w if w == MENTION else root(w) for w in words if w not in stop or w in _STRUCTURE]
    return frozenset((*stems, *(f"{a} {b}" for a, b in pairwise(stems)))) - {MENTION}


def similarity_of(masked_text: str, other: str) -> float:
    """Return how alike two masked questions are: the square of the Dice coefficient of their content."""
    if masked_text == other:
        return 1.0
    a, b = _content(masked_text), _content(other)
    return (2 * len(a & b) / (len(a) + len(b))) ** 2 if a and b else 0.0


def group_seeds(seeds: Iterable[Seed], name: str = "seeds") -> dict[str, list[Seed]]:
    """Return seeds with answers and a topic in their text by the masked text. Raises `DataError`: none."""
    groups: dict[str, list[Seed]] = {}
    for seed in seeds:
        if (spans := seed.spans) and seed.answers:
            groups.setdefault(masked(seed.question, spans), []).append(seed)
    if not groups:
        reason = "no usable seed question: none has answers and a topic entity named in its text"
        raise DataError(reason, name)
    return groups


def read_seeds(path: Path) -> Iterator[Seed]:
    """Return the seeds of a JSON-lines file (plain or .gz) of lines as `question_parts` reads them."""
    for number, record in json_lines(path):
        question, entities, answers = question_parts(record, path, number)
        ids = tuple(id_ for id_ in entities.values() if id_)
        yield Seed(question, tuple(entities), answers, ids if len(ids) == len(entities) else ())


def question_parts(
    record: Mapping[str, Any], path: Path, line: int
) -> tuple[str, dict[str, str | None], tuple[str, ...]]:
    """Return a question, its entities (mention -> id, None where there is none), and its answers.

    A record has `question`, a list of `answers`, and its entities as `topic_entity`, `entities` or `entity`:
    a name or an id, a list of them, or a mapping mention -> id. Raises `DataError`, with file and line, else.
    """
    if not isinstance(answers := record.get("answers"), list) or "question" not in record:
        needs = "a line needs question, a list of answers, and topic_entity or entities"
        raise DataError(f"not a question with answers; {needs}: {record}", path, line)
    given = (record.get(key) for key in ("topic_entity", "entities", "entity"))
    entities: Any = next((e for e in given if e is not None), [])
    if not isinstance(entities, dict):
        entities = dict.fromkeys(entities if isinstance(entities, list) else [entities])
    return (
        str(record["question"]),
        {str(mention): None if id_ is None else str(id_) for mention, id_ in entities.items()},
        # Booleans as the agent writes them.
        tuple(str(a).lower() if isinstance(a, bool) else str(a) for a in answers if a is not None),
    )


def with_names(seeds: Iterable[Seed], kg: KnowledgeGraph) -> Iterator[Seed]:
    """Return seeds; those whose topic is given by an id alone get the name that their question has for it."""
    for batch in batches(seeds, BATCH):
        ids = {i: kg.profile.expand(i) for s in batch if not s.spans for i in s.topics}
        labels = kg.labels([iri for iri in ids.values() if iri is not None])
        names = {i: labels.get(iri, "") for i, iri in ids.items() if iri is not None}
        for seed in batch:
            lower, found = seed.question.lower(), ((names.get(i, ""), i) for i in seed.topics)
            named = {name: i for name, i in found if name and name.lower() in lower}
            is_named = bool(named) and not seed.spans
            yield seed._replace(topics=tuple(named), ids=tuple(named.values())) if is_named else seed
