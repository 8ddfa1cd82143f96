"""Confidence: every word is accounted for, an operator that cannot be built is named, and odds are odds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.graphs.build import build_graph
from triplewise.nodes.context import Context
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import json_lines
from triplewise.tools.kg import open_kg
from triplewise.tools.learning.questions import short_answers
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

KEPT_APART = Path(__file__).parent / "demo_questions.jsonl"
"""60 questions of the demo graph that took no part in anything, a fifth of them without an answer there."""


def best(question: str) -> Reading:
    """The reading of the best rule for a question of the demo graph."""
    kg, encoder = open_kg("demo"), open_encoder("embedded")
    linked = link(question, kg, encoder=encoder)
    return read_plan(make_plan(question, linked, kg, encoder))[0]


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
    reading = best("Who is Goethe's wife?")  # he has a partner, and other people have wives
    assert 'Goethe has no "spouse" here, although others of its kind (human) do' in reading.missing
    assert reading.features["elsewhere"] > 0.2


@pytest.mark.parametrize(
    "question",
    [
        "Did Michael Kubrick direct Lolita?",  # a name that is linked to nothing
        "Is gold heavier than iron?",  # compared by what no word asks for
        "Is Brazil the capital of Brasília?",
        "Did Stanley Kubrick win an Oscar for Barry Lyndon?",
    ],
)
def test_a_yes_or_no_that_is_open_is_unsure(question: str) -> None:
    assert shipped().probability(best(question).features) < shipped().min_confidence


@pytest.mark.parametrize(
    ("question", "value"),
    [
        ("Which element has the symbol Po?", "Q979"),
        ("What is the symbol of the element with the atomic number 26?", "Fe"),
    ],
)
def test_a_literal_stands_for_the_thing_that_it_describes(question: str, value: str) -> None:
    assert best(question).values == (value,)


def test_a_missing_fact_is_the_reason_that_nothing_is_found() -> None:
    answer = build_graph().invoke({"question": "Who was the father of Isaac Newton?"}, context=Context())[
        "answer"
    ]
    assert answer.status == "not_found"
    assert answer.reason == (
        'Isaac Newton has no "father" here, although others of its kind (human) do: '
        "the fact is missing in the graph"
    )


def test_no_wrong_answer_of_questions_kept_apart_is_sure() -> None:
    graph, kg = build_graph(), open_kg("demo")
    records = [record for _, record in json_lines(KEPT_APART)]
    answers = [graph.invoke({"question": r["question"]}, context=Context())["answer"] for r in records]
    sure = [(r, a) for r, a in zip(records, answers, strict=True) if a.status == "answered"]
    wrong = [r["question"] for r, a in sure if set(a.values) != set(short_answers(kg, r["answers"]))]
    assert not wrong
    assert len(sure) >= 36


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
