"""Hints: what a model is shown before it acts."""

from __future__ import annotations

from pathlib import Path

import pytest
from langgraph.runtime import Runtime

from triplewise.graphs import Context, State
from triplewise.nodes.environment import Environment
from triplewise.nodes.hints import prompt_values
from triplewise.nodes.link import link
from triplewise.nodes.observe import relations
from triplewise.nodes.reasoning import reasoning_memory

GRAPH = """
@prefix : <http://data.example/> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:City rdfs:label "city" . :SaltHarbourCity rdfs:label "Salt Harbour City" ; a :State .
:Founder rdfs:label "founder" .
:Rua a :City ; rdfs:label "Rua" ; :inState :Orrin ; :founded "1999-01-01"^^xsd:date ; :walled true .
:Tel a :City ; rdfs:label "Tel" ; :inState :Orrin ; :foundedBy :Ada .
:Ume a :City ; rdfs:label "Ume" ; :inState :Orrin .
:Orrin a :State ; rdfs:label "Orrin" . :State rdfs:label "state" . :Ada a :Founder ; rdfs:label "Ada" .
"""


@pytest.fixture
def graph(tmp_path: Path) -> str:
    path = tmp_path / "cities.ttl"
    path.write_text(GRAPH, encoding="utf-8")
    return str(path)


def observed(graph: str, question: str) -> tuple[State, Environment]:
    """The state of a model's run before it acts."""
    context = Context(kg=graph, model="openai:none", toolset="pyql", prompt="agent")
    runtime, state = Runtime(context=context), State(question=question)
    for phase in (link, relations):
        state = state.model_copy(update={k: v for k, v in phase(state, runtime).items() if k != "steps"})
    return state, Environment(context)


def shown(graph: str, question: str) -> tuple[list[str], list[str]]:
    """The entities and the relations that a model is shown."""
    values = prompt_values(*observed(graph, question))
    return values["meanings"](), values["around"]()


def test_a_noun_brings_its_class_and_what_members_have(graph: str) -> None:
    meanings, around = shown(graph, "Which cities are walled?")
    assert meanings == ["city: City (class, 3 members)"], "not Salt Harbour City"
    assert around[0] == "Members of city [City] have, all its relations:"
    assert '-> walled, 1 of 3: "true"^^xsd:boolean' in around
    assert '-> founded, 1 of 3: "1999-01-01"^^xsd:date' in around
    assert "-> inState: Orrin (state)" in around


def test_what_hints_show_of_a_class_may_be_used(graph: str) -> None:
    memory = reasoning_memory(*observed(graph, "Which cities are walled?"))
    assert {"walled", "inState"} <= memory.shown
    assert "City" in memory.seen


def test_the_next_hop_is_shown_where_the_question_needs_it(graph: str) -> None:
    _, around = shown(graph, "What in Orrin is walled?")
    assert '-> walled, 1 of 3: "true"^^xsd:boolean' in around
    _, around = shown(graph, "In which state is Tel?")
    assert not any("walled" in line for line in around if "Orrin" in line)
