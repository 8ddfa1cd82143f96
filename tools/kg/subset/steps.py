"""Work in progress as steps in a folder, each done once, whole or not at all.

A step is a folder. It is made under another name and renamed when it is complete, with what there is to
remember of it in `done.json`. A process that is killed leaves nothing that looks like a finished step, and
the next one goes on behind the last that is.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import exclusive

Facts = dict[str, Any]
DONE = "done.json"


class Steps:
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
        if (facts := self.facts(name)) is not None:
            return facts
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

    def clear_unless(self, name: str, identity: Facts) -> None:
        """Clear a folder of steps unless it was made for this identity."""
        path = self.folder / name / "identity.json"
        if read_json(path) != identity:
            self.forget(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            write_json(path, identity)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other processes out of the folder.

        Raises:
            ConfigurationError: another process works in it. DataError: it cannot be made.
        """

        def refuse() -> None:
            raise ConfigurationError(f"another process is working in {self.folder}; wait for it to end")

        with ExitStack() as stack:
            try:
                self.folder.mkdir(parents=True, exist_ok=True)
                stack.enter_context(exclusive(self.folder / "lock", refuse))
            except OSError as error:
                raise DataError(f"cannot be written: {error.strerror or error}", self.folder) from error
            yield


def read_json(path: Path) -> Facts | None:
    """A JSON object; None if there is none, or no whole one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return dict(value) if isinstance(value, dict) else None


def write_json(path: Path, facts: Facts) -> None:
    """Write a JSON object, whole or not at all."""
    part = path.with_name(path.name + ".tmp")
    with part.open("w", encoding="utf-8") as file:
        json.dump(facts, file, indent=2, ensure_ascii=False)
        file.write("\n")
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
