"""Coarse ranking of candidate relations for a question (QueryAgent, appendix B.3; strategies of C.3)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from triplewise.tools.encoder import Encoder
from triplewise.tools.errors import ConfigurationError

CUT = 40
"""How many relations the paper keeps."""

_FUSION_DAMPING = 60
"""Reciprocal rank fusion's usual constant: how little the very first ranks weigh more than the next."""


class RelationDoc(NamedTuple):
    """A relation and how it reads."""

    id: str
    text: str


def rank_relations(
    question: str,
    relations: Sequence[RelationDoc | tuple[str, str]],
    method: str = "embedded",
    encoder: Encoder | None = None,
    cut: int = CUT,
    shuffle_seed: int | None = None,
) -> list[str]:
    """Ids of the `cut` relations that fit the question best.

    Args:
        question: in plain language.
        relations: id and text of each candidate; equal scores keep this order.
        method: `none` (the order given), `embedded` (cosine of the encoder's vectors) or
            `hybrid` (BM25 and cosine, fused by rank).
        encoder: needed by `embedded` and `hybrid`.
        cut: how many to keep.
        shuffle_seed: shuffles what is kept, as the paper does so that order hints at nothing;
            None leaves it best first.

    Raises:
        ConfigurationError: unknown method, or no encoder for one that needs it.
    """
    if method not in _SCORERS:
        raise ConfigurationError.unknown("relation ranking", method, _SCORERS)
    documents = [RelationDoc(*relation) for relation in relations]
    scores = _SCORERS[method](question, [d.text for d in documents], encoder) if documents else np.empty(0)
    kept = [documents[i].id for i in _best_first(scores)[: max(cut, 0)]]
    if shuffle_seed is not None:
        random.Random(shuffle_seed).shuffle(kept)
    return kept


def _best_first(scores: np.ndarray) -> list[int]:
    return [int(i) for i in np.argsort(-scores, kind="stable")]


def _as_given(question: str, texts: Sequence[str], encoder: Encoder | None) -> np.ndarray:
    return np.zeros(len(texts))


def _cosine(question: str, texts: Sequence[str], encoder: Encoder | None) -> np.ndarray:
    if encoder is None:
        raise ConfigurationError("this relation ranking needs an encoder; pass one, or choose method 'none'")
    vectors = encoder.encode([question, *texts])
    return np.asarray(vectors[1:] @ vectors[0])


def _bm25(question: str, texts: Sequence[str]) -> np.ndarray:
    import bm25s

    index = bm25s.BM25()
    words = bm25s.tokenize([question, *texts], stopwords=[], return_ids=False, show_progress=False)
    if not words[0] or not any(words[1:]):  # bm25s cannot index or ask for nothing
        return np.zeros(len(texts))
    index.index(words[1:], show_progress=False)
    return np.asarray(index.get_scores(words[0]))


def _fused(question: str, texts: Sequence[str], encoder: Encoder | None) -> np.ndarray:
    """Reciprocal rank fusion: scores of different scales meet as ranks."""
    total = np.zeros(len(texts))
    for scores in (_cosine(question, texts, encoder), _bm25(question, texts)):
        # Equal scores share a rank, so that relations without a common word are not told apart by order.
        rank = (scores[None, :] > scores[:, None]).sum(axis=1)
        total += 1.0 / (_FUSION_DAMPING + rank)
    return total


_SCORERS: dict[str, Callable[[str, Sequence[str], Encoder | None], np.ndarray]] = {
    "none": _as_given,
    "embedded": _cosine,
    "hybrid": _fused,
}
