"""What metrics say in the cases that published evaluation code gets wrong, and rules that always hold."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inspect_ai.model import ModelName
from inspect_ai.scorer import Score, Scorer, Target
from inspect_ai.solver import TaskState

from triplewise.evals.errors import ERROR_CLASSES, error_class
from triplewise.evals.record import Run
from triplewise.evals.scorers import (
    accuracy,
    denotation,
    effort,
    is_accepted,
    slot,
    strict,
    substring_match,
    verdict,
)
from triplewise.tools.core.overlap import best_overlap, overlap, same_multiset
from triplewise.tools.core.values import read_value, same
from triplewise.tools.kg.open import close_all

ALL = (1.0, 1.0, 1.0, 1.0, 1.0)
NONE = (0.0, 0.0, 0.0, 0.0, 0.0)

TEXTS = ["Q1", "Q2", "Georgia", "2", "2.0", "2.0000001", "1,000", "1000", "5 km", "5000 m", "5", "NaN", ""]
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


# -- one value against another

SAME = [
    # numbers
    ("2", "2.0"),
    (2, "2"),
    ("2.", "2"),
    (".5", "0.5"),
    ("+100", "100"),
    ("1e3", "1000"),
    ("1,000", "1000"),
    ("1,234,567.5", "1234567.5"),
    ("3.0480001", "3.048"),
    ('"2"^^<http://www.w3.org/2001/XMLSchema#integer>', "2"),
    ("12345678901234567890", "+12345678901234567890"),
    # quantities
    ("5 km", "5000 m"),
    ("5km", "5000 metres"),
    ("3 square miles", "7769964.33 m²"),
    ("1 h", "3600 s"),
    ("2 kg", "2,000 grams"),
    ("72 km/h", "20 m/s"),
    ("20 °C", "68 °F"),
    ("0 degrees Celsius", "273.15 K"),
    ("10 ha", "0.1 km²"),
    ("50 %", "50 percent"),
    ("5 KM", "5 km"),
    ("1 sq mi", "640 acres"),
    ("5", "5 km"),
    ("5 km", "5"),
    # dates: the answer may be more precise than the gold one
    ("1980-05-01", "1980"),
    ("1980-05-01", "1980-05"),
    ("1980-05-01T12:30:00", "1980-05-01"),
    ("1980-05-01T12:30:15", "1980-05-01T12:30"),
    ("1980-05-01T00:00:00Z", "1980-05-01"),
    ("1980-05-01 12:30", "1980-05-01T12:30:00"),
    ("1 May 1980", "1980-05-01"),
    ("May 1st, 1980", "1980-05-01"),
    ("May 1980", "1980-05"),
    ("1980-05-01", "1980-00-00"),
    ("-0044-03-15", "-0044"),
    # time zones: known on both sides, they are moments; known on one, what is written counts
    ("1980-05-01T12:00:00Z", "1980-05-01T14:00:00+02:00"),
    ("1980-12-31T23:30:00-01:00", "1981-01-01T00:30:00Z"),
    ("1980-05-01T12:00:00", "1980-05-01T12:00:00-08:00"),
    ("1841-03-04", "1841-03-04-08:00"),
    # booleans
    (True, "true"),
    ("Yes", True),
    ("no", "false"),
    # texts
    ("steel", "STEEL"),
    ("straße", "STRASSE"),
    ("Cafe\u0301", "Caf\u00e9"),
    ("  New \t York\n", "New York"),
    ('"Paris"@en', "Paris"),
    ('"Paris"@fr', '"Paris"@en'),
]
DIFFERENT = [
    ("2", "3"),
    ("2", "20"),
    ("100", "-100"),
    ("1000001", "1000000"),
    ("12345678901234567890", "12345678901234567891"),
    ("10,00", "1000"),
    ("0,100", "100"),
    ("5 km", "5 m"),
    ("5 km", "5 h"),
    ("5000", "5 km"),
    ("20 °C", "20 °F"),
    ("12 Monkeys", "12"),
    ("1950s", "1950"),
    ("5th", "5"),
    ("200k", "200"),
    ("2000 AD", "2000"),
    ("2nd", "2"),
    ("12 Monkeys", "12 monkeys and more"),
    # a less precise date is not the date
    ("1980", "1980-05-01"),
    ("1980-05", "1980-05-01"),
    ("May 1980", "1980-05-01"),
    ("1980-05-01", "1980-05-01T12:30:00"),
    ("1980-06-01", "1980-05"),
    ("0044-03-15", "-0044-03-15"),
    ("1980-05-01T12:00:00Z", "1980-05-01T12:00:00+02:00"),
    ("1980-05-01T12:00:15", "1980-05-01T12:00:45"),
    ("31 Foo 1980", "1980"),
    # booleans are no numbers
    ("1", True),
    ("0", "false"),
    (True, False),
    ("yes", "false"),
    # texts
    ("Amelie", "Amélie"),
    ("Georgia", "South Georgia"),
    ("South Georgia", "Georgia"),
    ("Q1", "Q10"),
    ("m.0", "m.00"),
    ("The Beatles", "Beatles"),
    ("New York", "NewYork"),
    ("", "0"),
    ("", "Paris"),
    ("None", ""),
    # not a number is nothing, not even itself
    ("NaN", "NaN"),
    (math.nan, math.nan),
    ("NaN", "0"),
]


@pytest.mark.parametrize(("answer", "gold"), SAME)
def test_same(answer: Any, gold: Any) -> None:
    assert same(read_value(answer), read_value(gold))
    assert overlap([answer], [gold]) == ALL


@pytest.mark.parametrize(("answer", "gold"), DIFFERENT)
def test_different(answer: Any, gold: Any) -> None:
    assert not same(read_value(answer), read_value(gold))
    assert overlap([answer], [gold]) == NONE


def test_what_looks_like_arithmetic_is_a_text_and_quickly_so() -> None:
    started = time.process_time()
    for text in ("9**9**9", "2 km**99999999999", "1" * 100_000, "5 " + "k" * 10_000, "1e999", "7 m**m**m"):
        assert read_value(text).key.startswith("text")
    assert time.process_time() - started < 2


# -- sets


@pytest.mark.parametrize(
    ("answers", "gold", "expected"),
    [
        ([], [], ALL),
        ([None], [], ALL),
        ([], ["Q1"], NONE),
        (["Q1"], [], NONE),
        ([None], ["Q1"], NONE),
        (["None"], [None], NONE),
        ([""], [], NONE),
        ([""], [""], ALL),
        (["Q1", "Q1", "Q1"], ["Q1"], ALL),
        (["2", "2.0", "2.00"], ["2", "3"], (1.0, 0.5, 2 / 3, 1.0, 0.0)),
        (["Q2", "Q1"], ["Q1", "Q2"], ALL),
        (["Q3", "Q1"], ["Q1"], (0.5, 1.0, 2 / 3, 0.0, 0.0)),
        (["Q1", "Q3"], ["Q1", "Q2"], (0.5, 0.5, 0.5, 1.0, 0.0)),
        (["NaN", "Q1"], ["Q1"], (0.5, 1.0, 2 / 3, 0.0, 0.0)),
        (["1980-05-01", "1980-06-01"], ["1980"], ALL),
    ],
)
def test_sets(answers: list[Any], gold: list[Any], expected: tuple[float, ...]) -> None:
    assert tuple(overlap(answers, gold)) == pytest.approx(expected)


def test_the_best_of_several_gold_sets_counts_also_an_empty_one() -> None:
    assert best_overlap([], [["Q1"], []]) == ALL
    assert best_overlap(["Q1"], [["Q2"], ["Q1", "Q3"]]).f1 == pytest.approx(2 / 3)


def test_sets_of_many_thousands_are_compared_in_a_moment() -> None:
    numbers = [str(n + 0.5) for n in range(30_000)]
    dates = [f"{1000 + n // 28}-01-{n % 28 + 1:02}" for n in range(30_000)]
    wrong = [f"{n}.25" for n in range(30_000)]
    started = time.process_time()
    assert overlap([*numbers, *dates], [*dates, *numbers])[:3] == (1.0, 1.0, 1.0)
    assert overlap(wrong, numbers) == NONE
    assert time.process_time() - started < 10


def test_multisets() -> None:
    assert same_multiset(["a", "2", "A"], ["a", "a", "2.0"])
    assert not same_multiset(["a", "a", "b"], ["a", "b", "b"])
    assert not same_multiset(["a"], ["a", "a"])
    assert same_multiset(["3.0480001", "1"], ["1", "3.048"])
    assert not same_multiset(["NaN"], ["NaN"])
    assert same_multiset([], [])


# -- rules that always hold


@given(VALUES, VALUES)
def test_figures_are_shares_and_f1_lies_between_precision_and_recall(
    answers: list[Any], gold: list[Any]
) -> None:
    found = overlap(answers, gold)
    assert all(0.0 <= figure <= 1.0 for figure in found)
    assert min(found[:2]) - 1e-9 <= found.f1 <= max(found[:2]) + 1e-9
    assert (found.exact_match == 1.0) == (found.f1 == 1.0)
    assert found.hits_at_1 <= math.ceil(found.precision)


@given(VALUES, VALUES)
def test_values_found_fast_are_those_that_are_the_same(answers: list[Any], gold: list[Any]) -> None:
    given_ = list({v.key: v for v in (read_value(a) for a in answers if a is not None)}.values())
    wanted = list({v.key: v for v in (read_value(g) for g in gold if g is not None)}.values())
    if given_ and wanted:
        found = overlap(answers, gold)
        right = [any(same(a, g) for g in wanted) for a in given_]
        covered = [any(same(a, g) for a in given_) for g in wanted]
        assert found.precision == pytest.approx(sum(right) / len(given_))
        assert found.recall == pytest.approx(sum(covered) / len(wanted))


@given(st.lists(st.sampled_from(["Q1", "Q2", "Q3", "2", "x"])), st.lists(st.sampled_from(["Q1", "Q3", "2"])))
def test_swapping_sides_swaps_precision_and_recall(answers: list[str], gold: list[str]) -> None:
    there, back = overlap(answers, gold), overlap(gold, answers)
    assert (there.precision, there.recall, there.f1) == pytest.approx((back.recall, back.precision, back.f1))


@given(VALUES, VALUES, st.randoms())
def test_order_and_duplicates_do_not_matter_but_to_hits(
    answers: list[Any], gold: list[Any], random: Any
) -> None:
    found, mixed = overlap(answers, gold), [*answers, *answers]
    random.shuffle(mixed)
    other = overlap(mixed, list(reversed([*gold, *gold])))
    assert other._replace(hits_at_1=0.0) == pytest.approx(found._replace(hits_at_1=0.0))


@given(VALUES, VALUES)
def test_a_wrong_answer_more_never_raises_precision_nor_changes_recall(
    answers: list[Any], gold: list[Any]
) -> None:
    found, more = overlap(answers, gold), overlap([*answers, "certainly wrong"], gold)
    assert more.precision <= found.precision
    if gold and any(a is not None for a in answers):
        assert more.recall == found.recall


@given(VALUES, st.lists(VALUES, min_size=1, max_size=3))
def test_a_strict_hit_is_a_lenient_one(answers: list[Any], gold_sets: list[list[Any]]) -> None:
    texts = [[str(g) for g in gold if g is not None] for gold in gold_sets]
    run = {"status": "answered", "values": [str(a) for a in answers if a is not None]}
    value = _score(strict(), run, texts[0], gold_sets=texts)
    assert value["hits_at_1"] <= value["substring_hits_at_1"]


# -- through the scorers


def _state(run: dict[str, Any], gold: list[str], **metadata: Any) -> TaskState:
    """A question that was answered like this."""
    state = TaskState(
        model=ModelName("none/none"), sample_id=1, epoch=1, input="?", messages=[], metadata=metadata
    )
    Run(store=state.store, **{"labels": run.get("values", []), **run})
    return state


def _scored(scorer: Scorer, state: TaskState, gold: list[str]) -> Score:
    async def run() -> Score | None:
        return await scorer(state, Target(gold))

    found = anyio.run(run)
    assert found is not None
    return found


def _score(scorer: Scorer, run: dict[str, Any], gold: list[str], **metadata: Any) -> dict[str, Any]:
    return _scored(scorer, _state(run, gold, **metadata), gold).as_dict()


def test_a_crash_is_wrong_also_where_nothing_is_the_gold_answer() -> None:
    crash = {"status": "crashed"}
    assert set(_score(strict(), crash, [], single_gold="x").values()) == {0.0}
    assert _score(strict(), {"status": "not_found"}, [])["exact_match"] == 1.0
    assert _score(denotation(), crash, []) == {"denotation": 0.0, "multiset": 0.0}
    assert _score(slot(), {**crash, "values": ["x"]}, ["x"])["any_right"] == 0.0
    assert _score(verdict(), {**crash, "values": ["true"]}, ["true"])["accuracy"] == 0.0


def test_yes_is_true_and_one_is_not() -> None:
    def accurate(value: str) -> float:
        run = {"status": "answered", "values": [value]}
        return _scored(accuracy(), _state(run, ["true"]), ["true"]).as_float()

    assert [accurate(value) for value in ("true", "Yes", "1", "false", "")] == [1.0, 1.0, 0.0, 0.0, 0.0]
    both = {"status": "answered", "values": ["true", "false"]}
    assert _score(verdict(), both, ["true"])["accuracy"] == 0.0


def test_substrings_count_only_under_their_own_name() -> None:
    run = {"status": "answered", "values": ["Q1"], "labels": ["South Georgia"]}
    value = _score(strict("names"), run, ["Georgia"], single_gold="Atlanta")
    assert (value["hits_at_1"], value["f1"]) == (0.0, 0.0)
    assert (value["substring_hits_at_1"], value["substring_hits_at_1_single"]) == (1.0, 0.0)
    assert math.isnan(_score(strict("names"), run, ["Georgia"])["substring_hits_at_1_single"])


def test_an_empty_text_is_right_everywhere_for_published_code() -> None:
    assert substring_match("", ["Paris"])
    assert substring_match(" ", ["Paris", "Rome"])
    assert substring_match("Paris", [""])
    assert not substring_match("", [])
    answered = {"status": "answered", "values": [""], "labels": [""]}
    assert _score(strict(), answered, ["Paris"])["substring_hits_at_1"] == 1.0
    assert _score(strict(), {"status": "not_found"}, ["Paris"])["substring_hits_at_1"] == 0.0


def test_an_accepted_slot_is_one_by_a_name_a_date_or_a_number() -> None:
    assert is_accepted(("Q60", "New York City"), ["NYC"], ["NYC", "Big Apple"])
    assert not is_accepted(("Q60", "New York City"), ["York"], ["NYC"])
    assert is_accepted(("1980-05-01", "1 May 1980"), ["1980"])
    assert not is_accepted(("1980", "1980"), ["1980-05-01"])


@pytest.fixture
def kg(tmp_path: Path) -> Iterator[str]:
    """Two places called Georgia and a country of many names, in a graph with ids like Wikidata's."""
    label, alias = (
        "http://www.w3.org/2000/01/rdf-schema#label",
        "http://www.w3.org/2004/02/skos/core#altLabel",
    )
    names = [
        ("Q230", label, '"Georgia"@en'),
        ("Q1428", label, '"Georgia"@en'),
        ("Q30", label, '"United States of America"@en'),
        ("Q30", label, '"Vereinigte Staaten"@de'),
        ("Q30", alias, '"USA"@en'),
        ("Q30", alias, '"U.S."@en'),
        ("Q208460", label, '"1984"@en'),
    ]
    path = tmp_path / "places.nt"
    lines = (f"<http://www.wikidata.org/entity/{id_}> <{p}> {name} ." for id_, p, name in names)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    yield str(path)
    close_all()


