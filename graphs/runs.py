"""Runs that can be gone on with: their notes, and the file or database that holds their checkpoints.

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
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from triplewise.tools.core.addresses import hide_secrets, whole_url
from triplewise.tools.core.errors import ConfigurationError, DataError, RunError
from triplewise.tools.core.files import exclusive, make_private, state_folder

if TYPE_CHECKING:
    from langgraph.checkpoint.postgres import PostgresSaver
    from langgraph.checkpoint.sqlite import SqliteSaver

UNFINISHED = 20
"""Most unfinished runs that are remembered."""
SQLITE = b"SQLite format 3\0"

Notify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunRequest:
    """Everything it takes to begin a run, or to go on with one, as plain JSON.

    `context` are the settings that were given, `folder` is where relative paths in them start from. The
    checkpoints of a thread that the user `named` stay when the run has ended; a `chat` never ends.
    """

    question: str
    entities: dict[str, str | None]
    preset: str
    context: dict[str, Any]
    thread: str = field(default_factory=lambda: uuid.uuid4().hex[:12])
    folder: str = field(default_factory=os.getcwd)
    named: bool = False
    chat: bool = False


class Checkpoints:
    """The checkpoint file, the user's own for None, and the notes beside it. `place` is shown to people.

    A damaged file is set aside with a notice, and a new one is begun; `saver` is None where nothing can be
    written. Raises `DataError`: the file is something else altogether.
    """

    saver: SqliteSaver | PostgresSaver | None = None
    errors: tuple[type[Exception], ...] = (sqlite3.Error,)

    def __init__(self, path: Path | None, notify: Notify) -> None:
        from platformdirs import user_state_path

        file = path or user_state_path("triplewise") / "checkpoints.sqlite"
        self.place, self.notes = str(file), file.with_suffix(".runs")
        # Damage further inside is no matter.
        if path is not None and path.exists() and not (path.is_file() and _begin(path) in (SQLITE, b"")):
            raise DataError("is no checkpoint file; name another one with --checkpoints", path)
        try:
            if path is None:
                state_folder()
            make_private(self.notes, folder=True)
            self.saver = open_saver(file, notify)
        except (OSError, sqlite3.OperationalError) as error:
            notify(f"{file} cannot be written ({error}): this run could not be resumed if it were killed")

    def close(self) -> None:
        """Close what is open."""
        if self.saver is not None:
            self.saver.conn.close()

    @contextmanager
    def running(self, request: RunRequest) -> Iterator[None]:
        """Hold the run's note, locked. It stays only if the run was cut off, by a failure or an interrupt.

        Raises `ConfigurationError`: another process runs the thread; `RunError`: the checkpoints failed.
        """
        if self.saver is None:
            yield
            return
        try:
            with self._hold(request):
                try:
                    yield
                except BaseException as error:
                    cut_off = (RunError, KeyboardInterrupt, SystemExit, GeneratorExit, *self.errors)
                    if not isinstance(error, cut_off):  # a mistake that would only be made again
                        self._end(request)
                    raise
                if not request.chat:
                    self._end(request)
        except BlockingIOError as error:
            message = f"another process is running thread {request.thread!r}; wait for it to end"
            raise ConfigurationError(message) from error
        except self.errors as error:
            what = f"the checkpoints in {self.place} failed ({error})"
            raise RunError(f"{what}; mend that and use --resume, or do without: --no-checkpoints") from error

    @contextmanager
    def _hold(self, request: RunRequest) -> Iterator[None]:
        """Write a run's note and hold its lock. Raises `BlockingIOError` where another process does."""
        path = self.note(request.thread)
        with _locked(path):
            # Whoever goes on needs the passwords in its URLs.
            context = {n: whole_url(v) if isinstance(v, str) else v for n, v in request.context.items()}
            note = asdict(replace(request, context=context))
            make_private(path).write_text(json.dumps(note), encoding="utf-8")
            yield

    def unfinished(self, thread: str | None = None, chat: bool = False) -> RunRequest:
        """Return the newest run or conversation that was cut off, or that of a thread.

        Raises `ConfigurationError`: there is none; lists the threads that can be resumed.
        """
        requests = {r.thread: r for r in self._cut_off() if r.chat == chat}
        if thread in requests:
            return requests[thread]
        if thread is not None and requests:
            raise ConfigurationError.unknown("unfinished thread", thread, requests)
        if not requests:
            what = "conversation" if chat else "unfinished run"
            raise ConfigurationError(f"no {what} to resume in {self.place}")
        return next(iter(requests.values()))

    def _cut_off(self) -> Iterator[RunRequest]:
        """Yield the runs that nobody holds, newest first. The oldest are forgotten."""
        paths = self.notes.glob("*.json") if self.saver is not None else ()
        for number, path in enumerate(sorted(paths, key=lambda p: p.stat().st_mtime, reverse=True)):
            with suppress(BlockingIOError), _locked(path):
                try:
                    request = RunRequest(**json.loads(path.read_text(encoding="utf-8")))
                except (ValueError, TypeError):  # killed while writing it: nothing had begun
                    path.unlink()
                    continue
                if number < UNFINISHED:
                    yield request
                else:
                    self._end(request)

    def note(self, thread: str) -> Path:
        """Return the file of a thread's note, whatever characters its name has, and however many."""
        return self.notes / f"{sha256(thread.encode()).hexdigest()}.json"

    def _end(self, request: RunRequest) -> None:
        """Remove the note, so that nothing is left to resume, and the checkpoints of an unnamed run."""
        if self.saver is not None and not request.named:
            self.saver.delete_thread(request.thread)
        self._remove_note(request.thread)

    def _remove_note(self, thread: str) -> None:
        self.note(thread).unlink(missing_ok=True)


