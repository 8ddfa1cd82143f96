"""Training of the calibration: figures that mean what they say, and features that learn no nonsense."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.learning.calibration import Row, calibration_error, risk_coverage, train
from triplewise.tools.planning.confidence import FEATURES

BLANK = {**dict.fromkeys(FEATURES, 0.0), "alone": 1.0, "support": 1.0}


def row(group: str, share: float, is_right: bool) -> Row:
    """An answer with so much of its question accounted for."""
    return Row(group, "?", is_right, {**BLANK, "accounted": share, "lost": 4 * (1 - share)})


def test_answers_whose_words_are_accounted_for_become_sure_ones() -> None:
    rows = [row(g, i % 10 / 10, i % 10 > 4) for g in ("a", "b") for i in range(60)]
    unanswerable = Row("a", "?", False, {}, is_answerable=False)
    calibration = train([*rows, unanswerable], {"questions": "made up"})
    sure, unsure = rows[9].features, rows[0].features
    assert calibration.probability(sure) > calibration.min_confidence > calibration.probability(unsure)
    assert all(sign * calibration.weights[name] >= 0 for name, (sign, _) in FEATURES.items())
    figures = calibration.provenance["left out"]
    assert set(figures) == {"a", "b", "all"}
    assert figures["all"]["precision"] >= 0.9
    assert figures["a"]["refused"] == 1.0


def test_too_few_answers_train_nothing() -> None:
    with pytest.raises(ConfigurationError, match="40 answers"):
        train([row("a", 1.0, True)] * 39)
    with pytest.raises(ConfigurationError, match="5 wrong"):
        train([row("a", 1.0, True)] * 50)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40))
def test_figures_stay_in_their_bounds(answers: list[tuple[float, bool]]) -> None:
    confidence, right = np.array([c for c, _ in answers]), np.array([r for _, r in answers])
    weights = np.ones(len(answers))
    assert 0.0 <= calibration_error(confidence, right, weights) <= 1.0
    # To know which answers are wrong leaves the least risk at every coverage.
    best = risk_coverage(right.astype(float), right, weights)
    assert best - 1e-3 <= risk_coverage(confidence, right, weights) <= 1.0
    assert calibration_error(right.astype(float), right, weights) == 0.0
