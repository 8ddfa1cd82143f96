"""Direct answers, chains of thought and their majority, over a server that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.film_library import film_context
from tests.support.openai_server import OpenAIServer
from triplewise.evals.baselines import find_system
from triplewise.evals.solver import agent
from triplewise.graphs import build_graph
from triplewise.nodes.context import Context
from triplewise.nodes.state import Answer
from triplewise.tools.core.errors import ConfigurationError

Server = Callable[..., OpenAIServer]


def asking(folder: Path, server: OpenAIServer, **settings: Any) -> Context:
    return film_context(folder, model="openai:scripted", base_url=server.url, **settings)


def run(name: str, question: str, context: Context, **given: Any) -> Answer:
    found = build_graph(find_system(name)).invoke({"question": question, **given}, context=context)
    answer: Answer = found["answer"]
    return answer


def test_a_direct_answer_is_one_call_and_gets_its_id(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(["Ridley Scott"])
    answer = run("direct", "Who directed Alien?", asking(tmp_path, server))
    assert (answer.status, answer.values, answer.labels) == ("answered", ("Ridley_Scott",), ("Ridley Scott",))
    assert (answer.usage.calls, answer.usage.output_tokens, answer.proof) == (1, 2, ())
    assert "Question: Who directed Alien?" in server.chats[0].text
    assert "Reasoning" not in server.chats[0].text


@pytest.mark.parametrize(
    ("question", "reply", "value", "asked"),
    [
        ("Did Ridley Scott direct Alien?", "Yes.", "true", "Question: Did"),
        ("Ridley Scott directed Jaws.", "False", "false", "Claim: Ridley Scott directed Jaws."),
        ("Alien [SEP] directed by", "Ridley Scott", "Ridley_Scott", "Slot: Alien [SEP] directed by"),
    ],
)
def test_claims_and_slots_are_asked_as_such(
    tmp_path: Path, openai_server: Server, question: str, reply: str, value: str, asked: str
) -> None:
    server = openai_server([reply])
    assert run("direct", question, asking(tmp_path, server)).values == (value,)
    assert asked in server.chats[0].text
    assert ("true or false" in server.chats[0].text) == (value in ("true", "false"))


def test_a_chain_of_thought_is_kept_as_the_thought(tmp_path: Path, openai_server: Server) -> None:
    reply = "Alien was made by Ridley Scott, born in South Shields.\nAnswer: South Shields"
    server = openai_server([reply])
    found = build_graph(find_system("cot")).invoke(
        {"question": "Where was the director of Alien born?"}, context=asking(tmp_path, server)
    )
    assert found["answer"].values == ("South_Shields",)
    assert [s.thought for s in found["steps"]] == [reply]
    assert server.chats[0].text.count("Reasoning:") == 5


@pytest.mark.parametrize(
    ("name", "reply", "reason"),
    [
        ("cot", "Well, well, well.", "holds no answer: 'Well, well, well.'"),
        ("cot", "Answer: unknown", "does not know"),
        ("direct", "", "is empty"),
        ("direct", "<think>Alien is by</think>", "is empty"),
    ],
)
def test_nonsense_is_no_answer_and_no_crash(
    tmp_path: Path, openai_server: Server, name: str, reply: str, reason: str
) -> None:
    answer = run(name, "Who directed Alien?", asking(tmp_path, openai_server([reply])))
    assert (answer.status, answer.values, answer.usage.calls) == ("not_found", (), 1)
    assert reason in answer.reason


def test_a_cut_chain_of_thought_names_the_setting(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server([{"text": "First I would", "finish_reason": "length"}])
    assert "max_reply_tokens" in run("cot", "Who?", asking(tmp_path, server)).reason


def test_the_majority_wins_whatever_the_order_within_an_answer(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(
        ["Answer: [Jaws, Duel]", "Answer: Jaws", "Answer: [duel, jaws]", "no idea", "Answer: Godzilla"]
    )
    answer = run("self-consistency", "What?", asking(tmp_path, server, max_steps=5))
    assert (answer.status, answer.values) == ("answered", ("Jaws", "Duel"))
    assert answer.reason == "2 of 5 samples agree"
    assert answer.usage.calls == 5
    assert {request.body["temperature"] for request in server.chats} == {0.7}


def test_samples_that_all_agree_are_all_drawn(tmp_path: Path, openai_server: Server) -> None:
    context = asking(tmp_path, openai_server(lambda messages: "Answer: Ran"))
    answer = run("self-consistency", "What?", context)
    assert (answer.status, answer.reason) == ("answered", "10 of 10 samples agree")


@pytest.mark.parametrize("first", ["Alien", "Ran"])
def test_a_tie_goes_to_the_answer_that_came_first(tmp_path: Path, openai_server: Server, first: str) -> None:
    second = "Ran" if first == "Alien" else "Alien"
    replies = ["hm", *(f"Answer: {name}" for name in (first, second, second, first))]
    answer = run("self-consistency", "What?", asking(tmp_path, openai_server(replies), max_steps=5))
    assert answer.values == (first,)


@pytest.mark.parametrize(
    ("budget", "calls"),
    [({"max_model_calls": 2}, 2), ({"max_tokens": 1}, 1), ({"max_seconds": 1e-9}, 0)],
)
def test_samples_stop_where_a_budget_is_spent(
    tmp_path: Path, openai_server: Server, budget: dict[str, Any], calls: int
) -> None:
    server = openai_server(lambda messages: "Answer: Ran")
    answer = run("self-consistency", "What?", asking(tmp_path, server, **budget))
    assert (answer.status, len(server.chats), answer.usage.calls) == ("budget_spent", calls, calls)
    assert answer.values == (("Ran",) if calls else ())
    assert "the budget of" in answer.reason


def test_the_words_of_a_prompt_can_be_ones_own(tmp_path: Path, openai_server: Server) -> None:
    prompt = tmp_path / "mine.yaml"
    prompt.write_text("parts: {direct: 'Say it: {{ question }}'}", encoding="utf-8")
    server = openai_server(["Ran"])
    assert run("direct", "What?", asking(tmp_path, server, prompt=str(prompt))).values == ("Ran",)
    assert server.chats[0].text == "Say it: What?"
    with pytest.raises(
        ConfigurationError, match=r"unknown part of prompt .* 'reasoned'; choose one of: direct"
    ):
        run("cot", "What?", asking(tmp_path, server, prompt=str(prompt)))


@pytest.mark.parametrize("name", ["direct", "cot", "self-consistency"])
def test_without_a_model_they_say_what_they_need(tmp_path: Path, name: str) -> None:
    context = film_context(tmp_path)
    with pytest.raises(ConfigurationError, match="this baseline needs a language model"):
        run(name, "What?", context)
    with pytest.raises(ConfigurationError, match=f"baseline {name} needs a language model; name one"):
        agent(name)
    agent("react")