class PostgresCheckpoints(Checkpoints):
    """Checkpoints and notes in PostgreSQL: any worker goes on with the run of one that was killed.

    A note is a row. The worker at it holds an advisory lock, which ends with the worker's connection. Raises
    `ConfigurationError`: the driver is missing, or the database lets nobody in.
    """

    def __init__(self, url: str) -> None:
        self.place = hide_secrets(url)
        try:
            import psycopg
            from langgraph.checkpoint.postgres import PostgresSaver
            from psycopg.rows import dict_row

            from triplewise.graphs.build import serializer
        except ImportError as error:
            what = f"no driver for PostgreSQL ({error})"
            raise ConfigurationError(f"{what}: pip install 'triplewise[postgres]'") from error
        self.errors = (psycopg.Error,)
        try:
            connection = psycopg.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
        except psycopg.Error as error:
            raise ConfigurationError(f"no checkpoints in {self.place}: {error}") from error
        self._ask: Callable[..., Any] = connection.execute
        self.saver = PostgresSaver(connection, serde=serializer())
        self._ask("SET tcp_keepalives_idle = 20")  # a worker whose machine is gone does not hang up
        # Who waited inside the database would keep it from making an index.
        while not self._lock("triplewise set-up"):
            time.sleep(0.05)
        self.saver.setup()
        self._ask(
            "CREATE TABLE IF NOT EXISTS triplewise_runs "
            "(thread text PRIMARY KEY, request jsonb NOT NULL, begun timestamptz NOT NULL DEFAULT now())"
        )
        self._ask("SELECT pg_advisory_unlock_all()")

    @contextmanager
    def _hold(self, request: RunRequest) -> Iterator[None]:
        if not self._lock(request.thread):
            raise BlockingIOError
        note = request.thread, json.dumps(asdict(request))
        self._ask(
            "INSERT INTO triplewise_runs VALUES (%s, %s) "
            "ON CONFLICT (thread) DO UPDATE SET request = EXCLUDED.request, begun = now()",
            note,
        )
        yield

    def _lock(self, name: str) -> bool:
        """Take the lock of a name until the connection ends; whether nobody else has it."""
        got = self._ask("SELECT pg_try_advisory_lock(hashtextextended(%s, 0)) AS got", (name,))
        return bool(got.fetchone()["got"])

    def _cut_off(self) -> Iterator[RunRequest]:
        free = "CASE WHEN pg_try_advisory_lock({0}) THEN pg_advisory_unlock({0}) END"
        where = free.format("hashtextextended(thread, 0)")
        for row in self._ask(f"SELECT request FROM triplewise_runs WHERE {where} ORDER BY begun DESC"):
            yield RunRequest(**row["request"])

    def _remove_note(self, thread: str) -> None:
        self._ask("DELETE FROM triplewise_runs WHERE thread = %s", (thread,))


def open_checkpoints(place: str | None, notify: Notify) -> Checkpoints:
    """Open a checkpoint file, the user's own by default, or the URL of a PostgreSQL database."""
    if place and place.startswith(("postgresql://", "postgres://")):
        return PostgresCheckpoints(place)
    return Checkpoints(Path(place) if place else None, notify)


def _begin(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(len(SQLITE))


def _locked(note: Path) -> AbstractContextManager[None]:
    """Hold the lock of a note. Raises `BlockingIOError` where another process does."""
    return exclusive(note.with_suffix(".lock"), BlockingIOError())


def open_saver(path: Path, notify: Notify) -> SqliteSaver:
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
