"""Who decides on a reading: the embedded policy where it is sure (`cascade`), a person where it is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Answer, Context, State, build_graph
from triplewise.nodes.inspect import eraser
from triplewise.nodes.state import Verdict
from triplewise.tools.planning.confidence import MODEL_FEATURES, Calibration, shipped

Server = Callable[..., OpenAIServer]
SURE, LESS_SURE = (
    {"question": "What is the capital of Japan?"},
    {"question": "What currency is used in Mexico?"},
)
UNSURE = {"question": "Which company made Avatar?"}
REPLY = (
    "Thought: The peso.\nAction: add_fact(Q96, P38, ?currency)\nAction: set_answer(?currency)\n"
    "Action: execute()"
)
ANOTHER = REPLY.replace("Q96, P38", "Q17, P38")
SPRINGFIELDS = """
@prefix ex: <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:population rdfs:label "population"@en .
ex:a rdfs:label "Springfield"@en ; ex:population 100 ; ex:mayor ex:m ; ex:river ex:r .
ex:b rdfs:label "Springfield"@en ; ex:population 200 .
ex:m rdfs:label "Ann Smith"@en . ex:r rdfs:label "Blue River"@en .
"""
CONFIG: Any = {"configurable": {"thread_id": "1"}}


def scripted(server: OpenAIServer, **settings: Any) -> Context:
    return Context(kg="demo", model="openai:scripted", base_url=server.url, **settings)


@pytest.mark.parametrize(
    ("question", "values"),
    [(SURE, ("Q1490",)), ({"question": "Is Berlin the capital of France?"}, ("false",))],
    ids=["a fact", "no"],
)
def test_a_sure_reading_is_taken_without_the_model(
    openai_server: Server, question: dict[str, str], values: tuple[str, ...]
) -> None:
    server = openai_server([])
    alone = build_graph().invoke(question, context=Context(kg="demo"))["answer"]
    answer = build_graph().invoke(question, context=scripted(server, cascade=0.9))["answer"]
    assert (answer.status, answer.values) == ("answered", values)
    assert (answer.usage.calls, server.chats) == (0, [])
    assert (answer.confidence, answer.sparql, answer.proof) == (alone.confidence, alone.sparql, alone.proof)


def test_where_it_is_unsure_the_model_works_as_without_a_cascade(openai_server: Server) -> None:
    first, second = openai_server([REPLY]), openai_server([REPLY])
    answer = build_graph().invoke(LESS_SURE, context=scripted(first, cascade=0.9))["answer"]
    build_graph().invoke(LESS_SURE, context=scripted(second))
    assert (answer.labels, answer.confidence, answer.usage.calls) == (("Mexican peso",), None, 1)
    assert [c.messages for c in first.chats] == [c.messages for c in second.chats]


def test_the_model_goes_on_where_the_inspector_objects(openai_server: Server) -> None:
    def objecting(state: State, runtime: Any) -> dict[str, Any]:
        if len(state.steps) == 1:
            return {"verdict": Verdict("error", guideline="doubted", source="kb", text="Look again.")}
        return eraser(state, runtime)

    context = scripted(openai_server([ANOTHER]), cascade=0.9)
    answer = build_graph(inspect=objecting).invoke(SURE, context=context)["answer"]
    assert (answer.usage.calls, answer.confidence) == (1, None)


def asked(reply: Any, **settings: Any) -> tuple[dict[str, Any], Answer | None, Any]:
    """What a run on an unsure question shows, and its answer and graph after a person's reply."""
    graph = build_graph(checkpointer=InMemorySaver())
    context = Context(interactive=True, **{"kg": "demo"} | settings)
    given = (settings and {"question": "What is the population of Springfield?"}) or UNSURE
    stopped = graph.invoke(given, CONFIG, context=context)
    state = graph.invoke(Command(resume=reply), CONFIG, context=context)
    return stopped["__interrupt__"][0].value, state["answer"], state


@pytest.mark.parametrize(
    ("reply", "status", "labels"),
    [
        (1, "answered", ("20th Century Fox",)),
        ("2", "answered", ("Aliens",)),
        (0, "unsure", ("20th Century Fox",)),
    ],
)
def test_a_person_picks_a_reading(reply: int | str, status: str, labels: tuple[str, ...]) -> None:
    shown, answer, _ = asked(reply)
    assert [r["number"] for r in shown["readings"]] == [1, 2]
    assert "wdt:P272" in shown["readings"][1]["query"]
    assert answer is not None
    assert (answer.status, answer.labels) == (status, labels)
    if status == "answered":
        assert answer.confidence is None
        assert answer.text == f"{labels[0]}."
        assert "a person picked reading" in answer.reason
        assert any(labels[0] in fact.text for fact in answer.proof)
        assert not any(rival.labels == labels for rival in answer.rivals)


def test_an_answer_of_a_model_that_is_not_sure_is_shown_too(openai_server: Server, tmp_path: Path) -> None:
    zeros, kept = dict.fromkeys(MODEL_FEATURES, 0.0), tmp_path / "calibration.yaml"
    doubtful = Calibration(zeros, zeros, dict.fromkeys(zeros, 1.0), -1.0, 0.5)
    replace(shipped(), models={"openai:scripted": doubtful}).write(kept)
    graph = build_graph(checkpointer=InMemorySaver())
    context = scripted(openai_server([REPLY]), interactive=True, calibration=str(kept))
    stopped = graph.invoke(LESS_SURE, CONFIG, context=context)
    (reading,) = stopped["__interrupt__"][0].value["readings"]
    assert (reading["answers"], reading["rule"]) == (["Mexican peso"], "the query of the model")
    assert reading["confidence"] == pytest.approx(0.2689)
    answer = graph.invoke(Command(resume=1), CONFIG, context=context)["answer"]
    assert (answer.status, answer.labels, answer.usage.calls) == ("answered", ("Mexican peso",), 1)


@pytest.mark.parametrize("reply", [7, "peso", -1])
def test_what_names_no_reading_is_asked_for_again(reply: Any) -> None:
    _, answer, state = asked(reply)
    assert "is no number from 0 to 2" in state["__interrupt__"][0].value["error"]
    assert answer is not None
    assert answer.status == "unsure"


def test_another_meaning_of_a_mention_is_planned_for_anew(tmp_path: Path) -> None:
    graph = tmp_path / "springfields.ttl"
    graph.write_text(SPRINGFIELDS)
    shown, answer, state = asked("2", kg=str(graph), min_confidence=1.0)
    (meaning,) = shown["meanings"]
    assert (meaning["number"], meaning["mention"]) == (2, "Springfield")
    (again,) = state["__interrupt__"]
    assert answer is not None
    assert (answer.values, again.value["meanings"]) == (("200",), [])
