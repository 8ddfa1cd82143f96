"""How sure a figure is, and how far two systems differ; the same logs give the same figures."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import numpy as np
import pandas as pd
from scipy.stats import DegenerateDataWarning, binomtest, bootstrap

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


def difference(first: Scores, second: Scores) -> Interval:
    """Return the average difference of two systems on shared questions, with its interval."""
    pairs = pd.concat([first, second], axis=1, join="inner").to_numpy(dtype=np.float64)
    found = interval(differences := pairs[:, 0] - pairs[:, 1])
    # Where all differences are the same there is nothing to resample.
    return found if np.ptp(differences) else found._replace(low=math.nan, high=math.nan)
