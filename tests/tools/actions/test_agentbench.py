"""AgentBench's actions: what agents see, what is refused and why, and SPARQL that means the same sets."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given, settings, strategies as st

from tests.support.agentbench_gold import MadeUp, gold, play, records
from tests.support.calls import parse_call
from tests.support.pyql_programs import DATE, ENTITIES, NUMBER, RELATIONS, graphs
from triplewise.guidelines import load_guidelines
from triplewise.nodes.act import read_reply
from triplewise.tools.actions import TOOLSETS, ActionContext, Feedback
from triplewise.tools.actions.agentbench import Calls, number_of, read_calls, to_pyql
from triplewise.tools.actions.toolset import Call, ReasoningMemory
from triplewise.tools.core.terms import Literal, Term, Triple
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.pyql.text import write_iri

AGENTBENCH, GUIDELINES = TOOLSETS["agentbench"], load_guidelines()
TURTLE = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
wd:Q40 rdfs:label "Austria"@en ; wdt:P47 wd:Q183, wd:Q38, wd:Q28 ; wdt:P31 wd:Q6256 .
wd:Q39 rdfs:label "Switzerland"@en ; wdt:P47 wd:Q183, wd:Q38, wd:Q142 ; wdt:P31 wd:Q6256 .
wd:Q183 rdfs:label "Germany"@en ; wdt:P1082 84000000 ; wdt:P31 wd:Q6256 .
wd:Q38 rdfs:label "Italy"@en ; wdt:P1082 "59000000" ; wdt:P31 wd:Q6256 .
wd:Q28 rdfs:label "Hungary"@en ; wdt:P31 wd:Q6256 . wd:Q142 rdfs:label "France"@en ; wdt:P31 wd:Q6256 .
wd:Q1741 rdfs:label "Vienna"@en ; wdt:P17 wd:Q40 ; wdt:P31 wd:Q515 ; wdt:P1705 "Wien" .
wd:Q515 rdfs:label "city"@en . wd:Q6256 rdfs:label "country"@en . wd:P47 rdfs:label "shares border with"@en .
"""
LINKED = {"Q40": "Austria", "Q39": "Switzerland"}
BORDERS = ("get_relations(Q40)", "get_neighbors(Q40, P47)", "get_relations(Q39)", "get_neighbors(Q39, P47)")
DATA = os.environ.get("TRIPLEWISE_DATA")
needs_data = pytest.mark.skipif(DATA is None, reason="TRIPLEWISE_DATA names no folder")


def opened(turtle: str, profile: Profile) -> LocalKG:
    """A small graph."""
    store = ox.Store()
    store.load(turtle.encode(), format=ox.RdfFormat.TURTLE)
    return LocalKG(store, profile, "small")


@pytest.fixture(scope="module")
def kg() -> LocalKG:
    return opened(TURTLE, load_profile("wikidata"))


def run(kg: LocalKG, *calls: str) -> tuple[Feedback, ReasoningMemory]:
    """The feedback of the last of several calls, and the memory before it."""
    memory, feedback = ReasoningMemory(linked=LINKED), Feedback()
    for written in calls:
        if feedback.relations:
            node = feedback.arguments[0]
            offered = {node: memory.looked_up.get(node, {}) | feedback.relations}
            memory = replace(memory, looked_up=memory.looked_up | offered)
        memory = replace(memory, bound=tuple(dict.fromkeys((*memory.bound, *feedback.values))))
        bench = ActionContext(kg, program=feedback.program, memory=memory)
        feedback = AGENTBENCH.execute(bench, parse_call(written, AGENTBENCH))
        assert not feedback.error or written == calls[-1], feedback.message
    return feedback, memory


