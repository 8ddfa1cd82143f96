"""SQLite, DuckDB and servers through SQLAlchemy: opened so that nothing can be written, asked in time."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import sqlalchemy as sa
from sqlalchemy.dialects import registry
from sqlalchemy.engine import URL
from sqlalchemy.pool import QueuePool

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.isolation import STARTING, Ended, IsolatedCalls
from triplewise.tools.kg.protocol import Outcome

registry.register("duckdb", "triplewise.tools.sql.duckdb_dialect", "DuckDialect")

LONGEST = 10_000_000  # bytes of a text or a row in SQLite
_DUCK_SETTINGS = {
    "memory_limit": "'1GB'",
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}


@dataclass(frozen=True)
class Server:
    """How one kind of server is opened so that it is only read.

    Attributes:
        driver: the package that SQLAlchemy speaks to it with.
        arguments: for the driver, beside those of the URL.
        setup: statements after which every transaction of a connection only reads.
        interrupt: ends what a connection of an engine is running.
        ignores_case: texts that differ in case or accents are equal there.
    """

    driver: str
    arguments: Mapping[str, str]
    setup: tuple[str, ...]
    interrupt: Callable[[sa.Engine, Any], None]
    ignores_case: bool = False


def _kill_query(engine: sa.Engine, connection: Any) -> None:
    with sa.create_engine(engine.url, poolclass=sa.NullPool).connect() as other:
        other.exec_driver_sql(f"KILL QUERY {connection.thread_id()}")


_MYSQL = Server(
    driver="pymysql",
    arguments={"program_name": "triplewise"},
    # What is cast to a text compares exactly, whatever the collation of its column.
    setup=("SET SESSION TRANSACTION READ ONLY", "SET collation_connection = utf8mb4_bin"),
    interrupt=_kill_query,
    ignores_case=True,
)
SERVERS = {
    "postgresql": Server(
        driver="psycopg",
        arguments={"application_name": "triplewise"},
        setup=("SET default_transaction_read_only = on",),
        interrupt=lambda _, connection: connection.cancel(),
    ),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
}
"""SQLAlchemy's name of a kind of server -> how it is opened."""


def ignores_case(engine: sa.Engine) -> bool:
    """Whether texts that differ in case or accents are equal in a database."""
    return engine.name in SERVERS and SERVERS[engine.name].ignores_case


_isolated: WeakKeyDictionary[sa.Engine, IsolatedCalls] = WeakKeyDictionary()
"""Engine of a file that DuckDB reads -> what runs statements on it that a person or a model wrote."""


class QueryError(Exception):
    """A query that gave no rows, with what happened to it in the words of outcomes."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        self.outcome, self.message = outcome, message
        super().__init__(outcome, message)


def open_engine(url: URL, timeout: float) -> sa.Engine:
    """Return the engine of a database; its connections cannot write. Nothing is asked yet.

    Args:
        url: of a SQLite or DuckDB file, of a `.csv` or `.tsv` file (as DuckDB), or of one of `SERVERS`.
        timeout: seconds to wait for a connection to a server.

    Raises:
        DataError: there is no such file.
    """
    if server := SERVERS.get(url.get_backend_name()):
        engine = sa.create_engine(
            url,
            connect_args={"connect_timeout": max(2, min(10, int(timeout))), **server.arguments},
            # Where the dialect knows it, each transaction is begun as one that only reads, too.
            execution_options={"postgresql_readonly": True},
            pool_pre_ping=True,
        )

        def set_up(connection: Any, _: Any) -> None:
            cursor = connection.cursor()
            for statement in server.setup:
                cursor.execute(statement)
            cursor.close()
            connection.commit()

        sa.event.listen(engine, "connect", set_up)
        return engine
    path = Path(url.database or "")
    if not path.is_file():
        raise DataError("there is no such file; check the path", path)
    if url.get_backend_name() == "sqlite":
        return sa.create_engine("sqlite://", creator=lambda: _connect_sqlite(path), poolclass=QueuePool)
    engine = sa.create_engine("duckdb://", creator=_duckdb_creator(path))
    _isolated[engine] = IsolatedCalls(f"{__name__}:answerer", lambda: (str(path.resolve()),))
    return engine


def _connect_sqlite(path: Path) -> sqlite3.Connection:
    """Return a connection that can only read, twice over, and only this file."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
    connection.execute("PRAGMA query_only = ON")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST)
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_DENY if action == sqlite3.SQLITE_ATTACH else sqlite3.SQLITE_OK
    )
    return connection


