"""AgentBench with and without ERASER (QueryAgent, table 6): one scripted model over HTTP, one mistake."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.openai_server import Messages, OpenAIServer
from triplewise.graphs import Context, State, build_graph
from triplewise.tools.core.errors import ConfigurationError

Server = Callable[..., OpenAIServer]
GRAPH = Path(__file__).parent / "agentbench" / "borders.ttl"
QUESTION = "Of the countries that border both Austria and Switzerland, which has the most inhabitants?"
ENTITIES = {"Austria": "Q40", "Switzerland": "Q39"}


def written(number: int, action: str) -> str:
    """A reply in AgentBench's form."""
    line = action if action.startswith("Final") else f"Action {number}: {action}"
    return f"Thought {number}: I go on.\n{line}"


def after_the_mistake(messages: Messages) -> str:
    """a model that fixes an empty intersection if it is told of it, and else answers with it."""
    told = "have no member in common" in messages[-1]["content"]
    return written(6, "get_neighbors(Q39, P47)" if told else "Final Answer: #2")


SCRIPT: list[Any] = [
    written(1, "get_relations(Q40)"),
    written(2, "get_neighbors(Q40, P47)"),
    written(3, "get_relations(Q39)"),
    written(4, "get_neighbors(Q39, P31)"),
    written(5, "intersection(#0, #1)"),
    after_the_mistake,
    written(7, "intersection(#0, #2)"),
    written(8, "get_attributes(#3)"),
    written(9, "argmax(#3, P1082)"),
    written(10, "Final Answer: #4"),
]


def run(server: OpenAIServer, preset: str, **swapped: str) -> State:
    """The final state of a run with the scripted model."""
    context = Context(kg=str(GRAPH), profile="wikidata", model="openai:scripted", base_url=server.url)
    given = {"question": QUESTION, "entities": ENTITIES}
    return State.model_validate(build_graph(preset, **swapped).invoke(given, context=context))


def test_with_eraser_the_mistake_is_told_and_corrected(openai_server: Server) -> None:
    server = openai_server(SCRIPT)
    state = run(server, "agentbench")
    assert [(c.step, c.guideline) for c in state.corrections] == [(5, "intersection_empty")]
    assert state.answer is not None
    assert (state.answer.status, state.answer.labels) == ("answered", ("Germany",))
    assert state.answer.sparql.count("MAX(") == 1
    assert {p.text for p in state.answer.proof} == {
        "(Austria, shares border with, Germany)",
        "(Switzerland, shares border with, Germany)",
        "(Germany, population, 84,000,000)",
    }
    assert server.used == len(SCRIPT)


@pytest.mark.parametrize("made", ["preset", "swapped"])
def test_without_it_the_run_ends_with_nothing(openai_server: Server, made: str) -> None:
    server = openai_server(SCRIPT)
    if made == "preset":
        state = run(server, "agentbench-plain")
    else:
        state = run(server, "agentbench", inspect="none", correct="raw")
    assert state.corrections == ()
    assert state.answer is not None
    assert (state.answer.status, state.answer.values) == ("not_found", ())
    assert state.last.call == "answer(#2)"
    system, turn = (str(m["content"]) for m in server.chats[0].messages)
    assert "Final Answer: #n" in system
    assert "Switzerland: Q39" in turn
    assert "Variable #0: ['" in server.chats[-1].text


def test_sets_take_a_language_model() -> None:
    context = Context(kg=str(GRAPH), profile="wikidata")
    given = {"question": "What shares border with Austria?", "entities": {"Austria": "Q40"}}
    with pytest.raises(ConfigurationError, match="agentbench needs a language model"):
        build_graph("agentbench").invoke(given, context=context)
