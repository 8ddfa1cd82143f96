"""Intervals and paired differences against known values and rules that always hold."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings, strategies as st

from triplewise.evals.statistics import difference, interval

SHARES = st.floats(0, 1, allow_nan=False, width=16)


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


def test_only_shared_questions_are_paired() -> None:
    first, second = pd.Series({"x": 1.0, "y": 0.0, "z": 1.0}), pd.Series({"y": 1.0, "z": 1.0, "w": 0.0})
    assert (difference(first, second).n, difference(first, second).mean) == (2, -0.5)
    assert math.isnan(difference(first, first).low)
