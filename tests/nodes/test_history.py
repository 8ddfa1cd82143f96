"""The history of a prompt: short without losing what the next step needs, or as the papers concatenate it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings, strategies as st

from triplewise.nodes.history import Entry, encode
from triplewise.nodes.state import Step
from triplewise.tools.actions.toolset import Feedback

MANY = [f"film.film.relation_{i}" for i in range(40)]


def look(subject: str, forward: Sequence[str] = MANY, backward: Sequence[str] = ()) -> dict[str, Any]:
    """A lookup that worked."""
    offered = {"forward": list(forward), "backward": list(backward)}
    feedback = Feedback(
        "get_relation", (subject,), outcome="rows", observation=str(offered), relations=offered
    )
    return {"call": f"get_relation({subject})", "feedback": feedback, "observation": str(offered)}


def fact(*ends: str, **values: Sequence[str]) -> dict[str, Any]:
    """A fact that found values."""
    said = " ".join(f"The value of variable ?{v} is {list(labels)!r}." for v, labels in values.items())
    feedback = Feedback(
        "add_fact",
        ends,
        outcome="rows",
        observation=said,
        values={v: list(labels) for v, labels in values.items()},
    )
    return {"call": f"add_fact({', '.join(ends)})", "feedback": feedback, "observation": said}


def failed(
    call: str, guideline: str = "fact_empty", told: str = "Choose another relation. " * 9
) -> dict[str, Any]:
    """A step that was corrected."""
    feedback = Feedback("add_fact", (call,), outcome="empty")
    told = f"ERROR_INFO: {told}".strip()
    return {
        "call": call,
        "feedback": feedback,
        "observation": told,
        "guideline": guideline,
        "rolled_back": True,
    }


def steps(*made: dict[str, Any]) -> tuple[Step, ...]:
    """Steps in order."""
    return tuple(Step(number=i, thought=f"thought {i}", **values) for i, values in enumerate(made, 1))


def by_number(entries: Sequence[Entry]) -> dict[int, Entry]:
    return {e["number"]: e for e in entries}


def test_full_is_the_papers_concatenation() -> None:
    made = steps(look("Q1"), failed("add_fact(Q1, x, ?y)"), fact("Q1", MANY[3], "?y", y=["a"]))
    assert encode(made, "full") == [
        {"number": s.number, "thought": s.thought, "action": s.call, "observation": s.observation}
        for s in made
    ]


def test_a_failed_attempt_is_told_in_full_until_a_step_works() -> None:
    attempt = failed("add_fact(Q1, wrong, ?y)")
    before = encode(steps(look("Q1"), attempt))
    assert before[-1]["observation"] == attempt["observation"]
    after = by_number(encode(steps(look("Q1"), attempt, fact("Q1", MANY[3], "?y", y=["a"]))))
    assert after[2] == {
        "number": 2,
        "thought": "thought 2",
        "action": "add_fact(Q1, wrong, ?y)",
        "observation": "Failed: Choose another relation.",
    }


def test_a_reason_is_one_line_that_says_more_than_a_heading() -> None:
    told = (
        "Invalid action: there is no\nget_neighbour. Legal actions: add_fact(a, b, c). " + "And more. " * 30
    )
    (entry, _) = encode(steps(failed("a()", told=told), fact("Q1", "r", "?y", y=["a"])))
    assert entry["observation"] == "Failed: Invalid action: there is no get_neighbour."
    (long, _) = encode(steps(failed("a()", told="on and " * 90), fact("Q1", "r", "?y", y=["a"])))
    assert len(long["observation"]) < 200


def test_attempts_that_fail_alike_are_one_line_with_their_number() -> None:
    tries = [failed(f"add_fact(Q1, wrong{i}, ?y)") for i in range(3)]
    (entry, last) = encode(steps(*tries, fact("Q1", MANY[3], "?y", y=["a"])))
    assert entry["number"] == 3
    assert entry["observation"] == (
        "Failed 3 times: Choose another relation. So did add_fact(Q1, wrong0, ?y); add_fact(Q1, wrong1, ?y)."
    )
    assert last["number"] == 4


def test_the_same_list_is_referred_to() -> None:
    entries = by_number(encode(steps(look("Q1"), look("Q2"), look("Q3"))))
    assert entries[2]["observation"] == "As in Observation 1."
    assert entries[3]["observation"] == str({"forward": MANY, "backward": []})


def test_a_note_goes_once_the_next_step_worked() -> None:
    noted = fact("?x", "r", "Q1", x=["UnName_Entity"])
    noted["observation"] += "\nThese are nodes without a name: look through them."
    assert by_number(encode(steps(noted, failed("a()"))))[1]["observation"] == noted["observation"]
    assert "look through" not in by_number(encode(steps(noted, look("?x"))))[1]["observation"]


NAMES = st.sampled_from(["Q1", "Q2", "?x", "?y"])
LABELS = st.lists(st.text(max_size=8), min_size=1, max_size=5)
RELATION = st.sampled_from(MANY)
MADE = st.one_of(
    st.builds(look, NAMES, st.lists(RELATION, unique=True), st.lists(RELATION, unique=True)),
    st.builds(
        lambda s, r, o, v: fact(s, r, o, **v),
        NAMES,
        RELATION,
        NAMES,
        st.dictionaries(st.sampled_from("xyz"), LABELS, min_size=1),
    ),
    st.builds(
        failed,
        st.sampled_from(["a()", "add_fact(Q1, r, ?x)"]),
        st.sampled_from(["one", "two", ""]),
        st.text(),
    ),
)


@settings(max_examples=300)
@given(st.lists(MADE, min_size=1, max_size=12))
def test_short_loses_nothing_that_is_needed(made: list[dict[str, Any]]) -> None:
    trajectory = steps(*made)
    full, short = encode(trajectory, "full"), encode(trajectory)
    numbers = [e["number"] for e in short]
    shown = by_number(short)
    assert short[-1] == full[-1]
    assert numbers == sorted(set(numbers))
    assert sum(map(size, short)) <= sum(map(size, full))
    for step in trajectory:
        if not step.rolled_back:
            assert (shown[step.number]["thought"], shown[step.number]["action"]) == (step.thought, step.call)
            check_needed(step, short)


def check_needed(step: Step, short: Sequence[Entry]) -> None:
    """What a step observed stands somewhere."""
    observation = by_number(short)[step.number]["observation"]
    assert step.observation in [e["observation"] for e in short]
    assert observation == step.observation or observation.startswith("As in Observation ")


def size(entry: Entry) -> int:
    return len(entry["thought"]) + len(entry["action"]) + len(entry["observation"])


@given(st.lists(MADE, min_size=2, max_size=8))
def test_every_variable_s_last_values_can_be_read(made: list[dict[str, Any]]) -> None:
    trajectory = steps(*made)
    text = "\n".join(e["observation"] for e in encode(trajectory))
    last: dict[str, list[str]] = {}
    for step in trajectory:
        if not step.rolled_back:
            last |= step.feedback.values
    for variable, labels in last.items():
        assert f"The value of variable ?{variable} is {labels!r}." in text
