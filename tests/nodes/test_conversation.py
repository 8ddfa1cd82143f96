"""Steps as a conversation: what a model is shown when it acts is what it is trained on."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.films import iri, write_graph
from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, build_graph
from triplewise.graphs.presets import find_preset
from triplewise.nodes.environment import Environment
from triplewise.nodes.hints import opening, prompt_values
from triplewise.nodes.state import State
from triplewise.tools.learning.model_training import training_records
from triplewise.tools.learning.trajectory import Trajectory, Turn

REPLIES = [
    "Rules:",
    "Thought 1: Look it up.\nAction 1: search_neighbor(Ran, directed_by)",
    "Thought 2: No such thing.\nAction 2: search_neighbor(Ran)",
    "Thought 3: That is it.\nAction 3: finish(Akira Kurosawa)",
]


@pytest.fixture
def graph(tmp_path: Path) -> str:
    return str(write_graph(tmp_path / "films.nt"))


def context(graph: str, server: OpenAIServer, **more: object) -> Context:
    given: dict[str, Any] = {
        "kg": graph,
        "model": "openai:scripted",
        "base_url": server.url,
        "history": "chat",
        **more,
    }
    return Context(**given)


ASKED = {"question": "who directed Ran?", "entities": {"Ran": iri("Ran")}}


def test_each_prompt_is_the_one_before_with_a_step_more(
    graph: str, openai_server: Callable[..., OpenAIServer]
) -> None:
    server = openai_server(REPLIES)
    state = build_graph("symagent").invoke(ASKED, context=context(graph, server))
    assert state["answer"].labels == ("Akira Kurosawa",)
    first, second, third = (r.messages for r in server.chats[1:])
    assert [m["role"] for m in third] == ["system", "user", "assistant", "user", "assistant", "user"]
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    assert second[2]["content"] == "Thought 1: Look it up.\nAction 1: search_neighbor(Ran, directed_by)"
    assert second[3]["content"].startswith("Observation 1: Akira Kurosawa")


@pytest.mark.parametrize("preset", ["symagent", "agent", "queryagent"])
def test_what_is_trained_on_is_what_was_shown(
    preset: str, graph: str, openai_server: Callable[..., OpenAIServer]
) -> None:
    """The conversation of a trajectory begins with the very messages of its last request."""
    replies = REPLIES if preset == "symagent" else [REPLIES[1], "Thought 2: x\nAction 2: nothing()"] * 2
    server = openai_server(replies)
    given = context(graph, server, max_steps=len(replies) - (preset == "symagent"))
    found = State.model_validate(build_graph(preset).invoke(ASKED, context=given))
    filled = given.resolved(find_preset(preset).settings)
    system, prompt = opening(Environment(filled).prompt, prompt_values(found, Environment(filled)))
    turns = tuple(Turn(s.thought, s.call, s.observation) for s in found.steps)
    made = Trajectory("q", "", (), turns=turns, system=system, prompt=prompt)
    assert training_records(made, 4096)[-1]["prompt"] == server.chats[-1].messages


@pytest.mark.parametrize("history", ["short", "full", "chat"])
def test_an_earlier_attempt_stands_before_the_question(
    history: str, graph: str, openai_server: Callable[..., OpenAIServer]
) -> None:
    server = openai_server(REPLIES)
    given = context(graph, server, history=history, earlier="You said Nobody. Reward: 0.00")
    build_graph("symagent").invoke(ASKED, context=given)
    assert "Reward" not in server.chats[0].text, "the plan is not acting"
    for request in server.chats[1:]:
        assert request.messages[1]["content"].startswith("You said Nobody. Reward: 0.00\n\nQuestion: ")
        assert request.text.count("Reward") == 1
