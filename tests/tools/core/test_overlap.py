"""Comparing answers: rules that always hold, and the cases that published scorers get wrong."""

from __future__ import annotations

import math
import time
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core.overlap import best_overlap, overlap, read_value

ALL = (1.0, 1.0, 1.0, 1.0, 1.0)
NONE = (0.0, 0.0, 0.0, 0.0, 0.0)

TEXTS = ["Q1", "Q2", "Georgia", "2", "2.0", "2.0000001", "1,000", "1000", "5 km", "5", "NaN", ""]
TEXTS += ["1980", "1980-05", "1980-05-01", "1980-05-01T12:00:00Z", "1980-05-01T14:00:00+02:00", "true", "Yes"]

VALUES = st.lists(
    st.one_of(
        st.sampled_from(TEXTS),
        st.integers(-20, 20).map(str),
        st.floats(width=16).map(repr),
        st.text(max_size=4),
        st.booleans(),
        st.none(),
    ),
    max_size=7,
)

SAME: list[list[Any]] = [
    # numbers and quantities
    [2, "2", "2.0", "2.", "+2", '"2"^^<http://www.w3.org/2001/XMLSchema#integer>'],
    ["1,000", "1000", "1e3"],
    [".5", "0.5"],
    ["3.0480001", "3.048"],
    ["12345678901234567890", "+12345678901234567890"],
    ["5 km", "5  KM"],
    # dates
    ["1980-05-01", "1 May 1980", "May 1st, 1980", "1980-05-01T00:00:00Z"],
    ["1980-05-01T12:00:00Z", "1980-05-01T12:00"],
    ["1980-05-01T12:00:00", "1980-05-01T12:00:00-08:00"],
    # booleans and texts
    [True, "true", "Yes"],
    ["straße", "STRASSE"],
    ["Cafe\u0301", "Caf\u00e9"],
    ["  New \t York\n", "New York"],
    ['"Paris"@en', "Paris", '"Paris"@fr'],
]
MORE_PRECISE = [  # the answer may be more precise than the gold date, not the other way round
    ("1980-05-01", "1980"),
    ("1980-05-01T12:30:00", "1980-05-01"),
    ("1980-05-01T12:30:15", "1980-05-01T12:30"),
]
DIFFERENT: list[list[Any]] = [
    ["2", "3", "20"],
    ["1000001", "1000000"],
    ["12345678901234567890", "12345678901234567891"],
    ["5 km", "5 m", "5", "5000 m"],
    ["12 Monkeys", "12", "12 monkeys and more"],
    ["1980-06-01", "1980-05"],
    ["0044-03-15", "-0044-03-15"],
    ["1980-05-01T12:00:00Z", "1980-05-01T14:00:00Z"],
    ["1", True],
    ["Amelie", "Amélie"],
    ["Georgia", "South Georgia"],
    ["Q1", "Q10"],
    ["", "0", "Paris", "None"],
    ["NaN", math.nan, "0"],
]


@pytest.mark.parametrize("values", SAME, ids=str)
def test_same(values: list[Any]) -> None:
    for answer, gold in permutations(values, 2):
        assert overlap([answer], [gold]) == ALL, (answer, gold)


@pytest.mark.parametrize("values", DIFFERENT, ids=str)
def test_different(values: list[Any]) -> None:
    for answer, gold in permutations(values, 2):
        assert overlap([answer], [gold]) == NONE, (answer, gold)


@pytest.mark.parametrize(("answer", "gold"), MORE_PRECISE)
def test_a_date_may_be_more_precise_than_the_gold_one(answer: str, gold: str) -> None:
    assert overlap([answer], [gold]) == ALL
    assert overlap([gold], [answer]) == NONE


def test_names_are_texts_whatever_they_look_like() -> None:
    assert overlap(["1984"], ["1984.0"], "names").f1 == 0.0
    assert overlap(["2001-05-01"], ["2001"], "names").f1 == 0.0
    assert overlap(["ALIEN"], ["Alien"], "names").f1 == 1.0


def test_what_looks_like_arithmetic_is_a_text_and_quickly_so() -> None:
    started = time.process_time()
    for text in ("9**9**9", "2 km**99999999999", "1" * 100_000, "5 " + "k" * 10_000, "1e999", "7 m**m**m"):
        assert read_value(text).key.startswith("text")
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    ("answers", "gold", "expected"),
    [
        ([], [], ALL),
        ([None], [], ALL),
        (["None"], [None], NONE),
        ([""], [], NONE),
        (["Q1", "Q1", "Q1"], ["Q1"], ALL),
        (["2", "2.0", "2.00"], ["2", "3"], (1.0, 0.5, 2 / 3, 1.0, 0.0)),
        (["Q3", "Q1"], ["Q1"], (0.5, 1.0, 2 / 3, 0.0, 0.0)),
        (["Q1", "Q3"], ["Q1", "Q2"], (0.5, 0.5, 0.5, 1.0, 0.0)),
        (["1980-05-01", "1980-06-01"], ["1980"], ALL),
    ],
)
def test_sets(answers: list[Any], gold: list[Any], expected: tuple[float, ...]) -> None:
    assert tuple(overlap(answers, gold)) == pytest.approx(expected)


def test_the_best_of_several_gold_sets_counts_also_an_empty_one() -> None:
    assert best_overlap([], [["Q1"], []]) == ALL
    assert best_overlap(["Q1"], [["Q2"], ["Q1", "Q3"]]).f1 == pytest.approx(2 / 3)
    with pytest.raises(ValueError, match="empty"):
        best_overlap(["Q1"], [])


def test_sets_of_many_thousands_are_compared_in_a_moment() -> None:
    numbers = [str(n + 0.5) for n in range(30_000)]
    dates = [f"{1000 + n // 28}-01-{n % 28 + 1:02}" for n in range(30_000)]
    wrong = [f"{n}.25" for n in range(30_000)]
    started = time.process_time()
    assert overlap([*numbers, *dates], [*dates, *numbers])[:3] == (1.0, 1.0, 1.0)
    assert overlap(wrong, numbers) == NONE
    assert time.process_time() - started < 10


@given(VALUES, VALUES)
def test_precision_and_recall_are_those_of_comparing_all_with_all(
    answers: list[Any], gold: list[Any]
) -> None:
    given_ = list({v.key: v for v in (read_value(a) for a in answers if a is not None)}.values())
    wanted = list({v.key: v for v in (read_value(g) for g in gold if g is not None)}.values())
    if given_ and wanted:
        found = overlap(answers, gold)
        right = [any(a.given & g.wanted for g in wanted) for a in given_]
        covered = [any(a.given & g.wanted for a in given_) for g in wanted]
        assert found.precision == pytest.approx(sum(right) / len(given_))
        assert found.recall == pytest.approx(sum(covered) / len(wanted))