@pytest.mark.parametrize(
    ("calls", "observation"),
    [
        (("get_relations(Q40)",), "[P31, P47 (shares border with), ^P17]"),
        (("get_neighbors(Q40, P47)",), "Variable #0: ['Germany', 'Hungary', 'Italy']"),
        (("get_neighbors(austria, P47 (shares border with))",),
         "Variable #0: ['Germany', 'Hungary', 'Italy']"),
        (("get_neighbors(Q40, ^P17)", "get_relations(#0)"), "[P17, P1705, P31]"),
        ((*BORDERS, "intersection(#0, Variable #1)"), "Variable #2: ['Germany', 'Italy']"),
        ((*BORDERS, "union(#0, #1)"), "Variable #2: ['France', 'Germany', 'Hungary', 'Italy']"),
        ((*BORDERS, "union(#0, #1)", "count(#2)"), "Variable #3: ['4']"),
        ((*BORDERS, "get_attributes(#0)"), "[P1082]"),
        ((*BORDERS, "argmax(#0, P1082)"), "Variable #2: ['Germany']"),
        ((*BORDERS, "argmin(#1, P1082)", "answer(#2)"), "Variable #2: ['Italy']"),
    ],
)  # fmt: skip
def test_what_an_agent_sees(kg: LocalKG, calls: tuple[str, ...], observation: str) -> None:
    feedback, memory = run(kg, *calls)
    assert _sorted(feedback.observation) == observation
    match = GUIDELINES.match(feedback, memory, toolset="agentbench")
    assert match is None or match.severity == "note"


def _sorted(observation: str) -> str:
    """An observation with the names in its list in order: engines need not keep one."""
    head, _, rest = observation.partition("[")
    items = rest.removesuffix("]").split(", ")
    return f"{head}[{', '.join(sorted(items, key=lambda i: (i[0] == '^', i)))}]"


