"""Think-on-Graph and ToG-R over a graph of films, with a scripted model over HTTP and without any."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from tests.support.films import BASE, iri, write_graph
from tests.support.openai_server import Messages, OpenAIServer
from triplewise.evals.baselines import find_system
from triplewise.evals.baselines.tog import read_scores
from triplewise.graphs import Answer, Context, build_graph
from triplewise.graphs.trace import trace_of
from triplewise.nodes.state import State

BORN = "where was the director of Alien born?"
Server = Callable[..., OpenAIServer]
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def films(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The films, and a town with a hundred relations and three hundred residents."""
    path = write_graph(tmp_path_factory.mktemp("films") / "films.nt")
    label = "<http://www.w3.org/2000/01/rdf-schema#label>"
    london = iri("London")
    lines = [f'<{london}> <{BASE}fact_{n}> "{n}" .' for n in range(100)]
    for n in range(300):
        lines += [f"<{BASE}p{n}> <{BASE}lives_in> <{london}> .", f'<{BASE}p{n}> {label} "Resident {n}"@en .']
    with path.open("a", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return path


@pytest.fixture
def ask(films: Path) -> Ask:
    """`ask("tog", question, server, observe_width=2)`: the final state of a run."""

    def run(
        system: str, question: str = BORN, server: OpenAIServer | None = None, **settings: Any
    ) -> dict[str, Any]:
        model: dict[str, Any] = {"model": "openai:scripted", "base_url": server.url} if server else {}
        context = Context(kg=str(films), **model, **settings)
        found: dict[str, Any] = build_graph(find_system(system)).invoke(
            {"question": question}, context=context
        )
        return found

    return run


def walker(scores: str = "1: 0.8\n2: 0.2", until: str = "South Shields", says: str = "South Shields") -> Any:
    """A model that scores alike, is content once it reads `until`, and answers `says`."""

    def reply(messages: Messages) -> str:
        text = messages[-1]["content"]
        if "Options:" in text:
            return scores
        if "yes or no" in text:
            return "Yes." if until in text else "{No}. More is needed."
        return says

    return reply


def test_a_model_walks_to_the_answer(ask: Ask, openai_server: Server) -> None:
    server = openai_server(walker())
    found = ask("tog", server=server)
    answer: Answer = found["answer"]
    assert (answer.status, answer.values, answer.labels) == (
        "answered",
        ("South_Shields",),
        ("South Shields",),
    )
    assert answer.reason == "the paths suffice"
    assert [p.text for p in answer.proof] == [
        "(Alien, directed by, Ridley Scott)",
        "(Ridley Scott, place of birth, South Shields)",
    ]
    assert "place_of_birth" in answer.sparql
    # Relations of Alien, judge, relations of Ridley Scott, judge, answer: single entities need no call.
    assert answer.usage.calls == len(server.chats) == 5
    assert found["memory"][0][-1].object.value == iri("South Shields")
    assert found["rules"][0].text().startswith("Alien -[directed_by]-> ?directed_by -[place_of_birth]")
    trace = trace_of(State.model_validate({**found, "entities": {}}))
    assert [s["action"].partition("(")[0] for s in trace["steps"]] == [
        *("search_relations", "search_entities", "judge") * 2,
        "answer",
    ]


def test_nonsense_takes_the_first_options_and_ends(ask: Ask, openai_server: Server) -> None:
    server = openai_server(lambda _: "As a language model, I like turtles!")
    found = ask("tog", server=server, observe_depth=2)
    answer = found["answer"]
    assert "the first options were taken" in found["steps"][0].observation
    assert answer.status == "answered"
    assert answer.values == ("As a language model, I like turtles!",)
    assert answer.reason.startswith("depth 2 is exhausted; from the model's own knowledge: As a language")
    assert answer.proof == ()
    assert len(server.chats) <= 2 * 3 * 2 + 2 + 1  # 2ND + D + 1


def test_a_spent_budget_stops_between_the_calls_of_one_phase(ask: Ask, openai_server: Server) -> None:
    server = openai_server(walker(until="Atlantis"))
    answer = ask("tog", server=server, max_model_calls=3, observe_depth=3)["answer"]
    assert len(server.chats) == answer.usage.calls == 3
    assert answer.status == "budget_spent"
    assert "the budget of 3 model calls is spent" in answer.reason
    assert answer.values == ()


def test_prompts_stay_bounded_at_a_hub(ask: Ask, openai_server: Server) -> None:
    server = openai_server(walker("1: 1", until="Resident"))
    found = ask("tog", "who lives in London?", server)
    shown = [re.findall(r"(?m)^\d+\. ", chat.text) for chat in server.chats if "Options:" in chat.text]
    assert [len(options) for options in shown] == [40, 20]
    assert max(len(chat.text) for chat in server.chats) < 4_000
    assert found["answer"].status == "answered"
    ask(
        "tog",
        "who lives in London?",
        again := openai_server(walker("1: 1", until="Resident")),
        relation_cut=7,
    )
    assert len(re.findall(r"(?m)^\d+\. ", again.chats[0].text)) == 7


def test_entities_of_tog_r_are_drawn_by_seed(ask: Ask, openai_server: Server) -> None:
    def drawn(seed: int, hash_: str = "who lives in London?") -> list[str]:
        server = openai_server(walker("1: 1", until="Resident", says="unknown"))
        found = ask("tog-r", hash_, server, draw_seed=seed)
        assert sum("Options:" in chat.text for chat in server.chats) == 1  # entities are not asked about
        return [path[-1].subject.value for path in found["memory"]]

    first = drawn(1)
    assert len(first) == 3
    assert drawn(1) == first
    assert any(drawn(seed) != first for seed in (2, 3))


def test_a_depth_takes_a_few_queries_whatever_the_number_of_entities(ask: Ask, openai_server: Server) -> None:
    for _ in range(2):  # relation texts are fetched once per graph
        answer = ask("tog", "who lives in London?", openai_server(walker("1: 1")), observe_depth=1)["answer"]
    assert answer.values
    assert answer.usage.queries <= 14


def test_no_entity_is_said_to_be_missing(ask: Ask, openai_server: Server) -> None:
    answer = ask("tog", "who is it?", openai_server(walker(says="Gladiator")))["answer"]
    assert answer.values == ("Gladiator",)
    assert answer.reason.endswith("; from the model's own knowledge: Gladiator")


@pytest.mark.parametrize(
    ("reply", "scores"),
    [
        ("1: 0.6\n2: 0.4", {0: 0.6, 1: 0.4}),
        ("- 2 (0.75)\n- 1 (0.25)", {0: 0.25, 1: 0.75}),
        ("**3.** 1.0", {2: 1.0}),
        ("Option 2 - 80 %\nOption 1 - 20 %", {0: 0.2, 1: 0.8}),
        ("1. {directed by (Score: 0.7)}: 2 parts\n2. {released (Score: 0.3)}: less", {0: 0.7, 1: 0.3}),
        ("3. fact 7: 4/10\n1. directed by: 6/10", {0: 0.6, 2: 0.4}),
        ("1. Ann -[spouse]-> ?: 0.1\n2. Ann <-[spouse]- ?: 0.9", {0: 0.1, 1: 0.9}),
    ],
)
def test_scores_are_read_by_number_with_and_without_names(reply: str, scores: dict[int, float]) -> None:
    assert read_scores(reply, 3) == pytest.approx(scores)


@pytest.mark.parametrize(
    "reply", ["", "I cannot help with that.", "2", "9: 0.5", "In 1979 it was number 2.", "{", "null", "[[[["]
)
def test_a_reply_without_scores_says_nothing(reply: str) -> None:
    assert read_scores(reply, 3) == {}


def test_zeros_say_that_none_helps() -> None:
    assert read_scores("1: 0\n2: 0.0\n3: 0", 3) == {0: 0.0, 1: 0.0, 2: 0.0}


@given(st.lists(st.integers(0, 100), min_size=3, max_size=3).filter(any))
def test_the_form_asked_for_is_read_as_it_is_meant(given_: list[int]) -> None:
    reply = "\n".join(f"{i}: {score / 100}" for i, score in enumerate(given_, 1))
    assert read_scores(reply, 3) == pytest.approx({i: s / sum(given_) for i, s in enumerate(given_)})
