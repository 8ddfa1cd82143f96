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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.errors import ConfigurationError, DataError, RunError
from triplewise.tools.core.files import exclusive

if TYPE_CHECKING:
    from langgraph.checkpoint.sqlite import SqliteSaver

UNFINISHED = 20
"""Most unfinished runs that are remembered."""

_SQLITE = b"SQLite format 3\0"
_TYPES = [("triplewise.tools.kg.protocol", "Outcome")]
"""Types that checkpoints hold though no type hint of the state names them."""

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything it takes to begin a run, or to go on with one, as plain JSON.

    Attributes:
        context: the settings that were given. folder: where relative paths in them start from.
        named: whether the user named the thread; its checkpoints then stay when the run has ended.
    """

    question: str
    entities: dict[str, str | None]
    preset: str
    context: dict[str, Any]
    thread: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    folder: str = field(default_factory=os.getcwd)
    named: bool = False


class Checkpoints:
    """The checkpoint file and the notes beside it. `saver` is None where nothing can be written.

    A damaged file is set aside with a notice, and a new one is begun.

    Args:
        path: None is the file in the user's state folder.

    Raises:
        DataError: the file is something else altogether.
    """

    def __init__(self, path: Path | None, notify: Notify) -> None:
        from platformdirs import user_state_path

        self.path = path or user_state_path("triplewise") / "checkpoints.sqlite"
        self.notes = self.path.with_suffix(".runs")
        self.saver: SqliteSaver | None = None
        if path is not None and path.exists() and not _is_sqlite(path):
            raise DataError("is no checkpoint file; name another one with --checkpoints", path)
        try:
            self.notes.mkdir(parents=True, exist_ok=True)
            self.saver = open_saver(self.path, notify)
        except (OSError, sqlite3.OperationalError) as error:
            notify(
                f"{self.path} cannot be written ({error}): this run could not be resumed if it were killed"
            )

    def close(self) -> None:
        """Close the file."""
        if self.saver is not None:
            self.saver.conn.close()

    @contextmanager
    def running(self, request: RunRequest) -> Iterator[None]:
        """Hold the run's note, locked. It stays only if the run was cut off, by a failure or an interrupt.

        Raises:
            ConfigurationError: another process runs the thread.
        """
        if self.saver is None:
            yield
            return

        def refuse_waiting() -> None:
            raise ConfigurationError(
                f"another process is running thread {request.thread!r}; wait for it to end"
            )

        path = self.note(request.thread)
        with exclusive(path.with_suffix(".lock"), refuse_waiting):
            path.touch(mode=0o600)  # a database URL may hold a password
            path.write_text(json.dumps(asdict(request)), encoding="utf-8")
            try:
                yield
            except (RunError, KeyboardInterrupt, SystemExit, GeneratorExit):
                raise
            except BaseException:  # a mistake that would only be made again
                self._end(request)
                raise
            self._end(request)

    def unfinished(self, thread: str | None = None) -> RunRequest:
        """Return the newest run that was cut off, or the one of a thread. The oldest are forgotten.

        Raises:
            ConfigurationError: there is none; lists the threads that can be resumed.
        """
        requests: dict[str, RunRequest] = {}
        paths = self.notes.glob("*.json") if self.saver is not None else ()
        for number, path in enumerate(sorted(paths, key=lambda p: p.stat().st_mtime, reverse=True)):
            if _is_running(path):
                continue
            try:
                request = RunRequest(**json.loads(path.read_text(encoding="utf-8")))
            except (ValueError, TypeError):  # killed while writing it: nothing had begun
                path.unlink()
                continue
            if number < UNFINISHED:
                requests[request.thread] = request
            else:
                self._end(request)
        if thread in requests:
            return requests[thread]
        if not requests:
            raise ConfigurationError(f"no unfinished run to resume in {self.path}")
        if thread is not None:
            raise ConfigurationError.unknown("unfinished thread", thread, requests)
        return next(iter(requests.values()))

    def note(self, thread: str) -> Path:
        """Return the file of a thread's note, whatever characters its name has."""
        return self.notes / f"{thread.encode().hex()}.json"

    def _end(self, request: RunRequest) -> None:
        """Remove the note, so that nothing is left to resume, and the checkpoints of an unnamed run."""
        if self.saver is not None and not request.named:
            self.saver.delete_thread(request.thread)
        with suppress(OSError):
            self.note(request.thread).unlink()


def _is_sqlite(path: Path) -> bool:
    """Whether a file is a database, or empty; damage further inside is no matter."""
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(_SQLITE)) in (_SQLITE, b"")


def _is_running(note: Path) -> bool:
    """Whether a process holds a note."""

    def refuse_waiting() -> None:
        raise BlockingIOError

    try:
        with exclusive(note.with_suffix(".lock"), refuse_waiting):
            return False
    except BlockingIOError:
        return True


def open_saver(path: Path, notify: Notify) -> SqliteSaver:
    """Open the saver on a file, which is set aside and begun anew where it is damaged."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
    from langgraph.checkpoint.sqlite import SqliteSaver

    connection = sqlite3.connect(path, check_same_thread=False, timeout=10)
    try:
        verdict = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if verdict != "ok":
            raise sqlite3.DatabaseError(verdict)
        saver = SqliteSaver(connection, serde=JsonPlusSerializer(allowed_msgpack_modules=_TYPES))
        saver.setup()
    except sqlite3.OperationalError:
        connection.close()
        raise
    except sqlite3.DatabaseError as error:
        connection.close()
        aside = path.with_name(f"{path.name}.damaged-{time.strftime('%Y%m%d-%H%M%S')}")
        path.rename(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
        notify(f"{path} is damaged ({error}); set aside as {aside.name}, a new one was begun")
        return open_saver(path, notify)
    return saver
