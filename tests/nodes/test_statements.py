"""Slots, and claims, through the whole machine, without a model."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.statements import statements
from triplewise.graphs import Answer, Context, build_graph
from triplewise.tools.kg import open_kg

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
def test_a_claim_is_judged_as_a_question_of_yes_or_no(preset: str) -> None:
    answer = ask("The capital of Peru is Lima.", PERU, preset)
    assert (answer.status, answer.values) == ("answered", ("true",))
    assert [p.text for p in answer.proof] == ["(Peru, capital, Lima)"]
    assert ask("The capital of Peru is Quito.", PERU, preset).values == ("false",)


def test_a_claim_that_denies_or_that_no_fact_decides_stays_open() -> None:
    answer = ask("The capital of Peru is not Lima.", PERU, "agent")
    assert (answer.status, answer.values) == ("not_found", ())
    assert answer.reason == "nothing the knowledge graph holds about Peru proves or contradicts the claim"
    assert ask("Peru is fond of music.", PERU, "agent").status == "not_found"


@pytest.mark.parametrize("reflect", ["oda", "similarity", "none"])
def test_slots_from_facts_are_answered_from_memory(reflect: str) -> None:
    kg, graph = open_kg("demo"), build_graph("oda", observe="none", reflect=reflect)
    for statement in [s for r in ("P36", "P19", "P57") for s in statements(kg, r, 3, seed=1)]:
        given = {statement.subject.mention: statement.subject.id}
        state = graph.invoke({"question": statement.slot, "entities": given}, context=Context(kg="demo"))
        answer = state["answer"]
        assert set(answer.values) == statement.values
        memory = {t for path in state["memory"] for t in path}
        assert reflect == "none" or {p.triple for p in answer.proof} <= memory
