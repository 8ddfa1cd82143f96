"""The folder of work in progress: steps that are done once, whole or not at all.

A step is a folder. It is made under another name and renamed when it is complete, with what there is to
remember of it in `done.json`. A process that is killed leaves nothing that looks like a finished step, and
the next one goes on behind the last that is.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import ConfigurationError, DataError

Facts = dict[str, Any]
DONE = "done.json"


class Work:
    """Steps in a folder, done by one process at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, name: str) -> Path:
        """Where a step's files are."""
        return self.folder / name

    def facts(self, name: str) -> Facts | None:
        """What is remembered of a finished step; None if it is not finished."""
        return read_json(self.folder / name / DONE)

    def step(self, name: str, make: Callable[[Path], Facts]) -> Facts:
        """Do a step unless it is done.

        Args:
            name: of the step, with slashes for folders.
            make: writes the step's files into the folder it is given, and returns what to remember (JSON).

        Raises:
            DataError: the disk is full or cannot be written.
        """
        known = self.facts(name)
        if known is not None:
            return known
        final = self.folder / name
        part = final.with_name(final.name + ".part")
        try:
            shutil.rmtree(part, ignore_errors=True)
            shutil.rmtree(final, ignore_errors=True)
            part.mkdir(parents=True)
            facts = make(part)
            write_json(part / DONE, facts)
            part.rename(final)
        except OSError as error:
            raise DataError(f"cannot be written: {error.strerror or error}", final) from error
        return facts

    def forget(self, name: str) -> None:
        """Undo a step, or a folder of steps."""
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def agree(self, name: str, identity: Facts) -> bool:
        """Whether a folder of steps was made for this identity; if not, it is cleared for it."""
        mark = self.folder / name / "identity.json"
        if read_json(mark) == identity:
            return True
        self.forget(name)
        mark.parent.mkdir(parents=True, exist_ok=True)
        write_json(mark, identity)
        return False

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of the folder.

        Raises:
            ConfigurationError: another process works in it. DataError: it cannot be made.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            file = (self.folder / "lock").open("a+")
        except OSError as error:
            raise DataError(f"cannot be written: {error.strerror or error}", self.folder) from error
        with file:
            if not _locked(file.fileno()):
                raise ConfigurationError(f"another process is working in {self.folder}; wait for it to end")
            yield


def read_json(path: Path) -> Facts | None:
    """A JSON object; None if there is none, or no whole one."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return dict(found) if isinstance(found, dict) else None


def write_json(path: Path, facts: Facts) -> None:
    """Write a JSON object, whole or not at all."""
    part = path.with_name(path.name + ".tmp")
    with part.open("w", encoding="utf-8") as file:
        json.dump(facts, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)


def _locked(descriptor: int) -> bool:
    """Take the lock, which goes with the process; True where there are no locks."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