def _duckdb_creator(path: Path) -> Callable[[], Any]:
    """Return what makes connections that can neither write nor reach another file.

    A CSV file is read once, into a table in memory.
    """
    import duckdb

    from triplewise.tools.sql.duckdb_dialect import DuckConnection

    memory: duckdb.DuckDBPyConnection | None = None
    if path.suffix.lower() in (".csv", ".tsv"):
        name = path.stem.replace('"', '""')
        try:
            memory = duckdb.connect(":memory:")
            memory.execute(f'CREATE TABLE "{name}" AS SELECT * FROM read_csv(?)', [str(path)])
        except duckdb.Error as error:
            raise DataError(f"DuckDB cannot read it: {first_line(error)}", path) from None

    def connect() -> DuckConnection:
        connection = memory.cursor() if memory else duckdb.connect(str(path), read_only=True)
        # Connections of one process to one file share their settings, which the first one has locked.
        locked = connection.execute("SELECT current_setting('lock_configuration')").fetchone()
        for setting, value in ({} if locked == (True,) else _DUCK_SETTINGS).items():
            connection.execute(f"SET {setting} = {value}")
        return DuckConnection(connection)

    return connect


def fetch(
    engine: sa.Engine, statement: sa.Executable | str, timeout: float, most: int | None = None
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Return the names of columns and the rows of a statement, in a transaction that is rolled back.

    Args:
        statement: built from parts, or the text of a SELECT that was checked.
        timeout: in seconds. most: rows that are read; None for all.

    Raises:
        QueryError: it gives no rows; a spent time-out is one.
    """
    if isinstance(statement, str) and engine in _isolated:
        return _fetch_isolated(engine, statement, timeout, most)
    return _fetch(engine, statement, timeout, most)


def _fetch_isolated(
    engine: sa.Engine, statement: str, timeout: float, most: int | None
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    """Fetch in a process of its own: DuckDB cannot be interrupted inside a function over a text."""
    try:
        reply = _isolated[engine].run((statement, timeout, most), timeout + 1.0)
    except Ended as ended:
        raise QueryError(Outcome.TIMEOUT, str(ended)) from None
    if isinstance(reply, QueryError):
        raise reply
    return reply  # type: ignore[no-any-return]


def answerer(path: str) -> Callable[[tuple[str, float, int | None]], Any]:
    """Open a DuckDB or CSV file; runs in the process of its own."""
    engine = open_engine(URL.create("duckdb", database=path), STARTING)

    def answer(asked: tuple[str, float, int | None]) -> Any:
        try:
            return _fetch(engine, *asked)
        except QueryError as error:
            return error

    return answer


def _fetch(
    engine: sa.Engine, statement: sa.Executable | str, timeout: float, most: int | None = None
) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
    is_late = threading.Event()
    if isinstance(statement, str) and engine.dialect.paramstyle in ("format", "pyformat"):
        statement = statement.replace("%", "%%")  # the driver reads them as places of values
    try:
        with engine.connect() as connection:
            driver = connection.connection.driver_connection
            server = SERVERS.get(engine.name)

            def stop() -> None:
                is_late.set()
                if server:
                    server.interrupt(engine, driver)
                else:
                    driver.interrupt()  # type: ignore[union-attr]

            timer = threading.Timer(timeout, stop)
            timer.daemon = True
            timer.start()
            try:
                if isinstance(statement, str):
                    result = connection.exec_driver_sql(statement)
                else:
                    result = connection.execute(statement)
                rows = result.fetchall() if most is None else result.fetchmany(most)
                return tuple(map(str, result.keys())), [tuple(row) for row in rows]
            finally:
                timer.cancel()
                timer.join()  # else it could end the next query of this connection
    except sa.exc.SQLAlchemyError as error:
        if is_late.is_set():
            raise QueryError(Outcome.TIMEOUT, f"no answer within {timeout:g} s") from None
        # Of a statement that was checked against the schema, such errors speak of the database.
        lost = isinstance(error, sa.exc.OperationalError | sa.exc.InterfaceError | sa.exc.TimeoutError)
        lost = lost or type(error) is sa.exc.DatabaseError
        raise QueryError(Outcome.UNAVAILABLE if lost else Outcome.SYNTAX, first_line(error)) from None
    except (UnicodeError, OverflowError, ValueError) as error:
        raise QueryError(Outcome.SYNTAX, f"the engine cannot take a value: {error}") from None


def first_line(error: Exception) -> str:
    """Return what the database said in its first line, without statement and values."""
    cause = getattr(error, "orig", None) or error
    message = str(cause.args[-1] if cause.args else cause).strip()  # MySQL's has a number before it
    return message.splitlines()[0] if message else type(error).__name__


def statement_text(engine: sa.Engine, statement: sa.Select[Any]) -> str:
    """Return a statement with its values written out, for people: it is never run."""
    compiled = str(statement.compile(engine, compile_kwargs={"literal_binds": True}))
    if engine.dialect.paramstyle in ("format", "pyformat"):
        compiled = compiled.replace("%%", "%")  # doubled for the driver
    return "\n".join(line.rstrip() for line in compiled.splitlines())
