"""Situations that stand close to each other, told apart; doubts that are raised once and then given up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from triplewise.guidelines import load_guidelines
from triplewise.tools.actions.toolset import Call, Feedback, ReasoningMemory

GUIDELINES = load_guidelines()
MEMORY = ReasoningMemory(
    linked={"m.1": "Alien"},
    looked_up={"m.1": {"forward": ["r.a", "r.plan"], "backward": ["r.c"]}},
    bound=("?x",),
    calls=("get_relation(?x)",),
)
DOUBTS = (
    "answer_type_who",
    "answer_type_when",
    "answer_type_count",
    "answer_unnamed",
)


def triggered(feedback: Feedback, memory: ReasoningMemory = MEMORY, question: str = "") -> tuple[str, ...]:
    return GUIDELINES.triggered(feedback, memory, question=question)


def answering(kinds: dict[str, int], question: str, program: str = "", **detail: Any) -> tuple[str, ...]:
    feedback = Feedback(
        "set_answer",
        ("?x",),
        outcome="rows",
        program=program,
        values={"x": ["Alien"]},
        detail={"answer_kinds": kinds, **detail},
    )
    return triggered(feedback, question=question)


@pytest.mark.parametrize(
    ("question", "kinds", "fires"),
    [
        ("who directed it?", {"date": 2}, True),
        ("who directed it?", {"number": 1, "year": 1}, True),
        ("who directed it?", {"number": 1, "entity": 1}, False),
        ("who directed it?", {"text": 1}, False),
        ("what directed it?", {"number": 1}, False),
        ("when was it made?", {"entity": 5, "unseen": 9}, True),
        ("when was it made?", {"entity": 1, "dated": 1}, False),
        ("when was it made?", {"unseen": 9}, False),
        ("when was it made?", {"number": 1}, False),
        ("when was it made?", {"text": 1}, False),
        ("how many are there?", {"entity": 2}, True),
        ("how many are there?", {"entity": 1}, False),
        ("how many are there?", {"entity": 2, "number": 1}, False),
        ("how many are there?", {"number": 2}, False),
        ("is it one?", {"entity": 1}, True),
        ("is it one?", {"boolean": 1}, False),
    ],
)
def test_only_kinds_that_contradict_the_question_fire(
    question: str, kinds: dict[str, int], fires: bool
) -> None:
    found = [id for id in answering(kinds, question) if id.startswith("answer_type")]
    assert bool(found) is fires


@pytest.mark.parametrize("id", DOUBTS)
def test_a_doubted_answer_may_be_insisted_on(id: str) -> None:
    (guideline,) = (g for g in GUIDELINES if g.id == id)
    example = guideline.example
    given, call = guideline.given, Call(example.feedback.action, example.feedback.arguments).text()
    assert GUIDELINES.triggered(example.feedback, example.memory, **given)[0] == id
    again = replace(example.memory, doubted=frozenset({call}), calls=(call,))
    assert id not in GUIDELINES.triggered(example.feedback, again, **given)
    # Nor is the finished run held up for it: the doubt was answered when the variable was set again.
    done = replace(example.feedback, action="execute", arguments=(), finished=True)
    assert id not in GUIDELINES.triggered(done, replace(again, calls=(call, call)), **given)


def calls(*texts: str) -> ReasoningMemory:
    return replace(MEMORY, calls=texts, steps=len(texts))


def test_a_loop_is_two_calls_by_turns() -> None:
    a, b = "get_relation(m.1)", "get_relation(?x)"
    feedback = Feedback("get_relation", ("m.1",), outcome="rows")
    assert triggered(feedback, calls(b, a, b)) == ("loop",)
    assert triggered(feedback, calls(a, b)) == ()
    assert triggered(feedback, calls("add_count(?x)", a, b)) == ()
    assert triggered(feedback, calls(a, a, a)) == ("repeated_step",)
    assert triggered(feedback, calls("", a, "")) == ()
    assert "loop" not in triggered(replace(feedback, finished=True), calls(b, a, b))
    assert "loop" not in triggered(replace(feedback, outcome="unavailable"), calls(b, a, b))


CLASS = {"Q515": {"forward": ["P279"], "backward": ["P31", "P279"]}}


@pytest.mark.parametrize(
    ("call", "detail", "expected"),
    [
        (("?x", "P279", "Q6"), {"hierarchy": "subclass"}, "subclass_relation_misused"),
        (("?x", "P31", "Q6"), {"hierarchy": "type"}, "type_relation_misused"),
        (("?x", "P19", "Q515"), {}, "class_as_node"),
        (("Q515", "P19", "?new"), {}, "class_as_node"),
        (("Q515", "P31", "?new"), {"hierarchy": "type"}, "fact_empty_reversed"),
        (("?x", "P19", "Q99"), {}, "fact_empty_unknown_id"),
        (("?x", "P19", "Q6"), {}, "fact_empty_not_looked_up"),
    ],
)
def test_a_misused_hierarchy_is_told_from_other_empty_facts(
    call: tuple[str, ...], detail: dict[str, Any], expected: str
) -> None:
    memory = ReasoningMemory(linked={"Q515": "city", "Q6": "river"}, looked_up=CLASS, bound=("?x",))
    feedback = Feedback(
        "add_fact", call, outcome="empty", detail={**detail, "class_relations": ["P31", "P279"]}
    )
    assert triggered(feedback, memory)[0] == expected


def test_all_notes_that_fit_are_given() -> None:
    memory = replace(MEMORY, steps=7, budget=10)
    feedback = Feedback(
        "add_fact",
        ("m.1", "r.a", "?y"),
        outcome="rows",
        values={"y": ["UnName_Entity"]},
        detail={"repaired": {"Alien": "m.1"}},
    )
    match = GUIDELINES.match(feedback, memory)
    assert match is not None
    assert match.id == triggered(feedback, memory)[0]
    assert len(match.text.split("\n")) == len(triggered(feedback, memory)) == 3
