"""A trajectory as a conversation: the form in which a model is trained, and in which it acts afterwards.

What the agent wrote are the assistant's messages, observations are answers to them (SymAgent, equation 4).
Each prompt is the one before with a step more, so a server computes no token twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from triplewise.tools.learning.trajectory import Trajectory

Messages = list[dict[str, str]]
"""Chat messages in OpenAI's form."""

SHORTEST = 200
"""Characters that an observation keeps, however long the trajectory is."""


class Told(Protocol):
    """A step: thought, call as written ("" if the reply had none), and what came of it."""

    @property
    def thought(self) -> str: ...  # noqa: D102

    @property
    def call(self) -> str: ...  # noqa: D102

    @property
    def observation(self) -> str: ...  # noqa: D102


class Opening(NamedTuple):
    """What a model is shown before its first step."""

    system: str
    prompt: str


def said(number: int, step: Told) -> str:
    """What the model wrote at a step (numbered from 1), in the form it is asked for."""
    return f"Thought {number}: {step.thought}\nAction {number}: {step.call}"


def conversation(begin: Opening, steps: Sequence[Told]) -> Messages:
    """All messages up to the step that is to be written next."""
    messages = [
        {"role": "system", "content": begin.system},
        {"role": "user", "content": begin.prompt},
    ]
    for number, step in enumerate(steps, 1):
        messages.append({"role": "assistant", "content": said(number, step)})
        messages.append({"role": "user", "content": f"Observation {number}: {step.observation}"})
    return messages


class Lesson(NamedTuple):
    """A conversation to learn from: its messages, and the indices of those that are to be learned."""

    messages: Messages
    learned: frozenset[int]


def lesson(trajectory: Trajectory) -> Lesson:
    """The conversation of a trajectory, up to its last action.

    Learned is what the agent wrote (equation 8), but for replies in which no action was found: a trajectory
    does not keep them as they were.
    """
    messages = conversation(Opening(trajectory.system, trajectory.prompt), trajectory.turns)[:-1]
    learned = frozenset(2 + 2 * i for i, turn in enumerate(trajectory.turns) if turn.call)
    return Lesson(messages, learned)


def shortened(trajectory: Trajectory) -> Trajectory | None:
    """With its longest observation cut to half; None where all are short already.

    An observation may list thousands of values. Cutting one costs less than losing the steps behind it.
    """
    longest = max(
        range(len(trajectory.turns)), key=lambda i: len(trajectory.turns[i].observation), default=None
    )
    if longest is None or len(trajectory.turns[longest].observation) <= SHORTEST:
        return None
    turn = trajectory.turns[longest]
    kept = turn.observation[: max(SHORTEST - 4, len(turn.observation) // 2)]
    turns = (
        *trajectory.turns[:longest],
        replace(turn, observation=f"{kept} ..."),
        *trajectory.turns[longest + 1 :],
    )
    return replace(trajectory, turns=turns)
