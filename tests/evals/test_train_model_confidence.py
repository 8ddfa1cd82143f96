"""Training of how sure a model's answer is: rows from readings, and weights by agreement."""

from __future__ import annotations

from itertools import product

import pytest

from triplewise.evals.question_sets import question_sets
from triplewise.evals.train_model_confidence import fitted, rows
from triplewise.tools.learning.calibration import Row
from triplewise.tools.parsing.confidence import MODEL_FEATURES, shipped


def test_every_distinct_answer_of_the_readings_of_a_question_is_a_row() -> None:
    (of,) = question_sets(["company"])
    found = list(rows(of, 3))
    assert {row.question for row in found} == {q.question for q in of.questions[:3]}
    right = [row for row in found if row.is_right]
    assert 1 <= len(right) <= 3 < len(found)
    assert all(row.features["alike"] > 0.5 for row in right)
    assert all(set(row.features) == set(MODEL_FEATURES) for row in found)


def test_where_readings_disagree_the_base_rate_is_that_of_models() -> None:
    made = [
        Row(graph, "?", right, {**dict.fromkeys(MODEL_FEATURES, 0.5), "agreement": 0.9 if agrees else -0.9})
        for graph, agrees, right in product("ab", (True, False), (True, False))
        for _ in range(40 if right == agrees else 10)
    ]
    sure, unsure = (
        fitted(made).probability({**dict.fromkeys(MODEL_FEATURES, 0.5), "agreement": value})
        for value in (0.9, -0.9)
    )
    assert sure == pytest.approx(0.58 / 0.64, abs=0.01)
    assert unsure == pytest.approx(0.28 / 0.36, abs=0.01)  # of the rows a fifth is right


def test_a_query_like_no_reading_is_less_sure() -> None:
    evidence = {"agreement": -0.8, "alike": 0.9, "same_operators": 1.0, "size": 0.7}
    sure = shipped("model_confidence.json").probability
    assert sure(evidence) > sure({**evidence, "alike": 0.1, "same_operators": 0.0})
