"""Confidence: evidence for an answer, and a probability that keeps its file."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg import open_kg
from triplewise.tools.parsing.confidence import (
    DOUBTFUL,
    FEATURES,
    MODEL_FEATURES,
    calibration_for,
    content_of,
    query_features,
    read_calibration,
    shipped,
    trust_features,
)
from triplewise.tools.parsing.learn import shares
from triplewise.tools.parsing.reading import VALUES, Reading
from triplewise.tools.pyql.program import PyQL


def test_evidence_is_of_the_best_derivation_and_of_its_rivals() -> None:
    features = [{"skip_content": 2.0, "sup_unnamed": 1.0, "sup_sim": 0.25}, {"nothing": 1.0}]
    ranked = shares([1.0, 0.0], ["a", "b"])
    first, second = (trust_features(features, ranked, place) for place in (0, 1))
    assert first["share"] + second["share"] == pytest.approx(1.0)
    assert (first["uncovered"], first["unfit_quantities"]) == (2.0, 0.75)
    assert first["nothing"] == second["share"]
    assert first["fair_share"] == pytest.approx(first["share"])
    assert second["fair_share"] == 1.0
    assert first["lead"] == pytest.approx(-second["lead"])
    assert set(first) == set(FEATURES)


@given(st.fixed_dictionaries({name: st.floats(-4, 8) for name in FEATURES}))
def test_a_confidence_is_a_probability(features: dict[str, float]) -> None:
    assert 0.0 <= shipped().probability(features) <= 1.0


@pytest.mark.parametrize("doubt", ["no_evidence", "foreign_words", "pronouns", "near_rival"])
def test_what_is_doubted_is_never_sure(doubt: str) -> None:
    best = {name: 5.0 * max(sign, 0) for name, sign in FEATURES.items()}
    assert shipped().probability(best) > shipped().min_confidence
    assert shipped().probability({**best, doubt: 1.0}) <= DOUBTFUL < shipped().min_confidence


def test_a_rival_is_near_where_its_best_reading_scores_nearly_as_much() -> None:
    def near(*scores: float) -> float:
        return trust_features([{}] * len(scores), shares(scores, range(len(scores))))["near_rival"]

    assert near(5.0, 4.95) > 0 == near(5.0, 4.5) == near(5.0)


def test_evidence_of_a_models_query_says_how_far_readings_agree() -> None:
    profile, features = open_kg("demo").profile, {**dict.fromkeys(FEATURES, 0.0), "share": 0.9}
    lives, counts = "add_fact(Q1, P19, ?x)", "add_fact(Q1, P20, ?x)\nadd_count(?x)"
    best = Reading(lives, "", 0.0, 0.9, values=("a", "b"), features=features)
    rival = Reading(counts, "", 0.0, 0.1, values=("2",), features={**features, "share": 0.1})

    def evidence(program: str, *values: str) -> dict[str, float]:
        return query_features(PyQL.parse(program, profile), values, (best, rival), profile)

    same, other = evidence(lives, "a", "b"), evidence(counts, "2")
    assert set(same) == set(other) == set(MODEL_FEATURES)
    assert same["agreement"] == -other["agreement"] > 0
    assert same["alike"] == pytest.approx(0.9 + 0.1 * 1 / 4)  # of P19, Q1, P20 and the count, Q1 is common
    assert other["alike"] == pytest.approx(0.1 + 0.9 * 1 / 4)
    assert (same["same_operators"], other["same_operators"]) == (1.0, 0.0)
    assert evidence(lives, "c")["agreement"] < 0 < evidence(lives, "c")["alike"]


def test_parts_of_a_query_are_its_terms_and_operators_whatever_its_variables() -> None:
    profile = open_kg("demo").profile
    one, other = (
        content_of(PyQL.parse(text.replace("?a", name), profile))
        for text, name in (
            ("add_fact(Q1, P19, ?a)\nadd_not(?a, P20, Q2)\nadd_max(?a)\nset_answer(?a)", "?place"),
            ("add_fact(Q1, P19, ?a)\nadd_not(?a, P20, Q2)\nadd_min(?a)\nset_answer(?a)", "?x"),
        )
    )
    assert one - other == {("Extreme", True)}
    assert {("Not",), ("Extreme", False)} < other
    assert len(other) == 6


def test_a_calibration_survives_its_file_and_one_of_other_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "confidence.json"
    shipped().write(path)
    assert calibration_for(open_kg("demo"), str(path)) == shipped()
    with pytest.raises(DataError, match="no calibration"):
        read_calibration(path.read_text("utf-8").replace('"share",', '"other",'), path)
    with pytest.raises(DataError):
        calibration_for(open_kg("demo"), str(tmp_path / "none.json"))


def test_a_long_answer_is_that_of_a_reading_which_keeps_its_beginning() -> None:
    many = [f"Q{i}" for i in range(2 * VALUES)]
    kept = Reading("", "", 0.0, 0.0, values=tuple(many[:VALUES]))
    assert kept.has_answer(many)
    assert not kept.has_answer(many[1:])
    assert not kept.has_answer(many[: VALUES - 1])
    assert not Reading("", "", 0.0, 0.0, values=("Q1",)).has_answer(["Q1", "Q2"])
