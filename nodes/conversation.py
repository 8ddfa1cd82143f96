"""Past steps as a conversation: what the model wrote as its own messages, observations as answers to them.

It is the form of a trajectory (SymAgent, equations 2 and 4): each prompt is the one before with a step more,
so a server computes no token twice, and what a model is trained on is what it will be shown.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from triplewise.nodes.prompting import Prompt

Messages = list[dict[str, str]]


class Told(Protocol):
    """A step as a conversation holds it: thought, call as written, and what came of it."""

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


def opening(prompt: Prompt, values: Mapping[str, Any]) -> Opening:
    """The first two messages, filled in as before the first step, whatever steps the values hold."""
    first = {**values, "history": [], "step": 1, "begun": False}
    return Opening(prompt.render("system", **first), prompt.render("turn", **first))


def said(number: int, step: Told) -> str:
    """What the model wrote at a step (numbered from 1), in the form it is asked for."""
    return f"Thought {number}: {step.thought}\nAction {number}: {step.call}"


def conversation(begin: Opening, steps: Sequence[Told]) -> Messages:
    """All messages up to the step that is to be written now."""
    messages = [
        {"role": "system", "content": begin.system},
        {"role": "user", "content": begin.prompt},
    ]
    for number, step in enumerate(steps, 1):
        messages.append({"role": "assistant", "content": said(number, step)})
        messages.append({"role": "user", "content": f"Observation {number}: {step.observation}"})
    return messages
