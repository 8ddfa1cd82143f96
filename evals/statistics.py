"""How sure a figure is, and whether two systems differ; the same logs give the same figures."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import DegenerateDataWarning, binomtest, bootstrap, permutation_test

LEVEL = 0.95
RESAMPLES = 5_000
SEED = 0
_BLOCK = 4_000_000  # numbers drawn at a time: memory stays flat however many questions there are

Scores: TypeAlias = "pd.Series[float]"  # question id -> value


class Interval(NamedTuple):
    """An average over `n` questions with its confidence interval, NaN where none can be had."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def known(self) -> bool:
        """Whether it has ends."""
        return not math.isnan(self.low)


def interval(values: Iterable[float], *, resamples: int = RESAMPLES) -> Interval:
    """Return the average with its bootstrap interval (BCa).

    Where all values are 0, or all 1, nothing can be resampled: the exact binomial interval is given.
    """
    numbers = np.asarray(list(values), dtype=np.float64)
    n, low, high = len(numbers), math.nan, math.nan
    mean = float(numbers.mean()) if n else math.nan
    if n and np.ptp(numbers) == 0 and mean in (0.0, 1.0):
        low, high = binomtest(n if mean else 0, n).proportion_ci(LEVEL, "exact")
    elif n > 1 and np.ptp(numbers):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateDataWarning)  # then the ends are NaN
            low, high = bootstrap(
                [numbers], np.mean, n_resamples=resamples, batch=max(1, _BLOCK // n),
                confidence_level=LEVEL, rng=np.random.default_rng(SEED),
            ).confidence_interval  # fmt: skip
    return Interval(mean, float(low), float(high), n)


def compare(first: Scores, second: Scores) -> tuple[Interval, float]:
    """Return the difference of two systems on shared questions, and p by permutation of the signs.

    Exact where that takes few permutations; of values that are 0 or 1 it is then McNemar's exact test.
    """
    pairs = pd.concat([first, second], axis=1, join="inner").to_numpy(dtype=np.float64)
    differences, p = pairs[:, 0] - pairs[:, 1], 1.0
    changed = differences[differences != 0]  # where both are equal there is no sign to change
    if len(changed) > 1:
        p = permutation_test(
            (changed,), np.sum, permutation_type="samples", vectorized=True, n_resamples=2 * RESAMPLES,
            batch=max(1, _BLOCK // len(changed)), rng=np.random.default_rng(SEED),
        ).pvalue  # fmt: skip
    # Where all differences are the same there is nothing to resample.
    same = Interval(float(differences[0]), math.nan, math.nan, len(pairs))
    return interval(differences) if np.ptp(differences) else same, float(p)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return p values with Holm's step-down correction for how many there are."""
    p = pd.Series(p_values, dtype=float).sort_values(kind="stable")
    return list(map(float, (p * np.arange(len(p), 0, -1)).cummax().clip(upper=1.0).sort_index()))
