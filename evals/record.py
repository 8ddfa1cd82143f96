"""What a question's run leaves behind in the log, and why it was not answered right (SymAgent's classes)."""

from __future__ import annotations

import json
from typing import Any

from inspect_ai.util import StoreModel
from pydantic import Field

CRASHED = "crashed"

ERROR_CLASSES = (
    "crashed",
    "invalid_action",
    "argument_error",
    "exceeded_steps",
    "not_found",
    "reasoning_error",
)
"""All classes but "" (answered right), in the order in which the first that fits is taken."""

INVALID = frozenset(
    {"unknown_action", "no_action", "several_actions", "several_thoughts", "reply_cut", "reply_empty"}
)
"""Codes of the interpreter for a reply that calls no one action of the tool set."""

NOT_OF_ARGUMENTS = frozenset({"execute_before_answer", "bad_query", "bad_program", "no_database"})
"""Codes for a well-formed call at a time or on a program where it makes no sense."""


class Run(StoreModel):
    """The answer to one question and what it cost; `status` stays `crashed` until there is an answer.

    Attributes:
        status: answered, not_found, budget_spent, or crashed. reason: why, in words.
        values: short ids, literals, or true/false. labels: their text, in the same order.
        sparql: the query that gives them. proof: how many facts prove them.
        seconds: wall-clock time. queries: queries that reached the KG.
        cost: USD at list price, None if unknown.
        hallucinated: facts that the model claimed to have from the KG although it gave no such one.
        corrections: ids of the guidelines that corrected the run, in order. notes: ids of those that only
            gave the agent a hint.
        outcomes: of each step, in order: what its query came to (`Outcome`; "" without one).
        errors: of each step, in order: the interpreter's error code, "" where the action could be done.
        rolled_back: how many steps were taken back.
        trace_json: the run as `triplewise.graphs.trace` gives it; see `trace`. One text, since Inspect
            copies and compares what a store holds at every step of a sample.
        kg, profile: the graph that was asked, for scorers that look up names in it ("": there is none).
        names: id -> names that a scorer looked up, None before one has.
    """

    status: str = CRASHED
    reason: str = ""
    values: list[str] = Field(default_factory=list)
    labels: list[str] = Field(default_factory=list)
    sparql: str = ""
    proof: int = 0
    seconds: float = 0.0
    queries: int = 0
    steps: int = 0
    model_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost: float | None = 0.0
    hallucinated: int = 0
    corrections: list[str] = Field(default_factory=list)
    notes: list[str] = Field(default_factory=list)
    outcomes: list[str] = Field(default_factory=list)
    errors: list[str] = Field(default_factory=list)
    rolled_back: int = 0
    trace_json: str = ""
    kg: str = ""
    profile: str = ""
    names: dict[str, list[str]] | None = None

    @property
    def trace(self) -> dict[str, Any]:
        """The run as `triplewise.graphs.trace` gives it; {} where none was recorded."""
        trace: dict[str, Any] = json.loads(self.trace_json or "{}")
        return trace

    @property
    def crashed(self) -> bool:
        """Whether the run ended in an error."""
        return self.status == CRASHED

    @property
    def ending(self) -> str:
        """How the run ended, in words."""
        return f"{self.status}: {self.reason}" if self.reason else self.status


def error_class(run: Run, score: float) -> str:
    """Return the class of a question's error; "" if it was answered right.

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
