"""The trajectories on disk: JSON lines that only ever grow, so that a killed run loses none.

One line a trajectory, with the attributes of `Trajectory` as keys. `id`, `question` and `answers` are needed;
what is left out has its default. An example, wrapped here for reading:

```json
{"id": "q1", "question": "who directed Alien?", "entities": {"Alien": "Q103569"}, "answers": ["Q56005"],
 "predicted": ["Q56005"], "reward": 1.0, "f1": 1.0,
 "turns": [{"thought": "...", "call": "search_neighbor(Q103569, P57)",
  "observation": "Ridley Scott [Q56005]."}],
 "choices": [{"chosen": "P57", "offered": ["P57", "P58", "P161"], "before": []}],
 "prompt": "", "iteration": 0, "origin": "explored", "policy": "embedded", "status": "answered",
 "system": "", "rule": "Q103569 -[P57]-> ?director"}
```
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, fields
from pathlib import Path
from threading import Lock

from triplewise.tools.core.errors import DataError
from triplewise.tools.learning.trajectory import Choice, Origin, Trajectory, Turn

Key = tuple[int, Origin, str]
"""Iteration, origin, id of the question: there is one trajectory of each."""

_NEEDED = ("id", "question", "answers")
_KNOWN = {f.name for f in fields(Trajectory)}


def write_line(trajectory: Trajectory) -> str:
    """A trajectory as a line of JSON, its end included."""
    return json.dumps(asdict(trajectory), ensure_ascii=False) + "\n"


def read_line(line: str, path: Path | str | None = None, number: int | None = None) -> Trajectory:
    """The trajectory of a line. Raises `DataError` where it is none."""
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error}", path, number) from error
    if not isinstance(record, dict) or (missing := [key for key in _NEEDED if key not in record]):
        lacks = f"lacks {', '.join(missing)}" if isinstance(record, dict) else "is no object"
        raise DataError(f"not a trajectory: {lacks}", path, number)
    if unknown := sorted(record.keys() - _KNOWN):
        legal = ", ".join(sorted(_KNOWN))
        raise DataError(f"unknown keys {', '.join(unknown)}; legal keys: {legal}", path, number)
    try:
        for key in ("answers", "predicted"):
            record[key] = tuple(map(str, record.get(key, ())))
        for key in ("reward", "f1"):
            record[key] = float(record.get(key, 0.0))
        record["entities"] = dict(record.get("entities", {}))
        record["turns"] = tuple(Turn(**turn) for turn in record.get("turns", ()))
        record["choices"] = tuple(
            Choice(str(c["chosen"]), tuple(c["offered"]), tuple(c.get("before", ())))
            for c in record.get("choices", ())
        )
        return Trajectory(**record)
    except (TypeError, ValueError, KeyError, AttributeError) as error:
        raise DataError(f"not a trajectory: {error}", path, number) from error


def read_trajectories(path: Path) -> list[Trajectory]:
    """All trajectories of a file. Raises `DataError`, naming the line, if it cannot be read."""
    try:
        # Not splitlines(): texts may hold the other characters that it takes for the end of a line.
        lines = path.read_text(encoding="utf-8").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"cannot read trajectories: {error}", path) from error
    return [read_line(line, path, number) for number, line in enumerate(lines, 1) if line.strip()]


def write_trajectories(path: Path, trajectories: Iterable[Trajectory]) -> None:
    """Write a file of trajectories as a whole: it is there complete or not at all."""
    beside = path.with_name(f"{path.name}.part")
    with beside.open("w", encoding="utf-8") as file:
        file.writelines(map(write_line, trajectories))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


class Journal:
    """A file of trajectories that grows by one at a time; each is on disk before the next is begun.

    A last line that was cut short by a kill is taken off when the file is opened. Safe to use from threads.

    Args:
        path: the file, made where it is missing.
        notify: called with a message where a line was taken off.

    Raises:
        DataError: a line other than the last one is broken, or the file cannot be written.
    """

    def __init__(self, path: Path, notify: Callable[[str], object] = lambda message: None) -> None:
        self.path, self._lock = path, Lock()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        except OSError as error:
            raise DataError(f"cannot be written: {error.strerror or error}", path) from error
        data = path.read_bytes()
        whole = data.rfind(b"\n") + 1
        if whole < len(data):
            os.ftruncate(self._file, whole)
            notify(f"{path}: the last line was cut short by a kill and is left out; it is made again")
        self._trajectories: dict[Key, Trajectory] = {}
        for trajectory in read_trajectories(path):
            self._trajectories.setdefault(_key(trajectory), trajectory)

    def __contains__(self, key: Key) -> bool:
        return key in self._trajectories

    def __len__(self) -> int:
        return len(self._trajectories)

    def append(self, trajectory: Trajectory) -> None:
        """Add a trajectory: one write of the whole line, then synced to the disk.

        Raises:
            ValueError: there is one of this question, iteration and origin already.
        """
        line = write_line(trajectory).encode()
        with self._lock:
            if _key(trajectory) in self._trajectories:
                raise ValueError(f"there is a trajectory {_key(trajectory)} already")
            self._write(line)
            self._trajectories[_key(trajectory)] = trajectory

    def _write(self, line: bytes) -> None:
        """A whole line or, where the disk is full, none of it."""
        begin, written = os.fstat(self._file).st_size, 0
        try:
            while written < len(line):
                written += os.write(self._file, line[written:])
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, begin)
            raise

    def of(self, iteration: int, origin: Origin) -> dict[str, Trajectory]:
        """The trajectories of an iteration, question id -> trajectory, in the order they were made."""
        with self._lock:
            return {k[2]: t for k, t in self._trajectories.items() if k[:2] == (iteration, origin)}

    def __iter__(self) -> Iterator[Trajectory]:
        with self._lock:
            return iter(list(self._trajectories.values()))

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def _key(trajectory: Trajectory) -> Key:
    """Return the key of a trajectory; there is one trajectory of each."""
    return trajectory.iteration, trajectory.origin, trajectory.id
