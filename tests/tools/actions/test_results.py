"""What a query's result says beyond its values: kinds, topics, hierarchy, what an empty step leaves."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyoxigraph as ox
import pytest

from triplewise.tools.actions import TOOLSETS, ActionContext, Feedback
from triplewise.tools.actions.pyql import kind_of_value
from triplewise.tools.actions.toolset import Call, ReasoningMemory
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, text
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import load_profile

TURTLE = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
wd:Q1 rdfs:label "Alien"@en ; wdt:P31 wd:Q10 ; wdt:P57 wd:Q5 ; wdt:P577 "1979-05-25"^^xsd:date .
wd:Q1 wdt:P2047 117 .
wd:Q2 rdfs:label "Blade Runner"@en ; wdt:P31 wd:Q10 ; wdt:P57 wd:Q5 ; wdt:P2047 117 ; wdt:P793 wd:Q7 .
wd:Q3 rdfs:label "Legend"@en ; wdt:P57 wd:Q5 ; wdt:P2047 94 .
wd:Q5 rdfs:label "Ridley Scott"@en . wd:Q10 rdfs:label "horror film"@en ; wdt:P279 wd:Q11 .
wd:Q11 rdfs:label "film"@en . wd:Q7 rdfs:label "1982 Cannes Film Festival"@en .
"""
DIRECTED = "add_fact(?film, P57, Q5)"


@pytest.fixture(scope="module")
def kg() -> LocalKG:
    store = ox.Store()
    store.load(TURTLE.encode(), format=ox.RdfFormat.TURTLE)
    return LocalKG(store, load_profile("wikidata"), "films")


def feedback_of(kg: LocalKG, *calls: str) -> Feedback:
    """The feedback of the last of some calls."""
    linked = {"Q5": "Ridley Scott", "Q1": "Alien"}
    bench = ActionContext(kg=kg, memory=ReasoningMemory(linked=linked))
    feedback = Feedback()
    for form in calls:
        name, _, rest = form.rstrip(")").partition("(")
        call = Call(name, tuple(part.strip() for part in rest.split(",") if part.strip()))
        feedback = TOOLSETS["pyql"].execute(replace(bench, program=feedback.program), call)
        assert not feedback.error, feedback.message
    return feedback


@pytest.mark.parametrize(
    ("term", "name", "kind"),
    [
        (Literal("117", XSD + "integer"), None, "number"),
        (Literal("1979", XSD + "gYear"), None, "date"),
        (text("1979"), None, "year"),
        (text("1,170.5"), None, "number"),
        (Literal("true", XSD + "boolean"), None, "boolean"),
        (text("Alien"), None, "text"),
        (IRI("urn:a"), "Alien", "entity"),
        (IRI("urn:a"), "2011 NBA Finals", "dated"),
        (IRI("urn:a"), "UnName_Entity", "unnamed"),
        (IRI("urn:a"), None, "unseen"),
    ],
)
def test_kinds_of_values(term: Term, name: str | None, kind: str) -> None:
    assert kind_of_value(term, name) == kind


@pytest.mark.parametrize(
    ("calls", "kinds"),
    [
        ((DIRECTED, "set_answer(?film)"), {"entity": 3}),
        ((DIRECTED, "add_fact(?film, P577, ?day)", "set_answer(?day)"), {"date": 1}),
        ((DIRECTED, "add_fact(?film, P793, ?event)", "set_answer(?event)"), {"dated": 1}),
        ((DIRECTED, "add_count(?film, ?n)", "set_answer(?n)"), {"number": 1}),
    ],
)
def test_kinds_of_an_answer(kg: LocalKG, calls: tuple[str, ...], kinds: dict[str, int]) -> None:
    assert feedback_of(kg, *calls).detail["answer_kinds"] == kinds


def test_an_empty_step_says_what_the_values_before_it_have(kg: LocalKG) -> None:
    empty = feedback_of(kg, DIRECTED, "add_type(?film, Q5)")
    assert empty.outcome == "empty"
    has = empty.detail["has"]["?film"]
    assert "P31, 2 of 3: horror film" in has
    assert "P57: Ridley Scott" in has


def test_a_clause_that_is_there_already_changes_nothing(kg: LocalKG) -> None:
    assert "unchanged" not in feedback_of(kg, DIRECTED).detail
    assert feedback_of(kg, DIRECTED, DIRECTED).detail["unchanged"]
    assert "unchanged" not in feedback_of(kg, DIRECTED, "execute()").detail


@pytest.mark.parametrize(
    ("fact", "facts"),
    [
        ("add_fact(?film, P279, Q10)", {"hierarchy": "subclass", "class_relations": ["P31", "P279"]}),
        ("add_fact(?film, P31, Q11)", {"hierarchy": "type", "class_relations": ["P31", "P279"]}),
        ("add_fact(?film, P31, Q10)", {"hierarchy": "type"}),
        ("add_fact(?film, P57, Q10)", {"class_relations": ["P31", "P279"]}),
        ("add_fact(?film, P577, ?day)", {}),
    ],
)
def test_what_a_fact_has_to_do_with_classes(kg: LocalKG, fact: str, facts: dict[str, Any]) -> None:
    detail = feedback_of(kg, DIRECTED, fact).detail
    assert {k: v for k, v in detail.items() if k in ("hierarchy", "class_relations")} == facts


def test_a_node_without_a_name_that_joins_nothing_is_an_end() -> None:
    ns = "http://rdf.freebase.com/ns/"
    store = ox.Store()
    store.load(
        f"""@prefix : <{ns}> .
        :m.01 <{ns}a.person.child> :m.02 , :m.03 ; <{ns}a.person.office> :m.04 .
        :m.02 <{ns}type.object.type> <{ns}a.person> . :m.04 <{ns}a.office.title> "mayor" .""".encode(),
        format=ox.RdfFormat.TURTLE,
    )
    graph = LocalKG(store, load_profile("freebase"), "people")
    child = ("add_fact(m.01, a.person.child, ?x)", "set_answer(?x)")
    office = ("add_fact(m.01, a.person.office, ?x)", "set_answer(?x)")
    joined, ended = feedback_of(graph, *office), feedback_of(graph, *child)
    assert set(ended.values["x"]) == set(joined.values["x"]) == {"UnName_Entity"}
    assert (ended.detail["ends"], "ends" in joined.detail) == (["x"], False)
