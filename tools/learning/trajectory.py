"""Trajectories of the agent, as self-learning explores, refines, merges and trains on them (SymAgent 4.3).

On disk they are JSON lines, with the attributes of `Trajectory` as keys; what is left out has its default.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, ClassVar, Literal, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import read_text, whole_file, writing

Origin = Literal["explored", "refined", "validated"]

_STRICT = ConfigDict(extra="forbid", coerce_numbers_to_str=True)


@dataclass(frozen=True, slots=True)
class Turn:
    """One thought, one action, and the observation."""

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    thought: str
    call: str
    observation: str


@dataclass(frozen=True, slots=True)
class Choice:
    """A relation taken at one hop, and those that were offered there.

    Attributes:
        chosen: short id of the relation, `^` before one walked against its direction.
        offered: all that could have been taken, the chosen one among them, in the same form.
        before: the relations taken on the way there.
    """

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

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

    __pydantic_config__: ClassVar[ConfigDict] = _STRICT

    id: str
    question: str
    answers: tuple[str, ...]
    entities: dict[str, str] = field(default_factory=dict)
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


_ADAPTER = TypeAdapter(Trajectory)


def write_line(trajectory: Trajectory) -> str:
    """Return a trajectory as a line of JSON, its end included."""
    return json.dumps(asdict(trajectory), ensure_ascii=False) + "\n"


def read_trajectories(path: Path) -> list[Trajectory]:
    """Return all trajectories of a file. Raises `DataError`, naming the line, if it cannot be read."""
    trajectories = []
    # Not splitlines(): texts may hold the other characters that it takes for the end of a line.
    for number, line in enumerate(read_text(path).split("\n"), 1):
        try:
            if line.strip():
                trajectories.append(_ADAPTER.validate_json(line))
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(map(str, first["loc"])) or "line"
            raise DataError(f"not a trajectory: {place}: {first['msg']}", path, number) from error
    return trajectories


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Write a file of trajectories as a whole: it is there complete or not at all."""
    with whole_file(path) as file:
        file.writelines(write_line(trajectory).encode() for trajectory in trajectories)


class Journal:
    """A file of trajectories that grows by one at a time; each is on disk before the next is begun.

    There is one trajectory of each question, iteration and origin. A last line that was cut short by a kill
    is taken off when the file is opened, and `notify` is called. Safe to use from threads. Raises `DataError`
    where another line is broken, or the file cannot be written.
    """

    def __init__(self, path: Path, notify: Callable[[str], object] = lambda message: None) -> None:
        self._lock = Lock()
        with writing(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = path.open("ab", buffering=0)
        data = path.read_bytes()
        if (whole := data.rfind(b"\n") + 1) < len(data):
            self._file.truncate(whole)
            notify(f"{path}: the last line was cut short by a kill and is left out; it is made again")
        self._trajectories = {(t.iteration, t.origin, t.id): t for t in read_trajectories(path)}
        self.close = self._file.close

    def append(self, trajectory: Trajectory) -> None:
        """Add a trajectory: one write of the whole line, then synced to the disk."""
        key = trajectory.iteration, trajectory.origin, trajectory.id
        with self._lock:
            if key in self._trajectories:
                raise ValueError(f"there is a trajectory {key} already")
            self._file.write(write_line(trajectory).encode())
            os.fsync(self._file.fileno())
            self._trajectories[key] = trajectory

    def of(self, iteration: int, origin: Origin) -> dict[str, Trajectory]:
        """Return the trajectories of an iteration, question id -> trajectory, in the order they were made."""
        with self._lock:
            return {k[2]: t for k, t in self._trajectories.items() if k[:2] == (iteration, origin)}


# -- a trajectory as a conversation: the form in which a model is trained, and in which it acts afterwards

Messages = list[dict[str, str]]
"""Chat messages in OpenAI's form."""


class Opening(NamedTuple):
    """What a model is shown before its first step."""

    system: str
    prompt: str


def conversation(opening: Opening, turns: Sequence[Turn]) -> Messages:
    """Return all messages up to the turn that is to be written next; turns are numbered from 1."""
    texts = [("system", opening.system), ("user", opening.prompt)]
    for number, turn in enumerate(turns, 1):
        texts.append(("assistant", f"Thought {number}: {turn.thought}\nAction {number}: {turn.call}"))
        texts.append(("user", f"Observation {number}: {turn.observation}"))
    return [{"role": role, "content": content} for role, content in texts]


def training_records(trajectory: Trajectory, observation_limit: int) -> list[dict[str, Any]]:
    """Return each action with what led to it, as trl learns: `prompt` (messages) and `completion` (one).

    Replies without an action are left out with their observation, since a trajectory does not keep them
    word for word. An observation is cut to `observation_limit` characters: it may list thousands of values,
    and cutting one costs less than losing the steps behind it.
    """
    messages = conversation(Opening(trajectory.system, trajectory.prompt), trajectory.turns)
    shown, records = messages[:2], []
    for turn, reply, observation in zip(trajectory.turns, messages[2::2], messages[3::2], strict=True):
        if turn.call:
            records.append({"prompt": list(shown), "completion": [reply]})
            text = observation["content"]
            cut = text if len(text) <= observation_limit else f"{text[: observation_limit - 4]} ..."
            shown += [reply, {**observation, "content": cut}]
    return records
