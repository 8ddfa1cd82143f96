"""ReAct: whatever comes of an action is observed, and nothing is inspected, corrected or taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.film_library import film_context
from tests.support.openai_server import OpenAIServer
from triplewise.evals.baselines import find_system
from triplewise.graphs import build_graph
from triplewise.nodes.context import Context
from triplewise.tools.core.errors import ConfigurationError

Server = Callable[..., OpenAIServer]
QUESTION = "Who directed Alien?"
RIGHT = [
    "Thought: look\nAction: get_relation(Alien)",
    "Thought: over it\nAction: add_fact(Alien, directed_by, ?who)",
    "Thought: that is it\nAction: set_answer(?who)",
    "Thought: done\nAction: execute()",
]


def react(folder: Path, server: OpenAIServer | None, question: str = QUESTION, **settings: Any) -> Any:
    model = {} if server is None else {"model": "openai:scripted", "base_url": server.url}
    context: Context = film_context(folder, **model, **settings)
    return build_graph(find_system("react")).invoke({"question": question}, context=context)


def test_a_trajectory_ends_with_what_its_query_gives(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(RIGHT)
    found = react(tmp_path, server)
    answer = found["answer"]
    assert (answer.status, answer.values, answer.labels) == ("answered", ("Ridley_Scott",), ("Ridley Scott",))
    assert [p.text for p in answer.proof] == ["(Alien, directed by, Ridley Scott)"]
    assert (answer.usage.calls, len(found["steps"]), found["rules"], found["observation"]) == (4, 4, (), ())
    assert server.chats[-1].text.count("End of the example.") == 2
    assert "Observation 2: The value of variable ?who is ['Ridley Scott']." in server.chats[-1].text


def test_an_error_is_an_observation_like_any_other(tmp_path: Path, openai_server: Server) -> None:
    replies = ["Thought: fly\nAction: teleport(Alien)", "Thought: hm\nAction: add_fact(Alien)", *RIGHT]
    server = openai_server(replies)
    found = react(tmp_path, server)
    assert found["answer"].values == ("Ridley_Scott",)
    assert (found["answer"].corrections, found["corrections"]) == ((), ())
    assert not any(step.rolled_back or step.guideline for step in found["steps"])
    assert [bool(step.feedback.error) for step in found["steps"]] == [True, True, False, False, False, False]
    last = server.chats[-1].text
    assert f"Action 1: teleport(Alien)\nObservation 1: {found['steps'][0].feedback.message}" in last
    assert "ERROR_INFO" not in last


def test_what_the_query_gives_when_a_budget_ends_is_told(tmp_path: Path, openai_server: Server) -> None:
    found = react(tmp_path, openai_server(RIGHT), max_model_calls=2)
    answer = found["answer"]
    assert (answer.status, answer.values, answer.usage.calls) == ("budget_spent", ("Ridley_Scott",), 2)


def test_it_explores_too(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(
        ["Thought: a\nAction: get_neighbors(Alien)", "Thought: b\nAction: answer(Ridley_Scott)"]
    )
    found = react(tmp_path, server, toolset="explore")
    assert found["answer"].values == ("Ridley_Scott",)
    assert "get_path(Q911, Q915)" in server.chats[0].text
    assert "-> directed_by (directed by): Ridley Scott [Ridley_Scott]" in server.chats[1].text


def test_other_actions_need_a_prompt_of_ones_own(tmp_path: Path, openai_server: Server) -> None:
    with pytest.raises(ConfigurationError, match="pyql and explore, not for 'symbolic'"):
        react(tmp_path, openai_server(), toolset="symbolic")
    server = openai_server(["Thought: so\nAction: finish(Ridley_Scott)"])
    found = react(tmp_path, server, toolset="symbolic", prompt="symagent")
    assert found["answer"].values == ("Ridley_Scott",)


@pytest.mark.parametrize("toolset", ["pyql", "explore"])
def test_without_a_model_the_policy_acts_uncorrected(tmp_path: Path, toolset: str) -> None:
    found = react(tmp_path, None, toolset=toolset)
    assert found["answer"].values == ("Ridley_Scott",)
    assert (found["answer"].usage.calls, found["corrections"]) == (0, ())
    assert react(tmp_path, None, toolset=toolset)["steps"] == found["steps"]
