"""A run as plain data: what it keeps, what it cuts, what it calls things."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import lru_cache

from hypothesis import given, settings, strategies as st

from triplewise.graphs import Context, State, build_graph
from triplewise.graphs.trace import MOST, trace_of
from triplewise.nodes.state import Answer, ScoredTriple, Step
from triplewise.tools.actions.toolset import Feedback
from triplewise.tools.core.terms import XSD, Literal, text
from triplewise.tools.kg import IRI, Triple, open_kg

QUESTION = "Where was Goethe's unmarried partner born?"
ENTITY = "http://www.wikidata.org/entity/"


@lru_cache(maxsize=1)
def ended() -> State:
    found = build_graph().invoke({"question": QUESTION}, context=Context(kg="demo", model="embedded"))
    return State.model_validate(found)


def fact(number: int) -> Triple:
    return Triple(IRI(f"{ENTITY}Q{number}"), IRI("http://www.wikidata.org/prop/direct/P57"), text("a b"))


def long_run(triples: int, characters: int = 10) -> State:
    """A run that saw and remembers that many facts, in paths of three, and observed that many characters."""
    facts = [fact(n) for n in range(1, triples + 1)]
    step = Step(1, "", "look()", Feedback(observation="x" * characters), "what a model was told")
    return State(
        question="?",
        answer=Answer("answered", tuple(map(str, facts)), tuple(map(str, facts))),
        memory=tuple(tuple(facts[at : at + 3]) for at in range(0, triples, 3)),
        observation=tuple(ScoredTriple(f, 1 / n) for n, f in enumerate(facts, 1)),
        steps=(step,),
    )


def test_a_trace_has_short_ids_and_labels_of_all_it_mentions() -> None:
    trace = trace_of(ended(), open_kg("demo"))
    assert trace["memory"] == [[["Q5879", "P451", "Q96902"], ["Q96902", "P19", "Q3042"]]]
    assert trace["proof"][1]["ids"] == ["Q96902", "P19", "Q3042"]
    seen = {term for *triple, _ in trace["observation"]["facts"] for term in triple}
    assert '"22 March 1832"' in seen
    assert {term for term in seen if not term.startswith('"')} <= set(trace["names"])
    assert trace["names"]["P19"] == "place of birth"
    assert trace["cut"] == {}
    assert len(json.dumps(trace)) < 10_000


def test_without_a_graph_terms_are_whole_and_nothing_is_asked() -> None:
    trace = trace_of(ended())
    assert trace["memory"][0][0][0] == f"<{ENTITY}Q5879>"
    assert trace["names"] == {"Q5879": "Johann Wolfgang von Goethe", "Q3042": "Offenbach am Main"}
    assert "ids" not in trace["proof"][0]


@settings(max_examples=25, deadline=None)
@given(triples=st.integers(0, 400), characters=st.integers(0, 5_000))
def test_what_is_shown_and_what_is_cut_add_up(triples: int, characters: int) -> None:
    trace = trace_of(long_run(triples, characters))
    cut = trace["cut"]
    assert len(trace["answer"]) + cut.get("answer", 0) == triples
    assert len(trace["observation"]["facts"]) + cut.get("observation", 0) == triples
    assert sum(map(len, trace["memory"])) + cut.get("memory", 0) == triples
    assert sum(map(len, trace["memory"])) <= MOST["memory"]
    (step,) = trace["steps"]
    assert len(step["observation"]) + step.get("cut", 0) == characters


@given(st.text(), st.sampled_from(["string", "integer", "dateTime"]))
def test_literals_are_json_strings_and_everything_is_json(value: str, kind: str) -> None:
    literal = replace(fact(1), object=Literal(value, XSD + kind))
    state = long_run(0).model_copy(update={"memory": ((literal,),)})
    trace = json.loads(json.dumps(trace_of(state)))
    assert isinstance(json.loads(trace["memory"][0][0][2], strict=False), str)
