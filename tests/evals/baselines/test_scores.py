"""Scores of options, read from the forms that models write them in."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.evals.baselines.tog_pruning import read_scores

OPTIONS = (("directed by", "directed_by"), ("release year", "release_year"), ("born in", "place_of_birth"))


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ("1: 0.6\n2: 0.4", {0: 0.6, 1: 0.4}),
        ("- 2 (0.75)\n- 1 (0.25)", {0: 0.25, 1: 0.75}),
        ("**3.** 1.0", {2: 1.0}),
        ("Option 2 - 80 %\nOption 1 - 20 %", {0: 0.2, 1: 0.8}),
        (
            "1. {directed by (Score: 0.7)}: it has 2 parts\n2. {release year (Score: 0.3)}: less",
            {0: 0.7, 1: 0.3},
        ),
        ("1. release year\n   Score: 0.9\n2. directed by\n   Score: 0.1", {0: 0.1, 1: 0.9}),
        ("| relation | score |\n|---|---|\n| born in | 4/10 |\n| directed by | 6/10 |", {0: 0.6, 2: 0.4}),
        ('Here:\n```json\n{"directed_by": 0.5, "born in": "50%"}\n```', {0: 0.5, 2: 0.5}),
        ('[{"relation": "release year", "score": 9}, {"relation": 3, "score": 1}]', {1: 0.9, 2: 0.1}),
        ("[0.2, 0.3, 0.5]", {0: 0.2, 1: 0.3, 2: 0.5}),
        ("Score: 0.5, 0.5, 0.0", {0: 0.5, 1: 0.5, 2: 0.0}),
        ("directed by: 8; release year: 2", {0: 0.8, 1: 0.2}),
        ("Directed_By 0.5\nRELEASE YEAR 0.5", {0: 0.5, 1: 0.5}),
    ],
)
def test_scores_are_read_from_many_forms(reply: str, scores: dict[int, float]) -> None:
    assert read_scores(reply, OPTIONS) == pytest.approx(scores)


@pytest.mark.parametrize(
    "reply", ["", "I cannot help with that.", "2", "9: 0.5", "In 1979 it was number 2.", "{", "null", "[[[["]
)
def test_a_reply_without_scores_says_nothing(reply: str) -> None:
    assert read_scores(reply, OPTIONS) == {}


def test_zeros_say_that_none_helps() -> None:
    assert read_scores("1: 0\n2: 0.0\n3: 0", OPTIONS) == {0: 0.0, 1: 0.0, 2: 0.0}


def test_the_number_tells_both_directions_of_a_relation_apart() -> None:
    both = (("spouse", "spouse"), ("spouse", "^spouse"))
    reply = "1. Ann -[spouse]-> ?: 0.1\n2. Ann <-[spouse]- ?: 0.9"
    assert read_scores(reply, both) == pytest.approx({0: 0.1, 1: 0.9})


def test_a_name_within_another_is_not_that_option() -> None:
    assert read_scores("film director: 1", (("film",), ("film director",))) == {1: 1.0}


@given(st.text(alphabet=st.sampled_from('0123456789.:,;%/-_|{}[]"\n abdirectyn'), max_size=120))
def test_whatever_is_written_scores_are_shares_of_offered_options(reply: str) -> None:
    scores = read_scores(reply, OPTIONS)
    assert set(scores) <= {0, 1, 2}
    assert all(0 <= s <= 1 for s in scores.values())
    assert not scores or sum(scores.values()) == pytest.approx(1) or not any(scores.values())


@given(st.lists(st.integers(0, 100), min_size=3, max_size=3).filter(any))
def test_the_form_asked_for_is_read_as_it_is_meant(given_: list[int]) -> None:
    reply = "\n".join(f"{i}: {score / 100}" for i, score in enumerate(given_, 1))
    assert read_scores(reply, OPTIONS) == pytest.approx({i: s / sum(given_) for i, s in enumerate(given_)})
