"""SQLite: opened read-only, with an authorizer that lets nothing but reading pass."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy import REAL, Double, Text, cast, func
from sqlalchemy.dialects import sqlite as dialects
from sqlalchemy.engine import Dialect
from sqlalchemy.pool import QueuePool

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.engine import Engine, Expression, QueryError, RawTable, Statement
from triplewise.tools.sql.reading import fold, read_number
from triplewise.tools.sql.reflected import reflect

_OPERATIONS = 2_000
"""Virtual machine steps between two looks at the clock: well under a millisecond."""
_READS = {
    sqlite3.SQLITE_SELECT,
    sqlite3.SQLITE_READ,
    sqlite3.SQLITE_FUNCTION,
    sqlite3.SQLITE_TRANSACTION,
    sqlite3.SQLITE_RECURSIVE,
}
_PRAGMAS = {
    "table_xinfo",
    "table_info",
    "foreign_key_list",
    "index_list",
    "index_info",
    "table_list",
    "read_uncommitted",
}
_LOST = ("locked", "malformed", "disk I/O", "not a database", "unable to open")


class SQLiteEngine(Engine):
    """A SQLite file. It is never made, and never written to.

    Args:
        path: the file.

    Raises:
        DataError: there is no such file, or it is no SQLite database.
    """

    name = "sqlite"

    def __init__(self, path: Path) -> None:
        self.path = path
        if not path.is_file():
            raise DataError("there is no such SQLite file; check the path", path)
        self._engine = sa.create_engine("sqlite://", creator=self._connect, poolclass=QueuePool)
        self._dialect = dialects.dialect(paramstyle="named")

    @property
    def dialect(self) -> Dialect:
        """SQLite's own."""
        return self._dialect

    def _connect(self) -> sqlite3.Connection:
        """A connection that can only read, twice over."""
        opened = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        opened.execute("PRAGMA query_only = ON")
        opened.create_function("tw_number", 1, _number, deterministic=True)
        opened.create_function("tw_fold", 1, _fold, deterministic=True)
        opened.set_authorizer(_may)
        return opened

    def tables(self) -> list[RawTable]:
        """All tables and views but SQLite's own."""
        try:
            return [t for t in reflect(self._engine) if not t.name.startswith("sqlite_")]
        except sa.exc.SQLAlchemyError as error:
            raise QueryError(Outcome.UNAVAILABLE, _words(error)) from None

    def fetch(self, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        """All rows. The progress handler ends a query whose time is over."""
        end = time.monotonic() + timeout
        try:
            with self._engine.connect() as connection:
                driver = connection.connection.driver_connection
                assert isinstance(driver, sqlite3.Connection)
                driver.set_progress_handler(lambda: int(time.monotonic() > end), _OPERATIONS)
                try:
                    return [tuple(row) for row in connection.execute(statement)]
                finally:
                    driver.set_progress_handler(None, 0)
        except sa.exc.SQLAlchemyError as error:
            raise _failed(error, timeout) from None
        except (UnicodeError, OverflowError, ValueError) as error:
            raise QueryError(Outcome.SYNTAX, f"the engine cannot take a value: {error}") from None

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def number(self, cell: Expression, *, native: bool, shown: bool) -> Expression:
        """A column of any type may hold any cell, so that cells are read one by one."""
        if not shown:
            return func.tw_number(cell, type_=Double())
        return cell if native else cast(func.replace(cell, ",", ""), REAL())

    def iso(self, cell: Expression) -> Expression:
        """SQLite keeps dates as text."""
        return cell

    def folded(self, cell: Expression, *, shown: bool = False) -> Expression:
        """By a function of ours: SQLite knows no accents. For people, without case."""
        return func.lower(func.trim(cell)) if shown else func.tw_fold(cell, type_=Text())


def _may(action: int, first: str | None, second: str | None, *_where: str | None) -> int:
    """Whether SQLite may carry out a part of a statement."""
    allowed = action in _READS and (second or "").lower() != "load_extension"
    looks = action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS
    return sqlite3.SQLITE_OK if allowed or looks else sqlite3.SQLITE_DENY


def _number(cell: Any) -> float | int | None:
    if isinstance(cell, int | float):
        return cell
    return read_number(cell) if isinstance(cell, str) else None


def _fold(cell: Any) -> str | None:
    return None if cell is None or isinstance(cell, bytes) else fold(str(cell))


def _words(error: sa.exc.SQLAlchemyError) -> str:
    """What SQLite said, without statement and values."""
    return str(getattr(error, "orig", None) or error)


def _failed(error: sa.exc.SQLAlchemyError, timeout: float) -> QueryError:
    said = _words(error)
    if "interrupted" in said:
        return QueryError(Outcome.TIMEOUT, f"no answer within {timeout:g} s")
    lost = any(
        word in said for word in ("locked", "malformed", "disk I/O", "not a database", "unable to open")
    )
    return QueryError(Outcome.UNAVAILABLE if lost else Outcome.SYNTAX, said)
