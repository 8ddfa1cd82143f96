"""What scorers say in the cases that published evaluation code gets wrong, and rules that always hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import anyio
import pytest
from inspect_ai.model import ModelName
from inspect_ai.scorer import SampleScore, Score, Scorer, Target
from inspect_ai.solver import TaskState

from tests.support.opened import close_all
from triplewise.evals.scorers import (
    accuracy,
    answerable,
    effort,
    strict,
)
from triplewise.evals.solver import Run, error_class

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
    assert set(_score(strict(), crash, []).values()) == {0.0}
    assert _score(strict(), {"status": "not_found"}, [])["exact_match"] == 1.0
    assert _score(accuracy(), {**crash, "values": ["true"]}, ["true"])["accuracy"] == 0.0


def test_yes_is_true_and_one_is_not() -> None:
    def accurate(value: str) -> float:
        run = {"status": "answered", "values": [value]}
        return float(_score(accuracy(), run, ["true"])["accuracy"])

    assert [accurate(value) for value in ("true", "Yes", "1", "false", "")] == [1.0, 1.0, 0.0, 0.0, 0.0]
    both = {"status": "answered", "values": ["true", "false"]}
    assert _score(accuracy(), both, ["true"])["accuracy"] == 0.0


def test_a_slot_is_filled_by_any_of_the_accepted_names_a_date_or_a_number() -> None:
    def hits(value: str, *accepted: str) -> float:
        run = {"status": "answered", "values": [value, "something else"]}
        return float(_score(strict(), run, [*accepted], gold_sets=[[one] for one in accepted])["hits_at_1"])

    assert hits("NYC", "New York City", "nyc") == 1.0
    assert hits("New York City", "York") == 0.0
    assert (hits("1980-05-01", "1980"), hits("1980", "1980-05-01")) == (1.0, 0.0)


def test_the_share_of_what_the_graph_can_answer() -> None:
    def sample(value: float, **metadata: bool) -> SampleScore:
        return SampleScore(score=Score(value=value), sample_metadata=metadata)

    scores = [sample(1.0), sample(0.0, answerable=True), sample(1.0, answerable=False)]
    of_answerable = cast("Any", answerable())
    assert of_answerable(scores) == 0.0
    assert math.isnan(of_answerable(scores[:1]))


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
