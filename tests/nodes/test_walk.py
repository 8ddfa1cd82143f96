"""Walking a program without a query: many entities at a time, conditions met on the way."""

from __future__ import annotations

import re

import pytest

from triplewise.graphs import State
from triplewise.nodes.no_model import Choice, decide
from triplewise.nodes.state import Step
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.actions.toolset import ActionContext
from triplewise.tools.kg import KnowledgeGraph, load_profile, open_kg

from .conftest import reading

EX = "http://example.org/"
TURTLE = """
@prefix ex: <http://example.org/> .
ex:rio ex:writer ex:carlos . ex:rii ex:writer ex:carlos ; ex:director ex:carlos .
ex:ice ex:writer ex:carlos, ex:dora ; ex:director ex:dora ; a ex:film .
ex:old ex:writer ex:carlos ; a ex:film .
"""


@pytest.fixture
def kg(tmp_path_factory: pytest.TempPathFactory) -> KnowledgeGraph:
    path = tmp_path_factory.mktemp("walk") / "films.ttl"
    path.write_text(TURTLE, encoding="utf-8")
    return open_kg(path, profile=load_profile("generic"))


def walk(kg: KnowledgeGraph, *lines: str, toolset: str = "symbolic") -> list[Step]:
    """All steps of the policy on one program; nodes and relations are written without their namespace."""
    text = [re.sub(r"(?<=[ (])([a-z]+)(?=[,)])", rf"<{EX}\1>", line) for line in lines]
    state = State(question="Who?", readings=(reading(*text),))
    while True:
        choice: Choice = decide(state, kg, toolset)
        bench = ActionContext(kg, "Who?")
        feedback = TOOLSETS[toolset].execute(bench, choice.call)
        step = Step(len(state.steps) + 1, choice.thought, choice.call.text(), feedback, feedback.observation)
        state = state.model_copy(update={"steps": (*state.steps, step)})
        if feedback.finished or choice.call.name == "give_up":
            return list(state.steps)


THERE = ("add_fact(rio, writer, ?who)", "add_fact(?film, writer, ?who)")
OTHERS = (*THERE, f"add_filter(?film, !=, <{EX}rio>)")


def answers(steps: list[Step]) -> set[str]:
    return {a.strip("<>").removeprefix(EX) for a in steps[-1].feedback.answers}


def actions(steps: list[Step]) -> list[str]:
    return [s.feedback.action for s in steps]


def test_many_entities_are_looked_at_in_one_step(kg: KnowledgeGraph) -> None:
    steps = walk(kg, *OTHERS, "add_fact(?film, director, ?x)", "set_answer(?x)")
    assert actions(steps) == ["get_rules", "search_neighbor", "search_neighbor", "search_each", "finish"]
    assert answers(steps) == {"carlos", "dora"}, "the writer may be the director: only Rio itself is left out"


def test_what_a_node_must_differ_from_is_left_out_on_the_way(kg: KnowledgeGraph) -> None:
    assert answers(walk(kg, *OTHERS, "set_answer(?film)")) == {"rii", "ice", "old"}
    again = walk(kg, *OTHERS, "add_fact(?film, writer, ?x)", "add_filter(?x, !=, ?who)", "set_answer(?x)")
    assert answers(again) == {"dora"}, "from a film back to a writer, but not to the one it was reached by"


@pytest.mark.parametrize("toolset", ["symbolic", "explore"])
@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ((*THERE, "add_count(?film, ?n)", "set_answer(?n)"), {"4"}),
        ((*THERE, "add_fact(?film, director, dora)", "set_answer(?film)"), {"ice"}),
        (("add_fact(ice, writer, dora)", "ask()"), {"true"}),
        (("add_fact(rio, writer, dora)", "ask()"), {"false"}),
        ((*THERE, "add_type(?film, film)", "set_answer(?film)"), {"ice", "old"}),
        (("add_type(?film, film)", "add_fact(?film, writer, dora)", "set_answer(?film)"), {"ice"}),
    ],
)
def test_conditions_are_met_over_facts(
    kg: KnowledgeGraph, toolset: str, lines: tuple[str, ...], expected: set[str]
) -> None:
    assert answers(walk(kg, *lines, toolset=toolset)) == expected


@pytest.mark.parametrize(
    ("line", "need"),
    [
        ("add_max(?film)", "a superlative"),
        ('add_filter(?who, =, "Carlos")', "a comparison"),
        ("add_not(?film, director, dora)", "leaving something out"),
    ],
)
def test_what_takes_a_query_is_named(kg: KnowledgeGraph, line: str, need: str) -> None:
    (step,) = walk(kg, *THERE, line, "set_answer(?film)")
    assert step.thought == f"The question needs {need}, which takes a query."


def test_no_more_entities_than_the_limit_are_looked_at(
    kg: KnowledgeGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("triplewise.nodes.no_model.WIDTH", 1)
    steps = walk(kg, *OTHERS, "add_fact(?film, director, ?x)", "set_answer(?x)")
    assert actions(steps).count("search_each") == 0
