"""The policy without a model: readings are followed step by step, feedback is read, the next one is taken."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from langgraph.runtime import Runtime

from triplewise.graphs import Context, State, build_graph
from triplewise.nodes.environment import Update
from triplewise.nodes.inspect import eraser
from triplewise.nodes.state import Verdict
from triplewise.tools.parsing.reading import Reading

from .conftest import FANG, GOETHE, GRAPH, WILD, chain, planned, reading


def ask(preset: str, entities: dict[str, str], *readings: Reading) -> dict[str, Any]:
    """Run the whole machine on readings of our own."""
    context = Context(kg=str(GRAPH), profile="wikidata")
    graph = build_graph(preset, plan=planned(*readings))
    return dict(graph.invoke({"question": "Where?", "entities": dict(entities)}, context=context))


BORN = chain(GOETHE, "P451", "P19")
PRESETS = ("agent", "oda", "symagent")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_reading_is_followed_action_by_action(preset: str) -> None:
    state = ask(preset, {"Goethe": GOETHE}, BORN)
    assert state["answer"].labels == ("Offenbach am Main",)
    calls = [s.call for s in state["steps"]]
    assert sum(c.startswith("add_fact") for c in calls) == 2
    assert len(calls) == len(set(calls))


@pytest.mark.parametrize("preset", PRESETS)
def test_where_a_reading_leads_nowhere_the_next_one_is_taken(preset: str) -> None:
    state = ask(preset, {"Goethe": GOETHE}, chain(GOETHE, "P451", "P36"), BORN)
    assert state["answer"].labels == ("Offenbach am Main",)
    (correction,) = state["corrections"]
    assert correction.call == "add_fact(?x1, P36, ?x2)"
    after = state["steps"][correction.step]
    assert after.thought.startswith("That did not work out. Try reading 2")


def test_a_superlative_takes_a_query_in_every_preset() -> None:
    latest = reading("add_fact(?x, P50, Q45765)", "add_fact(?x, P577, ?t)", "add_max(?t)", "set_answer(?x)")
    answers = [ask(preset, {"London": "Q45765"}, latest)["answer"] for preset in PRESETS]
    assert len({(answer.status, answer.values, answer.sparql) for answer in answers}) == 1


@pytest.mark.parametrize("preset", PRESETS)
def test_no_reading_left_is_not_found(preset: str) -> None:
    state = ask(preset, {"Goethe": GOETHE}, chain(GOETHE, "P36"))
    answer = state["answer"]
    assert (answer.status, answer.values) == ("not_found", ())
    assert state["steps"][-1].call == "give_up()"


def test_two_entities_meet() -> None:
    both = reading(f"add_fact({WILD}, P840, ?x)", f"add_fact({FANG}, P840, ?x)", "set_answer(?x)")
    for preset in PRESETS:
        state = ask(preset, {"a": WILD, "b": FANG}, both)
        assert set(state["answer"].values) == {"Q16", "Q2009"}


def test_relations_are_walked_backward_too() -> None:
    for preset in PRESETS:
        state = ask(preset, {"London": "Q45765"}, chain("Q45765", "^P50"))
        assert set(state["answer"].values) == {WILD, FANG}


def test_following_readings_breaks_no_guideline(context: Context) -> None:
    """What the policy does by itself is never taken for a mistake."""
    verdicts: list[Verdict] = []

    def watched(state: State, runtime: Runtime[Context]) -> Update:
        update = eraser(state, runtime)
        verdicts.append(update["verdict"])
        return update

    run = replace(context, toolset=None, prompt=None, max_steps=None)
    graph = build_graph("agent", plan=planned(BORN), inspect=watched)
    graph.invoke({"question": "Where?", "entities": {"Goethe": GOETHE}}, context=run)
    assert {v.status for v in verdicts} == {"ok", "finished"}
