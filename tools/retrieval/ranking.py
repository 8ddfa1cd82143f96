"""Ranking of texts for a query: BM25, vectors (Faiss), both fused by rank; and of candidate relations.

The relations of a node are ranked for a question before a model sees them (QueryAgent, appendix B.3;
strategies of C.3).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.retrieval.encoder import Encoder

CUT = 40
"""How many relations the paper keeps."""
DEFAULT = "sentence-transformers"
"""The paper's best strategy on two of its three benchmarks (table 7), and the one that needs no server."""
METHODS = ("none", "hybrid", "sentence-transformers", "openai")
"""The strategies of table 7; `openai` is the paper's own."""

FUSION_DAMPING = 60
"""Reciprocal rank fusion's usual constant: how little the very first ranks weigh more than the next."""
Vectors = Callable[[Sequence[str]], np.ndarray]
"""Unit vectors of texts, float32 of shape (n, dimension)."""


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


def faiss_scores(vectors: np.ndarray, query: np.ndarray) -> np.ndarray:
    """The inner product of each unit vector with a query, by an exact Faiss search, float32 of shape (n,)."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors, np.float32))
    products, places = index.search(np.ascontiguousarray(query[None], np.float32), len(vectors))
    scores = np.zeros(len(vectors), np.float32)
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


def rank_relations(
    question: str,
    relations: Sequence[tuple[str, str]],
    method: str = DEFAULT,
    encoder: Encoder | None = None,
    cut: int = CUT,
    shuffle_seed: int | None = None,
    vectors: Vectors | None = None,
) -> list[str]:
    """Ids of the `cut` relations that fit the question best; ordered also where there are no more than that.

    Args:
        question: in plain language.
        relations: id and text of each candidate; equal scores keep this order.
        method: `none` (the order given), `sentence-transformers` (cosine of the encoder's vectors), `openai`
            (the same, with an encoder that asks an embedding server) or `hybrid` (BM25 and Faiss search,
            fused by rank).
        encoder: needed by all but `none`.
        cut: how many to keep.
        shuffle_seed: shuffles what is kept, as the paper does so that order hints at nothing;
            None leaves it best first.
        vectors: where the vectors of relation texts come from, such as a store that keeps them; the encoder
            by default. The question is always embedded by the encoder.

    Raises:
        ConfigurationError: unknown method, or no encoder for one that needs it.
    """
    if method not in METHODS:
        raise ConfigurationError.unknown("relation ranking", method, METHODS)
    ids, texts = [id_ for id_, _ in relations], [text for _, text in relations]
    scores = np.zeros(len(texts))
    if texts and method != "none":
        if encoder is None:
            raise ConfigurationError(
                f"relation ranking {method!r} needs an encoder; pass one, or choose method 'none'"
            )
        query, of_texts = encoder.encode([question])[0], (vectors or encoder.encode)(texts)
        scores = of_texts @ query
        if method == "hybrid":
            import bm25s

            words = bm25s.tokenize([question, *texts], stopwords=[], return_ids=False, show_progress=False)
            scores = fuse([faiss_scores(of_texts, query), Bm25(words[1:]).scores(words[0])])
    best = [ids[i] for i in np.argsort(-scores, kind="stable")[: max(cut, 0)]]
    if shuffle_seed is not None:
        random.Random(shuffle_seed).shuffle(best)
    return best
