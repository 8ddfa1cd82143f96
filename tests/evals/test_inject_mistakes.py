"""Replies with mistakes, and the reader that does what feedback says."""

from __future__ import annotations

import pandas as pd
import pytest

from triplewise.evals.inject_mistakes import Reader, table
from triplewise.tools.actions.toolset import Call

PLAN = (Call("add_fact", ("Q1", "P1_of", "?x")), Call("set_answer", ("?x",)))
RIGHT = "Action: add_fact(Q1, P1, ?x)\nAction: set_answer(?x)"


def after(observation: str, *calls: Call) -> str:
    """What a reader writes after its first action failed."""
    reader = Reader(calls or PLAN)
    assert reader([{"content": "Question: ..."}]).endswith(
        "\n".join(f"Action: {c.text()}" for c in calls or PLAN)
    )
    last = f"\nAction 1: {(calls or PLAN)[0].text()}\nObservation 1: {observation}\n\nWrite Thought 2."
    return reader([{"content": f"Question: ...\nThought 1: x{last}"}]).partition("\n")[2]


@pytest.mark.parametrize(
    ("observation", "written"),
    [
        ("ERROR_INFO: P1_of finds nothing. Tried: add_fact(Q1, P1, ?x) -> ?x: Rome.", RIGHT),
        ("ERROR_INFO: it should have 3. For example: add_fact(Q1, P1, ?value).", RIGHT),
        # Without an offer, or with general words, it is written once more.
        ("Step 1 was undone.", "Action: add_fact(Q1, P1_of, ?x)\nAction: set_answer(?x)"),
        (
            "Here are examples: add_fact(Q7, P7, ?y)",
            "Action: add_fact(Q1, P1_of, ?x)\nAction: set_answer(?x)",
        ),
        ("The value of variable ?x is ['Rome'].", "Action: set_answer(?x)"),
    ],
)
def test_a_reader_writes_the_first_action_that_is_offered(observation: str, written: str) -> None:
    assert after(observation) == written


def test_another_action_that_is_offered_goes_before_its_own() -> None:
    said = "ERROR_INFO: The question asks for the most. Keep it: add_max(?n). Or repeat set_answer(?x)."
    assert after(said, Call("set_answer", ("?x",))) == "Action: add_max(?n)\nAction: set_answer(?x)"


def test_ways_of_correcting_are_compared_on_questions_that_are_right_without_mistakes() -> None:
    names = ("graph", "question", "mode", "mistakes", "right", "triggered", "calls", "tokens")
    rows = [
        *(("g", q, "right", [], q != "c", 0, 1, 9) for q in "abc"),
        *(("g", q, "eraser", ["wrong id"], True, 1, 2, 9) for q in "abc"),
        *(("g", q, "none", ["wrong id"], q == "a", 1, 3, 9) for q in "abc"),
    ]
    found = table(pd.DataFrame(rows, columns=names)).set_index("mode")
    assert found["questions"].to_dict() == {"eraser": 2, "none": 2}
    assert found["right of triggered"].to_dict() == {"eraser": 1.0, "none": 0.5}
    assert found.loc["none", "first is better by"] == 0.5
