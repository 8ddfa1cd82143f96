"""Direct answers and chains of thought, over a server that speaks the OpenAI API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.film_library import film_context
from tests.support.openai_server import OpenAIServer
from triplewise.evals.baselines import build_system, check_model
from triplewise.nodes.context import Context
from triplewise.nodes.state import Answer
from triplewise.tools.core.errors import ConfigurationError

Server = Callable[..., OpenAIServer]


def asking(folder: Path, server: OpenAIServer, **settings: Any) -> Context:
    return film_context(folder, model="openai:scripted", base_url=server.url, **settings)


def run(
    name: str, question: str, context: Context, parts: Mapping[str, Any] | None = None, **given: Any
) -> Answer:
    found = build_system(name, **(parts or {})).invoke({"question": question, **given}, context=context)
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
    found = build_system("cot").invoke(
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


@pytest.mark.parametrize("name", ["direct", "cot"])
def test_without_a_model_they_say_what_they_need(tmp_path: Path, name: str) -> None:
    context = film_context(tmp_path)
    for ask in (lambda: run(name, "What?", context), lambda: check_model(name, context)):
        with pytest.raises(ConfigurationError, match=f"baseline {name} needs a language model: --set model"):
            ask()
    check_model("react", context)
    check_model("agent", context)
