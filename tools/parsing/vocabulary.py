"""What grounding looks words up in: the names of a graph's relations and classes, by words and by vectors.

Made once for an index. Everything is computed over all relations at a time, so that a graph with
thousands of them costs a question some milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.language.lexicon import lexicon, root
from triplewise.tools.language.text import key, singular
from triplewise.tools.parsing.index import GraphIndex

Vector = NDArray[np.float32]

SHORT = 3
"""Letters of words that are no correction of others."""
_KEPT: WeakKeyDictionary[GraphIndex, Vocabulary] = WeakKeyDictionary()


class Vocabulary:
    """The names of relations and classes of an index.

    Attributes:
        words: the words of all names in the singular, and the adjectives of degree: what is no rare word.
        by_stems: names of classes, as their words in the singular -> the classes.
        by_head, by_part: last word, and any word, of a class's name -> the classes.
    """

    def __init__(self, index: GraphIndex) -> None:
        self._index = index
        self._relations = _Names(list(index.rel_names), index.rel_vecs, len(index.rels))
        inverse = index.inverse_vecs if index.inverse_names else index.rel_vecs[:0]
        self._inverse = _Names(list(index.inverse_names), inverse, len(index.rels))
        self._classes = _Names(list(index.class_names), index.class_vecs, len(index.classes))
        names = [*self._relations.texts, *self._classes.texts]
        self.words = {singular(word) for name in names for word in name.split()} | set(lexicon().adjectives)
        self.by_stems: dict[str, set[int]] = defaultdict(set)
        self.by_head: dict[str, set[int]] = defaultdict(set)
        self.by_part: dict[str, set[int]] = defaultdict(set)
        for number, name in zip(self._classes.owners, self._classes.texts, strict=True):
            stems = [singular(word) for word in name.split()]
            self.by_stems[key(stems)].add(number)
            self.by_head[stems[-1]].add(number)
            for stem in stems:
                self.by_part[stem].add(number)

    @classmethod
    def of(cls, index: GraphIndex) -> Vocabulary:
        """The vocabulary of an index, made at its first question."""
        if (found := _KEPT.get(index)) is None:
            found = _KEPT[index] = cls(index)
        return found

    @cached_property
    def words_by_letter(self) -> Mapping[str, list[str]]:
        """The longer words of relations and classes, by their first letter."""
        return _by_letter(self.words)

    @cached_property
    def names_by_letter(self) -> Mapping[str, list[str]]:
        """The longer words of all names in the graph, by their first letter."""
        return _by_letter({*self.words, *self._index.by_word})

    def similarity(self, vectors: Vector) -> tuple[Vector, Vector]:
        """Cosines of n texts with relations and classes, by the best name: (n, relations), (n, classes)."""
        return self._relations.similarity(vectors), self._classes.similarity(vectors)

    def overlap(self, roots: Iterable[str], content: Sequence[str]) -> Vector:
        """F1 of a span's words (their roots) and each relation's best name; 1 where its content is a name."""
        return self._relations.overlap(set(roots), key(tuple(content)))

    def inverse_similarity(self, vectors: Vector) -> Vector:
        """Cosines of texts with the names of relations read backwards, as `similarity` has them."""
        return self._inverse.similarity(vectors)

    def inverse_overlap(self, roots: Iterable[str], content: Sequence[str]) -> Vector:
        """F1 with the names of relations read backwards, as `overlap` has it."""
        return self._inverse.overlap(set(roots), key(tuple(content)))

    @cached_property
    def hints(self) -> Mapping[str, tuple[Vector, Vector]]:
        """What adjectives, quantities and wh-words stand for -> cosines with relations and with classes."""
        words = lexicon().hints
        relations, classes = self.similarity(self._index.encode(list(words)))
        return {word: (relations[i], classes[i]) for i, word in enumerate(words)}

    def relations_like(self, words: Sequence[str]) -> Vector:
        """How well each relation goes with quantities, the likeliest first."""
        rows = [self.hints[word][0] * 0.93**i for i, word in enumerate(words)]
        best: Vector = np.max(rows or [np.zeros(len(self._index.rels), np.float32)], axis=0)
        return best

    def classes_like(self, words: Sequence[str]) -> Vector:
        """How well each class goes with what a wh-word asks for."""
        best: Vector = np.max([self.hints[word][1] for word in words], axis=0)
        return best


def _by_letter(words: Iterable[str]) -> dict[str, list[str]]:
    found = defaultdict[str, list[str]](list)
    for word in sorted(words):
        if len(word) > SHORT:
            found[word[0]].append(word)
    return dict(found)


class _Names:
    """Names of numbered things, several a thing, and their vectors."""

    def __init__(self, names: Sequence[tuple[int, str]], vectors: Vector, count: int) -> None:
        ordered = sorted(range(len(names)), key=lambda i: names[i][0])
        self.owners = [names[i][0] for i in ordered]
        self.texts = [names[i][1] for i in ordered]
        self._vectors, self._count = vectors[ordered].T, count
        starts = [i for i, owner in enumerate(self.owners) if i == 0 or owner != self.owners[i - 1]]
        self._starts, self._named = (
            np.array(starts, np.int64),
            np.array([self.owners[i] for i in starts], np.int64),
        )
        weak, lengths = lexicon().weak, []
        by_root, by_key = defaultdict[str, list[int]](list), defaultdict[str, list[int]](list)
        for i, text in enumerate(self.texts):
            words = [word for word in text.split() if word not in weak] or text.split()
            lengths.append(len(words))
            by_key[key(words)].append(i)
            for one in {root(word) for word in words}:
                by_root[one].append(i)
        self._lengths = np.array(lengths, np.float32)
        self._by_root = {one: np.array(found) for one, found in by_root.items()}
        self._by_key = by_key

    def similarity(self, vectors: Vector) -> Vector:
        return self._best(vectors @ self._vectors)

    def overlap(self, roots: set[str], joined: str) -> Vector:
        hits = [self._by_root[one] for one in roots if one in self._by_root]
        same = self._by_key.get(joined, ()) if joined else ()
        if not hits and not same:
            return np.zeros(self._count, np.float32)
        shared = np.zeros(len(self.texts), np.float32)
        for found in hits:
            shared[found] += 1
        f1 = 2 * shared / (len(roots) + self._lengths) if roots else shared
        f1[list(same)] = 1.0
        best: Vector = self._best(f1[None])[0]
        return best

    def _best(self, scores: Vector) -> Vector:
        """The best name's score of each thing, at least 0."""
        result = np.zeros((len(scores), self._count), np.float32)
        if len(self._starts) and len(scores):
            result[:, self._named] = np.maximum(np.maximum.reduceat(scores, self._starts, axis=1), 0)
        return result
