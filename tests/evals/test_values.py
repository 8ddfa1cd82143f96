"""Comparing answers: rules that always hold, and the cases that published scorers get wrong."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.tools.core.overlap import best_overlap, overlap
from triplewise.tools.core.values import read_value, same

IDS = st.lists(st.sampled_from([f"Q{i}" for i in range(8)]), max_size=8)
VALUES = st.lists(
    st.one_of(
        st.integers(-50, 50).map(str),
        st.floats(allow_nan=False, allow_infinity=False, width=32).map(repr),
        st.dates().map(str),
        st.text(max_size=8),
        st.booleans(),
    ),
    max_size=6,
)


@given(IDS, IDS)
def test_all_figures_are_shares_and_f1_is_symmetric_for_ids(answers: list[str], gold: list[str]) -> None:
    found = overlap(answers, gold)
    assert all(0.0 <= figure <= 1.0 for figure in found)
    assert found.f1 == pytest.approx(overlap(gold, answers).f1)
    assert min(found.precision, found.recall) - 1e-9 <= found.f1 <= max(found.precision, found.recall) + 1e-9


@given(IDS, IDS)
def test_f1_of_ids_is_that_of_python_sets(answers: list[str], gold: list[str]) -> None:
    given_, wanted = set(answers), set(gold)
    expected = 2 * len(given_ & wanted) / (len(given_) + len(wanted)) if given_ | wanted else 1.0
    found = overlap(answers, gold)
    assert found.f1 == pytest.approx(expected)
    assert found.exact_match == float(given_ == wanted)


@given(VALUES)
def test_every_answer_set_agrees_with_itself_in_any_order(values: list[Any]) -> None:
    assert overlap(values, values) == (1.0, 1.0, 1.0, 1.0, 1.0)
    turned = overlap(list(reversed(values)), values)
    assert (turned.f1, turned.exact_match) == (1.0, 1.0)


@given(VALUES, VALUES)
def test_duplicates_change_nothing(answers: list[Any], gold: list[Any]) -> None:
    assert overlap(answers + answers, gold + gold) == overlap(answers, gold)


@given(VALUES, st.lists(VALUES, min_size=1, max_size=4))
def test_more_gold_sets_never_lower_a_score(answers: list[Any], gold_sets: list[list[Any]]) -> None:
    best = best_overlap(answers, gold_sets)
    singles = [overlap(answers, gold) for gold in gold_sets]
    assert best.f1 == max(s.f1 for s in singles)
    assert best.hits_at_1 == max(s.hits_at_1 for s in singles)
    assert best.exact_match == max(s.exact_match for s in singles)


@given(VALUES)
def test_exact_match_is_no_more_than_f1_and_hits(values: list[Any]) -> None:
    found = overlap(values, ["Q1", "2"])
    assert found.exact_match <= found.f1
    assert found.exact_match <= found.hits_at_1


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("2", "2.0"),
        ("+100", "100"),
        ("1e3", "1000"),
        ("3.0480001", "3.048"),
        (True, "true"),
        ("True", "true"),
        ("False", False),
        ("steel", "Steel"),
        ("Cafe\u0301", "Caf\u00e9"),
        ("a  b", " a b "),
        ("1995", "1995-08:00"),
        ("1841-03-04", "1841-03-04-08:00"),
        ("1906-04-18T05:12:00", "1906-04-18T05:12:00-08:00"),
        ("2000-11-07T00:00:00Z", "2000-11-07"),
        ("2020-05-01", "2020"),
        ("2020-05-01", "2020-05"),
        ("0044-03-15", "0044-03-15Z"),
    ],
)
def test_same(answer: Any, gold: Any) -> None:
    assert same(read_value(answer), read_value(gold))
    assert overlap([answer], [gold]).f1 == 1.0


@pytest.mark.parametrize(
    ("answer", "gold"),
    [
        ("2", "3"),
        ("2", "20"),
        ("100", "-100"),
        ("Q1", "Q10"),
        ("m.0", "m.00"),
        ("Elizabeth", "Elizabeth II"),
        ("2020", "2020-05-01"),
        ("2020-05", "2020-05-01"),
        ("2020-06-01", "2020-05"),
        ("-0044-03-15", "0044-03-15"),
        ("1906-04-18T05:12:00", "1906-04-18T06:12:00"),
        (True, False),
        ("1", True),
        ("", "0"),
    ],
)
def test_not_the_same(answer: Any, gold: Any) -> None:
    assert not same(read_value(answer), read_value(gold))
    assert overlap([answer], [gold]).f1 == 0.0


def test_empty_answers() -> None:
    assert overlap([], []).f1 == 1.0
    assert overlap([], ["Q1"]) == overlap(["Q1"], []) == (0.0,) * 5


def test_the_first_answer_decides_hits_at_1() -> None:
    assert overlap(["Q2", "Q1"], ["Q1"]).hits_at_1 == 0.0
    assert tuple(overlap(["Q1", "Q2"], ["Q1"])) == pytest.approx((0.5, 1.0, 2 / 3, 1.0, 0.0))


def test_two_forms_of_one_number_are_one_answer() -> None:
    assert overlap(["2", "2.0"], ["2"]).precision == 1.0


def test_names_are_texts_whatever_they_look_like() -> None:
    assert overlap(["1984"], ["1984.0"], "names").f1 == 0.0
    assert overlap(["2001"], ["2001-05-01"], "names").f1 == 0.0
    assert overlap(["ALIEN"], ["Alien"], "names").f1 == 1.0


def test_best_parse_counts_as_in_the_official_scorer_of_webqsp() -> None:
    found = best_overlap(["m.2"], [["m.1", "m.2", "m.3"], ["m.2"]])
    assert (found.f1, found.exact_match) == (1.0, 1.0)
    assert best_overlap([], [[]]).f1 == 1.0


def test_no_gold_set_is_an_error() -> None:
    with pytest.raises(ValueError, match="empty"):
        best_overlap(["Q1"], [])
