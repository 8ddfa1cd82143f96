"""Answers: values with labels, the query that gives them, facts that prove them, why a run ended."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st
from langgraph.runtime import Runtime

from tests.support.calls import parse_call
from tests.support.states import after
from triplewise.graphs import Answer, Context, State, build_graph
from triplewise.nodes.act import carry_out
from triplewise.nodes.answer import find_paths, memory, path_query, program
from triplewise.nodes.environment import Environment
from triplewise.nodes.state import Step, Verdict
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.actions.toolset import Feedback
from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.kg import KnowledgeGraph

from .conftest import FANG, GOETHE, WILD, chain, planned

Make = Callable[[str, str, str], Triple]
PARTNER = f"add_fact({GOETHE}, P451, ?partner)"


def ran(state: State, context: Context, *calls: str) -> State:
    """The state after some calls."""
    for text in calls:
        call = parse_call(text, TOOLSETS[context.toolset or "pyql"])
        state = after(state, carry_out(state, Environment(context), "", call))
    return state


def answered(update: dict[str, Answer]) -> Answer:
    return update["answer"]


def test_a_query_that_was_executed(context: Context, state: Callable[..., State]) -> None:
    done = ran(
        state(GOETHE), context, PARTNER, "add_fact(?partner, P19, ?place)", "set_answer(?place)", "execute()"
    )
    answer = answered(program(done, Runtime(context=context)))
    assert (answer.status, answer.values, answer.labels) == ("answered", ("Q3042",), ("Offenbach am Main",))
    assert answer.text == "Offenbach am Main."
    assert "?partner wdt:P19 ?place" in answer.sparql
    assert [p.text for p in answer.proof] == [
        "(Johann Wolfgang von Goethe, unmarried partner, Lili Schöneman)",
        "(Lili Schöneman, place of birth, Offenbach am Main)",
    ]


def test_what_a_model_answers_without_a_fact_is_not_sure(
    context: Context, state: Callable[..., State]
) -> None:
    explore = replace(context, toolset="explore")
    answer = answered(memory(ran(state(GOETHE), explore, "answer(Paris)"), Runtime(context=explore)))
    assert (answer.status, answer.text) == ("unsure", "Not sure, perhaps: Paris.")
    assert answer.reason == "no fact that was read leads to it"


@pytest.mark.parametrize("is_spent", [False, True])
def test_several_variables_are_answered_by_rows_with_all_their_columns(
    is_spent: bool, context: Context, state: Callable[..., State]
) -> None:
    calls = [PARTNER, "add_fact(?partner, P19, ?place)", "set_answer(?place, ?partner)"]
    done = ran(state(GOETHE), context, *calls, *([] if is_spent else ["execute()"]))
    if is_spent:
        done = done.model_copy(update={"verdict": Verdict("spent", note="the budget is spent")})
    answer = answered(program(done, Runtime(context=context)))
    partner = done.steps[0].feedback.ids["partner"][0]
    assert answer.values == (f"Q3042, {partner}",)
    assert answer.labels == ("Offenbach am Main, Lili Schöneman",)
    assert answer.text == "Offenbach am Main, Lili Schöneman."
    assert len(answer.proof) == 2


def test_an_earlier_query_of_the_run_is_executed_by_its_step(
    context: Context, state: Callable[..., State]
) -> None:
    done = ran(state(GOETHE), context, PARTNER, "add_fact(?partner, P19, ?place)", "set_answer(?place)")
    for bad in ("9", "0", "the first"):
        failed = ran(done, context, f"execute({bad})").last.feedback
        assert (failed.error, failed.message) == ("bad_number", "actions with a query are: 1, 2, 3")
    for before, n in ((done, 1), (ran(done, context, "undo(all)"), 3)):
        answer = answered(program(ran(before, context, f"execute({n})"), Runtime(context=context)))
        assert answer.labels == (("Lili Schöneman",) if n == 1 else ("Offenbach am Main",))
        assert ("P19" in answer.sparql) is (n == 3)


@pytest.mark.parametrize(("object_", "word"), [("Q16", "Yes."), ("Q157", "No.")])
def test_yes_and_no(object_: str, word: str, context: Context, state: Callable[..., State]) -> None:
    done = ran(state(WILD), context, f"add_fact({WILD}, P840, ?x)", f"add_filter(?x, =, {object_})")
    done = ran(done, context, "ask()", "execute()")
    answer = answered(program(done, Runtime(context=context)))
    assert (answer.status, answer.text) == ("answered", word)
    assert bool(answer.proof) is (word == "Yes.")
    assert "ASK" in answer.sparql


OWN = """
@prefix : <http://own.example/id/> . @prefix v: <http://own.example/v/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:mill a v:Mill ; rdfs:label "Mill" ; v:openedOn "1845-02-17"^^xsd:date ; v:isOpen false ; v:visitors 12500 .
:barn a v:Mill ; rdfs:label "Barn" ; v:openedOn "1846-02-17"^^xsd:date ; v:isOpen true ; v:visitors 100 .
"""


@pytest.mark.parametrize(
    ("question", "value", "label"),
    [
        ("When was Mill opened?", "1845-02-17", "17 February 1845"),
        ("How many visitors does Mill have?", "12500", "12,500"),
        ("Is Mill open?", "false", "No"),
    ],
)
def test_literals_read_as_people_write_them_where_ids_are_names(
    question: str, value: str, label: str, tmp_path: Path
) -> None:
    (tmp_path / "own.ttl").write_text(OWN, encoding="utf-8")
    found: Any = build_graph().invoke({"question": question}, context=Context(kg=str(tmp_path / "own.ttl")))
    answer = found["answer"]
    assert (answer.values, answer.labels) == ((value,), (label,))
    shown = [text for rival in answer.rivals for text in rival.labels]
    assert not {"true", "false", "1845-02-17"}.intersection(shown)


def test_a_number_is_an_answer_with_a_proof(context: Context, state: Callable[..., State]) -> None:
    done = ran(
        state(WILD),
        context,
        f"add_fact({WILD}, P840, ?x)",
        "add_count(?x, ?n)",
        "set_answer(?n)",
        "execute()",
    )
    answer = answered(program(done, Runtime(context=context)))
    assert (answer.values, answer.labels, answer.text) == (("4",), ("4",), "4.")
    assert len(answer.proof) == 4


def test_a_spent_budget_answers_with_what_is_proven(context: Context, state: Callable[..., State]) -> None:
    done = ran(state(GOETHE), context, PARTNER)
    done = done.model_copy(update={"verdict": Verdict("spent", note="the budget of 1 steps is spent")})
    answer = answered(program(done, Runtime(context=context)))
    assert (answer.status, answer.labels) == ("budget_spent", ("Lili Schöneman",))
    assert answer.reason == "the budget of 1 steps is spent; the answer is what was proven so far"


def test_nothing_found_says_why(context: Context, state: Callable[..., State]) -> None:
    runtime = Runtime(context=context)
    lost = Step(1, "", "give_up()", Feedback("give_up", finished=True), "")
    reasons = {
        "no entity of the question was found": state(),
        "no action was taken": state(GOETHE),
        "fits the words of the question": state(GOETHE, steps=(lost,)),
        "every way tried gave no result (1 steps, no correction was needed)": state(
            GOETHE, steps=(replace(lost, feedback=Feedback("answer", finished=True)),)
        ),
    }
    for reason, case in reasons.items():
        answer = answered(program(case, runtime))
        assert answer.status == "not_found"
        assert reason in answer.reason
        assert answer.text == f"Not found: {answer.reason}."
        assert (answer.values, answer.sparql, answer.proof) == ((), "", ())


def test_answers_from_memory_join_what_all_entities_lead_to(
    context: Context, state: Callable[..., State], triple: Make
) -> None:
    explore = replace(context, toolset="explore")
    facts = [triple(book, "P840", place) for book in (WILD, FANG) for place in ("Q16", "Q2009")]
    known = state(WILD, FANG, memory=tuple((f,) for f in facts))
    answer = answered(memory(ran(known, explore, "answer(Q16, Q2009)"), Runtime(context=explore)))
    assert answer.text == "Canada and Yukon."
    assert answer.sparql.count("wdt:P840 ?answer") == 2
    assert len(answer.proof) == 4


def test_facts_of_any_step_prove_what_memory_forgot(context: Context, state: Callable[..., State]) -> None:
    explore = replace(context, toolset="explore")
    done = ran(state(GOETHE), explore, f"get_neighbors({GOETHE})", "answer(Q78495)")
    answer = answered(memory(done, Runtime(context=explore)))
    assert [p.text for p in answer.proof] == [
        "(Johann Wolfgang von Goethe, unmarried partner, Lili Schöneman)"
    ]
    assert "wd:Q5879 wdt:P451 ?answer" in answer.sparql


def test_a_claim_is_proven_by_the_paths_between_what_it_names(
    context: Context, state: Callable[..., State], triple: Make
) -> None:
    explore = replace(context, toolset="explore")
    partner, born = triple(GOETHE, "P451", "Q78495"), triple("Q78495", "P19", "Q3042")
    beside = triple(GOETHE, "P19", "Q1794")
    claim = "Johann Wolfgang von Goethe loved somebody born in Offenbach am Main."
    known = state(GOETHE, question=claim, memory=((partner, born), (beside,)))
    for reply, word in {"answer(Yes)": "Yes.", "answer(true)": "Yes.", "answer(refuted)": "No."}.items():
        answer = answered(memory(ran(known, explore, reply), Runtime(context=explore)))
        assert answer.text == word
        assert [p.triple for p in answer.proof] == [partner, born]
        assert ("ASK" in answer.sparql) is (word == "Yes.")


def test_only_what_leads_to_the_answer_proves_it(
    context: Context, state: Callable[..., State], triple: Make
) -> None:
    explore = replace(context, toolset="explore")
    partner, beside = triple(GOETHE, "P451", "Q78495"), triple(GOETHE, "P19", "Q1794")
    slot = state(GOETHE, question="Goethe [SEP] unmarried partner", memory=((beside,), (partner,)))
    answer = answered(memory(ran(slot, explore, "answer(Q78495)"), Runtime(context=explore)))
    assert (answer.labels, [p.triple for p in answer.proof]) == (("Lili Schöneman",), [partner])
    film = state(GOETHE, question="Which film?", memory=((partner,),))
    assert answered(memory(ran(film, explore, "answer(Yes)"), Runtime(context=explore))).values == ("Yes",)


nodes = st.sampled_from([IRI(f"http://e/{i}") for i in range(6)])
relations = st.sampled_from([IRI("http://e/p"), IRI("http://e/q")])
facts = st.lists(st.builds(Triple, nodes, relations, nodes), max_size=14)


@given(facts, st.lists(nodes, max_size=2), st.sets(nodes, max_size=2))
def test_paths_lead_from_a_start_to_an_answer(
    triples: list[Triple], starts: list[IRI], answers: set[Term]
) -> None:
    for path in find_paths(triples, starts, answers.__contains__):
        node = path.start
        for fact, forward in path.hops:
            assert fact in triples
            assert node == (fact.subject if forward else fact.object)
            node = fact.object if forward else fact.subject
        assert node == path.end
        assert path.end in answers
        if len(path.hops) > 1:
            assert path.start in starts


def test_the_query_of_paths_finds_their_answers(kg: KnowledgeGraph, triple: Make) -> None:
    chain = [triple(GOETHE, "P451", "Q78495"), triple("Q78495", "P19", "Q3042")]
    goethe, place = chain[0].subject, chain[1].object
    (path,) = find_paths(chain, [goethe], lambda n: n == place)
    query = path_query([path])
    assert query is not None
    assert kg.query(query.sparql(kg.profile)).column("answer") == (place,)
    assert path_query([]) is None


RIVAL = chain(GOETHE, "P451", text="his partner", confidence=0.2, features={"share": 0.2}, values=("Q78495",))


@pytest.mark.parametrize(
    ("confidence", "settings", "status"),
    [
        (0.7, {}, "answered"),
        (0.4, {}, "unsure"),
        (0.4, {"min_confidence": 0.3}, "answered"),
        (0.1, {}, "not_found"),
        (0.1, {"guess": True}, "unsure"),
        (0.1, {"min_confidence": 0.0}, "answered"),
    ],
)
def test_how_sure_a_reading_is_decides_what_is_shown(
    context: Context,
    monkeypatch: pytest.MonkeyPatch,
    confidence: float,
    settings: dict[str, Any],
    status: str,
) -> None:
    levels = SimpleNamespace(min_confidence=0.6, floor=0.2)
    monkeypatch.setattr("triplewise.nodes.result.calibration_for", lambda *_: levels)
    known: dict[str, Any] = {"features": {"share": 0.5}, "uncovered": ("dwells",), "nearest": ("residence",)}
    best = chain(GOETHE, "P451", "P19", confidence=confidence, values=("Q3042",), **known)
    question = {"question": "Where?", "entities": {"Goethe": GOETHE}}
    graph = build_graph("agent", plan=planned(best, RIVAL))
    answer = graph.invoke(question, context=replace(context, **settings))["answer"]
    assert answer.status == status
    if status == "not_found":
        assert (answer.values, answer.sparql, answer.confidence) == ((), "", None)
    else:
        assert (answer.values, answer.confidence, answer.unaccounted) == (("Q3042",), confidence, ("dwells",))
        (rival,) = answer.rivals
        assert (rival.reading, rival.labels, rival.confidence) == ("his partner", ("Lili Schöneman",), 0.2)
        assert "wdt:P451" in rival.sparql
    if status != "answered":
        expected = "'dwells' is not covered by any relation of this graph (nearest: residence)"
        assert answer.reason == expected


def test_a_reading_without_evidence_has_no_confidence(context: Context) -> None:
    question = {"question": "Where?", "entities": {"Goethe": GOETHE}}
    graph = build_graph("agent", plan=planned(chain(GOETHE, "P451", "P19")))
    answer = graph.invoke(question, context=context)["answer"]
    assert (answer.status, answer.confidence, answer.rivals) == ("answered", None, ())
