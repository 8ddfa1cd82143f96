"""Who decides on a reading: the offline policy where it is sure (`cascade`), a person where it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Answer, Context, State, build_graph
from triplewise.nodes.inspect import eraser
from triplewise.nodes.state import Verdict
from triplewise.tools.parsing.confidence import FEATURES

from .conftest import chain

Server = Callable[..., OpenAIServer]
Read = Callable[..., None]
QUESTION = {"question": "Which company made Avatar?", "entities": {"Avatar": "Q24871"}}
FOX = chain("Q24871", "P272", text="Avatar -[production company]-> ?x", values=("Q434841",))
CAMERON = chain("Q24871", "P57", text="Avatar -[director]-> ?x", values=("Q42574",))
REPLY = (
    "Thought: Its director.\nAction: add_fact(Q24871, P57, ?who)\nAction: set_answer(?who)\nAction: execute()"
)
SPRINGFIELDS = """
@prefix ex: <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:population rdfs:label "population"@en .
ex:a rdfs:label "Springfield"@en ; ex:population 100 ; ex:mayor ex:m ; ex:river ex:r .
ex:b rdfs:label "Springfield"@en ; ex:population 200 .
ex:m rdfs:label "Ann Smith"@en . ex:r rdfs:label "Blue River"@en .
"""
CONFIG: Any = {"configurable": {"thread_id": "1"}}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Read:
    """`read(0.5, 0.2)`: questions have two readings, so sure; `answered` from .6, nothing below .1."""
    levels = SimpleNamespace(min_confidence=0.6, floor=0.1)
    monkeypatch.setattr("triplewise.nodes.result.calibration_for", lambda *_: levels)

    def fixed(*sure: float) -> None:
        pairs = zip((FOX, CAMERON), sure, strict=False)
        none = dict.fromkeys(FEATURES, 0.0)
        readings = tuple(replace(r, confidence=c, features={**none, "share": c}) for r, c in pairs)
        monkeypatch.setattr("triplewise.nodes.plan.read_question", lambda *_: readings)

    return fixed


def scripted(server: OpenAIServer, **settings: Any) -> Context:
    return Context(kg="demo", model="openai:scripted", base_url=server.url, **settings)


def test_a_sure_reading_is_taken_without_the_model(openai_server: Server, read: Read) -> None:
    server = openai_server([])
    read(0.95, 0.2)
    alone = build_graph().invoke(QUESTION, context=Context(kg="demo"))["answer"]
    answer = build_graph().invoke(QUESTION, context=scripted(server, cascade=0.9))["answer"]
    assert (answer.status, answer.labels) == ("answered", ("20th Century Fox",))
    assert (answer.usage.calls, server.chats) == (0, [])
    assert (answer.confidence, answer.sparql, answer.proof) == (alone.confidence, alone.sparql, alone.proof)


def test_where_it_is_unsure_the_model_works_as_without_a_cascade(openai_server: Server, read: Read) -> None:
    read(0.7, 0.2)
    first, second = openai_server([REPLY]), openai_server([REPLY])
    answer = build_graph().invoke(QUESTION, context=scripted(first, cascade=0.9))["answer"]
    build_graph().invoke(QUESTION, context=scripted(second))
    assert (answer.labels, answer.usage.calls) == (("James Cameron",), 1)
    assert [c.messages for c in first.chats] == [c.messages for c in second.chats]


def test_the_model_goes_on_where_the_inspector_objects(openai_server: Server, read: Read) -> None:
    def objecting(state: State, runtime: Any) -> dict[str, Any]:
        if len(state.steps) == 1:
            return {"verdict": Verdict("error", guideline="doubted", source="kb", text="Look again.")}
        return eraser(state, runtime)

    read(0.95, 0.2)
    context = scripted(openai_server([REPLY]), cascade=0.9)
    answer = build_graph(inspect=objecting).invoke(QUESTION, context=context)["answer"]
    assert (answer.usage.calls, answer.confidence != 0.95) == (1, True)


def asked(reply: Any, **settings: Any) -> tuple[dict[str, Any], Answer | None, Any]:
    """What a run on an unsure question shows, and its answer and state after a person's reply."""
    graph = build_graph(checkpointer=InMemorySaver())
    context = Context(interactive=True, **{"kg": "demo"} | settings)
    given = (settings and {"question": "What is the population of Springfield?"}) or QUESTION
    shown = graph.invoke(given, CONFIG, context=context)["__interrupt__"][0].value
    word = reply(shown) if callable(reply) else reply
    state = graph.invoke(Command(resume=word), CONFIG, context=context)
    return shown, state["answer"], state


@pytest.mark.parametrize(
    ("reply", "status", "labels"),
    [
        (1, "answered", ("20th Century Fox",)),
        ("2", "answered", ("James Cameron",)),
        (0, "unsure", ("20th Century Fox",)),
    ],
)
def test_a_person_picks_a_reading(read: Read, reply: int | str, status: str, labels: tuple[str, ...]) -> None:
    read(0.5, 0.2)
    shown, answer, _ = asked(reply)
    assert [(r["number"], r["reading"]) for r in shown["readings"]] == [(1, FOX.text), (2, CAMERON.text)]
    assert "wdt:P57" in shown["readings"][1]["query"]
    assert answer is not None
    assert (answer.status, answer.labels) == (status, labels)
    if status == "answered":
        assert answer.confidence is None
        assert answer.text == f"{labels[0]}."
        assert "a person picked reading" in answer.reason
        assert any(labels[0] in fact.text for fact in answer.proof)
        assert not any(rival.labels == labels for rival in answer.rivals)


def test_an_answer_of_a_model_that_is_not_sure_is_shown_too(
    openai_server: Server, read: Read, monkeypatch: pytest.MonkeyPatch
) -> None:
    read(0.5, 0.2)
    doubtful = SimpleNamespace(probability=lambda _: 0.2689, min_confidence=0.5, floor=0.1)
    monkeypatch.setattr("triplewise.nodes.result.shipped", lambda *_: doubtful)
    graph = build_graph(checkpointer=InMemorySaver())
    context = scripted(openai_server([REPLY]), interactive=True)
    stopped = graph.invoke(QUESTION, CONFIG, context=context)
    shown, rival = stopped["__interrupt__"][0].value["readings"]
    assert (rival["answers"], rival["reading"]) == (["20th Century Fox"], FOX.text)
    assert (shown["answers"], shown["reading"]) == (["James Cameron"], "the query of the model")
    assert shown["confidence"] == 0.2689
    answer = graph.invoke(Command(resume=1), CONFIG, context=context)["answer"]
    assert (answer.status, answer.labels, answer.usage.calls) == ("answered", ("James Cameron",), 1)


@pytest.mark.parametrize("reply", [7, "peso", -1])
def test_what_names_no_reading_is_asked_for_again(read: Read, reply: Any) -> None:
    read(0.5, 0.2)
    _, answer, state = asked(reply)
    assert "is not a number from 0 to 2" in state["__interrupt__"][0].value["error"]
    assert answer is not None
    assert answer.status == "unsure"


def test_another_meaning_of_a_mention_is_planned_for_anew(tmp_path: Path) -> None:
    graph = tmp_path / "springfields.ttl"
    graph.write_text(SPRINGFIELDS)
    shown, answer, state = asked(
        lambda shown: shown["meanings"][0]["number"], kg=str(graph), min_confidence=1.0
    )
    (meaning,) = shown["meanings"]
    assert meaning["mention"] == "Springfield"
    (again,) = state["__interrupt__"]
    assert answer is not None
    assert (answer.values, again.value["meanings"]) == (("200",), [])
