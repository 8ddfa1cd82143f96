"""First guesses of many scores, and how they get better with every exact one.

Two sources: with the KG's vectors present, a map from what is known of relation and tail (`maps`); with
nothing present, static vectors and a sample (`static`).
Either is then corrected as a Gaussian process would: pairs whose vectors are alike are wrong alike.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

PORTION = 64
"""Texts encoded between two corrections: one batch of the encoder."""

_NOISE, _POWER = 0.1, 3
_MOST = 2_000


class Guess:
    """Guessed scores of the listed pairs, corrected by what is learned.

    Attributes:
        listed: places of the pairs it is made for, int64 of shape (k,), sorted.
        budget: exact scores it takes for each 50 that are wanted. portion: of them between two corrections.

    Args:
        first: guesses of the listed, float32 of shape (k,).
        features: what makes pairs alike, float32 of shape (k, f), rows of about unit length.
        linear: whether errors also differ by direction alone, as those of a rough guess do.
    """

    def __init__(
        self,
        listed: np.ndarray,
        first: np.ndarray,
        features: np.ndarray,
        budget: int,
        portion: int = PORTION,
        linear: bool = False,
    ) -> None:
        self.listed, self.budget, self.portion, self._linear = listed, budget, portion, linear
        self._first, self._features, self._now = first, features, first
        self._known = np.empty(0, np.int64)
        self._error = np.empty(0, np.float32)
        self._inverse = np.empty((0, 0))
        self._alike: list[np.ndarray] = []

    def scores(self, places: np.ndarray) -> np.ndarray:
        """What is guessed for listed places now."""
        return np.asarray(self._now[np.searchsorted(self.listed, places)])

    def learn(self, places: np.ndarray, exact: np.ndarray) -> None:
        """Correct the guesses by exact scores of some listed places; `exact` holds those of all pairs."""
        # Solving for more takes longer than encoding what it could save.
        places = places[: max(0, _MOST - len(self._known))]
        if not len(places):
            return
        new = np.searchsorted(self.listed, places)
        alike = self._features @ self._features[new].T
        alike = alike + alike**_POWER if self._linear else alike**_POWER
        self._widen(alike[self._known], alike[new])
        self._known = np.concatenate([self._known, new])
        self._error = np.concatenate([self._error, exact[places] - self._first[new]])
        self._alike.append(alike)
        weights, start, now = (self._inverse @ self._error).astype(np.float32), 0, self._first.copy()
        for block in self._alike:
            now += block @ weights[start : start + block.shape[1]]
            start += block.shape[1]
        self._now = now

    def _widen(self, old: np.ndarray, new: np.ndarray) -> None:
        """Widen the inverse of the kernel by a block: likeness to what is known (k, m) and within it (m, m).

        By Schur's complement: what was inverted before is not inverted again. In double precision, for errors
        of one block are carried on to the next.
        """
        across = self._inverse @ old
        corner = np.linalg.inv(new + _NOISE * np.eye(len(new)) - old.T @ across)
        side = -across @ corner
        self._inverse = np.block([[self._inverse - side @ across.T, side], [side.T, corner]])


@dataclass(frozen=True, slots=True)
class Parts:
    """Pairs taken apart: distinct relations and tails, and which of them each pair has.

    `share` is the relation's part of a pair's text, float32 of shape (n,).
    """

    relations: list[str]
    tails: list[str]
    relation: np.ndarray
    tail: np.ndarray
    share: np.ndarray

    @classmethod
    def of(cls, pairs: Sequence[tuple[str, str]]) -> Parts:
        """The parts of pairs."""
        relations: dict[str, int] = {}
        tails: dict[str, int] = {}
        relation = np.array([relations.setdefault(r, len(relations)) for r, _ in pairs], np.int64)
        tail = np.array([tails.setdefault(t, len(tails)) for _, t in pairs], np.int64)
        long = np.array([len(r) for r in relations], np.float32)[relation] + 1
        rest = np.array([len(t) for t in tails], np.float32)[tail] + 1
        return cls(list(relations), list(tails), relation, tail, long / (long + rest))


def most(scores: np.ndarray, count: int) -> np.ndarray:
    """Places of the highest scores, sorted."""
    if len(scores) <= count:
        return np.arange(len(scores))
    return np.sort(np.argpartition(-scores, count)[:count])


def save_array(path: Path, array: np.ndarray) -> None:
    """Write an array so that another process, or a kill, never sees half of it. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=".part")
    try:
        with os.fdopen(handle, "wb") as file:
            np.save(file, array)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
