"""The shipped guidelines: each example triggers exactly its own, each code and source is covered."""

from __future__ import annotations

import re
from contextlib import ExitStack
from importlib import resources

import pytest

from triplewise.guidelines import Guideline, load_guidelines
from triplewise.guidelines.guideline import SHIPPED
from triplewise.tools.actions.toolset import Feedback, ReasoningMemory

GUIDELINES = load_guidelines()
ACTIONS = (
    "get_relation(entity_or_variable)",
    "add_fact(head, relation, tail)",
    "add_max(max_var)",
    "add_min(min_var)",
    "add_count(count_var, new_var)",
    "add_filter(left, op, right)",
    "set_answer(answer_var)",
    "execute()",
)
LINKED = ReasoningMemory(linked={"m.1": "Alien"})
LOOKED_UP = ReasoningMemory(
    linked={"m.1": "Alien"}, looked_up={"m.1": {"forward": ["r.a", "r.b"], "backward": ["r.c"]}}
)
BOUND = ReasoningMemory(linked={"m.1": "Alien"}, looked_up=LOOKED_UP.looked_up, bound=("?film",))


def the_guideline(
    action: str, *arguments: str, memory: ReasoningMemory, error: str = "", outcome: str = ""
) -> str | None:
    feedback = Feedback(action, arguments, error=error, outcome=outcome)
    match = GUIDELINES.match(feedback, memory, actions=ACTIONS)
    return match.id if match else None


def test_examples_trigger_their_own_guideline_and_say_what_they_should() -> None:
    assert GUIDELINES.check() == ()


@pytest.mark.parametrize("guideline", GUIDELINES, ids=lambda g: g.id)
def test_an_error_ends_by_asking_for_the_next_step_and_a_note_does_not(guideline: Guideline) -> None:
    example = guideline.example
    match = GUIDELINES.match(example.feedback, example.memory, **guideline.given)
    assert match is not None
    ending = re.search(r"Thought (\d+) and Action (\d+)\.$", match.text)
    if guideline.severity == "note":
        assert ending is None
    else:
        step = str(example.memory.steps + 2)
        assert ending is not None
        assert ending.groups() == (step, step)
    assert not re.search(r"\{[{%]|[%}]\}| {2}|\bNone\b(?! of)|Undefined", match.text)


@pytest.mark.parametrize("guideline", GUIDELINES, ids=lambda g: g.id)
def test_a_person_reads_what_is_wrong_and_nothing_that_is_said_to_the_model(guideline: Guideline) -> None:
    example = guideline.example
    match = GUIDELINES.match(example.feedback, example.memory, **guideline.given)
    assert match is not None
    assert match.reason
    assert not re.search(r"\b([Yy]ou|[Yy]our|Thought|Regenerate)\b", match.reason)
    assert len(match.reason) <= len(match.text)


def test_their_templates_pass_the_checks_that_loading_leaves_out() -> None:
    folder = resources.files("triplewise.guidelines")
    with ExitStack() as stack:
        paths = [stack.enter_context(resources.as_file(folder / name)) for name in SHIPPED]
        strict = load_guidelines(paths, instead=True)
    assert [g.id for g in strict] == [g.id for g in GUIDELINES]


@pytest.mark.parametrize(
    ("call", "memory", "expected"),
    [
        (("m.1", "r.c", "?x"), LOOKED_UP, "fact_empty_reversed"),
        (("?x", "r.a", "m.1"), LOOKED_UP, "fact_empty_reversed"),
        (("m.1", "r.a", "?x"), LOOKED_UP, "fact_empty"),
        (("?x", "r.c", "m.1"), LOOKED_UP, "fact_empty"),
        (("m.1", "r.other", "?x"), LOOKED_UP, "fact_empty_subject_known"),
        (("?x", "r.other", "m.1"), LOOKED_UP, "fact_empty_object_known"),
        (("?film", "r.other", "?x"), BOUND, "fact_empty_not_looked_up"),
        (("m.1", "r.a", "?x"), LINKED, "fact_before_lookup"),
    ],
)
def test_causes_of_an_empty_fact_are_told_apart(
    call: tuple[str, ...], memory: ReasoningMemory, expected: str
) -> None:
    assert the_guideline("add_fact", *call, memory=memory, outcome="empty") == expected


