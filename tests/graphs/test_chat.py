"""A conversation: questions that lean on what was said, in Python and on the terminal."""

from __future__ import annotations

import functools
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from tests.graphs.conftest import Cli
from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context
from triplewise.graphs.build import build_chat


class Talk:
    """A conversation with the demo; `say` returns the reply."""

    def __init__(self, **settings: Any) -> None:
        self.graph, self.context = build_chat(checkpointer=InMemorySaver()), Context(**settings)

    def say(self, text: str) -> AIMessage:
        config: Any = {"configurable": {"thread_id": "1"}}
        state = self.graph.invoke({"messages": [HumanMessage(text)]}, config, context=self.context)
        reply = state["messages"][-1]
        assert isinstance(reply, AIMessage)
        return reply


@pytest.mark.parametrize(
    "turns",
    [
        [
            ("Which films did Stanley Kubrick direct?", False, 13),
            ("Only those after 1970", True, 5),
            ("How many are there?", True, "5"),
            ("Where was he born?", True, "New York City"),
            ("And when?", True, "26 July 1928"),
        ],
        [
            ("Who discovered polonium?", False, 2),
            ("Where were they born?", True, 2),
            ("What is its symbol?", True, "Po"),
            ("And of gold?", True, "Au"),
        ],
        [
            ("Where was Goethe born?", False, "Frankfurt"),
            ("What about his unmarried partner?", True, 1),
        ],
        [
            ("Which mountains are higher than 8500 metres?", False, 4),
            ("And which in Nepal?", True, 3),
        ],
    ],
    ids=["a set", "several", "a parallel", "a part"],
)
def test_a_message_leans_on_those_before(turns: list[tuple[str, bool, int | str]]) -> None:
    talk = Talk()
    for message, leans, gold in turns:
        reply = talk.say(message)
        answer, reading = (reply.additional_kwargs[name] for name in ("answer", "reading"))
        assert (f"I read this as: {reading}" in reply.text) == leans
        assert answer["labels"] == (gold,) if isinstance(gold, str) else len(answer["labels"]) == gold
        assert answer["proof"]


def test_nonsense_stays_nonsense() -> None:
    talk = Talk()
    talk.say("What is the capital of Iceland?")
    for message in ("How many of it is the longest?", "And purple of yesterday the?"):
        assert talk.say(message).additional_kwargs["answer"]["status"] in ("unsure", "not_found")


def test_why_and_the_query_are_those_of_the_last_answer() -> None:
    talk = Talk()
    answer = talk.say("Who wrote Dracula?").additional_kwargs["answer"]
    assert answer["sparql"] in talk.say("Show me the query").text
    why = talk.say("Why?").text
    assert "Dracula -[author]-> ?author" in why
    assert "(Dracula, author, Bram Stoker)" in why


def test_what_cannot_be_told_is_asked_back() -> None:
    talk = Talk()
    assert "'he'" in talk.say("When was he born?").text
    assert talk.say("Albert Einstein").additional_kwargs["answer"]["labels"] == ("14 March 1879",)
    talk.say("Does Switzerland border Liechtenstein?")
    either = talk.say("What is its capital?").additional_kwargs["answer"]
    assert either["status"] == "unsure"
    assert {*either["labels"], *either["rivals"][0]["labels"]} == {"Bern", "Vaduz"}


def test_a_model_rewrites_what_does_not_stand_alone(
    openai_server: Callable[..., OpenAIServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = openai_server(
        [
            "Where was Bram Stoker born?",
            "When did Bram Stoker die?",
            "Where did Bram Stoker die on 20 April 1912?",
            "UNCLEAR",
            "QUERY",
        ]
    )
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    # What the planner is sure of takes no call, so that those that are left are rewritings.
    talk = Talk(model="openai:scripted", base_url=server.url, cascade=0.01)
    talk.say("Who wrote Dracula?")
    reply = talk.say("Birthplace of that chap")
    assert reply.additional_kwargs["answer"]["labels"] == ("Clontarf, Dublin",)
    assert reply.additional_kwargs["answer"]["usage"]["calls"] == 1
    assert "Q: Who wrote Dracula?\nA: Bram Stoker" in server.chats[0].text
    # Each turn is billed for its own call; a date of an answer is no entity.
    for message in ("his end", "on that day, which writer"):
        assert talk.say(message).additional_kwargs["answer"]["usage"]["calls"] == 1
    talk.say("Where was Jane Austen born?")
    assert "I cannot tell" in talk.say("hm").text
    assert "```sparql" in talk.say("how was that looked up").text
    assert len(server.chats) == 5


def test_on_the_terminal(cli: Cli, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def chat(lines: str, *arguments: str) -> Any:
        monkeypatch.setattr("sys.stdin", io.StringIO(lines))
        return cli("chat", *arguments)

    assert "no conversation to resume" in chat("", "--resume").err
    done = chat("What is the capital of Peru?\nShow the query\nWhy?\n")
    assert done.code == 0
    assert "Lima.\n" in done.out
    assert "```sparql" in done.out
    assert "(Peru, capital, Lima)" in done.out
    done = chat("And of Brazil?\n", "--resume")
    assert "Lima.\n" in done.out
    assert "Brasília.\n" in done.out
    assert "I cannot tell what is asked" in chat("And when?\n").out
    assert "no unfinished run" in cli("ask", "--resume").err
    lost = chat("What is the capital of Peru?\nWhat is its zorp?\nquit\nWhat is the capital of Brazil?\n").out
    assert "Brasília" not in lost
    assert "What the graph holds about Lima" in lost
    assert "its zorp" not in lost  # a seed question stands alone


def test_an_interrupt_drops_the_message(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    import triplewise.nodes.converse as converse

    reply, cut = converse.reply, [KeyboardInterrupt()]

    @functools.wraps(reply)
    def cut_off(*arguments: Any, **more: Any) -> Any:
        if cut:
            raise cut.pop()
        return reply(*arguments, **more)

    monkeypatch.setattr("triplewise.graphs.build.reply", cut_off)
    monkeypatch.setattr(
        "sys.stdin", io.StringIO("Who wrote Dracula?\nWho wrote Emma?\nWho wrote Frankenstein?\n")
    )
    done = cli("chat")
    assert "dropped" in done.err
    assert done.out.endswith("Mary Shelley.\n\n")
