"""Why a question was not answered right, in the classes of SymAgent's error analysis."""

from __future__ import annotations

from typing import Literal

from triplewise.evals.record import Run

ErrorClass = Literal[
    "", "crashed", "invalid_action", "argument_error", "exceeded_steps", "not_found", "reasoning_error"
]

ERROR_CLASSES: tuple[ErrorClass, ...] = (
    "crashed",
    "invalid_action",
    "argument_error",
    "exceeded_steps",
    "not_found",
    "reasoning_error",
)
"""All classes but "" (answered right), in the order in which the first that fits is taken."""

INVALID = frozenset({"unknown_action", "no_action", "several_actions", "several_thoughts"})
"""Codes of the interpreter for a reply that calls no one action of the tool set."""

NOT_OF_ARGUMENTS = frozenset({"execute_before_answer", "bad_query", "bad_program", "no_database"})
"""Codes for a well-formed call at a time or on a program where it makes no sense."""


def error_class(run: Run, score: float) -> ErrorClass:
    """The class of a question's error; "" if it was answered right.

    SymAgent (section 5.5, table 5) puts failed questions into four classes:

    1. Invalid Action (IA): the model invokes an action not defined in the action tool set. Here also a reply
       in which no single action can be found.
    2. Error in Arguments (EA): insufficient or excessive arguments are provided. Here also arguments that the
       interpreter refuses for their form, which SymAgent's does not look at.
    3. Exceeding Maximum Steps (EMS): the reasoning steps exceed the predefined maximum number of steps. Here
       any budget of the run.
    4. Reasoning Error (RE): the final answer is incorrect despite valid actions and steps.

    A question is in the first class that fits, in the order of the paper. What the model did counts, also if
    a correction took it back. Apart from these, a run that ended in an error is `crashed`, and one that said
    that it found nothing, with valid actions and steps, is `not_found` (the paper would count it as RE).

    Args:
        run: what the question left. score: the figure that says whether it was answered right, of which 1 is
            right and all below is wrong: the F1 of a set of answers, Hits@1 of a slot, accuracy of a claim.
    """
    if run.crashed:
        return "crashed"
    if score >= 1.0:
        return ""
    if any(code in INVALID for code in run.errors):
        return "invalid_action"
    if any(code and code not in NOT_OF_ARGUMENTS for code in run.errors):
        return "argument_error"
    if run.status == "budget_spent":
        return "exceeded_steps"
    return "not_found" if run.status == "not_found" else "reasoning_error"
