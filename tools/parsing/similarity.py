"""How words of a question and relations of a graph go together, by the vectors of their texts."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from weakref import WeakKeyDictionary

import numpy as np
import yaml
from numpy.typing import NDArray

from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.language.lexicon import lexicon, root, section
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.relations import Relation
from triplewise.tools.retrieval.encoder import Encoder, LearnedEncoder, open_encoder, vectors_of

Matrix = NDArray[np.float32]

LONGEST = 80
"""Letters of a relation's text that are compared with words."""
LOOKED_AT = 2_000
"""Nodes of a set whose relations are looked at."""
NEARLY = 0.9
"""What is at least this share as similar as the best is meant as well."""
_WORD = re.compile(r"[^\W\d_]+")


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What the cosines of one encoder mean, and the weights of a chain's alignment that go with them.

    `evals/choose_thresholds.py` chooses them and writes `thresholds.yaml`, which has a `default` for others.

    Attributes:
        same: two texts name the same; words that are forms of one another are this similar.
        spoken: a word names a relation. unrelated: below it, a word has nothing to do with a relation.
        word: weight of each question word's best similarity.
        relation: weight of each relation's similarity with a word of its own.
        floor: the similarity below which a relation costs more than it earns.
        end: weight of how well the end is of the kind that is asked for.
        hint: weight of a weak sign: a direction without a reading, the order of words.
        join: gain of a relation walked there and back where the words speak of something in common.
    """

    same: float
    spoken: float
    unrelated: float
    word: float
    relation: float
    floor: float
    end: float
    hint: float
    join: float

    @property
    def named(self) -> float:
        """Half-way between `same` and `spoken`: a relation that a model names."""
        return (self.same + self.spoken) / 2

    @property
    def weak(self) -> float:
        """Half-way between a word that names a relation and one that has nothing to do with it."""
        return (self.spoken + self.unrelated) / 2


def words_encoder(encoder: Encoder) -> Encoder:
    """The encoder for single words: an encoder that has learned paths has one of its own."""
    return open_encoder() if isinstance(encoder, LearnedEncoder) else encoder


def thresholds_of(encoder: Encoder) -> Thresholds:
    """The thresholds of an encoder: those it carries itself, else those chosen for its name."""
    encoder = words_encoder(encoder)
    own, chosen = getattr(encoder, "thresholds", None), _chosen_thresholds()
    return own if isinstance(own, Thresholds) else chosen.get(encoder.name, chosen[""])


@cache
def _chosen_thresholds() -> dict[str, Thresholds]:
    """Thresholds of encoders by name, "" of any other."""
    data = yaml.safe_load(files(__package__).joinpath("thresholds.yaml").read_text("utf-8"))
    return {name: Thresholds(**t) for name, t in {**data["encoders"], "": data["default"]}.items()}


def similarities(
    kg: KnowledgeGraph, encoder: Encoder, groups: Sequence[Sequence[str]], words: Sequence[str]
) -> Matrix:
    """How similar groups of a graph's texts and words are, shape (groups, words).

    It is the best cosine of a group's texts, and at least `same` where one of them shares the root of a word.
    """
    table = np.zeros((len(groups), len(words)), np.float32)
    if not table.size:
        return table
    encoder = words_encoder(encoder)
    vectors = vectors_of(kg, encoder).vectors([text for texts in groups for text in texts])
    cosines, start = vectors @ encoder.encode(list(words)).T, 0
    roots, same = [root(word.lower()) for word in words], thresholds_of(encoder).same
    for row, texts in zip(table, groups, strict=True):
        if texts:
            row[:] = cosines[start : start + len(texts)].max(axis=0)
        start += len(texts)
        own = roots_of(texts)
        shared = [r in own for r in roots]
        row[shared] = np.maximum(row[shared], same)
    return table


def thing_kinds() -> dict[str, list[str]]:
    """Prototype words of kinds of things: person, place, time, ..."""
    kinds: dict[str, list[str]] = section("things")
    return kinds


def nearest_kinds(encoder: Encoder, nouns: Sequence[str], least: float = -1.0) -> list[str]:
    """The kinds of things whose prototype words are nearest to nouns; "" below the cosine `least`."""
    prototypes = [(kind, word) for kind, words in thing_kinds().items() for word in words]
    if not nouns:
        return []
    cosines = encoder.encode(list(nouns)) @ encoder.encode([word for _, word in prototypes]).T
    return [prototypes[row.argmax()][0] if row.max() >= least else "" for row in cosines]


def roots_of(texts: Iterable[str]) -> frozenset[str]:
    """Roots of the content words of texts."""
    stop = lexicon().stop
    return frozenset(root(w) for text in texts for w in _WORD.findall(text.lower()) if w not in stop)


def texts_of(text: RelationText, forward: bool) -> tuple[str, ...]:
    """All that may be said for walking a relation in one direction, its main reading first."""
    if forward:
        parts = (text.label, text.object_type, *text.aliases, text.description)
    else:
        parts = (text.inverse or text.label, text.subject_type, *text.aliases)
    short = dict.fromkeys(p for p in parts if p and len(p) <= LONGEST)
    return tuple(short) or (parts[0][:LONGEST],)  # never none: a vector of nothing is no vector


def end_type(text: RelationText, forward: bool) -> str:
    """What stands at the far end: its declared type; forward without one, the relation's own name."""
    return (text.object_type or text.label) if forward else text.subject_type