@pytest.mark.parametrize(
    ("calls", "guideline"),
    [
        (("count(Q40)",), "variable_due"),
        (("intersection(#0, #1)",), "variable_unknown"),
        ((*BORDERS, "argmax(#7, P1082)"), "variable_unknown"),
        ((*BORDERS, "intersection(#1, #1)"), "same_variable_twice"),
        ((*BORDERS, "count(#0)", "get_relations(#2)"), "variable_is_number"),
        (("get_neighbors(Q40, P36)",), "neighbors_before_relations"),
        (("get_relations(Q40)", "get_neighbors(Q40, P36)"), "neighbors_not_offered"),
        (("get_relations(Q40)", "get_neighbors(Q40, P17)"), "neighbors_reversed"),
        (("get_relations(Q40)", "get_neighbors(Q40, ?x)"), "neighbors_of_bad_relation"),
        ((*BORDERS, "argmax(#0, P2046)"), "attribute_before_attributes"),
        ((*BORDERS, "get_attributes(#0)", "argmax(#0, P2046)"), "attribute_not_offered"),
        ((*BORDERS, "get_attributes(#0)", "argmax(#0, P31)"), "attribute_not_offered"),
        (("get_neighbors(Q40, ^P17)", "get_attributes(#0)"), "attributes_none"),
        (("get_neighbors(Q40, ^P17)", "get_neighbors(Q40, P47)", "intersection(#0, #1)"),
         "intersection_empty"),
        (("get_neighbors(Q183, P31)", "get_neighbors(#0, ^P31)", "get_neighbors(Q40, ^P17)",
          "get_neighbors(#2, P17)", "get_neighbors(Q40, P47)", "intersection(#3, #4)"), "intersection_empty"),
        (("get_relations(Q142)",), "start_unknown"),
        (("get_relations(the Alps)",), "start_unknown"),
        ((*BORDERS, "answer(#5)"), "final_answer_unknown"),
        ((*BORDERS, "answer(Germany)"), "final_answer_no_variable"),
        (("add_fact(Q40, P47, ?x)",), "unknown_action"),
        (("intersection(#0)",), "arity"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_own_guideline(kg: LocalKG, calls: tuple[str, ...], guideline: str) -> None:
    feedback, memory = run(kg, *calls)
    match = GUIDELINES.match(feedback, memory, toolset="agentbench")
    assert match is not None
    assert (match.id, match.severity) == (guideline, "error")


@pytest.mark.parametrize(
    "reply",
    [
        "Thought: #3 holds it.\nFinal Answer: #3",
        "**Final Answer:** Variable #3.",
        "Thought: done\nAction 4: Final_Answer(#3)",
        "I've got it. Final Answer: #3\n\nObservation: made up",
    ],
)
def test_a_final_answer_is_read_in_every_form(reply: str) -> None:
    _, (call,) = read_reply(reply, AGENTBENCH)  # type: ignore[misc]
    assert isinstance(call, Call)
    assert AGENTBENCH.action(call.name).name == "answer"
    assert number_of((Call("count", ("#0",)),) * 4, *call.arguments) == 3


PROFILE = Profile(prefixes={"ex": "http://example.org/"})
MARKS, SUPERLATIVES = st.sampled_from(["", "^"]), st.sampled_from(["argmax", "argmin"])


@st.composite
def sets(draw: st.DrawFn) -> Calls:
    """Up to six sets, each from those before it; counts come last, as nothing is made from them."""
    calls: list[Call] = []
    for n in range(draw(st.integers(1, 6))):
        before = st.sampled_from([f"#{i}" for i in range(n)])
        relation = st.builds(lambda m, r: m + write_iri(r, PROFILE, True), MARKS, st.sampled_from(RELATIONS))
        entity = st.sampled_from([write_iri(e, PROFILE) for e in ENTITIES])
        measure = st.sampled_from([write_iri(r, PROFILE, True) for r in (NUMBER, DATE)])
        options = [st.builds(lambda *a: Call("get_neighbors", a), entity, relation)]
        if n:
            options += [
                st.builds(lambda *a: Call("get_neighbors", a), before, relation),
                st.builds(lambda *a: Call("intersection", a), before, before),
                st.builds(lambda *a: Call("union", a), before, before),
                st.builds(lambda name, *a: Call(name, a), SUPERLATIVES, before, measure),
            ]
        calls.append(draw(st.one_of(options)))
    if draw(st.booleans()):
        calls.append(Call("count", (f"#{draw(st.integers(0, len(calls) - 1))}",)))
    return tuple(calls)


def members(graph: set[Triple], calls: tuple[Call, ...], form: str) -> set[Term]:
    """The members of a set, without SPARQL."""
    if not form.startswith("#"):
        return {PROFILE.expand(form)}  # type: ignore[arg-type]
    call = calls[int(form[1:])]
    first, *rest = call.arguments
    among = members(graph, calls, first)
    match call.name:
        case "get_neighbors":
            relation, forward = PROFILE.expand(rest[0].lstrip("^"), relation=True), rest[0][0] != "^"
            ways = [(t.subject, t.object) if forward else (t.object, t.subject) for t in graph
                    if t.relation == relation]  # fmt: skip
            return {end for begin, end in ways if begin in among}
        case "intersection":
            return among & members(graph, calls, rest[0])
        case "union":
            return among | members(graph, calls, rest[0])
    attribute = PROFILE.expand(rest[0], relation=True)
    values = [(_key(t.object), t.subject) for t in graph if t.relation == attribute and t.subject in among]
    best = (max if call.name == "argmax" else min)(values, default=None, key=lambda v: v[0])
    return {who for value, who in values if best is not None and value == best[0]}


def _key(term: Term) -> float | str:
    return float(term.value) if isinstance(term, Literal) and "-" not in term.value else term.value


@settings(max_examples=150, deadline=None)
@given(sets(), graphs())
def test_sparql_means_the_same_sets(made: Calls, graph: set[Triple]) -> None:
    store = ox.Store()
    lines = "\n".join(f"{t.subject.n3()} {t.relation.n3()} {t.object.n3()} ." for t in graph)
    store.load(lines.encode(), format=ox.RdfFormat.N_TRIPLES)
    kg = LocalKG(store, PROFILE, "random")
    state = "\n".join(call.text() for call in made)
    assert read_calls(state) == made
    program = to_pyql(state, PROFILE)
    result = kg.query(program.sparql(PROFILE))
    values = set(result.column(result.variables[0])) if result.rows else set()
    counted = made[-1]
    if counted.name == "count":
        assert {t.value for t in values} == {str(len(members(graph, made, counted.arguments[0])))}
    else:
        assert values == members(graph, made, f"#{len(made) - 1}")
        assert PyQL.parse(program.text(PROFILE), PROFILE) == program


@needs_data
def test_gold_sequences_end_in_the_gold_answer_on_graphs_made_up_for_them() -> None:
    for record in list(records(Path(DATA or "") / "agentbench_kg"))[::12]:
        if any("common.image." in call for call in record["actions"]):
            continue  # The profile never offers this relation.
        steps = play(MadeUp(record).kg(), record, GUIDELINES)
        assert set(steps[-1].feedback.answers) == gold(record), record["id"]
        assert [s.match.text for s in steps if s.match and s.match.severity == "error"] == []
