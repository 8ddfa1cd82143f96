"""How sure a figure is, and whether two variants differ: intervals, paired tests, correction for many tests.

Every function is seeded, so that the same logs give the same figures.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.core.errors import DataError

LEVEL = 0.95
RESAMPLES = 5_000
SEED = 0
_BLOCK = 4_000_000
"""Numbers drawn at a time: memory stays flat however many questions there are."""
_BINARY_TEST = "McNemar, exact"
_PERMUTATION = "paired permutation"

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Interval:
    """An average with its confidence interval.

    Attributes:
        mean: the average. low, high: ends of the interval; not a number where none can be had.
        n: questions. level: confidence. method: how it was found.
        seeds: how many runs were averaged. spread: standard deviation of the runs' averages.
    """

    mean: float
    low: float
    high: float
    n: int
    level: float = LEVEL
    method: str = ""
    seeds: int = 1
    spread: float = 0.0


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two variants on the same questions.

    Attributes:
        first, second: their names. measure: what is compared.
        n: questions that both answered. left_out: questions that only one of them did.
        difference: average of first minus second; low, high: its interval.
        p: of the test; p_corrected: after Holm's correction within its family. method: the test.
    """

    first: str
    second: str
    measure: str
    n: int
    left_out: int
    difference: float
    low: float
    high: float
    p: float
    p_corrected: float
    method: str

    @property
    def significant(self) -> bool:
        """Whether the corrected p is below 1 minus the level."""
        return self.p_corrected < 1 - LEVEL


def interval(values: Sequence[float], *, level: float = LEVEL, resamples: int = RESAMPLES) -> Interval:
    """The average over questions with its bootstrap interval (BCa; percentile where BCa has no value).

    Where every value is 0, or every value 1, nothing can be resampled: the exact binomial interval is given.

    Args:
        values: one a question. level: confidence. resamples: how many are drawn.
    """
    numbers = np.asarray(values, dtype=np.float64)
    n = len(numbers)
    if n == 0:
        return Interval(math.nan, math.nan, math.nan, 0, level)
    mean = float(numbers.mean())
    if np.ptp(numbers) == 0:
        low, high = _of_equals(mean, n, level)
        return Interval(mean, low, high, n, level, "exact binomial")
    low, high, method = _bootstrap((numbers,), level, resamples)
    return Interval(mean, low, high, n, level, method)


def interval_of_seeds(
    seeds: Sequence[Mapping[str, float]], *, level: float = LEVEL, resamples: int = RESAMPLES
) -> Interval:
    """The average of several runs, with the interval over questions within runs.

    Where all runs asked the same questions a question is drawn for all of them together, for its answers
    depend on each other; otherwise each run's questions are drawn on their own.

    Args:
        seeds: question id -> value, for each run. level, resamples: see `interval`.
    """
    filled = [seed for seed in seeds if seed]
    if not filled:
        return Interval(math.nan, math.nan, math.nan, 0, level)
    means = [math.fsum(seed.values()) / len(seed) for seed in filled]
    spread = float(np.std(means, ddof=1)) if len(means) > 1 else 0.0
    ids = list(filled[0])
    if all(seed.keys() == filled[0].keys() for seed in filled):
        averages = [math.fsum(seed[i] for seed in filled) / len(filled) for i in ids]
        found = interval(averages, level=level, resamples=resamples)
        return replace(found, seeds=len(filled), spread=spread)
    runs = tuple(np.asarray(list(seed.values()), dtype=np.float64) for seed in filled)
    low, high, method = _bootstrap(runs, level, resamples)
    n = min(len(seed) for seed in filled)
    return Interval(float(np.mean(means)), low, high, n, level, method, len(filled), spread)


