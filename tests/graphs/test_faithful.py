"""QueryAgent's own loop, to compare with: what it sends."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, State, build_graph

Server = Callable[..., OpenAIServer]

GRAPH = Path(__file__).parent.parent / "cases" / "queryagent" / "figure7.ttl"
RELATION = "sports.sports_team.arena_stadium"
GIVEN = {"question": "where do florida panthers play", "entities": {"florida panthers": "m.0j8js"}}
REPLIES = [
    "Thought: look\nAction: get_relation(m.0j8js)",
    "Thought: wrong\nAction: add_fact(m.0j8js, ?arena)",
    f"Thought: add\nAction: add_fact(m.0j8js, {RELATION}, ?arena)",
    "Thought: choose\nAction: set_answer(?arena)",
    "Thought: done\nAction: execute()",
]


def ask(preset: str, server: OpenAIServer, **settings: Any) -> State:
    """A scripted run on the graph of figure 7."""
    context = Context(
        kg=str(GRAPH), profile="freebase", model="openai:scripted", base_url=server.url, **settings
    )
    return State.model_validate(build_graph(preset).invoke(GIVEN, context=context))


def test_every_step_stays_in_the_prompt(openai_server: Server) -> None:
    ours, theirs = openai_server(REPLIES), openai_server(REPLIES)
    short, faithful = ask("queryagent", ours), ask("queryagent-faithful", theirs)
    assert short.answer is not None
    assert faithful.answer is not None
    assert sorted(faithful.answer.values) == sorted(short.answer.values)
    assert "Action 2: add_fact(m.0j8js, ?arena)" in theirs.chats[-1].text
    assert "ERROR_INFO" in theirs.chats[-1].text
    assert "ERROR_INFO" not in ours.chats[-1].text
    assert "Action 2: add_fact(m.0j8js, ?arena)\nObservation 2: Failed" in ours.chats[-1].text


def test_a_faithful_prompt_offers_the_eight_actions(openai_server: Server) -> None:
    server = openai_server(REPLIES)
    ask("queryagent-faithful", server)
    system = str(server.chats[0].messages[0]["content"])
    assert re.findall(r"^(\d)\. (\w+)\(", system, re.M)[-1] == ("8", "execute")
    used = set(re.findall(r"^Action \d+: (\w+)\(", system, re.M))
    assert used <= set(re.findall(r"^\d\. (\w+)\(", system, re.M))
