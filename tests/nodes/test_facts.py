"""Facts read from documents in runs: seen by later actions, kept, reviewed, marked in the answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from tests.support.early_frost import EX, QUESTION, film_model, write_films
from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, build_graph
from triplewise.nodes.environment import Environment
from triplewise.nodes.review import read_decisions
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.terms import IRI, Triple
from triplewise.tools.overlay.store import FactStore

GIVEN = {"question": QUESTION, "entities": {"Early Frost": f"<{EX}f5>"}}


@pytest.fixture
def context(tmp_path: Path, openai_server: Callable[..., OpenAIServer]) -> Context:
    """A run with documents on a graph that does not say who directed Early Frost."""
    server = openai_server(film_model)
    return Context(model="openai:scripted", base_url=server.url, **write_films(tmp_path))


def store(context: Context) -> FactStore:
    assert context.facts is not None
    return FactStore(Path(context.facts))


def test_a_gap_is_filled_from_a_document(context: Context) -> None:
    state = build_graph("symagent").invoke(GIVEN, context=context)
    answer = state["answer"]
    assert answer.labels == ("Bert Boyle",), [s.call for s in state["steps"]]
    assert answer.text == ("Bert Boyle. 1 of the 1 facts that prove this was read from documents.")
    calls = [s.feedback.action for s in state["steps"]]
    assert calls == ["search_neighbor", "wiki_search", "finish"]
    (kept,) = store(context).facts()
    assert (kept.fact.status, kept.fact.sentence) == ("proposed", "Early Frost was directed by Bert Boyle.")
    assert (answer.proof[0].sentence, answer.proof[0].fact) == (kept.fact.sentence, kept.fact.id)


@pytest.mark.parametrize(
    ("overlay", "decided", "found"),
    [
        ("none", "accepted", False),
        ("accepted", "", False),
        ("accepted", "accepted", True),
        ("proposed", "", True),
        ("proposed", "rejected", False),
    ],
)
def test_kept_facts_are_seen_by_other_runs_as_asked_for(
    context: Context, overlay: Any, decided: Any, found: bool
) -> None:
    build_graph("symagent").invoke(GIVEN, context=context)
    if decided:
        store(context).decide([k.fact.id for k in store(context).facts()], decided)
    for preset in ("agent", "symagent"):
        state = build_graph(preset).invoke(
            GIVEN, context=replace(context, model="embedded", documents=None, overlay=overlay)
        )
        answer = state["answer"]
        assert (answer.labels == ("Bert Boyle",)) is found, (preset, answer)
        assert ("read from documents" in answer.text) is found


def test_a_rejected_fact_is_never_proposed_again(context: Context) -> None:
    build_graph("symagent").invoke(GIVEN, context=context)
    store(context).decide([k.fact.id for k in store(context).facts()], "rejected")
    state = build_graph("symagent").invoke(GIVEN, context=context)
    assert state["facts"] == ()
    assert state["answer"].labels != ("Bert Boyle",)
    said = next(s.observation for s in state["steps"] if s.feedback.action == "wiki_search")
    assert "1 that a person has rejected before are left out" in said


def waiting(graph: Any, config: Any) -> dict[str, Any]:
    """What a run that was interrupted shows."""
    (interrupt,) = graph.get_state(config).interrupts
    shown: dict[str, Any] = interrupt.value
    return shown


CONFIG: Any = {"configurable": {"thread_id": "1"}}


@pytest.mark.parametrize(("word", "found"), [("all", True), ("none", False), ({}, True)])
def test_a_run_waits_for_a_persons_word(context: Context, word: Any, found: bool) -> None:
    context = replace(context, review=True)
    graph = build_graph("symagent", checkpointer=InMemorySaver())
    graph.invoke(GIVEN, CONFIG, context=context)
    shown = waiting(graph, CONFIG)
    (fact,) = shown["facts"]
    assert fact["fact"] == "(Early Frost, directed by, Bert Boyle)"
    assert fact["sentence"] == "Early Frost was directed by Bert Boyle."
    assert {"id", "triple", "document", "source", "confidence", "conflicts"} < set(fact)
    word = word if word != {} else {fact["id"][:6]: True}
    state = graph.invoke(Command(resume=word), CONFIG, context=context)
    assert (state["answer"].labels == ("Bert Boyle",)) is found
    (kept,) = store(context).facts()
    assert kept.fact.status == ("accepted" if found else "rejected")
    triples = [t for s in state["steps"] for t in s.feedback.triples]
    assert (kept.fact.triple in triples) is found


def test_a_word_that_says_nothing_is_asked_for_again(context: Context) -> None:
    context = replace(context, review=True)
    graph = build_graph("symagent", checkpointer=InMemorySaver())
    graph.invoke(GIVEN, CONFIG, context=context)
    graph.invoke(Command(resume="perhaps"), CONFIG, context=context)
    assert waiting(graph, CONFIG)["error"] == "'perhaps' decides none of them"
    state = graph.invoke(Command(resume="all"), CONFIG, context=context)
    assert state["answer"].labels == ("Bert Boyle",)


def test_nobody_is_asked_about_what_was_accepted_before(context: Context) -> None:
    build_graph("symagent").invoke(GIVEN, context=context)
    store(context).decide([k.fact.id for k in store(context).facts()], "accepted")
    graph = build_graph("symagent", checkpointer=InMemorySaver())
    state = graph.invoke(GIVEN, CONFIG, context=replace(context, review=True))
    assert state["answer"].labels == ("Bert Boyle",)


def test_a_run_that_waits_survives_its_process(context: Context, tmp_path: Path) -> None:
    context = replace(context, review=True)
    path = str(tmp_path / "checkpoints.sqlite")
    with SqliteSaver.from_conn_string(path) as saver:
        build_graph("symagent", checkpointer=saver).invoke(GIVEN, CONFIG, context=context)
    with SqliteSaver.from_conn_string(path) as saver:
        graph = build_graph("symagent", checkpointer=saver)
        assert graph.get_state(CONFIG).next == ("review",)
        assert len(waiting(graph, CONFIG)["facts"]) == 1
        state = graph.invoke(Command(resume="all"), CONFIG, context=context)
    assert state["answer"].labels == ("Bert Boyle",)


FACT = ExtractedFact(
    Triple(IRI(EX + "f5"), IRI(EX + "directedBy"), IRI(EX + "anna")), {}, "q", "d", "s", "x", "t", "r", 1.0
)
OTHER = replace(FACT, triple=Triple(IRI(EX + "f5"), IRI(EX + "directedBy"), IRI(EX + "dora")))


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        ("all", {FACT.id: True, OTHER.id: True}),
        ("None", {FACT.id: False, OTHER.id: False}),
        ({OTHER.id[:8].upper(): True, "": False, "zz": True}, {OTHER.id: True}),
        ({FACT.id: 3}, {}),
        (None, {}),
        (7, {}),
    ],
)
def test_words_of_a_person(reply: Any, said: dict[str, bool]) -> None:
    assert read_decisions(reply, [FACT, OTHER]) == said


@pytest.mark.parametrize(
    ("status", "review", "found"),
    [("proposed", False, 1), ("proposed", True, 0), ("accepted", True, 1), ("rejected", False, 0)],
)
def test_what_a_run_sees_of_its_own_facts(context: Context, status: Any, review: bool, found: int) -> None:
    env = Environment(replace(context, review=review))
    env.facts = (replace(FACT, status=status),)
    assert len(env.kg.neighbours(FACT.triple.subject, FACT.triple.relation).triples) == found
    assert Environment(context).kg.neighbours(FACT.triple.subject, FACT.triple.relation).triples == ()


def test_rules_of_another_question_are_planned_for(
    context: Context, openai_server: Callable[..., OpenAIServer]
) -> None:
    from triplewise.nodes.plan import REPLANNED, rule_service
    from triplewise.nodes.state import State, Step
    from triplewise.tools.actions.toolset import Feedback

    given: Callable[..., State] = lambda **more: State(question="Who directed Amber Road?", **more)  # noqa: E731
    server = openai_server(lambda messages: "[born in]")
    context = replace(context, base_url=server.url, prompt="symagent", documents=None)
    rules = rule_service(given(), Environment(context))("Where was Bert Boyle born?")
    assert any("born" in rule.lower() for rule in rules)
    assert rule_service(given(), Environment(context))("who directed Amber Road") == []
    asked = tuple(
        Step(i, "", "", Feedback(action="get_rules", arguments=(f"where was {i} born?",)), "")
        for i in range(REPLANNED)
    )
    assert rule_service(given(steps=asked), Environment(context))("Where was Bert Boyle born?") == []
