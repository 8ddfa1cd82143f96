"""Plan: what a model is shown, and what becomes of its proposals (SymAgent 4.1, equation 3)."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langgraph.runtime import Runtime

from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, State, build_graph
from triplewise.nodes.environment import Environment, Update
from triplewise.nodes.plan import auto, mined, proposed, shown_readings
from triplewise.tools.core.rules import DroppedRule
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.proposals import parse_paths

from .conftest import reading

FILMS = """\
@prefix : <http://films.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:alien rdfs:label "Alien" ; :directedBy :scott ; :starring :weaver .
:rain rdfs:label "Black Rain" ; :directedBy :scott ; :starring :douglas .
:aliens rdfs:label "Aliens" ; :directedBy :cameron ; :starring :weaver .
:avatar rdfs:label "Avatar" ; :directedBy :cameron ; :starring :worthington .
:scott rdfs:label "Ridley Scott" ; :birthplace :shields . :shields rdfs:label "South Shields" .
:cameron rdfs:label "James Cameron" . :weaver rdfs:label "Sigourney Weaver" .
:douglas rdfs:label "Michael Douglas" . :worthington rdfs:label "Sam Worthington" .
:directedBy rdfs:label "directed by" . :starring rdfs:label "starring" .
:birthplace rdfs:label "place of birth" .
"""
QUESTION = "who directed Alien?"

Run = Callable[..., tuple[Update, OpenAIServer]]


@pytest.fixture
def films(tmp_path: Path) -> Path:
    path = tmp_path / "films.ttl"
    path.write_text(FILMS)
    return path


@pytest.fixture
def seeds(tmp_path: Path) -> Path:
    rows = [
        ("who directed Aliens?", "Aliens", ["James Cameron"]),
        ("who directed Avatar?", "Avatar", ["James Cameron"]),
        ("which films did the director of Aliens make?", "Aliens", ["Avatar"]),
    ]
    path = tmp_path / "seeds.jsonl"
    lines = [json.dumps({"question": q, "topic_entity": t, "answers": a}) for q, t, a in rows]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def propose(films: Path, openai_server: Callable[..., OpenAIServer]) -> Run:
    """`propose(reply, question, ...)`: the plan phase with a model that replies so."""

    def call(reply: str, question: str = QUESTION, entity: str = "Alien", **settings: Any) -> Any:
        server = openai_server([reply])
        context = Context(
            kg=str(films), model="openai:scripted", base_url=server.url, prompt="symagent", **settings
        )
        start = question.find(entity)
        node = LinkedEntity(entity, start, start + len(entity), entity.lower(), entity, 1.0)
        state = State(question=question, linked=(node,))
        return proposed(state, Runtime(context=context)), server

    return call


def reasons(update: Update) -> str:
    dropped: tuple[DroppedRule, ...] = update["dropped"]
    return "\n".join(f"{d.text}: {d.reason}" for d in dropped)


def test_the_model_is_shown_seed_questions_with_their_own_rules(propose: Run, seeds: Path) -> None:
    _, server = propose("[directedBy]", seeds=str(seeds))
    prompt = server.requests[0].text
    shown = re.search(r"Question: who directed (Aliens|Avatar)\?\nRules:\n(.*)\n", prompt)
    assert shown is not None
    assert shown[2] == "[directedBy]"
    assert "which films did the director of Aliens make?\nRules:\n[directedBy, ^directedBy]" in prompt
    assert prompt.count(QUESTION) == 1, "the question itself is no demonstration"
    assert "directedBy (directed by), starring (starring)" in prompt, "relations around the entity"


@pytest.mark.parametrize(
    ("reply", "walked", "note"),
    [
        ("[directedBy]", [("directedBy", True)], "proposed by the model"),
        ("[directed by]", [("directedBy", True)], "by its name"),
        ("[the director]", [("directedBy", True)], "by its name"),
        ("[film director]", [("directedBy", True)], "by similarity"),
        ("[directedBy (directed by)]", [("directedBy", True)], "proposed by the model"),
        ("[directedBy, ^directedBy]", [("directedBy", True), ("directedBy", False)], "proposed"),
        ("[directedBy, directedBy]", [("directedBy", True), ("directedBy", False)], "proposed"),
        ("-[directedBy]-> ?x <-[directedBy]- ?y", [("directedBy", True), ("directedBy", False)], "proposed"),
        ("[directed by, place of birth]", [("directedBy", True), ("birthplace", True)], "by its name"),
    ],
)
def test_names_are_aligned_to_relations_of_the_graph(
    propose: Run, reply: str, walked: list[tuple[str, bool]], note: str
) -> None:
    update, _ = propose(reply)
    first = update["rules"][0]
    assert [(a.relation, a.forward) for a in first.path] == walked
    assert note in first.provenance


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        ("[directedBy, spouse]", "no relation like 'spouse'"),
        ("[birthplace]", "no birthplace at the entity, and no documents are configured"),
        ("[starring, birthplace]", "no birthplace behind [starring]"),
        ("[directedBy, ^directedBy, starring, ^starring]", "longer than 3 relations"),
        ("[^directedBy]", "no ^directedBy at the entity"),
    ],
)
def test_what_has_no_grounding_is_dropped_with_the_reason(propose: Run, reply: str, reason: str) -> None:
    update, _ = propose(reply)
    assert reason in reasons(update)
    assert not any("proposed" in r.provenance for r in update["rules"])


def test_documents_keep_a_rule_with_a_gap_alive_but_none_that_is_made_up(
    propose: Run, tmp_path: Path
) -> None:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "weaver.txt").write_text("Sigourney Weaver was born in New York.")
    update, _ = propose("[starring, birthplace]\n[starring, spouse]", documents=str(folder))
    kept = [r for r in update["rules"] if "proposed" in r.provenance]
    assert [a.relation for r in kept for a in r.path] == ["starring", "birthplace"]
    assert kept[0].provenance.endswith("with a gap in the graph")
    assert "'spouse'" in reasons(update)


def test_a_mined_rule_without_a_grounding_is_dropped(films: Path, tmp_path: Path) -> None:
    path = tmp_path / "seeds.jsonl"
    row = {"question": "where was Ridley Scott born?", "topic_entity": "Ridley Scott"}
    path.write_text(json.dumps({**row, "answers": ["South Shields"]}))
    question = "where was James Cameron born?"
    state = State(question=question, linked=(LinkedEntity("James Cameron", 10, 23, "cameron", "", 1.0),))
    context = Context(kg=str(films), seeds=str(path), model="openai:unused")
    update = mined(state, Runtime(context=context))
    assert "nothing at [birthplace] from the entity" in reasons(update)
    assert not any(a.relation == "birthplace" for r in update["rules"] for a in r.path)
    (tmp_path / "a.txt").write_text("James Cameron was born in Kapuskasing.")
    with_documents = Context(kg=str(films), seeds=str(path), documents=str(tmp_path), model="openai:unused")
    kept = mined(state, Runtime(context=with_documents))
    assert kept["rules"][0].provenance.endswith("with a gap in the graph")
    assert kept["rules"][0].support == 1


def test_paths_are_read_from_lists_and_arrows() -> None:
    reply = "1. [a, ^b]\n2. ?e <-[c]- ?x -[d]-> ?y\n3. (e -> f)\nnothing else"
    assert parse_paths(reply) == [("a", "^b"), ("^c", "d"), ("e", "f")]
    assert parse_paths("[P36 (capital), inverse of P17]") == [("P36 (capital)", "inverse of P17")]
    assert parse_paths("no rule") == []


def test_a_model_is_told_rules_of_seed_questions_only(films: Path, seeds: Path) -> None:
    linked = (LinkedEntity("Alien", 13, 18, "http://films.example/alien", "Alien", 1.0),)

    def plan(**settings: Any) -> tuple[int, int]:
        context = Context(kg=str(films), **settings)
        state = State(question=QUESTION, linked=linked, focus=(linked[0].id,))
        update = auto(state, Runtime(context=context))
        return len(update.get("readings", ())), len(update.get("rules", ()))

    model = {"model": "openai:any", "base_url": "http://127.0.0.1:9/v1", "api_key_env": ""}
    assert plan()[0] > 0
    assert plan()[1] == 0
    assert plan(**model) == (0, 0)
    assert plan(seeds=str(seeds), **model)[1] > 0


SET_AGAIN = "Action 1: take(1)\nAction 2: set_answer(?directed_by)"  # which is no mistake
BEGUN = "Action 1: add_fact(alien, directed_by, ?directed_by)"


@pytest.mark.parametrize(
    "reply", ["Action 1: take(1)", SET_AGAIN, "Action 1: take(7)\nAction 2: execute()", BEGUN]
)
def test_a_model_may_take_a_reading_as_its_query(
    films: Path, openai_server: Callable[..., OpenAIServer], reply: str
) -> None:
    server = openai_server(
        [f"Thought 1: so it is\n{reply}", "Thought 2: then\nAction 2: unknown(no such number)"]
    )
    context = Context(kg=str(films), model="openai:scripted", base_url=server.url)
    graph = build_graph("agent", plan="readings")
    state = State.model_validate(graph.invoke({"question": QUESTION}, context=context))
    assert state.answer is not None
    assert all(
        "1. Alien [alien] -[directedBy (directed by)]-> ?dir" in request.text for request in server.requests
    )
    if "take(1)" in reply:
        assert (state.answer.labels, state.answer.usage.calls) == (("Ridley Scott",), 1)
    elif "take" in reply:
        assert "write a number from 1 to" in server.requests[1].text


def test_a_reading_that_cascade_has_tried_is_not_shown_again(films: Path) -> None:
    context = Context(kg=str(films), model="openai:none", cascade=0.0)
    state = State(question=QUESTION, readings=(reading("x", features={"share": 1.0}),))
    assert shown_readings(state, Environment(context)) == ()
    assert shown_readings(state, Environment(replace(context, cascade=None))) == state.readings
