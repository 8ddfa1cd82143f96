"""SQLite, DuckDB and servers, opened so that nothing can be written.

What a model wrote for a file, and all of DuckDB, runs in a process of its own: neither can be interrupted in
the middle of a function (SQLite 3.40 counts to 900,000,000 for `PRINTF('%.*c', 900000000, 'x')`).
"""

from __future__ import annotations

import math
import sqlite3
import threading
import warnings
import weakref
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlalchemy.engine.reflection import ObjectKind
from sqlalchemy.pool import QueuePool

from triplewise.tools.core.files import packaged
from triplewise.tools.core.isolation import STARTING, Ended, IsolatedCalls
from triplewise.tools.kg.protocol import Deadline, Outcome

_Request: TypeAlias = tuple[str, float, int | None]  # a statement, its seconds, how many rows are read
EVER = Deadline(math.inf)
LONGEST = 10_000_000  # bytes of a text or a row in SQLite


class QueryError(Exception):
    """A query that gave no rows, with what happened to it in the words of outcomes."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        self.outcome, self.message = outcome, message
        super().__init__(outcome, message)


class Fetched(NamedTuple):
    """The names of a result's columns, and its rows as the driver gives them."""

    columns: tuple[str, ...]
    rows: list[tuple[Any, ...]]


@dataclass
class Declared:
    """A table or view: `columns` with types; `keys`: own columns, the table they refer to, its columns."""

    columns: dict[str, str] = field(default_factory=dict)
    primary: tuple[str, ...] = ()
    keys: list[tuple[tuple[str, ...], str, tuple[str, ...]]] = field(default_factory=list)


class Server(NamedTuple):
    """How one kind of server is opened so that it is only read."""

    driver: str  # the package for SQLAlchemy
    setup: tuple[str, ...]  # statements after which transactions only read
    interrupt: Callable[[sa.Engine, Any], None]  # ends what a connection is running
    ignores_case: bool = False  # texts that differ in case or accents are equal


SPARE = 10.0  # seconds beyond a time-out in which a server must have ended a query that it was told to


def _kill_query(engine: sa.Engine, connection: Any) -> None:
    with sa.create_engine(engine.url, poolclass=sa.NullPool).connect() as other:
        other.exec_driver_sql(f"KILL QUERY {connection.thread_id()}")


# What is cast to a text compares exactly, whatever the collation of its column.
_MYSQL_SETUP = ("SET SESSION TRANSACTION READ ONLY", "SET collation_connection = utf8mb4_bin")
_MYSQL = Server("pymysql", _MYSQL_SETUP, _kill_query, ignores_case=True)
_POSTGRES = Server("psycopg", ("SET default_transaction_read_only = on",), lambda _, own: own.cancel())
SERVERS = {"postgresql": _POSTGRES, "mysql": _MYSQL, "mariadb": _MYSQL}  # by SQLAlchemy's name


def open_engine(url: URL, timeout: float) -> Engine:
    """Return the engine of a database, `timeout` being the seconds to wait for a server."""
    is_duck = url.get_backend_name() == "duckdb"
    return DuckDB(Path(url.database or "")) if is_duck else SqlAlchemyEngine(url, timeout)


class _Apart:
    """Runs statements on a file in a process of its own, which is killed at the time-out."""

    def __init__(self, target: str, path: Path) -> None:
        self._calls = IsolatedCalls(f"{__name__}:{target}", lambda: (str(path.resolve()),))
        self.close = self._calls.close

    def fetch(self, statement: str, timeout: float, most: int | None = None, run: Deadline = EVER) -> Fetched:
        """As `SqlAlchemyEngine.fetch`."""
        try:
            request: _Request = statement, timeout, most
            reply: Fetched | QueryError = self._calls.run(request, timeout, lambda: run.passed)
        except Ended as ended:
            raise QueryError(Outcome.TIMEOUT, str(ended)) from None
        if isinstance(reply, QueryError):
            raise reply
        return reply


