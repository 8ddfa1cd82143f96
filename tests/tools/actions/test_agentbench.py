"""AgentBench's actions: what agents see, what is refused and why, and SPARQL that means the same sets."""

from __future__ import annotations

import gzip
import os
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.agentbench_gold import MadeUp, gold, play, records
from tests.support.pyql_programs import DATE, ENTITIES, NUMBER, RELATIONS, graphs
from triplewise.guidelines import load_guidelines
from triplewise.nodes.act import read_reply
from triplewise.tools.actions import TOOLSETS, ActionContext, Feedback, ReasoningMemory, parse_call
from triplewise.tools.actions.agentbench_sets import (
    Best,
    Intersection,
    Joined,
    Made,
    Neighbors,
    Number,
    Sets,
)
from triplewise.tools.core.call import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import Literal, Term, Triple
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.pyql import PyQL

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


def borders(profile: Profile) -> EmbeddedKG:
    """The small graph of this file."""
    store = ox.Store()
    store.load(TURTLE.encode(), format=ox.RdfFormat.TURTLE)
    return EmbeddedKG(store, profile, "borders")


@pytest.fixture(scope="module")
def kg() -> EmbeddedKG:
    return borders(load_profile("wikidata"))


def run(kg: EmbeddedKG, *calls: str) -> tuple[Feedback, ReasoningMemory]:
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
def test_what_an_agent_sees(kg: EmbeddedKG, calls: tuple[str, ...], observation: str) -> None:
    feedback, memory = run(kg, *calls)
    assert _sorted(feedback.observation) == observation
    match = GUIDELINES.match(feedback, memory, toolset="agentbench")
    assert match is None or match.severity == "note"


def _sorted(observation: str) -> str:
    """An observation with the names in its list in order: engines need not keep one."""
    head, _, rest = observation.partition("[")
    items = rest.removesuffix("]").split(", ")
    return f"{head}[{', '.join(sorted(items, key=lambda i: (i[0] == '^', i)))}]"


def test_inverse_relations_are_offered_only_where_the_graph_has_none(kg: EmbeddedKG) -> None:
    both = borders(replace(load_profile("wikidata"), reciprocal=True))
    assert "^P17" in run(kg, "get_relations(Q40)")[0].observation
    assert "^" not in run(both, "get_relations(Q40)")[0].observation
    assert run(both, "get_neighbors(Q40, ^P17)")[0].values == {"#0": ["Vienna"]}


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
         "intersection_of_kinds"),
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
def test_each_mistake_has_its_own_guideline(kg: EmbeddedKG, calls: tuple[str, ...], guideline: str) -> None:
    feedback, memory = run(kg, *calls)
    match = GUIDELINES.match(feedback, memory, toolset="agentbench")
    assert match is not None
    assert (match.id, match.severity) == (guideline, "error")


@pytest.mark.parametrize(
    "reply",
    [
        "Thought: #3 holds it.\nFinal Answer: #3",
        "Thought 4: The third one is it. Final Answer: #3",
        "**Final Answer:** #3.",
        "Final Answer: Variable #3",
        "Thought: done\nAction: answer(#3)",
        "Thought: done\nAction 4: Final_Answer(#3)",
        "I've got it.\n\nFinal Answer: #3\n\nObservation: made up",
    ],
)
def test_a_final_answer_is_read_in_every_form(reply: str) -> None:
    _, _, call = read_reply(reply, AGENTBENCH)
    assert isinstance(call, Call)
    assert AGENTBENCH.action(call.name).name == "answer"
    assert Sets((Number(0),) * 4).number(*call.arguments) == 3


def test_a_final_answer_beside_an_action_is_two_actions() -> None:
    _, _, call = read_reply("Action: count(#0)\nFinal Answer: #1", AGENTBENCH)
    assert isinstance(call, ActionError)
    assert call.code == "several_actions"
    assert isinstance(read_reply("Final Answer: #1", TOOLSETS["pyql"])[2], ActionError)


PROFILE = Profile(prefixes={"ex": "http://example.org/"})


@st.composite
def sets(draw: st.DrawFn) -> Sets:
    """Up to six sets, each from those before it; counts come last, as nothing is made from them."""
    made: list[Made] = []
    for n in range(draw(st.integers(1, 6))):
        before = st.integers(0, n - 1) if n else st.nothing()
        relation = st.sampled_from(RELATIONS)
        options: list[st.SearchStrategy[Made]] = [
            st.builds(Neighbors, st.sampled_from(ENTITIES), relation, st.booleans())
        ]
        if n:
            options += [
                st.builds(Neighbors, before, relation, st.booleans()),
                st.builds(Intersection, before, before),
                st.builds(Joined, before, before),
                st.builds(Best, before, st.sampled_from([NUMBER, DATE]), st.booleans()),
            ]
        made.append(draw(st.one_of(options)))
    if draw(st.booleans()):
        made.append(Number(draw(st.integers(0, len(made) - 1))))
    return Sets(tuple(made))


