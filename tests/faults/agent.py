"""A trajectory played through the product's own phases: read, carried out, inspected, rolled back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from langgraph.runtime import Runtime

from triplewise.nodes import correct, inspect
from triplewise.nodes.act import carry_out, read_reply, reasoning_memory
from triplewise.nodes.context import Context
from triplewise.nodes.environment import environment
from triplewise.nodes.state import State, Step, Verdict
from triplewise.tools.core.rules import Rule
from triplewise.tools.linking.linker import LinkedEntity

SAID = pytest.StashKey[list[str]]()
"""Lines for the end of a test run: figures that are worth a look though nothing failed."""


@dataclass
class Trajectory:
    """The steps of one question.

    Attributes:
        context: settings of the run; its `kg` is the graph.
        state: as the graph would hold it after the steps so far.
    """

    context: Context
    state: State
    runtime: Runtime[Context] = field(init=False)

    def __post_init__(self) -> None:
        self.runtime = Runtime(context=self.context)

    @classmethod
    def begin(
        cls, context: Context, question: str, linked: Mapping[str, str], rules: Sequence[Rule] = ()
    ) -> Trajectory:
        """Before the first step, with entities linked (id -> label)."""
        entities = tuple(LinkedEntity(label, -1, -1, i, label, 1.0) for i, label in linked.items())
        state = State(question=question, linked=entities, rules=tuple(rules), focus=tuple(linked))
        return cls(context, state)

    def step(self, reply: str) -> Verdict:
        """Carry out one reply and inspect it; an error is rolled back, as the graph does."""
        thought, written, call = read_reply(reply, environment(self.context).toolset)
        self._update(carry_out(self.state, self.context, thought, call, written))
        self._update(inspect.eraser(self.state, self.runtime))
        verdict = self.state.verdict
        assert verdict is not None
        if verdict.status == "error":
            self._update(correct.VARIANTS["raw"](self.state, self.runtime))
        return verdict

    def triggered(self) -> tuple[str, ...]:
        """Every guideline whose situation the last step is, the winner first."""
        last, before = self.last, self.state.model_copy(update={"steps": self.state.steps[:-1]})
        return environment(self.context).guidelines.triggered(
            last.feedback,
            reasoning_memory(before, self.context),
            question=self.state.question,
            budget_left=(self.context.max_steps or 0) - len(self.state.steps),
            actions=tuple(a.signature for a in environment(self.context).toolset.actions.values()),
            step=last.number + 1,
            toolset=self.context.toolset or "pyql",
        )

    @property
    def last(self) -> Step:
        """The newest step."""
        return self.state.last

    def _update(self, update: Mapping[str, Any]) -> None:
        self.state = self.state.model_copy(update=dict(update))


def react(number: int, call: str) -> str:
    """A call as a model writes it."""
    return f"Thought {number}: I go on from what is known.\nAction {number}: {call}"


def play(trajectory: Trajectory, calls: Iterable[str]) -> list[Verdict]:
    """The verdicts on some calls, one step each."""
    return [trajectory.step(react(len(trajectory.state.steps) + 1, call)) for call in calls]