@pytest.mark.parametrize(
    "action", ["get_relation", "add_fact", "add_filter", "add_max", "set_answer", "execute"]
)
def test_a_failing_engine_is_never_an_empty_result(action: str) -> None:
    arguments = {"get_relation": ("?film",), "add_fact": ("?film", "r.a", "?x")}.get(action, ("?film",))
    ids = {
        outcome: the_guideline(action, *arguments, memory=BOUND, outcome=outcome)
        for outcome in ("empty", "timeout", "syntax", "unavailable")
    }
    assert ids["timeout"] in ("timeout_lookup", "timeout_query")
    assert ids["syntax"] == "engine_error"
    assert ids["unavailable"] == "kg_unavailable"
    assert len(set(ids.values())) == 4


@pytest.mark.parametrize(
    ("action", "arguments", "memory"),
    [
        ("get_relation", ("m.1",), LINKED),
        ("get_relation", ("?film",), BOUND),
        ("get_relation", ("m.7",), ReasoningMemory(linked={"m.1": "Alien"}, seen=frozenset({"m.7"}))),
        ("get_relation", ("<http://example.org/ns/m.1>",), LINKED),
        (
            "get_relation",
            ("<http://example.org/ns/Blade%20Runner>",),
            ReasoningMemory(linked={"Blade Runner": ""}),
        ),
        ("ask", (), BOUND),
        ("add_fact", ("m.1", "r.a", "?x"), LOOKED_UP),
        ("add_fact", ("?film", "r.year", "?year"), ReasoningMemory()),
        ("add_filter", ("?film", ">", "3"), BOUND),
        ("set_answer", ("?film",), BOUND),
        ("execute", (), BOUND),
    ],
)
def test_a_right_step_is_left_alone(action: str, arguments: tuple[str, ...], memory: ReasoningMemory) -> None:
    feedback = Feedback(
        action, arguments, outcome="rows", values={"film": ["Alien"]}, finished=action == "execute"
    )
    assert GUIDELINES.triggered(feedback, memory, actions=ACTIONS) == ()


def test_a_full_iri_and_its_short_id_are_the_same_node() -> None:
    looked_up = {"<http://example.org/ns/m.1>": LOOKED_UP.looked_up["m.1"]}
    memory = ReasoningMemory(linked={"m.1": "Alien"}, looked_up=looked_up)
    assert the_guideline("add_fact", "m.1", "r.a", "?x", memory=memory, outcome="empty") == "fact_empty"
    call = ("<http://example.org/ns/m.1>", "<http://example.org/r.c>", "?x")
    assert the_guideline("add_fact", *call, memory=LOOKED_UP, outcome="empty") == "fact_empty_reversed"
    assert the_guideline("get_relation", "<http://example.org/ns/m.10>", memory=memory) == "lookup_unknown"


def test_a_failure_that_comes_again_is_named_as_such() -> None:
    tried = ReasoningMemory(
        linked=BOUND.linked,
        looked_up=BOUND.looked_up,
        bound=BOUND.bound,
        doubted=frozenset({"add_fact(m.1, r.a, ?x)", "add_max(?n)"}),
    )
    assert the_guideline("add_fact", "m.1", "r.a", "?x", memory=tried, outcome="empty") == "repeated_failure"
    assert the_guideline("add_fact", "m.1", "r.a", "?x", memory=tried, outcome="rows") is None
    assert (
        the_guideline("add_fact", "m.1", "r.a", "?x", memory=tried, outcome="unavailable") == "kg_unavailable"
    )
    match = GUIDELINES.match(Feedback("add_max", ("?n",), error="unknown_variable"), tried)
    assert match is not None
    assert "add_max(?n) has failed before: do not write it again." in match.text
