"""The journal of an evaluation: each question is on disk before it counts as done, and is never asked twice.

A JSON-lines file beside the logs, named after everything that decides the results (task, arguments, data,
commit, settings). A run that was killed leaves it; the next run of the same evaluation answers the questions
in it from it and asks only the others. It is deleted when every question has its result in a finished log.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import threading
import traceback
from collections.abc import Mapping
from functools import wraps
from pathlib import Path
from typing import IO, Any

import anyio
from anyio import CapacityLimiter, to_thread
from inspect_ai import Task
from inspect_ai.model import ModelOutput
from inspect_ai.solver import Generate, Solver, TaskState

from triplewise.tools.core.errors import ConfigurationError

FOLDER = ".unfinished"
"""Where journals lie, in the folder of the logs."""

Entry = dict[str, Any]


class ToldCrashError(Exception):
    """A question that crashed in an earlier run or another process; reads like the crash itself."""

    def __init__(self, told: str, trace: str) -> None:
        super().__init__(told)
        self.add_note(trace)

    def __repr__(self) -> str:
        return str(self)


def key_of(task: Task, arguments: Mapping[str, Any] | None = None) -> str:
    """A checksum of everything that decides an evaluation's results.

    Args:
        task: its name, version, provenance and questions count. arguments: what else does.
    """
    asked = [[sample.id, str(sample.input), sample.target] for sample in task.dataset]
    parts = {
        "task": task.name,
        "version": task.version,
        "metadata": task.metadata,
        "asked": asked,
        "epochs": task.epochs,
        "arguments": arguments,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


class Journal:
    """Results on disk; only their places are kept in memory. One process at a time holds it.

    Raises:
        ConfigurationError: another process is running the same evaluation.
    """

    def __init__(self, folder: Path, name: str) -> None:
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        self.path = folder / FOLDER / f"{name}.jsonl"
        self._lock = threading.Lock()
        self._file = _held(self.path)
        self._places: dict[tuple[str, int], tuple[int, int]] = {}
        self.finished = False
        self.crashed = 0
        self._read()

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, question: object) -> bool:
        return question in self._places

    def _read(self) -> None:
        """Find the entries; what was being written when the process died is cut off."""
        end = 0
        for line in self._file:
            entry = _entry(line)
            if entry is None:
                break
            if entry.get("finished"):
                self.finished = True
            else:
                self._places[entry["id"], entry["epoch"]] = (end, len(line))
                self.crashed += entry.get("error") is not None
            end += len(line)
        self._file.truncate(end)
        self._file.seek(end)

    def get(self, question: tuple[str, int]) -> Entry | None:
        """The result of a question, None while there is none."""
        if question not in self._places:
            return None
        start, length = self._places[question]
        return _entry(os.pread(self._file.fileno(), length, start))

    def add(self, question: tuple[str, int], result: Entry) -> None:
        """Keep a result; it is on disk when this returns. From any thread."""
        self._write({"id": question[0], "epoch": question[1], **result}, question)

    def finish(self) -> None:
        """Every question has its result in a log: without crashes nothing is left to remember."""
        if self.crashed:
            self._write({"finished": True})
        else:
            self.path.unlink(missing_ok=True)
        self.close()

    def forget(self, crashed_only: bool = False) -> None:
        """Begin anew: with all questions, or with those that crashed."""
        kept = [
            entry
            for question in self._places
            if crashed_only and (entry := self.get(question)) is not None and entry.get("error") is None
        ]
        self._file.truncate(0)
        self._file.seek(0)
        self._places.clear()
        self.finished, self.crashed = False, 0
        for entry in kept:
            self._write(entry, (entry["id"], entry["epoch"]))

    def close(self) -> None:
        """Let another process have it."""
        with self._lock:
            self._file.close()

    def _write(self, entry: Entry, question: tuple[str, int] | None = None) -> None:
        line = json.dumps(entry, ensure_ascii=False).encode() + b"\n"
        with self._lock:
            if self._file.closed:
                return  # an abandoned question came to its end after the evaluation did
            place = (self._file.tell(), len(line))
            self._file.write(line)
            self._file.flush()
            os.fsync(self._file.fileno())
            if question is not None:
                self._places[question] = place
                self.crashed += entry.get("error") is not None


def _held(path: Path) -> IO[bytes]:
    """The file, locked until it is closed or the process dies."""
    while True:
        file = path.open("a+b")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.close()
            raise ConfigurationError(
                f"another process is running this evaluation (it holds {path}); wait for it, or give another "
                "--log-dir"
            ) from error
        # Whoever held it before may have deleted it between our opening and locking.
        if path.exists() and os.fstat(file.fileno()).st_ino == path.stat().st_ino:
            file.seek(0)
            return file
        file.close()


def _entry(line: bytes) -> Entry | None:
    """One line, None if it is not whole."""
    if not line.endswith(b"\n"):
        return None
    try:
        entry: Entry = json.loads(line)
    except ValueError:
        return None
    return entry


def journaled(inner: Solver, journal: Journal) -> Solver:
    """A solver that asks only what the journal does not hold, and writes there before a question is done."""
    writers = CapacityLimiter(1)

    async def keep(state: TaskState, error: Exception | None) -> None:
        entry = _result(state, error)
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(journal.add, _question(state), entry, limiter=writers)

    @wraps(inner)
    async def solve(state: TaskState, generate: Generate) -> TaskState:
        earlier = journal.get(_question(state))
        if earlier is not None:
            return _replayed(state, earlier)
        try:
            state = await inner(state, generate)
        except Exception as error:
            await keep(state, error)
            raise
        await keep(state, None)
        return state

    return solve


def _question(state: TaskState) -> tuple[str, int]:
    return str(state.sample_id), state.epoch


def _result(state: TaskState, error: Exception | None) -> Entry:
    """What is kept of a question."""
    told = None
    if error is not None:
        told = {"message": repr(error), "traceback": "".join(traceback.format_exception(error))}
    return {
        "store": dict(state.store.items()),
        "model": state.output.model,
        "output": state.output.completion,
        "error": told,
    }


def _replayed(state: TaskState, entry: Entry) -> TaskState:
    """The state as it was when the question was done. Raises what it crashed with."""
    for name, value in entry["store"].items():
        state.store.set(name, value)
    if entry["error"] is not None:
        raise ToldCrashError(entry["error"]["message"], entry["error"]["traceback"])
    state.output = ModelOutput.from_content(model=entry["model"], content=entry["output"])
    state.completed = True
    return state
