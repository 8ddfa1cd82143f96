"""Trajectories of the agent, as self-learning explores, refines, merges and trains on them (SymAgent 4.3).

On disk they are JSON lines, with the attributes of `Trajectory` as keys; what is left out has its default.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import ClassVar, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import json_lines, make_folder, writing

Origin = Literal["explored", "refined", "validated"]
Messages = list[dict[str, str]]  # Chat messages in OpenAI's form


@dataclass(frozen=True, slots=True)
class Turn:
    """One thought, one action, and the observation."""

    thought: str
    call: str
    observation: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A relation taken at one hop, all offered there, those taken before; `^`: against its direction."""

    chosen: str
    offered: tuple[str, ...]
    before: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Trajectory:
    """One attempt at a question (SymAgent, equation 4) with its reward (equation 6)."""

    __pydantic_config__: ClassVar = ConfigDict(extra="forbid", coerce_numbers_to_str=True)

    id: str
    question: str
    answers: tuple[str, ...]  # gold ones
    entities: dict[str, str] = field(default_factory=dict)  # mention -> id
    predicted: tuple[str, ...] = ()  # the attempt's answers, in the form of the gold ones
    reward: float = 0.0  # their recall, in [0, 1]
    f1: float = 0.0
    turns: tuple[Turn, ...] = ()  # their number is |s| in equation 7
    choices: tuple[Choice, ...] = ()  # of relations on the way to the answer
    prompt: str = ""  # what a model was first shown, after `system`
    iteration: int = 0  # of self-learning, from 0
    origin: Origin = "explored"
    policy: str = "embedded"  # the model or encoder that acted
    status: str = ""  # of the answer; `crashed: ...` where the run ended in an error
    system: str = ""
    rule: str = ""  # what was followed


_ADAPTER = TypeAdapter(Trajectory)


def merge_pair(explored: Trajectory, refined: Trajectory) -> Trajectory | None:
    """Return the better of two attempts at one question; None is `filtered` (equation 7).

    The higher reward; of equal rewards above 0 the shorter trajectory; of equally long ones, which the
    equation leaves open, that of the higher F1.
    """
    better = min((explored, refined), key=lambda t: (-t.reward, len(t.turns), -t.f1))
    return better if better.reward > 0 else None


def write_line(trajectory: Trajectory) -> bytes:
    """Return a trajectory as a line of JSON."""
    return _ADAPTER.dump_json(trajectory) + b"\n"


def read_trajectories(path: Path) -> list[Trajectory]:
    """Return all trajectories of a file. Raises `DataError`, naming the line, if it cannot be read."""
    trajectories = []
    for number, record in json_lines(path):
        try:
            trajectories.append(_ADAPTER.validate_python(record))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"]))
            raise DataError(f"not a trajectory: {place}: {first['msg']}", path, number) from error
    return trajectories


class Journal:
    """A file of trajectories, one of each question, iteration and origin, each on disk before the next.

    A last line that a kill cut short is taken off at opening. Safe to use from threads. Raises `DataError`.
    """

    def __init__(self, path: Path) -> None:
        self._lock = Lock()
        with writing(path):
            make_folder(path.parent)
            self._file = path.open("ab", buffering=0)
        self._file.truncate(path.read_bytes().rfind(b"\n") + 1)
        self._trajectories = {(t.iteration, t.origin, t.id): t for t in read_trajectories(path)}
        self.close = self._file.close

    def append(self, trajectory: Trajectory) -> None:
        """Add a trajectory: one write of the whole line, then synced to the disk."""
        key = trajectory.iteration, trajectory.origin, trajectory.id
        with self._lock:
            if key in self._trajectories:
                raise ValueError(f"there is a trajectory {key} already")
            self._file.write(write_line(trajectory))
            os.fsync(self._file.fileno())
            self._trajectories[key] = trajectory

    def of(self, iteration: int, origin: Origin) -> dict[str, Trajectory]:
        """Return the trajectories of an iteration, question id -> trajectory, in the order they were made."""
        with self._lock:
            return {k[2]: t for k, t in self._trajectories.items() if k[:2] == (iteration, origin)}


def conversation(system: str, prompt: str, turns: Sequence[Turn]) -> Messages:
    """Return a trajectory as chat messages, the form that a model is trained on and acts in afterwards."""
    texts = [("system", system), ("user", prompt)]
    for number, turn in enumerate(turns, 1):
        texts.append(("assistant", f"Thought {number}: {turn.thought}\nAction {number}: {turn.call}"))
        texts.append(("user", f"Observation {number}: {turn.observation}"))
    return [{"role": role, "content": content} for role, content in texts]
