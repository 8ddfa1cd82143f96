"""Coarse ranking of candidate relations for a question (QueryAgent, appendix B.3; strategies of C.3)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.retrieval.encoder import Encoder

CUT = 40
"""How many relations the paper keeps."""
DEFAULT = "sentence-transformers"
"""The paper's best strategy on two of its three benchmarks (table 7), and the one that needs no server."""

_FUSION_DAMPING = 60
"""Reciprocal rank fusion's usual constant: how little the very first ranks weigh more than the next."""

Vectors = Callable[[Sequence[str]], np.ndarray]
"""Unit vectors of texts, float32 of shape (n, dimension)."""


class RelationDoc(NamedTuple):
    """A relation and how it reads."""

    id: str
    text: str


def rank_relations(
    question: str,
    relations: Sequence[RelationDoc | tuple[str, str]],
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
    documents = [RelationDoc(*relation) for relation in relations]
    texts = [d.text for d in documents]
    scores = np.zeros(len(texts))
    if texts and method != "none":
        if encoder is None:
            raise ConfigurationError(
                f"relation ranking {method!r} needs an encoder; pass one, or choose method 'none'"
            )
        query = encoder.encode([question])[0]
        scores = _SCORERS[method](question, texts, query, (vectors or encoder.encode)(texts))
    kept = [documents[i].id for i in np.argsort(-scores, kind="stable")[: max(cut, 0)]]
    if shuffle_seed is not None:
        random.Random(shuffle_seed).shuffle(kept)
    return kept


def _cosine(question: str, texts: Sequence[str], query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.asarray(vectors @ query)


def _fused(question: str, texts: Sequence[str], query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Reciprocal rank fusion: scores of different scales meet as ranks (the paper's hybrid search)."""
    total = np.zeros(len(texts))
    for scores in (_faiss(query, vectors), _bm25(question, texts)):
        # Equal scores share a rank, so that relations without a common word are not told apart by order.
        rank = (scores[None, :] > scores[:, None]).sum(axis=1)
        total += 1.0 / (_FUSION_DAMPING + rank)
    return total


def _faiss(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Inner products with the query, found by an exact search in a flat index."""
    import faiss

    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(np.ascontiguousarray(vectors, np.float32))
    found, ids = index.search(np.ascontiguousarray(query[None, :], np.float32), len(vectors))
    scores = np.empty(len(vectors), np.float32)
    scores[ids[0]] = found[0]
    return scores


def _bm25(question: str, texts: Sequence[str]) -> np.ndarray:
    import bm25s

    index = bm25s.BM25()
    words = bm25s.tokenize([question, *texts], stopwords=[], return_ids=False, show_progress=False)
    if not words[0] or not any(words[1:]):  # bm25s cannot index or ask for nothing
        return np.zeros(len(texts))
    index.index(words[1:], show_progress=False)
    return np.asarray(index.get_scores(words[0]))


_SCORERS: dict[str, Callable[[str, Sequence[str], np.ndarray, np.ndarray], np.ndarray]] = {
    "hybrid": _fused,
    "sentence-transformers": _cosine,
    "openai": _cosine,
}
METHODS = ("none", *_SCORERS)
"""The strategies of table 7; `openai` is the paper's own."""
