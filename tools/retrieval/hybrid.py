"""Ranking of texts for a query by BM25 and by vectors (Faiss), the two rankings fused by rank."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

FUSION_DAMPING = 60
"""Reciprocal rank fusion's usual constant: how little the very first ranks weigh more than the next."""


class Bm25:
    """BM25 over texts that are split into words already."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        import bm25s

        self._size, self._index = len(texts), None
        if any(texts):  # bm25s cannot index nothing
            self._index = bm25s.BM25()
            self._index.index([list(words) for words in texts], show_progress=False)

    def scores(self, words: Sequence[str]) -> np.ndarray:
        """The score of each text for the words of a query, float32 of shape (texts,)."""
        if self._index is None or not words:
            return np.zeros(self._size, np.float32)
        return np.asarray(self._index.get_scores(list(words)), np.float32)


class Faiss:
    """An exact search over unit vectors, in a flat index."""

    def __init__(self, vectors: np.ndarray) -> None:
        import faiss

        self._index = faiss.IndexFlatIP(vectors.shape[1])
        self._index.add(np.ascontiguousarray(vectors, np.float32))

    def scores(self, query: np.ndarray) -> np.ndarray:
        """The inner product of each vector with a query, float32 of shape (vectors,)."""
        scores = np.zeros(self._index.ntotal, np.float32)
        if len(scores):
            products, places = self._index.search(np.ascontiguousarray(query[None], np.float32), len(scores))
            scores[places[0]] = products[0]
        return scores


def fuse(rankings: Sequence[np.ndarray]) -> np.ndarray:
    """Reciprocal rank fusion (Cormack et al., 2009) of scores of the same texts, float64 of shape (texts,).

    Scores of different scales meet as ranks. Equal scores share a rank, so that texts without a common word
    are not told apart by their order.
    """
    total = np.zeros(len(rankings[0]))
    for scores in rankings:
        rank = np.searchsorted(np.sort(-scores), -scores)
        total += 1.0 / (FUSION_DAMPING + rank)
    return total
