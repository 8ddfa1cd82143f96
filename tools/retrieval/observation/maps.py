"""The map from the vectors of relation and tail to that of both together, fitted once for a KG."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from triplewise.tools.retrieval.observation.guess import Guess, most, save_array
from triplewise.tools.retrieval.observation.parts import Parts
from triplewise.tools.retrieval.vectors import VectorStore, blocks

LISTED = 2_000
"""Pairs that get a corrected guess: the best of the first one."""
BUDGET = 768
"""Texts encoded at most for each 50 candidates that are wanted."""
MAP_PAIRS = 6_000
"""Pairs that a map is fitted on."""
FEATURES = 5
"""Blocks of the map's input: relation, tail, both weighted by their share of the text, and their product."""

_RIDGE, _PRODUCT = 0.5, 10.0
_MISSING = 300


class PairMap:
    """The linear map from parts to the vector of a pair, float32 of shape (5 * dimension, dimension)."""

    def __init__(self, weights: np.ndarray) -> None:
        self.weights = weights

    @classmethod
    def fit(cls, relation: np.ndarray, tail: np.ndarray, share: np.ndarray, pair: np.ndarray) -> PairMap:
        """Ridge regression of pair vectors (n, dimension) on vectors of their parts."""
        inputs = _features(relation, tail, share)
        square = inputs.T @ inputs
        square[np.diag_indices_from(square)] += _RIDGE
        return cls(np.linalg.solve(square, inputs.T @ pair).astype(np.float32))

    def first(
        self,
        query: np.ndarray,
        relations: np.ndarray,
        tails: Callable[[np.ndarray], np.ndarray],
        parts: Parts,
    ) -> np.ndarray:
        """Guessed scores of all pairs from the vectors of their distinct parts, float32 of shape (n,).

        `tails` gives the vectors of some tails, by their numbers: a matrix of all would take longer to fill
        than to multiply.
        """
        r1, t1, r2, t2, product = (self.weights @ query).reshape(FEATURES, -1)
        at, to = parts.relation, parts.tail
        scores = (relations @ r1)[at] + parts.share * (relations @ r2)[at]
        joint = _PRODUCT * (relations * product) + t1
        for place in blocks(len(at)):
            rows = tails(to[place])
            scores[place] += np.einsum("ij,ij->i", joint[at[place]], rows)
            scores[place] += (1 - parts.share[place]) * (rows @ t2)
        return np.asarray(scores, np.float32)


def _features(relation: np.ndarray, tail: np.ndarray, share: np.ndarray) -> np.ndarray:
    part = share[:, None]
    return np.hstack([relation, tail, part * relation, (1 - part) * tail, _PRODUCT * relation * tail])


def map_guess(store: VectorStore, query: np.ndarray, parts: Parts) -> Guess | None:
    """Scores guessed by the KG's map; None where there is none, or many tails have no vector yet."""
    if (pair_map := load_map(store)) is None:
        return None
    rows = store.find(parts.tail_digests)
    missing = int((rows < 0).sum())
    if missing > _MISSING:
        return None
    if missing:
        rows = store.rows(parts.tails, parts.tail_digests)
    relations = store.vectors(parts.relations)
    first = pair_map.first(query, relations, lambda some: store.at(rows[some]), parts)
    listed = most(first, LISTED)
    both = np.hstack([relations[parts.relation[listed]], store.at(rows[parts.tail[listed]])]) / np.sqrt(2)
    return Guess(listed, first[listed], both.astype(np.float32), BUDGET)


def map_path(store: VectorStore) -> Path | None:
    """The file with a store's map; None where the store is in memory alone."""
    return None if store.path is None else store.path.with_suffix(".map.npy")


_maps: dict[Path, tuple[int, PairMap]] = {}


def load_map(store: VectorStore) -> PairMap | None:
    """The map fitted for a store's KG, if there is one that fits its vectors."""
    path = map_path(store)
    try:
        mark = path.stat().st_mtime_ns if path is not None else 0
        if path is None:
            return None
        if path not in _maps or _maps[path][0] != mark:
            weights = np.load(path, allow_pickle=False)
            if weights.shape != (FEATURES * store.dimension, store.dimension):
                return None
            _maps[path] = (mark, PairMap(np.asarray(weights, np.float32)))
    except (OSError, ValueError):  # none, or half of one: guesses do without
        return None
    return _maps[path][1]


def save_map(store: VectorStore, pair_map: PairMap) -> None:
    """Keep a map beside the vectors; raises OSError where that cannot be."""
    path = map_path(store)
    if path is not None:
        save_array(path, pair_map.weights)