@pytest.mark.parametrize(
    ("answers", "gold", "f1"),
    [
        (["Q230"], ["Q1428"], 0.0),
        (["Georgia"], ["Q1428"], 1.0),
        (["Q230"], ["Georgia"], 1.0),
        (["usa"], ["Q30"], 1.0),
        (["Q30"], ["U.S."], 1.0),
        (["USA", "United States of America"], ["Q30", "Q230"], 2 / 3),
        (["Vereinigte Staaten"], ["Q30"], 0.0),
        (["America"], ["Q30"], 0.0),
        (["1984"], ["Q208460"], 1.0),
        (["Q208460"], ["1984"], 1.0),
        (["Q404"], ["Q30"], 0.0),
        (["Q404", "Q30"], ["Q404"], 2 / 3),
    ],
)
def test_ids_are_compared_as_ids_and_with_names_by_label_and_alias(
    kg: str, answers: list[str], gold: list[str], f1: float
) -> None:
    run = {"status": "answered", "values": answers, "kg": kg, "profile": "wikidata"}
    assert _score(strict(), run, gold)["f1"] == pytest.approx(f1)


def test_gold_names_are_compared_with_the_aliases_of_answers(kg: str) -> None:
    run = {"status": "answered", "values": ["Q30"], "kg": kg, "profile": "wikidata"}
    labelled = {**run, "labels": ["United States of America"]}
    assert _score(strict("names"), labelled, ["USA"])["f1"] == 1.0
    assert _score(strict("names"), labelled, ["Georgia"])["f1"] == 0.0
    assert _score(slot(), labelled, ["U.S."])["hits_at_1"] == 1.0


