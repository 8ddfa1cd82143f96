"""Runs that can be gone on with: their notes, and the file that holds their checkpoints.

A note stands for a run that has not ended. It is written before the run's first phase, locked while the
process lives, and removed when the run ends: a note nobody holds is a run that was killed.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter

from triplewise.tools.core.addresses import whole_url
from triplewise.tools.core.errors import ConfigurationError, RunError
from triplewise.tools.core.files import exclusive, make_private, state_folder, writing

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

UNFINISHED = 20  # Most unfinished runs that are remembered
CUT_OFF = (RunError, KeyboardInterrupt, SystemExit, GeneratorExit, sqlite3.Error)
"""What ends a run that can be gone on with; any other error is a mistake that would only be made again."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything it takes to begin a run, or to go on with one, as plain JSON."""

    question: str
    entities: dict[str, str | None]
    preset: str
    context: dict[str, Any]  # the settings given
    thread: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    folder: str = field(default_factory=os.getcwd)  # where relative paths in the settings start
    chat: bool = False  # a conversation, whose checkpoints are kept


class Checkpoints:
    """The user's checkpoint file, and notes on its runs; `saver` is None where nothing can be written."""

    saver: SqliteSaver | None = None

    def __init__(self, notify: Callable[[str], None]) -> None:
        from platformdirs import user_state_path

        self.file = user_state_path("triplewise") / "checkpoints.sqlite"
        self.notes = self.file.with_suffix(".runs")
        try:
            state_folder()
            make_private(self.notes, folder=True)
            self.saver = open_saver(self.file, notify)
        except (OSError, sqlite3.OperationalError) as error:
            notify(f"{self.file} cannot be written ({error}): a run that is killed cannot be resumed")

    def close(self) -> None:
        """Close what is open."""
        if self.saver is not None:
            self.saver.conn.close()

    @contextmanager
    def running(self, request: RunRequest) -> Iterator[None]:
        """Hold the run's note, locked. It stays only if the run was cut off, by a failure or an interrupt.

        Raises `ConfigurationError`: another process holds it; `RunError`: the checkpoints failed.
        """
        if self.saver is None:
            yield
            return
        path = self.note(request.thread)
        try:
            with exclusive(path.with_suffix(".lock"), BlockingIOError()):
                # Whoever goes on needs the passwords in its URLs.
                context = {n: whole_url(v) if isinstance(v, str) else v for n, v in request.context.items()}
                note = json.dumps(asdict(replace(request, context=context)))
                with writing(path):
                    make_private(path).write_text(note, encoding="utf-8")
                try:
                    yield
                except BaseException as error:
                    if not isinstance(error, CUT_OFF):
                        self._end(request)
                    raise
                if not request.chat:
                    self._end(request)
        except BlockingIOError as error:
            raise ConfigurationError("another process goes on with this run; wait for it to end") from error
        except sqlite3.Error as error:
            message = f"the checkpoints in {self.file} failed ({error}); mend that and use --resume"
            raise RunError(message) from error

    def unfinished(self, chat: bool = False) -> RunRequest:
        """Return the newest run or conversation that was cut off. Raises `ConfigurationError` for none."""
        if requests := [request for request in self._cut_off() if request.chat == chat]:
            return requests[0]
        what = "conversation" if chat else "unfinished run"
        raise ConfigurationError(f"no {what} to resume in {self.file}")

    def _cut_off(self) -> Iterator[RunRequest]:
        """Yield the runs that nobody holds, newest first. The oldest are forgotten."""
        paths = self.notes.glob("*.json") if self.saver is not None else ()
        for number, path in enumerate(sorted(paths, key=lambda p: p.stat().st_mtime, reverse=True)):
            with suppress(BlockingIOError), exclusive(path.with_suffix(".lock"), BlockingIOError()):
                try:
                    request = TypeAdapter(RunRequest).validate_json(path.read_bytes())
                    if self.note(request.thread) != path or "\0" in request.folder:
                        raise ValueError("it was changed by others")
                except ValueError:  # killed while writing it (nothing had begun), or damaged
                    path.unlink()
                    continue
                if number < UNFINISHED:
                    yield request
                else:
                    self._end(request)

    def note(self, thread: str) -> Path:
        """Return the file of a thread's note."""
        return self.notes / f"{thread}.json"

    def _end(self, request: RunRequest) -> None:
        """Remove checkpoints and note, so that nothing is left to resume."""
        if self.saver is not None:
            self.saver.delete_thread(request.thread)
        self.note(request.thread).unlink(missing_ok=True)


def open_saver(path: Path, notify: Callable[[str], None]) -> SqliteSaver:
    """Open the saver on a file, which is set aside and begun anew where it is damaged."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    from triplewise.graphs.build import serializer

    connection = sqlite3.connect(make_private(path), check_same_thread=False, timeout=10)
    try:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        saver = SqliteSaver(connection, serde=serializer())
        saver.setup()
        saver.delete_thread("")  # tables of the same names may be another program's
    except sqlite3.DatabaseError as error:
        connection.close()
        if isinstance(error, sqlite3.OperationalError) and "no such column" not in str(error):
            raise
        aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        path.rename(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        notify(f"{path} is damaged ({error}); set aside as {aside.name}, a new one was begun")
        return open_saver(path, notify)
    return saver
