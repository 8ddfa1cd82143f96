"""Reflection: which triples are kept, and the network of paths they make (ODA 2.3)."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from hypothesis import given, strategies as st
from langgraph.runtime import Runtime

from tests.support.openai_server import OpenAIServer
from tests.support.states import after
from triplewise.graphs import Context, State
from triplewise.nodes.environment import Environment
from triplewise.nodes.hints import memory_texts
from triplewise.nodes.reflect import (
    chance,
    generated,
    none,
    oda,
    parse_triples,
    remember,
    similarity,
)
from triplewise.nodes.state import Step, Verdict
from triplewise.tools.actions.toolset import Feedback
from triplewise.tools.core.terms import IRI, Triple
from triplewise.tools.kg import KnowledgeGraph

from .conftest import GOETHE, GRAPH

nodes = st.sampled_from([IRI(f"http://e/{i}") for i in range(5)])
facts = st.lists(st.builds(Triple, nodes, st.just(IRI("http://e/p")), nodes), max_size=12)
Make = Callable[[str, str, str], Triple]


@given(facts)
def test_the_network_holds_every_triple_once_in_chains(triples: list[Triple]) -> None:
    memory = remember((), triples)
    flat = [t for path in memory for t in path]
    assert sorted(flat) == sorted(set(triples))
    for path in memory:
        assert all(a.object == b.subject for a, b in itertools.pairwise(path))


@given(facts, st.integers(1, 6), st.integers(1, 3))
def test_no_iteration_keeps_more_than_k(triples: list[Triple], limit: int, seed: int) -> None:
    distinct = tuple(dict.fromkeys(triples))
    asked = State(question="Where?", focus=("x",), steps=(step(triples=distinct),))
    context = Context(kg=str(GRAPH), profile="wikidata", reflect_limit=limit, draw_seed=seed)
    update = chance(asked, Runtime(context=context))
    kept = [t for path in update["memory"] for t in path]
    assert len(kept) == min(limit, len(distinct))
    assert set(kept) <= set(distinct)
    assert update == chance(asked, Runtime(context=context))
    tails = dict.fromkeys(t.object.n3() for t in distinct if t in kept and isinstance(t.object, IRI))
    assert list(update["focus"]) == (list(tails) or ["x"])


def test_the_first_path_that_fits_is_extended(triple: Make) -> None:
    one, two, both = triple("Q1", "P1", "Q9"), triple("Q2", "P1", "Q9"), triple("Q9", "P2", "Q3")
    assert remember(((one,), (two,)), [both]) == ((one, both), (two,))
    back = triple("Q3", "P2", "Q1")
    assert remember(((one,), (two,)), [back]) == ((one,), (two,), (back,))


def step(**feedback: Any) -> Step:
    return Step(1, "", "get_neighbors(x)", Feedback("get_neighbors", ("x",), **feedback), "seen")


def test_the_k_triples_most_like_the_question_are_kept(
    context: Context, state: Callable[..., State], triple: Make
) -> None:
    triples = (
        triple(GOETHE, "P19", "Q1794"),
        triple(GOETHE, "P26", "Q78641"),
        triple(GOETHE, "P451", "Q78495"),
    )
    asked = state(GOETHE, question="Which unmarried partner was it?", steps=(step(triples=triples),))
    update = similarity(asked, Runtime(context=replace(context, reflect_limit=1)))
    assert update["memory"] == ((triples[2],),)
    assert update["focus"] == ("Q78495",)


def test_notes_of_the_inspector_stand_under_the_observation(
    runtime: Runtime[Context], state: Callable[..., State]
) -> None:
    noted = state(GOETHE, steps=(step(),), verdict=Verdict("ok", note="Two steps left."))
    for phase in (similarity, none):
        update = phase(noted, runtime)
        assert update["steps"][-1].observation == "seen\nTwo steps left."
    assert similarity(noted, runtime)["focus"] == (GOETHE,)


def test_triples_that_the_graph_did_not_give_are_dropped(
    context: Context, state: Callable[..., State], triple: Make, openai_server: Callable[..., OpenAIServer]
) -> None:
    server = openai_server(["Q5879,P451,Q78495\nQ5879,P451,Q1\n(Lili Schöneman, place of birth, Mars)"])
    asked = state(GOETHE, steps=(step(triples=(triple(GOETHE, "P451", "Q78495"),)),))
    model = replace(context, model="openai:scripted", base_url=server.url, prompt="oda")
    assert oda(asked, Runtime(context=model))["memory"] == ((triple(GOETHE, "P451", "Q78495"),),)
    assert "at most 15" in server.chats[0].text


def test_a_whole_group_is_one_choice_and_one_line_of_memory(
    context: Context, state: Callable[..., State], triple: Make, openai_server: Callable[..., OpenAIServer]
) -> None:
    works = tuple(triple(GOETHE, "P800", f"Q{9000 + i}") for i in range(21))
    admirers = tuple(triple(f"Q{8000 + i}", "P737", GOETHE) for i in range(3))
    born = triple(GOETHE, "P19", "Q1794")
    server = openai_server([f"{GOETHE},P800,all\nall,P737,{GOETHE}\n{GOETHE},P19,Q1794"] * 2)
    made = step(triples=(*works, born, *admirers))
    asked = state(GOETHE, steps=(replace(made, feedback=replace(made.feedback, arguments=(GOETHE,))),))
    model = replace(context, model="openai:scripted", base_url=server.url, prompt="oda", reflect_limit=2)
    update = oda(asked, Runtime(context=model))
    kept = [t for path in update["memory"] for t in path]
    assert kept == [*works, *admirers], "K limits what is chosen, and a group is one choice"
    assert update["focus"] == ("Q9000", "Q9001")
    shown = server.chats[0].text
    assert "... (21 in all)" in shown
    assert shown.count("Q90") == 10
    lines = memory_texts(Environment(model).kg, after(asked, update))
    assert len(lines) == 2
    assert lines[0].startswith("(Johann Wolfgang von Goethe [Q5879], notable work, Q9000; Q9001; ")
    assert lines[0].endswith("; Q9020)")
    assert lines[1] == "(Q8000; Q8001; Q8002, P737, Johann Wolfgang von Goethe [Q5879])"


def test_a_model_goes_on_from_the_far_end_of_what_arrives(
    context: Context, state: Callable[..., State], triple: Make, openai_server: Callable[..., OpenAIServer]
) -> None:
    server = openai_server([f"all,P737,{GOETHE}"])
    made = step(triples=(triple("Q8000", "P737", GOETHE),))
    asked = state(GOETHE, steps=(replace(made, feedback=replace(made.feedback, arguments=(GOETHE,))),))
    model = replace(context, model="openai:scripted", base_url=server.url, prompt="oda")
    assert oda(asked, Runtime(context=model))["focus"] == ("Q8000",)


def test_written_facts_stand_apart_from_memory(
    context: Context, state: Callable[..., State], triple: Make, openai_server: Callable[..., OpenAIServer]
) -> None:
    server = openai_server(["- Goethe loved Lili Schöneman.\n\n2. Goethe was born on Mars.", "again"])
    triples = (triple(GOETHE, "P451", "Q78495"), triple(GOETHE, "P19", "Q1794"))
    asked = state(GOETHE, steps=(step(triples=triples),))
    model = replace(context, model="openai:scripted", base_url=server.url, prompt="oda", reflect_limit=2)
    update = generated(asked, Runtime(context=model))
    assert update["written"] == ("Goethe loved Lili Schöneman.", "Goethe was born on Mars.")
    assert update["memory"] == ()
    assert update["focus"] == ("Q78495",)
    assert "at most 2 short facts" in server.chats[0].text
    noted = after(asked, {k: v for k, v in update.items() if k != "steps"})
    oda(noted, Runtime(context=model))
    assert "- Goethe was born on Mars. (not from the knowledge graph)" in server.chats[1].text


def test_triples_are_read_in_many_forms(kg: KnowledgeGraph, triple: Make) -> None:
    born, died = triple("Q78495", "P19", "Q3042"), triple("Q78495", "P20", "Q157")
    replies = {
        "1. (Lili Schöneman, place of birth, Offenbach am Main) [Q78495, P19, Q3042]": [born],
        "Q78495,P20,Q157; Q78495,P19,Q3042.": [died, born],
        "I choose ('Q78495', 'P19', 'Q3042'), since it helps.": [born],
        "(offenbach am main, Place Of Birth, lili schöneman)": [born],
        "Q78495,P19,Q30421": [],
        "(Lili Schöneman, place of birth, Offenbach am Main Süd)": [],
        "none": [],
        "": [],
    }
    for reply, wanted in replies.items():
        assert parse_triples(kg, reply, [died, born]) == wanted, reply
