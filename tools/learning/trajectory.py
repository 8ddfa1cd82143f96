"""Trajectories of the agent, as self-learning explores, refines, merges and trains on them (SymAgent 4.3).

On disk: JSON lines, one trajectory each, keys as the attributes below. `triplewise.tools.learning.journal`
reads and writes them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Origin = Literal["explored", "refined", "distilled", "validated"]


@dataclass(frozen=True, slots=True)
class Turn:
    """One thought, one action, and what the environment said."""

    thought: str
    call: str
    observation: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A relation taken at one hop beside those that were offered there.

    Attributes:
        chosen: short id of the relation, `^` before one walked against its direction.
        offered: all that could have been taken, the chosen one among them, in the same form.
        before: the relations taken on the way there.
    """

    chosen: str
    offered: tuple[str, ...]
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt at a question (SymAgent, equation 4) with its reward (equation 6).

    Attributes:
        id: of the question. question: in plain language. entities: mention -> id.
        answers: gold, ids or texts. predicted: the attempt's answers, in the same form.
        reward: recall of the gold answers, in [0, 1]. f1: of both.
        turns: in order; their number is the trajectory's length |s| in equation 7.
        choices: relation choices on the way to the answer, where the policy has such.
        system, prompt: what the model was shown first ("" for the embedded policy).
        iteration: of self-learning, from 0. origin: how it came about. policy: model or encoder that acted.
        status: of the answer; `crashed: ...` where the run ended in an error.
        rule: the rule that was followed to the answer, as text. ("" for a language model).
    """

    id: str
    question: str
    entities: dict[str, str]
    answers: tuple[str, ...]
    predicted: tuple[str, ...] = ()
    reward: float = 0.0
    f1: float = 0.0
    turns: tuple[Turn, ...] = ()
    choices: tuple[Choice, ...] = ()
    prompt: str = ""
    iteration: int = 0
    origin: Origin = "explored"
    policy: str = "embedded"
    status: str = ""
    system: str = ""
    rule: str = ""
