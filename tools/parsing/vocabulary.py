"""What grounding looks words up in: the names of a graph's relations and classes, by words and by vectors.

Everything is computed over all relations at a time: thousands of them cost a question some milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import cast

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.language.lexicon import lexicon, root, section, word_list
from triplewise.tools.language.text import key, singular
from triplewise.tools.parsing.index import GraphIndex

Vector = NDArray[np.float32]

NAMES_IT = 0.999  # cosine of a quantity with a relation of that name
NEAREST = 3  # examples of a kind whose cosines with a class's name count
TEMPERATURE = 0.05  # of cosines, where they become probabilities of kinds
SHORT = 3  # letters of words that are too short to correct others


class Vocabulary:
    """The names of relations and classes of an index, made once.

    `words`: of all names in the singular, and the adjectives of degree: common words in this graph.
    `by_stems`, `by_head`, `by_part`: all words, the last, and any word of a class's name -> the classes.
    """

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        rels = index.rels
        self.relations = Names(index, [(r.i, n) for r in rels for n in r.names], len(rels))
        self.inverse = Names(index, [(r.i, n) for r in rels for n in r.inverse], len(rels))
        names = [(c, n) for c, of in enumerate(index.classes) for n in of.names]
        self.classes = Names(index, names, len(index.classes))
        texts = [*self.relations.texts, *self.classes.texts]
        self.words = {singular(word) for name in texts for word in name.split()} | set(lexicon().adjectives)
        self.by_stems, self.by_head, self.by_part = (defaultdict[str, set[int]](set) for _ in range(3))
        for number, name in names:
            stems = [singular(word) for word in name.split()]
            self.by_stems[key(stems)].add(number)
            self.by_head[stems[-1]].add(number)
            for stem in stems:
                self.by_part[stem].add(number)

    @classmethod
    def of(cls, index: GraphIndex) -> Vocabulary:
        """The vocabulary of an index, made at its first question."""
        if "vocabulary" not in index.kept:
            index.kept["vocabulary"] = cls(index)
        return cast(Vocabulary, index.kept["vocabulary"])

    def beginning_with(self, letter: str, classes_only: bool = False) -> list[str]:
        """The longer words with a first letter: of all names in the graph, or of classes and relations."""
        known = self.words if classes_only else {*self.words, *self._index.named.by_word}
        return sorted(word for word in known if len(word) > SHORT and word[0] == letter)

    @cached_property
    def hints(self) -> Mapping[str, Vector]:
        """What adjectives, quantities and wh-words mean -> cosines with relations."""
        cosines = self.relations.similarity(self._index.encode(lexicon().hints))
        return dict(zip(lexicon().hints, cosines, strict=True))

    def relations_like(self, words: Sequence[str]) -> Vector:
        """How well each relation goes with quantities, the likeliest first."""
        rows = [self.hints[word] * 0.93**i for i, word in enumerate(words)]
        best: Vector = np.max(rows or [np.zeros(len(self._index.rels), np.float32)], axis=0)
        return best

    @cached_property
    def quantities(self) -> Mapping[str, frozenset[int]]:
        """What adjectives, quantities and wh-words mean -> the relations of that very name."""
        rows = ((word, of_relations >= NAMES_IT) for word, of_relations in self.hints.items())
        return {word: frozenset(np.flatnonzero(row).tolist()) for word, row in rows}

    @cached_property
    def class_kinds(self) -> Mapping[str, Vector]:
        """Kinds of things -> how probably each class is of them, by its nearest examples of all kinds."""
        examples = {kind: words.split() for kind, words in section("examples").items()}
        texts = [text for words in examples.values() for text in words]
        cosines = self.classes.similarity(self._index.encode(texts))
        ends = np.cumsum([len(words) for words in examples.values()])[:-1]
        nearest = [np.sort(rows, axis=0)[-NEAREST:].mean(axis=0) for rows in np.split(cosines, ends)]
        odds = np.exp(np.stack(nearest) / TEMPERATURE)
        return dict(zip(examples, odds / odds.sum(axis=0), strict=True))

    def classes_like(self, wh: str) -> Vector:
        """How probably each class is of the kind that a wh-word asks for."""
        return self.class_kinds["who" if wh == "whom" else wh]


class Names:
    """Names (`texts`) of numbered things, in the order of the things, and how like them other texts are."""

    def __init__(self, index: GraphIndex, names: Sequence[tuple[int, str]], count: int) -> None:
        self.texts, self._count = [name for _, name in names], count
        self._vectors: Vector = index.vectors(self.texts).T if names else np.zeros((0, 0), np.float32)
        self._things, self._starts = np.unique(np.array([i for i, _ in names], np.int64), return_index=True)
        weak, lengths = word_list("weak"), []
        by_root, self._by_key = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for i, text in enumerate(self.texts):
            words = [word for word in text.split() if word not in weak] or text.split()
            lengths.append(len(words))
            self._by_key[key(words)].append(i)
            for one in {root(word) for word in words}:
                by_root[one].append(i)
        self._lengths = np.array(lengths, np.float32)
        self._by_root = {one: np.array(found) for one, found in by_root.items()}

    def similarity(self, vectors: Vector) -> Vector:
        """Cosines of n texts with the best name of each thing, at least 0: shape (n, things)."""
        return self._best(vectors @ self._vectors if self.texts else vectors[:, :0])

    def overlap(self, roots: Collection[str], content: Sequence[str]) -> Vector:
        """F1 of a span's words (their roots) and each thing's best name; 1 where its content is a name."""
        hits = [self._by_root[one] for one in set(roots) if one in self._by_root]
        same = self._by_key.get(key(content), ()) if content else ()
        if not hits and not same:
            return np.zeros(self._count, np.float32)
        shared = np.zeros(len(self.texts), np.float32)
        for found in hits:
            shared[found] += 1
        f1 = 2 * shared / (len(set(roots)) + self._lengths) if roots else shared
        f1[list(same)] = 1.0
        best: Vector = self._best(f1[None])[0]
        return best

    def replaced(self, words: Sequence[str], others: Callable[[str], frozenset[str]]) -> Vector:
        """F1 of each thing's best name and the words, one of them replaced: by an opposite, by a synonym."""
        roots = [root(word) for word in words]
        changed = [
            self.overlap([*roots[:i], other, *roots[i + 1 :]], ())
            for i, word in enumerate(words)
            for other in others(word) & self._by_root.keys()
        ]
        best: Vector = np.max([np.zeros(self._count, np.float32), *changed], axis=0)
        return best

    def _best(self, scores: Vector) -> Vector:
        """The best name's score of each thing, at least 0."""
        result = np.zeros((len(scores), self._count), np.float32)
        if len(self._starts) and len(scores):
            result[:, self._things] = np.maximum(np.maximum.reduceat(scores, self._starts, axis=1), 0)
        return result
