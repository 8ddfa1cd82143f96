"""Training of the confidence: figures that mean what they say, and features that learn no nonsense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.learning.calibration import (
    PRECISION,
    Row,
    calibration_error,
    floor,
    threshold,
    train,
    weights_of,
)
from triplewise.tools.parsing.confidence import FEATURES

BLANK = dict.fromkeys(FEATURES, 0.0)


def row(group: str, share: float, is_right: bool) -> Row:
    """An answer with such a share, the rest of which is uncovered words."""
    return Row(group, "?", is_right, {**BLANK, "share": share, "uncovered": 4 * (1 - share)})


def test_answers_with_a_large_share_become_sure_ones() -> None:
    rows = [row(g, i % 10 / 10, i % 10 > 4) for g in ("a", "b") for i in range(60)]
    unanswerable = Row("a", "?", False, {}, is_answerable=False)
    calibration = train([*rows, unanswerable], {"questions": "made up"})
    sure, unsure = rows[9].features, rows[0].features
    assert calibration.probability(sure) > calibration.min_confidence > calibration.probability(unsure)
    assert calibration.min_confidence >= calibration.floor
    more = [calibration.probability({**unsure, "share": share}) for share in (0.0, 0.3, 0.6, 0.9)]
    assert more == sorted(more)
    figures = calibration.provenance["left out"]
    assert set(figures) == {"a", "b", "all"}
    assert figures["all"]["precision"] >= 0.92
    assert figures["a"]["refused"] == 1.0


def test_evidence_against_all_that_is_known_of_it_is_not_learned() -> None:
    rows = [row(g, 1 - i % 10 / 10, i % 10 > 4) for g in ("a", "b") for i in range(60)]
    calibration = train(rows)
    assert len({calibration.probability(row.features) for row in rows}) == 1


def test_too_few_answers_train_nothing() -> None:
    with pytest.raises(ConfigurationError, match="40 answers"):
        train([row("a", 1.0, True)] * 39)
    with pytest.raises(ConfigurationError, match="5 wrong"):
        train([row("a", 1.0, True)] * 50)


def test_threshold_and_floor_cut_off_where_their_precisions_are() -> None:
    estimates = np.arange(1, 101) / 100
    right = estimates > 0.6
    ones = np.ones(100)
    sure = threshold(estimates, right, ones)
    assert right[estimates >= sure].mean() >= PRECISION
    assert right[estimates >= sure - 0.01].mean() < PRECISION
    assert threshold(estimates, np.zeros(100, bool), ones) == 1.0
    least = floor(estimates, right, ones)
    assert least == 0.61


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_figures_stay_in_their_bounds(answers: list[tuple[float, bool]]) -> None:
    confidence, right = np.array([c for c, _ in answers]), np.array([r for _, r in answers])
    assert 0.0 <= calibration_error(confidence, right) <= 1.0
    assert calibration_error(right.astype(float), right) == 0.0


def test_small_graphs_are_not_drowned() -> None:
    weights = weights_of([row("large", 0.5, True)] * 16 + [row("small", 0.5, True)] * 4)
    assert weights.mean() == pytest.approx(1.0)
    assert weights[-1] == pytest.approx(2 * weights[0])