def members(graph: set[Triple], made: tuple[Made, ...], n: int) -> set[Term]:
    """The members of a set, told without SPARQL."""
    match made[n]:
        case Neighbors(source, relation, forward):
            start = members(graph, made, source) if isinstance(source, int) else {source}
            ways = [(t.subject, t.object) if forward else (t.object, t.subject) for t in graph
                    if t.relation == relation]  # fmt: skip
            return {end for begin, end in ways if begin in start}
        case Intersection(left, right):
            return members(graph, made, left) & members(graph, made, right)
        case Joined(left, right):
            return members(graph, made, left) | members(graph, made, right)
        case Best(source, attribute, largest):
            among = members(graph, made, source)
            values = [
                (_key(t.object), t.subject) for t in graph if t.relation == attribute and t.subject in among
            ]
            best = (max if largest else min)(values, default=None, key=lambda v: v[0])
            return {who for value, who in values if best is not None and value == best[0]}
    raise AssertionError(made[n])


def _key(term: Term) -> float | str:
    return float(term.value) if isinstance(term, Literal) and "-" not in term.value else term.value


@settings(max_examples=150, deadline=None)
@given(sets(), graphs())
def test_sparql_means_the_same_sets(made: Sets, graph: set[Triple]) -> None:
    store = ox.Store()
    lines = "\n".join(f"{t.subject.n3()} {t.relation.n3()} {t.object.n3()} ." for t in graph)
    store.load(lines.encode(), format=ox.RdfFormat.N_TRIPLES)
    kg = EmbeddedKG(store, PROFILE, "random")
    n = len(made.made) - 1
    assert Sets.parse(made.text(PROFILE), PROFILE) == made
    result = kg.query(made.pyql().sparql(PROFILE))
    found = set(result.column(result.variables[0])) if result.rows else set()
    counted = made.made[n]
    if isinstance(counted, Number):
        assert {t.value for t in found} == {str(len(members(graph, made.made, counted.source)))}
    else:
        assert found == members(graph, made.made, n)
        program = made.pyql()
        assert PyQL.parse(program.text(PROFILE), PROFILE) == program


HOSTILE = st.text(max_size=12) | st.sampled_from(
    ["#0", "#1", "#99999999999", "Q40", "^P47", "P47", "} DELETE {", "#", "^", '"5"^^xsd:date']
)


@settings(max_examples=150, deadline=None)
@given(st.sampled_from([*AGENTBENCH.actions, "x"]), st.lists(HOSTILE, max_size=3))
def test_no_argument_raises(kg: EmbeddedKG, name: str, arguments: list[str]) -> None:
    program = "get_neighbors(Q40, P47)\nget_neighbors(Q39, P47)"
    feedback = AGENTBENCH.execute(ActionContext(kg, program=program), Call(name, tuple(arguments)))
    assert feedback.error or Sets.parse(feedback.program, kg.profile)


@pytest.fixture(scope="module")
def extract() -> EmbeddedKG:
    """The Freebase extract, without labels: gold sequences need none."""
    store = ox.Store()
    for name in ("observed", "gold_derived"):
        with gzip.open(Path(DATA or "") / f"freebase_kg/{name}.nt.gz") as file:
            store.bulk_load(file.read(), format=ox.RdfFormat.N_TRIPLES)
    return EmbeddedKG(store, load_profile("freebase"), "extract")


@needs_data
def test_gold_sequences_run_as_far_as_the_extract_has_facts(extract: EmbeddedKG) -> None:
    ends: Counter[str] = Counter()
    for record in records(Path(DATA or "") / "agentbench_kg"):
        steps = play(extract, record, GUIDELINES)
        last = steps[-1].feedback
        right = last.finished and set(last.answers) == gold(record)
        ends["right" if right else "finished" if last.finished else "cut"] += 1
        # A step that found what it was after is never called wrong.
        assert [s for s in steps[:-1] if s.match and s.match.severity == "error"] == []
    assert ends.total() == 1190


@needs_data
def test_gold_sequences_end_in_the_gold_answer_on_graphs_made_up_for_them() -> None:
    for record in list(records(Path(DATA or "") / "agentbench_kg"))[::12]:
        if any("common.image." in call for call in record["actions"]):
            continue  # The profile never offers this relation.
        steps = play(MadeUp(record).kg(), record, GUIDELINES)
        assert set(steps[-1].feedback.answers) == gold(record), record["id"]
        assert [s.match.text for s in steps if s.match and s.match.severity == "error"] == []
