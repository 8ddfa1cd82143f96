"""Slots and claims through the whole machine, without a model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.statements import statements
from triplewise.graphs import Answer, Context, build_graph
from triplewise.tools.kg import open_kg
from triplewise.tools.parsing.statements import denies

PERU = {"Peru": "Q419"}


def ask(text: str, entities: dict[str, str], preset: str = "oda", **settings: Any) -> Answer:
    context = Context(kg="demo", **settings)
    graph = build_graph(preset, observe="none")
    answer: Answer = graph.invoke({"question": text, "entities": dict(entities)}, context=context)["answer"]
    return answer


@pytest.mark.parametrize("preset", ["oda", "agent"])
def test_a_slot_is_filled_and_proven(preset: str) -> None:
    answer = ask("Peru [SEP] capital", PERU, preset)
    assert (answer.status, answer.values, answer.labels) == ("answered", ("Q2868",), ("Lima",))
    assert [p.text for p in answer.proof] == ["(Peru, capital, Lima)"]
    assert "wd:Q419 wdt:P36 ?" in answer.sparql


@pytest.mark.parametrize("preset", ["oda", "agent"])
def test_a_slot_that_the_graph_cannot_fill_stays_empty(preset: str) -> None:
    answer = ask("Peru [SEP] place of birth", PERU, preset)
    assert (answer.status, answer.values) == ("not_found", ())
    assert answer.reason == 'the knowledge graph holds no "place of birth" of Peru'


@pytest.mark.parametrize("preset", ["oda", "agent"])
@pytest.mark.parametrize(
    ("claim", "word"),
    [
        ("The capital of Peru is Lima.", "true"),
        ("The capital of Peru is not Lima.", "false"),
        ("The capital of Peru is Brasília.", "false"),
        ("The capital of Peru is not Brasília.", "true"),
    ],
)
def test_a_claim_is_judged_by_the_fact_that_decides_it(preset: str, claim: str, word: str) -> None:
    answer = ask(claim, PERU, preset)
    assert (answer.status, answer.values) == ("answered", (word,))
    assert [p.text for p in answer.proof] == ["(Peru, capital, Lima)"]
    contradicted = "another value" in answer.reason
    assert contradicted is ("Brasília" in claim)


@pytest.mark.parametrize("preset", ["oda", "agent"])
def test_an_undecided_claim_is_told_as_such_unless_the_world_is_closed(preset: str) -> None:
    claim = "Everything in Peru is good."
    answer = ask(claim, PERU, preset)
    assert (answer.status, answer.values) == ("not_found", ())
    assert answer.reason == "nothing the knowledge graph holds about Peru proves or contradicts the claim"
    closed = ask(claim, PERU, preset, closed_world=True)
    assert (closed.status, closed.values, closed.proof) == ("answered", ("false",), ())
    assert "assumed" in closed.reason
    assert ask("Peru has never been good.", PERU, preset, closed_world=True).values == ("true",)


@pytest.mark.parametrize("preset", ["oda", "agent"])
def test_a_closed_world_takes_what_is_linked_for_likely(preset: str) -> None:
    assert ask("Peru adores Lima.", PERU, preset).status == "not_found"
    closed = ask("Peru adores Lima.", PERU, preset, closed_world=True)
    assert (closed.values, closed.proof) == (("true",), ())
    assert closed.reason.startswith("assumed, for the graph links what the claim names")
    assert ask("Peru never adored Lima.", PERU, preset, closed_world=True).values == ("false",)
    assert ask("Peru adores Lima and Zorblax.", PERU, preset, closed_world=True).values == ("false",)


@pytest.mark.parametrize("reflect", ["oda", "similarity", "none"])
def test_claims_and_slots_from_facts_are_answered_from_memory(reflect: str) -> None:
    kg, graph = open_kg("demo"), build_graph("oda", observe="none", reflect=reflect)
    for statement in [s for r in ("P36", "P19", "P57") for s in statements(kg, r, 3, seed=1)]:
        given = {statement.subject.mention: statement.subject.id}
        for text in (statement.text, statement.slot):
            state = graph.invoke({"question": text, "entities": given}, context=Context(kg="demo"))
            answer = state["answer"]
            if text == statement.slot:
                assert set(answer.values) == statement.values
            else:
                assert answer.values in ((str(statement.truth).lower(),), ())
            memory = {t for path in state["memory"] for t in path}
            assert reflect == "none" or {p.triple for p in answer.proof} <= memory


@pytest.mark.parametrize(
    ("text", "is_denial"),
    [
        ("He was never there.", True),
        ("It isn’t so.", True),
        ("No man is an island.", True),
        ("Nothing Compares 2 U is a song.", False),
        ("Nottingham is a town.", False),
    ],
)
def test_denials(text: str, is_denial: bool) -> None:
    assert denies(text) is is_denial
