"""Confidence: every word is accounted for, an operator that cannot be built is named, and odds are odds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg import open_kg
from triplewise.tools.linking.linker import link
from triplewise.tools.planning.confidence import (
    FEATURES,
    Reading,
    calibration_for,
    read_calibration,
    read_plan,
    shipped,
)
from triplewise.tools.planning.lexical.planner import make_plan
from triplewise.tools.retrieval.encoder import open_encoder


def best(question: str) -> Reading:
    """The reading of the best rule for a question of the demo graph."""
    kg, encoder = open_kg("demo"), open_encoder("embedded")
    linked = link(question, kg, encoder=encoder)
    return read_plan(make_plan(question, linked, kg, encoder), question, linked, kg, encoder)[0]


@pytest.mark.parametrize(
    ("question", "operator"),
    [
        ("What is the average area of the countries in South America?", "average"),
        ("What is the sum of the areas of Brazil and Peru?", "sum"),
        ("How old was Albert Einstein when he died?", "how old"),
        ("What is the population density of Mexico?", "density"),
        ("Which countries in South America do not border any other country?", "not"),
        ("Where were Franz Kafka and George Orwell born?", "and"),
    ],
)
def test_an_operator_that_the_rule_does_not_carry_out_is_named(question: str, operator: str) -> None:
    reading = best(question)
    assert operator in reading.unaccounted
    assert reading.features["operators"] >= 1
    assert shipped().probability(reading.features) < shipped().min_confidence


@pytest.mark.parametrize(
    "question",
    [
        "What is the capital of Peru?",
        "How high is Mount Everest in metres?",
        "Which films did Stanley Kubrick direct after 1975?",
        "Which mountains in Nepal are lower than 8150 metres but higher than 8000 metres?",
        "Which countries border both Germany and Italy?",
        "How many countries border Austria?",
        "What is the longest river in Africa?",
    ],
)
def test_a_question_that_is_read_to_the_last_word_leaves_none_out(question: str) -> None:
    assert best(question).unaccounted == ()


def test_what_the_graph_says_elsewhere_is_missing_here() -> None:
    # The sea that it flows into is no country, and other rivers have countries.
    reading = best("Which countries does the Volga flow through?")
    assert reading.missing == "countries"
    assert reading.features["elsewhere"] > 0.2


@given(st.fixed_dictionaries({name: st.floats(-4, 8) for name in FEATURES}))
def test_a_confidence_is_a_probability(features: dict[str, float]) -> None:
    assert 0.0 <= shipped().probability(features) <= 1.0


def test_a_calibration_survives_its_file_and_one_of_other_features_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "calibration.yaml"
    shipped().write(path)
    assert calibration_for(open_kg("demo"), str(path)) == shipped()
    with pytest.raises(DataError, match="no calibration"):
        read_calibration(path.read_text("utf-8").replace("  score:", "  other:"), path)
    with pytest.raises(DataError):
        calibration_for(open_kg("demo"), str(tmp_path / "none.yaml"))
