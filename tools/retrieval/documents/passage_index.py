"""The protocol of documents, and the index over passages: by name, by BM25, by vectors.

Which passages are about an entity is settled by an inverted index of words, in a fraction of a millisecond;
BM25 and vectors only order those. Where no entity is named, all passages are searched by BM25 and by Faiss.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property
from threading import RLock
from typing import Protocol, runtime_checkable

import numpy as np

from triplewise.tools.core.facts import Passage
from triplewise.tools.core.names import normalise
from triplewise.tools.retrieval.hybrid import Bm25, Faiss, fuse
from triplewise.tools.retrieval.vectors import VectorStore

SHOWN = 5
"""Passages a search gives."""
COMPARED = 50
"""Passages that are compared by vectors at least: those that BM25 puts first."""


@runtime_checkable
class Documents(Protocol):
    """Passages that can be searched by the name of an entity and what is asked of it."""

    def find(
        self,
        name: str,
        relation: str = "",
        question: str = "",
        *,
        aliases: Sequence[str] = (),
        limit: int = SHOWN,
    ) -> tuple[Passage, ...]:
        """Passages about an entity, best first; those that name it nowhere are left out.

        Args:
            name: label of the entity; "" for passages about the question alone.
            relation: what is asked of it, in words. question: what it is asked for.
            aliases: other names of the entity. limit: passages to give at most.

        Raises:
            DocumentsUnavailableError: the service that has them does not answer.
        """
        ...


class PassageIndex:
    """Passages, searchable. Safe to use from many threads; built where it is first needed.

    Args:
        passages: what is searched. open_vectors: opens what makes and keeps their vectors, when first needed.
    """

    def __init__(self, passages: Sequence[Passage], open_vectors: Callable[[], VectorStore]) -> None:
        self.passages = tuple(passages)
        self._open_vectors = open_vectors
        self._lock = RLock()

    def find(self, names: Sequence[str], query: str, limit: int) -> tuple[Passage, ...]:
        """Passages that bear one of the names in title or text, best first; with no names, of all.

        Passages of documents that are titled by a name, or begin with it, are no better than others that
        name it: what is said counts. Where no passage has a name in full, those that have all its words do.
        """
        with self._lock:
            if names:
                numbers = self._about([n for n in dict.fromkeys(map(normalise, names)) if n])
                if len(numbers) > 1 and query:
                    # No more passages are embedded than the ones that BM25 puts first.
                    lexical = self._bm25.scores(_words(query))[numbers]
                    first = np.argsort(-lexical, kind="stable")[: max(2 * limit, COMPARED)]
                    texts = [_embedded_text(self.passages[i]) for i in numbers[first].tolist()]
                    dense = self._vectors.vectors(texts) @ self._query(query)
                    order = np.argsort(-fuse([lexical[first], dense]), kind="stable")
                    numbers = numbers[first][order]
            elif self.passages and query:
                rankings = [self._bm25.scores(_words(query)), self._faiss.scores(self._query(query))]
                numbers = np.argsort(-fuse(rankings), kind="stable")
            else:
                return ()
            return tuple(self.passages[i] for i in numbers[:limit].tolist())

    def _about(self, names: Sequence[str]) -> np.ndarray:
        """Numbers of the passages that bear a name: in full, else all its words."""
        empty = np.empty(0, np.int64)
        full, loose = [empty], [empty]
        for name in names:
            postings = [self._postings.get(word, empty) for word in set(name.split())]
            shared = postings[0]
            for other in postings[1:]:
                shared = np.intersect1d(shared, other, assume_unique=True)
            full.append(np.array([i for i in shared.tolist() if f" {name} " in self._texts[i]], np.int64))
            loose.append(shared if " " in name else empty)
        return np.unique(np.concatenate(full if any(map(len, full)) else loose))

    def _query(self, query: str) -> np.ndarray:
        return np.asarray(self._vectors.encoder.encode([query])[0])

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """Normal forms of title and text, with blanks around."""
        return tuple(f" {normalise(p.title)} {normalise(p.text)} " for p in self.passages)

    @cached_property
    def _postings(self) -> dict[str, np.ndarray]:
        """Word -> the passages that have it, ascending."""
        numbers: defaultdict[str, list[int]] = defaultdict(list)
        for i, text in enumerate(self._texts):
            for word in set(text.split()):
                numbers[word].append(i)
        return {word: np.asarray(some, np.int64) for word, some in numbers.items()}

    @cached_property
    def _vectors(self) -> VectorStore:
        return self._open_vectors()

    @cached_property
    def _bm25(self) -> Bm25:
        return Bm25([text.split() for text in self._texts])

    @cached_property
    def _faiss(self) -> Faiss:
        return Faiss(self._vectors.vectors([_embedded_text(p) for p in self.passages]))


def _words(query: str) -> list[str]:
    return list(dict.fromkeys(normalise(query).split()))


def _embedded_text(passage: Passage) -> str:
    """A passage as its vector sees it: its title says what `it` and `he` are."""
    return f"{passage.title}: {passage.text}" if passage.title else passage.text
