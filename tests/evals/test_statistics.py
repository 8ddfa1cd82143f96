"""Intervals, paired tests and Holm's correction against known values and rules that always hold."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triplewise.evals.statistics import compare, holm, interval

SHARES = st.floats(0, 1, allow_nan=False, width=16)


def named(values: list[float], prefix: str = "q") -> pd.Series[float]:
    return pd.Series({f"{prefix}{i}": value for i, value in enumerate(values)}, dtype=float)


@given(st.lists(SHARES, min_size=2, max_size=60))
@settings(max_examples=60, deadline=None)
def test_an_interval_holds_the_mean_and_stays_within_the_values(values: list[float]) -> None:
    result = interval(values, resamples=300)
    assert result.n == len(values)
    assert result.mean == pytest.approx(float(np.mean(values)))
    if not math.isnan(result.low):
        assert min(0.0, *values) <= result.low <= result.mean + 1e-9
        assert result.mean - 1e-9 <= result.high <= max(1.0, *values)


def test_an_interval_is_that_of_theory_where_theory_has_one() -> None:
    result = interval([1.0] * 700 + [0.0] * 300)
    wald = 1.96 * math.sqrt(0.7 * 0.3 / 1000)
    assert (result.low, result.high) == pytest.approx((0.7 - wald, 0.7 + wald), abs=0.004)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_right_or_all_wrong_is_not_certain(value: float) -> None:
    result = interval([value] * 20)
    far = result.high if value == 0 else 1 - result.low
    assert far == pytest.approx(1 - 0.025 ** (1 / 20))


def test_the_same_values_give_the_same_interval_and_none_where_nothing_can_be_resampled() -> None:
    values = np.random.default_rng(0).random(50).tolist()
    assert interval(values) == interval(values)
    for values in ([], [0.5], [0.5, 0.5]):
        assert math.isnan(interval(values).low)


def test_right_or_wrong_is_compared_by_mcnemars_exact_test() -> None:
    first, second = named([1.0] * 10 + [0.0] * 2 + [1.0] * 30), named([0.0] * 10 + [1.0] * 2 + [1.0] * 30)
    difference, p = compare(first, second)
    assert p == pytest.approx(2 * (1 + 12 + 66) / 2**12)
    assert (difference.n, difference.mean) == pytest.approx((42, 8 / 42))
    assert compare(first, first)[1] == 1.0


def test_shares_are_compared_by_permuting_signs() -> None:
    _, p = compare(named([0.5, 0.6, 0.9, 1.0]), named([0.1, 0.2, 0.4, 0.3]))
    assert p == pytest.approx(2 / 2**4)  # of 16 ways to put the signs two are as far from 0


def test_only_shared_questions_are_paired() -> None:
    first, second = pd.Series({"x": 1.0, "y": 0.0, "z": 1.0}), pd.Series({"y": 1.0, "z": 1.0, "w": 0.0})
    assert compare(first, second)[0].n == 2


def test_holm_against_a_worked_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == []


@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_keeps_the_order_and_only_raises(values: list[float]) -> None:
    result = holm(values)
    assert all(low <= high <= 1 for low, high in zip(values, result, strict=True))
    pairs = sorted(zip(values, result, strict=True))
    assert [p for _, p in pairs] == sorted(p for _, p in pairs)
