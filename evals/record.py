"""What a question's run leaves behind in the log."""

from __future__ import annotations

import json
from typing import Any

from inspect_ai.util import StoreModel
from pydantic import Field

CRASHED = "crashed"


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
            told the agent something.
        outcomes: of each step, in order: what its query came to (`Outcome`; "" without one).
        errors: of each step, in order: the interpreter's error code, "" where the action could be done.
        rolled_back: how many steps were taken back.
        told: the run as `triplewise.graphs.trace` tells it, as JSON; see `trace`. One text, since Inspect
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
    told: str = ""
    kg: str = ""
    profile: str = ""
    names: dict[str, list[str]] | None = None

    @property
    def trace(self) -> dict[str, Any]:
        """The run as `triplewise.graphs.trace` tells it; {} where none was kept."""
        found: dict[str, Any] = json.loads(self.told or "{}")
        return found

    @property
    def crashed(self) -> bool:
        """Whether the run ended in an error."""
        return self.status == CRASHED

    @property
    def ending(self) -> str:
        """How the run ended, in words."""
        return f"{self.status}: {self.reason}" if self.reason else self.status