class SqlAlchemyEngine:
    """A SQLite file, or a server, whose connections end with it. `dialect`: sqlglot's name of its SQL."""

    apart: _Apart | None = None  # what runs a statement that a model wrote, where that is another one

    def __init__(self, url: URL, timeout: float) -> None:
        self.name = kind = url.get_backend_name()
        server = SERVERS.get(kind)
        self._interrupt = server.interrupt if server else lambda _, connection: connection.interrupt()
        self.ignores_case = server is not None and server.ignores_case
        self.dialect = {"postgresql": "postgres", "mysql": "mariadb"}.get(kind, kind)
        if server is None:
            path = Path(url.database or "")
            self.apart = _Apart("sqlite_answerer", path)
            connect = partial(_connect_sqlite, path)
            self._engine = sa.create_engine("sqlite://", creator=connect, poolclass=QueuePool)
        else:
            self._engine = _server_engine(url, server, timeout)
        self.close = weakref.finalize(self, self._engine.dispose)

    def fetch(self, statement: str, timeout: float, most: int | None = None, run: Deadline = EVER) -> Fetched:
        """Run a statement in a transaction that is rolled back, and end it after `timeout` seconds.

        `most`: rows that are read; None for all. It ends with the `run` too. Raises `QueryError`, also for a
        spent time-out.
        """
        is_late, is_done, woken = threading.Event(), threading.Event(), threading.Event()
        if self._engine.dialect.paramstyle in ("format", "pyformat"):
            statement = statement.replace("%", "%%")  # the driver reads them as places of values
        try:
            with self._engine.connect() as connection:
                driver: Any = connection.connection.driver_connection

                def watch() -> None:
                    woken.wait(min(timeout, run.left))
                    if is_done.is_set():
                        return
                    is_late.set()
                    self._interrupt(self._engine, driver)

                watching = threading.Thread(target=watch, daemon=True)
                watching.start()
                try:
                    with run.waking(woken.set):
                        result = connection.exec_driver_sql(statement)
                        rows = result.fetchall() if most is None else result.fetchmany(most)
                    return Fetched(tuple(map(str, result.keys())), [tuple(row) for row in rows])
                finally:
                    is_done.set()
                    woken.set()
                    watching.join()  # else it could end the next query of this connection
        except sa.exc.SQLAlchemyError as error:
            if is_late.is_set():
                raise QueryError(Outcome.TIMEOUT, f"no answer within {timeout:g} s") from None
            # The statement was checked against the schema, so such errors come from the database.
            down = isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError | sa.exc.TimeoutError)
            down = down or type(error) is sa.exc.DatabaseError
            raise QueryError(Outcome.UNAVAILABLE if down else Outcome.SYNTAX, _first_line(error)) from None
        except (UnicodeError, OverflowError, ValueError) as error:
            raise QueryError(Outcome.SYNTAX, f"the engine cannot take a value: {error}") from None

    def declared(self) -> dict[str, Declared]:
        """Return the tables and views by name. Raises `QueryError`."""
        try:
            with warnings.catch_warnings():
                # Types that SQLAlchemy does not know are no error: their cells show how they compare.
                warnings.simplefilter("ignore", sa.exc.SAWarning)
                inspector, every = sa.inspect(self._engine), ObjectKind.ANY
                columns = inspector.get_multi_columns(kind=every)
                primary = inspector.get_multi_pk_constraint(kind=every)
                keys = inspector.get_multi_foreign_keys(kind=every)
        except sa.exc.SQLAlchemyError as error:
            raise QueryError(Outcome.UNAVAILABLE, _first_line(error)) from None
        tables = {}
        for key, described in columns.items():
            kinds = {c["name"]: c["type"] for c in described}
            names = {n: "ENUM" if isinstance(kind, sa.Enum) else str(kind) for n, kind in kinds.items()}
            # A TINYINT of width 1 is MySQL's truth value.
            widths = {n: getattr(kind, "display_width", 0) for n, kind in kinds.items()}
            names |= {n: "TINYINT(1)" for n, w in widths.items() if w == 1 and names[n] == "TINYINT"}
            own = tuple(primary[key]["constrained_columns"]) if key in primary else ()
            tables[key[1]] = Declared(names, own)
            for k in keys.get(key, ()):
                ends = tuple(k["constrained_columns"]), k["referred_table"], tuple(k["referred_columns"])
                tables[key[1]].keys.append(ends)
        return tables


