"""A trajectory as a conversation: the form in which a model is trained, and in which it acts afterwards.

What the agent writes are the assistant's messages, observations are answers to them (SymAgent, equation 4).
Each prompt is the one before with a step more, so a server computes no token twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from triplewise.tools.learning.trajectory import Trajectory, Turn

Messages = list[dict[str, str]]
"""Chat messages in OpenAI's form."""


class Opening(NamedTuple):
    """What a model is shown before its first step."""

    system: str
    prompt: str


def conversation(opening: Opening, turns: Sequence[Turn]) -> Messages:
    """Return all messages up to the turn that is to be written next; turns are numbered from 1."""
    messages = [
        {"role": "system", "content": opening.system},
        {"role": "user", "content": opening.prompt},
    ]
    for number, turn in enumerate(turns, 1):
        reply = f"Thought {number}: {turn.thought}\nAction {number}: {turn.call}"
        messages.append({"role": "assistant", "content": reply})
        messages.append({"role": "user", "content": f"Observation {number}: {turn.observation}"})
    return messages


def training_conversation(trajectory: Trajectory, observation_limit: int) -> Messages:
    """Return the conversation to learn from: up to the last action, every assistant message to be learned.

    Replies without an action are left out with their observation, since a trajectory does not keep them
    word for word. An observation is cut to `observation_limit` characters: it may list thousands of values,
    and cutting one costs less than losing the steps behind it. Empty where there is nothing to learn.
    """
    messages = conversation(Opening(trajectory.system, trajectory.prompt), trajectory.turns)
    learned = messages[:2]
    for turn, reply, observation in zip(trajectory.turns, messages[2::2], messages[3::2], strict=True):
        if turn.call:
            text = observation["content"]
            cut = text if len(text) <= observation_limit else f"{text[: observation_limit - 4]} ..."
            learned += [reply, {**observation, "content": cut}]
    return learned[:-1] if len(learned) > 2 else []
