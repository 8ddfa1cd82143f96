"""Verified corrections: what is offered finds something, within the budget, and time-outs prove nothing."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.calls import parse_call
from triplewise.tools.actions import TOOLSETS, ActionContext, Feedback
from triplewise.tools.actions.repair.verify import QueryBudget, SpentError, VerifiedFix, find_fixes, finds
from triplewise.tools.actions.toolset import Call, ReasoningMemory
from triplewise.tools.kg.engine import ReadQuery
from triplewise.tools.kg.labels import LabelIndex, Name
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Meter, Outcome, Result

PYQL = TOOLSETS["pyql"]
WIKIDATA = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> . @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
wd:Q17 rdfs:label "Japan"@en ; wdt:P36 wd:Q1490 ; wdt:P31 wd:Q6256 ; wdt:P30 wd:Q48 .
wd:Q142 rdfs:label "France"@en ; wdt:P36 wd:Q90 ; wdt:P31 wd:Q6256 ; wdt:P30 wd:Q46 .
wd:Q6256 rdfs:label "country"@en . wd:Q48 rdfs:label "Asia"@en . wd:Q46 rdfs:label "Europe"@en .
wd:Q1490 rdfs:label "Tokyo"@en ; wdt:P17 wd:Q17 ; wdt:P1082 14000000 ; wdt:P571 "1457-01-01"^^xsd:date .
wd:Q90 rdfs:label "Paris"@en ; wdt:P17 wd:Q142 ; wdt:P1082 2100000 ; wdt:P571 "0250-01-01"^^xsd:date .
wd:P36 rdfs:label "capital"@en . wd:P17 rdfs:label "country"@en . wd:P30 rdfs:label "continent"@en .
wd:P31 rdfs:label "instance of"@en . wd:P1082 rdfs:label "population"@en . wd:P571 rdfs:label "inception"@en .
"""


class Moody(LocalKG):
    """A KG that fails at queries that hold some text."""

    fails_at: str = "\0"
    outcome: Outcome = Outcome.TIMEOUT

    def _run(self, query: ReadQuery, timeout: float, limit: int, foreign: bool) -> Result:
        if self.fails_at in query.capped(limit):
            return Result(self.outcome, message="no answer")
        return super()._run(query, timeout, limit, foreign)


def opened(turtle: str, profile: str) -> Moody:
    store = ox.Store()
    store.load(turtle.encode(), format=ox.RdfFormat.TURTLE)
    names = [Name("http://www.wikidata.org/entity/Q142", "France")]
    return Moody(store, load_profile(profile), profile, index=LabelIndex.in_memory(lambda: names))


@pytest.fixture
def kg() -> Moody:
    return opened(WIKIDATA, "wikidata")


LINKED = {"Q17": "Japan", "Q90": "Paris"}


def after(kg: KnowledgeGraph, *calls: str, question: str = "", **memory: Any) -> ActionContext:
    """The context after some steps that work."""
    memory_before = ReasoningMemory(linked=LINKED)
    context = ActionContext(kg, question, memory=replace(memory_before, **memory))
    for call in calls:
        feedback = PYQL.execute(context, parse_call(call, PYQL))
        assert finds(feedback), feedback
        context = replace(context, program=feedback.program)
    return context


def fix(context: ActionContext, call: str, budget: int = 12, most: int = 3) -> tuple[VerifiedFix, ...]:
    """What is offered for a call that fails."""
    feedback = PYQL.execute(context, parse_call(call, PYQL))
    return find_fixes(context, PYQL, feedback, budget=budget, most=most)


def again(context: ActionContext, offer: VerifiedFix) -> Feedback:
    """Carry out an offer as an agent would."""
    feedback = PYQL.execute(context, offer.call)
    assert not feedback.error, feedback.message
    return feedback


