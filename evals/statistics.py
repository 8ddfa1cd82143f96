"""How sure a figure is, and whether two systems differ: intervals, paired tests, correction for many tests.

Every function is seeded, so that the same logs give the same figures.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import DegenerateDataWarning, binomtest, bootstrap, permutation_test

from triplewise.tools.core.errors import DataError

LEVEL = 0.95
RESAMPLES = 5_000
SEED = 0
_BLOCK = 4_000_000
"""Numbers drawn at a time: memory stays flat however many questions there are."""

Floats = NDArray[np.float64]
Scores: TypeAlias = "pd.Series[float]"
"""Question id -> value."""


@dataclass(frozen=True, slots=True)
class Interval:
    """An average with its confidence interval.

    Attributes:
        mean: the average. low, high: ends of the interval; NaN where none can be had.
        n: questions. method: how it was found.
        seeds: how many runs were averaged. spread: standard deviation of the runs' averages.
    """

    mean: float
    low: float
    high: float
    n: int
    method: str = ""
    seeds: int = 1
    spread: float = 0.0

    @property
    def known(self) -> bool:
        """Whether it has ends."""
        return not math.isnan(self.low)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two systems on the same questions.

    Attributes:
        first, second: their names. n: questions that both answered. unpaired: questions of one of them only.
        difference: average of first minus second, with its interval.
        p: of the test; p_corrected: after Holm's correction within its family. method: the test.
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
    """Return the average over questions with its bootstrap interval (BCa; percentile where BCa has no value).

    Where every value is 0, or every value 1, nothing can be resampled: the exact binomial interval is given.
    """
    numbers = np.asarray(list(values), dtype=np.float64)
    n = len(numbers)
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, 0)
    mean = float(numbers.mean())
    if np.ptp(numbers) > 0:
        low, high, method = _bootstrap([numbers], resamples)
        return Interval(mean, low, high, n, method)
    if mean not in (0.0, 1.0):
        return Interval(mean, math.nan, math.nan, n)
    exact = binomtest(n if mean else 0, n).proportion_ci(LEVEL, "exact")
    return Interval(mean, float(exact.low), float(exact.high), n, "exact binomial")


def interval_of_seeds(seeds: Sequence[Scores], *, resamples: int = RESAMPLES) -> Interval:
    """Return the average of runs that differ in their seed, with the interval over questions.

    Where all runs asked the same questions a question is drawn for all of them together, for its answers
    depend on each other; otherwise each run's questions are drawn on their own.
    """
    filled = [seed for seed in seeds if len(seed)]
    if len(filled) < 2:
        return interval(filled[0] if filled else (), resamples=resamples)
    means = [float(seed.mean()) for seed in filled]
    spread = float(np.std(means, ddof=1))
    if all(set(seed.index) == set(filled[0].index) for seed in filled):
        together = interval(pd.concat(filled, axis=1).mean(axis=1), resamples=resamples)
        return replace(together, seeds=len(filled), spread=spread)
    low, high, method = _bootstrap([seed.to_numpy(dtype=np.float64) for seed in filled], resamples)
    return Interval(float(np.mean(means)), low, high, min(map(len, filled)), method, len(filled), spread)


def compare(
    first: tuple[str, Scores], second: tuple[str, Scores], *, resamples: int = 2 * RESAMPLES
) -> Comparison:
    """Compare two systems on the questions that both were asked.

    Measures that are 0 or 1 for every question are tested by McNemar's exact test, others by permutation of
    the signs of the differences.

    Args:
        first, second: name, and question id -> value.
        resamples: permutations drawn where there are too many to try all.

    Raises:
        DataError: they share no question.
    """
    pairs = pd.concat([first[1], second[1]], axis=1, join="inner").to_numpy(dtype=np.float64)
    if not len(pairs):
        raise DataError(
            f"{first[0]} and {second[0]} have no question in common: they cannot be compared pair by pair; "
            "run both with the same --limit and the same seed of the draw"
        )
    differences = pairs[:, 0] - pairs[:, 1]
    if np.isin(pairs, (0.0, 1.0)).all():
        won, lost = int((differences > 0).sum()), int((differences < 0).sum())
        p, method = (binomtest(won, won + lost).pvalue if won + lost else 1.0), "McNemar, exact"
    else:
        p, method = _permutation(differences, resamples), "paired permutation"
    n = len(pairs)
    difference = (
        interval(differences)
        if np.ptp(differences)
        else Interval(float(differences[0]), math.nan, math.nan, n)
    )
    unpaired = len(set(first[1].index) ^ set(second[1].index))
    return Comparison(first[0], second[0], n, unpaired, difference, float(p), float(p), method)


def corrected(family: Sequence[Comparison]) -> list[Comparison]:
    """Return the same comparisons with Holm's correction for how many there are."""
    values = holm([comparison.p for comparison in family])
    return [replace(one, p_corrected=value) for one, value in zip(family, values, strict=True)]


def holm(values: Sequence[float]) -> list[float]:
    """Return Holm's step-down correction of p values, in their order."""
    p = np.asarray(values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    result = np.empty_like(p)
    result[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return [float(value) for value in result]


def _bootstrap(runs: Sequence[Floats], resamples: int) -> tuple[float, float, str]:
    """Ends and method of the interval of the average of the runs' averages."""

    def average(*samples: Floats, axis: int = -1) -> Any:
        return np.mean([sample.mean(axis=axis) for sample in samples], axis=0)

    methods = ("BCa", "percentile") if len(runs) == 1 else ("percentile",)
    for method in methods if all(len(run) > 1 for run in runs) else ():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DegenerateDataWarning)  # then the ends are NaN
            ends = bootstrap(
                runs,
                average,
                n_resamples=resamples,
                batch=max(1, _BLOCK // max(map(len, runs))),
                vectorized=True,
                confidence_level=LEVEL,
                method=method,
                rng=np.random.default_rng(SEED),
            ).confidence_interval
        if not math.isnan(ends.low + ends.high):
            return float(ends.low), float(ends.high), f"bootstrap, {method}"
    return math.nan, math.nan, ""


def _permutation(differences: Floats, resamples: int) -> float:
    """The two-sided p of the sum of the differences when their signs are permuted."""
    nonzero = differences[differences != 0]  # where both are equal there is no sign to change
    if len(nonzero) < 2:
        return 1.0

    def total(sample: Floats, axis: int = -1) -> Any:
        return sample.sum(axis=axis)

    tested = permutation_test(
        (nonzero,),
        total,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BLOCK // len(nonzero)),
        rng=np.random.default_rng(SEED),
    )
    return float(tested.pvalue)