class StepTexts:
    """How each step of an index reads: a relation walked forwards is step 2 * relation, backwards 1 more.

    A relation through a mediator has the texts of both its halves.

    Attributes:
        unread: 1 for each step backwards over a relation that has no reading that way, else 0.
        ends: what is at the far end of each step, in words, "" where nothing says.
    """

    def __init__(self, index: GraphIndex, kg: KnowledgeGraph, encoder: Encoder) -> None:
        self._kg, self._encoder = kg, words_encoder(encoder)
        self.shorts = [[(kg.profile.short(iri), way) for iri, way in r.path] for r in index.rels]
        self.texts = relation_texts(kg, dict.fromkeys(name for path in self.shorts for name, _ in path))
        groups: list[tuple[str, ...]] = []
        self.ends: list[str] = []
        self.unread = np.zeros(2 * len(index.rels), np.float32)
        for number, path in enumerate(self.shorts):
            for back, walked in enumerate((path, [(name, not way) for name, way in reversed(path)])):
                readings = [texts_of(self.texts[name], way) for name, way in walked]
                main = " ".join(r[0] for r in readings)
                groups.append(tuple(dict.fromkeys([main[:LONGEST], *(t for r in readings for t in r)])))
                self.ends.append(end_type(self.texts[walked[-1][0]], walked[-1][1]))
                if len(path) == 1 and back:
                    self.unread[2 * number + 1] = float(not self.texts[path[0][0]].inverse)
        self._starts = np.cumsum([0, *map(len, groups)][:-1])
        self._vectors = vectors_of(kg, self._encoder).vectors([t for texts in groups for t in texts])
        self._by_root: dict[str, list[int]] = defaultdict(list)
        for step, texts in enumerate(groups):
            for word in roots_of(texts):
                self._by_root[word].append(step)
        distinct = self._distinct = list(dict.fromkeys(end for end in self.ends if end))
        self._end_vectors = vectors_of(kg, self._encoder).vectors(distinct) if distinct else None
        place = {end: i for i, end in enumerate(distinct)}
        self._end_of = np.array([place.get(end, len(distinct)) for end in self.ends], np.int64)
        self._end_roots = np.array([root(end.split()[-1].lower()) for end in distinct] or [""])
        self._kinds: list[str] | None = None
        self._nodes, self._steps = _adjacency(index.rels)

    def similarities(self, words: Sequence[str], same: float) -> Matrix:
        """How well steps go with words, shape (steps, words): the best cosine, `same` by a common root."""
        if not words or not len(self._starts):
            return np.zeros((len(self.ends), len(words)), np.float32)
        cosines = self._vectors @ self._encoder.encode(list(words)).T
        table = np.maximum(np.maximum.reduceat(cosines, self._starts, axis=0), 0.0)
        for column, word in enumerate(words):
            rows = self._by_root.get(root(word), ())
            table[rows, column] = np.maximum(table[rows, column], same)
        return np.asarray(table, np.float32)

    def end_similarities(self, noun: str) -> Matrix:
        """How well a noun names what is at the end of each step, shape (steps,); 1 by a common root."""
        if self._end_vectors is None:
            return np.zeros(len(self.ends), np.float32)
        cosines = self._end_vectors @ self._encoder.encode([noun])[0]
        cosines = np.maximum(np.where(self._end_roots == root(noun), 1.0, cosines), 0.0)
        return np.asarray(np.append(cosines, 0.0)[self._end_of], np.float32)

    def kinds(self) -> list[str]:
        """The kind of thing at the end of each step: person, place, time, ... (`thing_kinds`)."""
        if self._kinds is None:
            by_end = [*nearest_kinds(self._encoder, self._distinct), ""]
            self._kinds = [by_end[i] for i in self._end_of.tolist()]
        return self._kinds

    def steps_at(self, nodes: Iterable[int]) -> NDArray[np.int64]:
        """The steps that lead on from any of some nodes."""
        some = np.fromiter((n for n, _ in zip(nodes, range(LOOKED_AT), strict=False)), np.int64)
        starts, ends = np.searchsorted(self._nodes, some), np.searchsorted(self._nodes, some, side="right")
        parts = [self._steps[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True) if a < b]
        return np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)


def _adjacency(relations: Sequence[Relation]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All (node, step) pairs, sorted by node."""
    ends = [np.unique(e) for relation in relations for e in (relation.starts, relation.ends)]
    nodes = np.concatenate([np.zeros(0, np.int64), *ends])
    steps = np.repeat(np.arange(len(ends)), [len(e) for e in ends])
    order = np.argsort(nodes, kind="stable")
    return nodes[order], steps[order]


_KEPT: WeakKeyDictionary[GraphIndex, StepTexts] = WeakKeyDictionary()
"""The texts of the steps of each index that is in use."""


def step_texts(index: GraphIndex, kg: KnowledgeGraph, encoder: Encoder) -> StepTexts:
    """The texts of an index's steps, made when its first chain grows."""
    if (found := _KEPT.get(index)) is None:
        found = _KEPT[index] = StepTexts(index, kg, encoder)
    return found


def path_text(steps: StepTexts, path: Sequence[int]) -> str:
    """A path of an index in words."""
    walked: list[tuple[str, bool]] = []
    for step in path:
        relations = steps.shorts[step >> 1]
        walked += relations if not step & 1 else [(name, not way) for name, way in reversed(relations)]
    return walked_text(steps.texts, walked)


def walked_text(texts: Mapping[str, RelationText], path: Iterable[tuple[str, bool]]) -> str:
    """Relations in words, in the order they are walked, each with the kind it leads to."""
    parts = []
    for relation, forward in path:
        text = texts[relation]
        name = text.label if forward else text.inverse or f"whose {text.label} it is"
        end = end_type(text, forward)
        parts.append(f"{name} ({end})" if end and end.casefold() != name.casefold() else name)
    return ", then ".join(parts)