ONE, TWO = ("add_fact(Q17, P36, ?city)",), ("add_fact(Q17, P36, ?city)", "add_fact(?city, P1082, ?people)")
CASES: dict[str, tuple[tuple[str, ...], str, str]] = {
    "swapped": ((), "add_fact(?x, P36, Q17)", "add_fact(Q17, P36, ?x) -> ?x: Tokyo"),
    "sibling": ((), "add_fact(Q17, P1376, ?capital)", "add_fact(Q17, P36, ?capital) -> ?capital: Tokyo"),
    "relation by a description": (
        (),
        "add_fact(Q17, the capital, ?x)",
        "add_fact(Q17, P36, ?x) -> ?x: Tokyo",
    ),
    "relation between two known ends": (
        ("add_fact(Q17, P36, ?city)",),
        "add_fact(?city, P36, Q17)",
        "add_fact(?city, P17, Q17) -> ?city: Tokyo",
    ),
    "misspelt label": ((), "add_fact(Jappan, P36, ?x)", "add_fact(Q17, P36, ?x) -> ?x: Tokyo"),
    "label of what was not linked": (
        (),
        "get_relation(france)",
        "get_relation(Q142) -> P30 (continent), P31 (instance of), P36 (capital), ...",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_was_meant_is_offered(name: str, kg: Moody) -> None:
    before, broken, meant = CASES[name]
    context = after(kg, *before, question="What is the capital of Japan?")
    fixes = fix(context, broken, most=4)
    assert any(o.text().startswith(meant) for o in fixes), [o.text() for o in fixes]
    assert all(finds(again(context, o)) for o in fixes)


def test_what_failed_before_is_not_offered_again(kg: Moody) -> None:
    context = after(kg, doubted=frozenset({"add_fact(Q17, P36, ?x)"}))
    fixes = fix(context, "add_fact(?x, P36, Q17)")
    assert "add_fact(Q17, P36, ?x)" not in [o.call.text() for o in fixes]


def test_a_relation_is_not_offered_for_finding_something_where_others_fit_better(kg: Moody) -> None:
    fixes = fix(
        after(kg, ONE[0], question="When was the capital of Japan founded, its inception?"),
        "add_fact(?city, P569, ?x)",
        most=9,
    )
    offered = [o.call.arguments[1] for o in fixes]
    assert offered[0] == "P571"
    assert "P31" not in offered


@pytest.mark.parametrize("outcome", [Outcome.TIMEOUT, Outcome.UNAVAILABLE])
def test_a_kg_that_does_not_answer_says_nothing_of_a_fix(outcome: Outcome, kg: Moody) -> None:
    context = after(kg)
    feedback = PYQL.execute(context, parse_call("add_fact(?x, P36, Q17)", PYQL))
    kg.fails_at, kg.outcome = "SELECT", outcome
    meter = Meter(context.kg.meter)
    fixes = find_fixes(context, PYQL, feedback, budget=12, most=3)
    assert fixes == ()
    assert meter.queries <= 3, "what does not answer is not asked again and again"


def test_fixes_are_tried_one_by_one_where_the_joint_test_times_out(kg: Moody) -> None:
    looked_up = {"Q17": {"forward": ["P36", "P30", "P31"], "backward": ["P17"]}}
    context = after(kg, looked_up=looked_up)
    feedback = PYQL.execute(context, parse_call("add_fact(?x, P36, Q17)", PYQL))
    kg.fails_at = "UNION"
    fixes = find_fixes(context, PYQL, feedback, budget=12, most=3)
    assert fixes[0].call.text() == "add_fact(Q17, P36, ?x)"


def test_a_budget_is_kept_and_measured_outside(kg: Moody) -> None:
    budget = QueryBudget(kg, 2)
    meter = Meter(kg.meter)
    for query in ("ASK { ?a ?b ?c }", "ASK { ?a ?b ?d }"):
        assert budget.query(query).boolean
    with pytest.raises(SpentError):
        budget.query("ASK { ?x ?y ?z }")
    assert (meter.queries, budget.left) == (2, 0)


NODES = st.sampled_from(
    ["Q17", "Q142", "Q1490", "Q90", "?city", "?new", "?other", "Japan", "Tokio", "'x'", "5", "Q5"]
)
RELATIONS = st.sampled_from(["P36", "P17", "P30", "P31", "P1082", "P571", "P999", "capital", "?r", "="])
VALUES = st.sampled_from(["1999", "1999-13-01", "5000", "?city", "?people", "?peopel", "Q17", "big", "'a"])
OPERATORS = st.sampled_from(["<", ">", "=", "!=", "is more than", "P17", "contains", "~"])
VARIABLES = st.sampled_from(["?city", "?people", "?ppl", "city", "Q17", ""])
ON_VARIABLES = st.sampled_from(["set_answer", "add_max", "add_count", "get_relation"])
ACTIONS = st.sampled_from(["addfact", "execute", "ask", "add_fact", "count", "add_type"])
BROKEN = st.one_of(
    st.builds(lambda *a: Call("add_fact", a), NODES, RELATIONS, NODES),
    st.builds(lambda *a: Call("add_filter", a), VALUES, OPERATORS, VALUES),
    st.builds(lambda n, v: Call(n, (v,)), ON_VARIABLES, VARIABLES),
    st.builds(lambda n, a: Call(n, tuple(a)), ACTIONS, st.lists(NODES, max_size=4)),
)
PROGRAMS = st.sampled_from([(), ONE, TWO, (*ONE, "set_answer(?city)")])
SHARED = opened(WIKIDATA, "wikidata")


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(BROKEN, PROGRAMS, st.integers(1, 15), st.integers(1, 4))
def test_every_offer_finds_something_within_the_budget(
    broken: Call, program: tuple[str, ...], budget: int, most: int
) -> None:
    context = after(SHARED, *program, question="What is the capital of Japan?")
    feedback = PYQL.execute(context, broken)
    meter = Meter(context.kg.meter)
    fixes = find_fixes(context, PYQL, feedback, budget=budget, most=most)
    assert meter.queries <= budget
    assert len(fixes) <= most
    for offer in fixes:
        done = again(context, offer)
        assert finds(done), (offer.text(), done)
        assert not done.values or any(done.values.values())
