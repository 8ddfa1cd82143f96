"""First guesses of many scores, and how they get better with every exact one.

Two sources: with the KG's vectors present, a map from what is known of relation and tail (`maps`); with
nothing present, static vectors and a sample (`static`).
Either is then corrected as a Gaussian process would: pairs whose vectors are alike are wrong alike.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

PORTION = 64
"""Texts encoded between two corrections: one batch of the encoder."""

LEFT_OUT = 0.003
"""Share of the wanted that may be expected among those left out."""

Score = Callable[[np.ndarray], np.ndarray]
"""The scores, float32 of shape (k,), of k places."""

_NOISE = 0.1
_MOST = 2_000
BEGUN = 512
"""Scores known before that correct the guess, the best of them: solving for all would take longer."""
_FAR = 4.0


class Guess:
    """Guessed scores of the listed pairs, corrected by what is learned.

    Attributes:
        listed: places of the pairs it is made for, int64 of shape (k,), sorted.
        budget: scores it takes at most for each 50 that are wanted. portion: of them between two corrections.

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
        cubed = alike * alike * alike
        alike = alike + cubed if self._linear else cubed
        self._known = np.concatenate([self._known, new])
        self._error = np.concatenate([self._error, exact[places] - self._first[new]])
        self._alike.append(alike)
        kernel = np.hstack([block[self._known] for block in self._alike])
        kernel[np.diag_indices_from(kernel)] += _NOISE
        weights, start, now = np.linalg.solve(kernel, self._error), 0, self._first.copy()
        for block in self._alike:
            now += block @ weights[start : start + block.shape[1]]
            start += block.shape[1]
        self._now = now


def narrow(guess: Guess, scores: np.ndarray, width: int, score: Score) -> None:
    """Score the most promising pairs, portion by portion, until hardly any of the `width` best is left out.

    How many are left out is estimated from how wrong the guesses of the last portion were: a question with
    many pairs about as close as the last of the best takes more of them than one with few.

    Args:
        guess: of the listed pairs; learns. scores: of all pairs, -inf for the unknown ones; filled in.
        score: gives the scores of places.
    """
    listed = guess.listed
    known = listed[np.isfinite(scores[listed])]
    guess.learn(known[most(scores[known], BEGUN)], scores)
    for number in range(-(-guess.budget * max(width, 50) // (50 * guess.portion))):
        unknown = listed[np.isneginf(scores[listed])]
        if not len(unknown):
            return
        guessed = guess.scores(unknown)
        order = np.argsort(-guessed, kind="stable")[: max(guess.portion, 0 if number else 2 * width)]
        promising = unknown[order]
        scores[promising] = score(promising)
        wrong = float(np.sqrt(np.mean((scores[promising] - guessed[order]) ** 2)))
        guess.learn(promising, scores)
        if left_out(guess, scores, width, wrong) < LEFT_OUT * width:
            return


def left_out(guess: Guess, scores: np.ndarray, width: int, wrong: float) -> float:
    """How many unknown pairs are expected to belong to the `width` best, if guesses err by `wrong`."""
    known = scores[np.isfinite(scores)]
    if len(known) < width:
        return float(width)
    least = np.partition(known, -width)[-width]
    unknown = guess.listed[np.isneginf(scores[guess.listed])]
    beyond = (least - guess.scores(unknown)) / (max(wrong, 1e-6) * math.sqrt(2))
    return sum(map(math.erfc, beyond[beyond < _FAR].tolist())) / 2


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
