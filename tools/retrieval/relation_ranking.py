"""Coarse ranking of candidate relations for a question (QueryAgent, appendix B.3; strategies of C.3)."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.hybrid import Bm25, Faiss, fuse

CUT = 40
"""How many relations the paper keeps."""
DEFAULT = "sentence-transformers"
"""The paper's best strategy on two of its three benchmarks (table 7), and the one that needs no server."""
METHODS = ("none", "hybrid", "sentence-transformers", "openai")
"""The strategies of table 7; `openai` is the paper's own."""

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
        query, of_texts = encoder.encode([question])[0], (vectors or encoder.encode)(texts)
        scores = of_texts @ query
        if method == "hybrid":
            import bm25s

            words = bm25s.tokenize([question, *texts], stopwords=[], return_ids=False, show_progress=False)
            scores = fuse([Faiss(of_texts).scores(query), Bm25(words[1:]).scores(words[0])])
    best = [documents[i].id for i in np.argsort(-scores, kind="stable")[: max(cut, 0)]]
    if shuffle_seed is not None:
        random.Random(shuffle_seed).shuffle(best)
    return best