def _server_engine(url: URL, server: Server, timeout: float) -> sa.Engine:
    """Return an engine of SQLAlchemy all of whose transactions only read."""
    limits = {"connect_timeout": str(max(2, min(10, int(timeout))))}
    if server is _MYSQL:  # pymysql waits for the greeting as for any reply
        limits["read_timeout"] = str(int(min(timeout, 86_400.0) + SPARE))
    # Where the dialect knows it, each transaction is begun as one that only reads, too.
    options = {"postgresql_readonly": True}
    engine = sa.create_engine(url.update_query_dict(limits), execution_options=options, pool_pre_ping=True)

    def set_up(connection: Any, _: Any) -> None:
        with closing(connection.cursor()) as cursor:
            for statement in server.setup:
                cursor.execute(statement)
        connection.commit()

    sa.event.listen(engine, "connect", set_up)
    return engine


def _connect_sqlite(path: Path) -> sqlite3.Connection:
    """Return a connection that can only read, twice over, and only this file."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    verdicts = {sqlite3.SQLITE_ATTACH: sqlite3.SQLITE_DENY}
    connection.set_authorizer(lambda action, *_: verdicts.get(action, sqlite3.SQLITE_OK))
    return connection


def _first_line(error: Exception) -> str:
    """Return the first line of the database's message, without statement and values."""
    cause = getattr(error, "orig", None) or error
    message = str(cause.args[-1] if cause.args else cause).strip()  # MySQL's has a number before it
    return message.splitlines()[0] if message else type(error).__name__


class DuckDB(_Apart):
    """A DuckDB file, or a CSV file as a table; methods are those of `SqlAlchemyEngine`."""

    name = dialect = "duckdb"
    ignores_case = False
    apart = None

    def __init__(self, path: Path) -> None:
        super().__init__("answerer", path)

    def declared(self) -> dict[str, Declared]:
        """Ask DuckDB's own tables: no dialect for SQLAlchemy 2.1 can."""
        tables, statements = dict[str, Declared](), packaged("triplewise.tools.sql", "duckdb.yaml")
        for table, column, kind in self.fetch(statements["columns"], STARTING).rows:
            tables.setdefault(table, Declared()).columns[column] = kind
        for table, own, target, theirs in self.fetch(statements["keys"], STARTING).rows:
            if target:
                tables[table].keys.append((tuple(own), target, tuple(theirs)))
            else:
                tables[table].primary = tuple(own)
        return tables


Engine: TypeAlias = SqlAlchemyEngine | DuckDB


def sqlite_answerer(path: str) -> Callable[[_Request], Fetched | QueryError]:
    """Return what runs statements on a SQLite file."""
    engine = open_engine(URL.create("sqlite", database=path), 0.0)

    def answer(request: _Request) -> Fetched | QueryError:
        try:
            return engine.fetch(*request)
        except QueryError as error:
            return error

    return answer


def answerer(path: str) -> Callable[[_Request], Fetched | QueryError]:
    """Return what runs statements on a DuckDB or CSV file, which can neither write nor reach another file."""
    import duckdb

    @cache
    def connect() -> duckdb.DuckDBPyConnection:
        is_table = Path(path).suffix.lower() in (".csv", ".tsv")
        opened = duckdb.connect(":memory:") if is_table else duckdb.connect(path, read_only=True)
        if is_table:
            name = Path(path).stem.replace('"', '""')
            opened.execute(f'CREATE TABLE "{name}" AS SELECT * FROM read_csv(?)', [path])
        for setting in packaged("triplewise.tools.sql", "duckdb.yaml")["settings"]:
            opened.execute(setting)
        return opened

    def answer(request: _Request) -> Fetched | QueryError:
        statement, _, most = request
        try:
            connection = connect()
        except duckdb.Error as error:
            return QueryError(Outcome.UNAVAILABLE, f"DuckDB cannot read it: {_first_line(error)}")
        try:
            connection.execute("BEGIN TRANSACTION READ ONLY")
            result = connection.execute(statement)
            rows = result.fetchall() if most is None else result.fetchmany(most)
            return Fetched(tuple(column[0] for column in result.description or ()), rows)
        except (duckdb.Error, ValueError) as error:
            is_memory = isinstance(error, duckdb.OutOfMemoryException)
            return QueryError(Outcome.UNAVAILABLE if is_memory else Outcome.SYNTAX, _first_line(error))
        finally:
            with suppress(duckdb.Error):  # there is no transaction where it could not begin
                connection.rollback()

    return answer
