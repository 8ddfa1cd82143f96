"""KB-BINDER: drafts of a scripted model over HTTP, and of seed questions, bound to a graph of films."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.films import write_graph, write_questions
from tests.support.openai_server import OpenAIServer
from triplewise.evals.baselines import find_system, kb_binder
from triplewise.evals.baselines.kb_binder import read_draft
from triplewise.graphs import Answer, Context, build_graph
from triplewise.graphs.trace import trace_of
from triplewise.nodes.state import State

BORN = "where was the director of Alien born?"
Server = Callable[..., OpenAIServer]
Ask = Callable[..., dict[str, Any]]


def program(*lines: str) -> str:
    """A reply with a program."""
    return "\n".join(lines)


RIGHT = program(
    'add_fact("Alien", "directed by", ?d)', 'add_fact(?d, "place of birth", ?p)', "set_answer(?p)"
)
YEAR = program('add_fact("Alien", "release year", ?y)', "set_answer(?y)")
DIRECTOR = program('add_fact("Alien", "directed by", ?d)', "set_answer(?d)")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The films with questions about their directors."""
    made = tmp_path_factory.mktemp("films")
    write_graph(made / "films.nt")
    write_questions(made / "seeds.jsonl")
    return made


@pytest.fixture
def ask(folder: Path) -> Ask:
    """`ask(question, server, max_steps=3)`: the final state of a run."""

    def run(question: str = BORN, server: OpenAIServer | None = None, **settings: Any) -> dict[str, Any]:
        model: dict[str, Any] = {"model": "openai:scripted", "base_url": server.url} if server else {}
        seeds = settings.pop("seeds", str(folder / "seeds.jsonl"))
        context = Context(kg=str(folder / "films.nt"), seeds=seeds, **model, **settings)
        graph = build_graph(find_system("kb-binder"))
        found: dict[str, Any] = graph.invoke({"question": question}, context=context)
        return found

    return run


def test_the_answer_that_most_drafts_find_wins(ask: Ask, openai_server: Server) -> None:
    server = openai_server([YEAR, RIGHT, DIRECTOR, RIGHT])
    found = ask(server=server, max_steps=4)
    answer: Answer = found["answer"]
    assert (answer.status, answer.values, answer.labels) == (
        "answered",
        ("South_Shields",),
        ("South Shields",),
    )
    assert answer.reason == "2 of 4 drafts agree"
    assert "place_of_birth" in answer.sparql
    assert [p.text for p in answer.proof] == [
        "(Alien, directed by, Ridley Scott)",
        "(Ridley Scott, place of birth, South Shields)",
    ]
    trace = trace_of(State.model_validate({**found, "entities": {}}))
    assert [s["action"] for s in trace["steps"]] == [f"draft({n})" for n in range(1, 5)]


def test_wrong_names_are_bound_to_what_the_graph_has(ask: Ask, openai_server: Server) -> None:
    wrong = program(
        'add_fact("Alian", "film director", ?d)', 'add_fact(?d, "birthplace", ?p)', "set_answer(?p)"
    )
    found = ask(server=openai_server([wrong]), max_steps=1)
    assert found["answer"].values == ("South_Shields",)
    assert "add_fact(Alien, directed_by, ?d)" in found["steps"][0].observation


def test_a_relation_drafted_the_wrong_way_round_is_turned(ask: Ask, openai_server: Server) -> None:
    turned = program('add_fact(?d, "directed by", "Alien")', "set_answer(?d)")
    assert ask(server=openai_server([turned]), max_steps=1)["answer"].values == ("Ridley_Scott",)


def test_a_beam_keeps_a_candidate_that_is_right_further_on(
    ask: Ask, openai_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    vague = program(
        'add_fact("Alien", "release", ?x)', 'add_fact(?x, "place of birth", ?p)', "set_answer(?p)"
    )
    wide = ask(server=openai_server([vague]), max_steps=1)
    assert wide["answer"].values == ("South_Shields",)
    monkeypatch.setattr(kb_binder, "BEAM", 1)
    narrow = ask(server=openai_server([vague]), max_steps=1)
    assert "release_year" in narrow["program"]  # nobody was born in a year: it can only be turned round


def test_drafts_that_cannot_be_read_or_bound_have_no_vote(ask: Ask, openai_server: Server) -> None:
    unknown = program('add_fact("Xyzzyq", "directed by", ?d)', "set_answer(?d)")
    empty = program('add_fact("Alien", "directed by", ?d)', 'add_filter(?d, =, "Jaws")', "set_answer(?d)")
    found = ask(server=openai_server(["No idea, sorry.", unknown, empty, DIRECTOR]), max_steps=4)
    assert found["answer"].reason == "1 of 4 drafts agree"
    messages = [s.feedback.message for s in found["steps"]]
    assert messages[0] == "the reply has no program"
    assert messages[1].startswith("nothing in the graph fits add_fact")
    assert messages[2] == "the bound program finds nothing"
    assert [s.feedback.outcome for s in found["steps"]] == ["", "", "empty", "rows"]


def test_a_spent_budget_votes_on_what_there_is(ask: Ask, openai_server: Server) -> None:
    server = openai_server([RIGHT] * 6)
    answer = ask(server=server, max_model_calls=2)["answer"]
    assert len(server.chats) == answer.usage.calls == 2
    assert (answer.status, answer.values) == ("budget_spent", ("South_Shields",))
    assert answer.reason.endswith("2 of 2 drafts agree")


def test_exemplars_are_mined_programs_in_an_order_drawn_by_seed(ask: Ask, openai_server: Server) -> None:
    def prompts(seed: int) -> list[str]:
        server = openai_server(lambda _: DIRECTOR)
        ask("who directed Alien?", server, max_steps=4, draw_seed=seed)
        assert [chat.body["temperature"] for chat in server.chats] == [0.3] * 4
        return [chat.text for chat in server.chats]

    first = prompts(1)
    assert first[0].count('"directed by", ?directed_by)') == 4  # as many of one wording as are mined
    assert "Question: who directed Alien?\nEntities: Alien" in first[0]
    assert "who directed Alien?\nProgram" not in first[0]  # never the question itself
    assert prompts(1) == first
    assert len(set(first)) > 1
    assert prompts(2)[1:] != first[1:]


@pytest.mark.parametrize(
    ("reply", "read"),
    [
        (f"Here it is:\n```\n{DIRECTOR}\n```\nHope it helps (a lot).", DIRECTOR),
        (f"{DIRECTOR}\n\nQuestion: next?\nProgram:\n{YEAR}", DIRECTOR),
        ("1. " + DIRECTOR.replace("\n", "\n2. "), DIRECTOR),
        ('add_fact("Paris, Texas", "starred (actors)", ?a) set_answer(?a)', None),
        ("drop_table(x)", ""),
    ],
)
def test_programs_are_read_out_of_replies(reply: str, read: str | None) -> None:
    expected = reply.replace(" set_", "\nset_") if read is None else read
    assert "\n".join(call.text() for call in read_draft(reply)) == expected
