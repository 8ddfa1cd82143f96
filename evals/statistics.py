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


class Comparison(NamedTuple):
    """Two systems on the `n` questions that both answered: the average of first minus second, and its p.

    `unpaired` questions are of one of them only; `p_corrected` is by Holm within its family.
    """

    first: str
    second: str
    n: int
    unpaired: int
    difference: Interval
    p: float
    p_corrected: float
    method: str

    @property
    def significant(self) -> bool:
        """Whether the corrected p is below 1 minus the level."""
        return self.p_corrected < 1 - LEVEL


def interval(values: Iterable[float], *, resamples: int = RESAMPLES) -> Interval:
    """Return the average with its bootstrap interval (BCa, else percentile).

    Where all values are 0, or all 1, nothing can be resampled: the exact binomial interval is given.
    """
    numbers = np.asarray(list(values), dtype=np.float64)
    n, mean = len(numbers), float(numbers.mean()) if len(numbers) else math.nan
    if n and np.ptp(numbers) == 0 and mean in (0.0, 1.0):
        exact = binomtest(n if mean else 0, n).proportion_ci(LEVEL, "exact")
        return Interval(mean, float(exact.low), float(exact.high), n)
    for method in ("BCa", "percentile") if n > 1 and np.ptp(numbers) else ():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateDataWarning)  # then the ends are NaN
            ends = bootstrap(
                [numbers], np.mean, n_resamples=resamples, batch=max(1, _BLOCK // n),
                confidence_level=LEVEL, method=method, rng=np.random.default_rng(SEED),
            ).confidence_interval  # fmt: skip
        if not math.isnan(ends.low + ends.high):
            return Interval(mean, float(ends.low), float(ends.high), n)
    return Interval(mean, math.nan, math.nan, n)


def compare(
    first: tuple[str, Scores], second: tuple[str, Scores], *, resamples: int = 2 * RESAMPLES
) -> Comparison:
    """Compare two systems on shared questions: McNemar's exact test of 0 and 1, else sign permutation."""
    pairs = pd.concat([first[1], second[1]], axis=1, join="inner").to_numpy(dtype=np.float64)
    differences = pairs[:, 0] - pairs[:, 1]
    nonzero = differences[differences != 0]  # where both are equal there is no sign to change
    p, method = 1.0, "paired permutation"
    if np.isin(pairs, (0.0, 1.0)).all():
        method = "McNemar, exact"
        p = binomtest(int((nonzero > 0).sum()), len(nonzero)).pvalue if len(nonzero) else 1.0
    elif len(nonzero) > 1:
        p = permutation_test(
            (nonzero,), np.sum, permutation_type="samples", vectorized=True, n_resamples=resamples,
            batch=max(1, _BLOCK // len(nonzero)), rng=np.random.default_rng(SEED),
        ).pvalue  # fmt: skip
    n, unpaired = len(pairs), len(set(first[1].index) ^ set(second[1].index))
    # Where all differences are the same there is nothing to resample.
    same = Interval(float(differences[0]), math.nan, math.nan, n)
    difference = interval(differences) if np.ptp(differences) else same
    return Comparison(first[0], second[0], n, unpaired, difference, float(p), float(p), method)


def corrected(family: Sequence[Comparison]) -> list[Comparison]:
    """Return the same comparisons with Holm's step-down correction for how many there are."""
    p = pd.Series([comparison.p for comparison in family], dtype=float).sort_values(kind="stable")
    steps = (p * np.arange(len(p), 0, -1)).cummax().clip(upper=1.0).sort_index()
    return [one._replace(p_corrected=float(value)) for one, value in zip(family, steps, strict=True)]