def test_the_benchmarks_own_names_count_without_a_graph() -> None:
    run = {"status": "answered", "values": ["Anatolia"]}
    known = {"m.1": ["Asia Minor", "Anatolia"], "m.2": ["Rome"]}
    assert _score(strict(), run, ["m.1"], gold_names=known)["f1"] == 1.0
    assert _score(strict(), run, ["m.2"], gold_names=known)["f1"] == 0.0
    assert _score(strict(), {**run, "values": ["m.2"]}, ["m.1"], gold_names=known)["f1"] == 0.0


def test_names_are_looked_up_once_and_stay_with_the_run(kg: str) -> None:
    state = _state({"status": "answered", "values": ["USA"], "kg": kg, "profile": "wikidata"}, ["Q30"])
    assert _scored(strict(), state, ["Q30"]).as_dict()["f1"] == 1.0
    run = state.store_as(Run)
    assert {id_: set(names) for id_, names in (run.names or {}).items()} == {
        "Q30": {"United States of America", "USA", "U.S."}
    }
    run.kg = "/nowhere"
    assert _scored(strict(), state, ["Q30"]).as_dict()["f1"] == 1.0


# -- what a question cost and how it ended


@pytest.mark.parametrize(
    ("run", "score", "expected"),
    [
        ({"status": "answered"}, 1.0, ""),
        ({"status": "budget_spent", "errors": ["arity"]}, 1.0, ""),
        ({"status": "crashed"}, 0.0, "crashed"),
        ({"status": "answered", "errors": ["", "unknown_action", "arity"]}, 0.5, "invalid_action"),
        ({"status": "budget_spent", "errors": ["no_action"]}, 0.0, "invalid_action"),
        ({"status": "budget_spent", "errors": ["arity", ""]}, 0.0, "argument_error"),
        ({"status": "answered", "errors": ["bad_operator"]}, 0.0, "argument_error"),
        ({"status": "budget_spent", "errors": ["", ""]}, 0.0, "exceeded_steps"),
        ({"status": "answered", "errors": ["bad_query"]}, 0.99, "reasoning_error"),
        ({"status": "not_found", "errors": []}, 0.0, "not_found"),
        ({"status": "answered"}, 0.0, "reasoning_error"),
    ],
)
def test_errors_have_the_classes_of_the_paper(run: dict[str, Any], score: float, expected: str) -> None:
    assert error_class(_state(run, []).store_as(Run), score) == expected


def test_corrections_that_led_to_a_right_answer_are_counted() -> None:
    state = _state({"status": "answered", "values": ["Q1"], "corrections": ["a", "b", "a"], "cost": None}, [])
    state.scores = {"triplewise/strict": _scored(strict(), state, ["Q1"])}
    found = _scored(effort(), state, ["Q1"])
    value = found.as_dict()
    assert (value["corrections"], value["corrected"], value["corrected_right"]) == (3, 1.0, 1.0)
    assert isinstance(value["cost"], float)
    assert math.isnan(value["cost"])
    assert found.metadata == {"error_class": "", "guidelines": ["a", "b"]}


def test_effort_without_a_score_calls_nothing_right() -> None:
    found = _scored(effort(), _state({"status": "answered", "corrections": ["a"]}, []), [])
    value = found.as_dict()
    assert value["corrected_right"] == 0.0
    assert [name for name in ERROR_CLASSES if value[f"error_{name}"]] == ["reasoning_error"]
