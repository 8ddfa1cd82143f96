"""Direct answers, chains of thought and their majority, over a server that speaks the OpenAI API."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.support.film_library import film_context
from tests.support.openai_server import Fault, OpenAIServer
from triplewise.evals.baselines import check_model
from triplewise.evals.systems import build_system
from triplewise.nodes.context import Context
from triplewise.nodes.state import Answer
from triplewise.tools.core.errors import ConfigurationError, ModelUnavailableError

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


def test_several_answers_are_all_kept(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(["Alien\nGladiator\nBlade Runner"])
    answer = run("direct", "What did Ridley Scott direct?", asking(tmp_path, server))
    assert answer.values == ("Alien", "Gladiator", "Blade Runner")
    assert answer.text == "Alien, Gladiator and Blade Runner."


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


def test_a_closed_world_answers_a_claim_that_the_model_leaves_open(
    tmp_path: Path, openai_server: Server
) -> None:
    context = asking(tmp_path, openai_server(["unknown"]), closed_world=True)
    answer = run("direct", "Ridley Scott directed Jaws.", context)
    assert (answer.status, answer.values) == ("answered", ("false",))
    assert "closed_world" in answer.reason


def test_the_majority_wins_whatever_the_order_within_an_answer(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(
        ["Answer: [Jaws, Duel]", "Answer: Jaws", "Answer: [duel, jaws]", "no idea", "Answer: Godzilla"]
    )
    answer = run("self-consistency", "What?", asking(tmp_path, server), {"samples": 5})
    assert (answer.status, answer.values) == ("answered", ("Jaws", "Duel"))
    assert answer.reason == "2 of 5 samples agree"
    assert answer.usage.calls == 5
    assert {request.body["temperature"] for request in server.chats} == {0.7}


@pytest.mark.parametrize("first", ["Alien", "Ran"])
def test_a_tie_goes_to_the_answer_that_came_first(tmp_path: Path, openai_server: Server, first: str) -> None:
    second = "Ran" if first == "Alien" else "Alien"
    replies = ["hm", *(f"Answer: {name}" for name in (first, second, second, first))]
    answer = run("self-consistency", "What?", asking(tmp_path, openai_server(replies)), {"samples": 5})
    assert answer.values == (first,)


def test_the_temperature_is_the_baselines_unless_the_run_has_its_own(
    tmp_path: Path, openai_server: Server
) -> None:
    server = openai_server(lambda messages: "Answer: Ran")
    run("self-consistency", "What?", asking(tmp_path, server), {"samples": 1, "temperature": 1.2})
    run("self-consistency", "What?", asking(tmp_path, server, temperature=0.3), {"samples": 1})
    assert [request.body["temperature"] for request in server.chats] == [1.2, 0.3]


def test_no_sample_with_an_answer_is_no_answer(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(lambda messages: "Hm.")
    answer = run("self-consistency", "What?", asking(tmp_path, server), {"samples": 3})
    assert (answer.status, answer.values) == ("not_found", ())
    assert answer.reason.startswith("no sample of 3 holds an answer")


@pytest.mark.parametrize(
    ("budget", "calls"),
    [({"max_model_calls": 2}, 2), ({"max_tokens": 1}, 1), ({"max_steps": 3}, 3), ({"max_seconds": 1e-9}, 0)],
)
def test_samples_stop_where_a_budget_is_spent(
    tmp_path: Path, openai_server: Server, budget: dict[str, Any], calls: int
) -> None:
    server = openai_server(lambda messages: "Answer: Ran")
    answer = run("self-consistency", "What?", asking(tmp_path, server, **budget), {"samples": 5})
    assert (answer.status, len(server.chats), answer.usage.calls) == ("budget_spent", calls, calls)
    assert answer.values == (("Ran",) if calls else ())
    assert "the budget of" in answer.reason


def test_a_budget_that_the_last_call_uses_up_does_not_spoil_its_answer(
    tmp_path: Path, openai_server: Server
) -> None:
    answer = run("cot", "What?", asking(tmp_path, openai_server(["Answer: Ran"]), max_model_calls=1))
    assert answer.status == "answered"


def test_the_entities_of_the_caller_are_taken(tmp_path: Path, openai_server: Server) -> None:
    found = build_system("direct", link="known").invoke(
        {"question": "Who directed it?", "entities": {"it": "Alien", "that": "Nothing"}},
        context=asking(tmp_path, openai_server(["Ridley Scott"])),
    )
    assert [e.id for e in found["linked"]] == ["Alien"]


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
    for ask in (lambda: run(name, "What?", context), lambda: check_model(name, context)):
        with pytest.raises(ConfigurationError, match=f"baseline {name} needs a language model: --set model"):
            ask()
    check_model("rog", context)
    check_model("agent", context)


def test_a_dead_server_is_told_apart_from_a_failing_one(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server()
    with OpenAIServer() as dead:
        gone = asking(tmp_path, dead)
    with pytest.raises(ConfigurationError, match="refuses connections"):
        run("direct", "What?", gone)
    with pytest.raises(ModelUnavailableError, match="script exhausted"):
        run("cot", "What?", asking(tmp_path, server))


def test_a_hiccup_of_the_server_costs_no_sample(tmp_path: Path, openai_server: Server) -> None:
    server = openai_server(["Answer: Ran", "Answer: Ran"], [Fault.RATE_LIMIT])
    answer = run("self-consistency", "What?", asking(tmp_path, server), {"samples": 2})
    assert (answer.usage.calls, answer.reason) == (2, "2 of 2 samples agree")


def test_questions_in_flight_do_not_mix(tmp_path: Path, openai_server: Server) -> None:
    films = ("Alien", "Jaws", "Ran", "Brazil", "Solaris", "Psycho")

    def reply(messages: list[dict[str, Any]]) -> str:
        return "Answer: " + next(f for f in films if f"named {f}?" in messages[-1]["content"])

    graph = build_system("self-consistency", samples=3)
    context = asking(tmp_path, openai_server(reply))

    async def all_at_once() -> Any:
        questions = [{"question": f"Which film is named {film}?"} for film in films]
        return await asyncio.gather(*(graph.ainvoke(q, context=context) for q in questions))

    found = asyncio.run(all_at_once())
    assert [state["answer"].values for state in found] == [(film,) for film in films]
    assert {state["answer"].usage.calls for state in found} == {3}


def test_a_thread_starts_anew_with_each_question(tmp_path: Path, openai_server: Server) -> None:
    graph = build_system("cot")
    context = asking(tmp_path, openai_server(["Answer: Ran", "hm"]))
    first = graph.invoke({"question": "What?"}, context=context)
    second = graph.invoke({**first, "question": "And?"}, context=context)
    assert (first["answer"].values, second["answer"].values, len(second["steps"])) == (("Ran",), (), 1)
