"""A trajectory as a conversation: the form in which a model is trained, and in which it acts afterwards.

What the agent writes are the assistant's messages, observations are answers to them (SymAgent, equation 4).
Each prompt is the one before with a step more, so a server computes no token twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from triplewise.tools.learning.trajectory import Trajectory

Messages = list[dict[str, str]]
"""Chat messages in OpenAI's form."""


class ConversationStep(Protocol):
    """A step: thought, call as written ("" if the reply had none), and the observation that followed."""

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


def conversation(opening: Opening, steps: Sequence[ConversationStep]) -> Messages:
    """Return all messages up to the step that is to be written next; steps are numbered from 1."""
    messages = [
        {"role": "system", "content": opening.system},
        {"role": "user", "content": opening.prompt},
    ]
    for number, step in enumerate(steps, 1):
        reply = f"Thought {number}: {step.thought}\nAction {number}: {step.call}"
        messages.append({"role": "assistant", "content": reply})
        messages.append({"role": "user", "content": f"Observation {number}: {step.observation}"})
    return messages


def training_conversation(trajectory: Trajectory, observation_limit: int) -> Messages:
    """Return the conversation to learn from: up to the last action, every assistant message to be learned.

    Replies without an action are left out with their observation, since a trajectory does not keep them
    word for word. An observation is cut to `observation_limit` characters: it may list thousands of values,
    and cutting one costs less than losing the steps behind it. Empty where there is nothing to learn.
    """
    messages = conversation(Opening(trajectory.system, trajectory.prompt), trajectory.turns)
    kept = messages[:2]
    for turn, reply, observation in zip(trajectory.turns, messages[2::2], messages[3::2], strict=True):
        if turn.call:
            text = observation["content"]
            cut = text if len(text) <= observation_limit else f"{text[: observation_limit - 4]} ..."
            kept += [reply, {**observation, "content": cut}]
    return kept[:-1] if len(kept) > 2 else []