def compare(
    first: tuple[str, Mapping[str, float]],
    second: tuple[str, Mapping[str, float]],
    measure: str,
    *,
    resamples: int = 2 * RESAMPLES,
) -> Comparison:
    """Two variants on the questions that both were asked.

    Measures that are 0 or 1 for every question are tested by McNemar's exact test, others by permutation of
    the signs of the differences.

    Args:
        first, second: name, and question id -> value. measure: what the values are.
        resamples: permutations drawn where there are too many to try all.

    Raises:
        DataError: they share no question.
    """
    shared = [i for i in first[1] if i in second[1]]
    if not shared:
        raise DataError(
            f"{first[0]} and {second[0]} have no question in common: they cannot be compared pair by pair; "
            "run both with the same --limit and the same seed of the draw"
        )
    a, b = (np.asarray([values[i] for i in shared], dtype=np.float64) for _, values in (first, second))
    p, method = _mcnemar(a, b) if _is_binary(a) and _is_binary(b) else _permutation(a - b, resamples)
    found = _of_differences(a - b)
    left_out = len(first[1].keys() ^ second[1].keys())
    return Comparison(
        first[0], second[0], measure, len(shared), left_out, found.mean, found.low, found.high, p, p, method
    )


def corrected(family: Sequence[Comparison]) -> list[Comparison]:
    """The same comparisons with Holm's correction for how many there are."""
    values = holm([comparison.p for comparison in family])
    return [replace(one, p_corrected=value) for one, value in zip(family, values, strict=True)]


def holm(values: Sequence[float]) -> list[float]:
    """Holm's step-down correction of p values, in their order; never below the given ones, never above 1."""
    order = sorted(range(len(values)), key=lambda i: values[i])
    result = [0.0] * len(values)
    running = 0.0
    for rank, i in enumerate(order):
        running = max(running, min(1.0, (len(values) - rank) * values[i]))
        result[i] = running
    return result


def _of_differences(differences: Floats) -> Interval:
    """The interval of the average difference; without one where all differences are the same."""
    if np.ptp(differences):
        return interval(differences.tolist())
    return Interval(float(differences[0]), math.nan, math.nan, len(differences))


def _of_equals(mean: float, n: int, level: float) -> tuple[float, float]:
    if mean not in (0.0, 1.0):
        return (math.nan, math.nan)
    from scipy.stats import binomtest

    found = binomtest(n if mean else 0, n).proportion_ci(level, "exact")
    return float(found.low), float(found.high)


def _bootstrap(runs: tuple[Floats, ...], level: float, resamples: int) -> tuple[float, float, str]:
    """Ends and method of the interval of the average of the runs' averages."""
    if any(len(run) < 2 for run in runs):
        return math.nan, math.nan, ""
    for method in ("BCa", "percentile") if len(runs) == 1 else ("percentile",):
        low, high = _scipy_bootstrap(runs, level, resamples, method)
        if not math.isnan(low + high):
            return low, high, f"bootstrap, {method}"
    return math.nan, math.nan, ""


def _scipy_bootstrap(
    runs: tuple[Floats, ...], level: float, resamples: int, method: str
) -> tuple[float, float]:
    from scipy.stats import DegenerateDataWarning, bootstrap

    def average(*samples: Floats, axis: int = -1) -> Any:
        return np.mean([sample.mean(axis=axis) for sample in samples], axis=0)

    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DegenerateDataWarning
        )  # its value is not a number: told by the caller
        found = bootstrap(
            runs,
            average,
            n_resamples=resamples,
            batch=max(1, _BLOCK // max(len(run) for run in runs)),
            vectorized=True,
            confidence_level=level,
            method=method,
            rng=np.random.default_rng(SEED),
        ).confidence_interval
    return float(found.low), float(found.high)


def _is_binary(values: Floats) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _mcnemar(a: Floats, b: Floats) -> tuple[float, str]:
    from scipy.stats import binomtest

    only_first, only_second = int(((a == 1) & (b == 0)).sum()), int(((a == 0) & (b == 1)).sum())
    apart = only_first + only_second
    return (float(binomtest(only_first, apart).pvalue) if apart else 1.0), _BINARY_TEST


def _permutation(differences: Floats, resamples: int) -> tuple[float, str]:
    from scipy.stats import permutation_test

    apart = differences[differences != 0]  # where both are equal there is no sign to change
    if len(apart) < 2:
        return 1.0, _PERMUTATION

    def total(sample: Floats, axis: int = -1) -> Any:
        return sample.sum(axis=axis)

    found = permutation_test(
        (apart,),
        total,
        permutation_type="samples",
        vectorized=True,
        n_resamples=resamples,
        batch=max(1, _BLOCK // len(apart)),
        rng=np.random.default_rng(SEED),
    )
    return float(found.pvalue), _PERMUTATION
