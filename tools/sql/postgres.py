"""PostgreSQL through psycopg: every transaction is read-only and bounded in time."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import Numeric, Text, case, cast, func
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import URL, Dialect

from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.engine import Engine, Expression, QueryError, RawTable, Statement
from triplewise.tools.sql.reading import NUMBER_PATTERN
from triplewise.tools.sql.reflected import reflect

_CANCELED, _CONNECTION = "57014", ("08", "57P", "53", "28", "3D")
_MARKS = "[\u0300-\u036f]"


class PostgresEngine(Engine):
    """A PostgreSQL database.

    Args:
        url: with driver `postgresql+psycopg`.
        timeout: seconds to wait for a connection.
    """

    name = "postgresql"

    def __init__(self, url: URL, timeout: float) -> None:
        # Read-only by the transaction, and by default for anything that would begin one of its own.
        self._engine = sa.create_engine(
            url,
            connect_args={
                "connect_timeout": max(2, min(10, int(timeout))),
                "options": _options(url, "-c default_transaction_read_only=on"),
                "application_name": "triplewise",
            },
            execution_options={"postgresql_readonly": True},
            pool_pre_ping=True,
        )
        self._dialect = PGDialect(paramstyle="named")  # type: ignore[no-untyped-call]
        self._dialect._backslash_escapes = False

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL's own, with strings as the standard writes them."""
        return self._dialect

    def tables(self) -> list[RawTable]:
        """All tables and views of the search path's first schema."""
        try:
            return reflect(self._engine)
        except sa.exc.SQLAlchemyError as error:
            raise QueryError(Outcome.UNAVAILABLE, _words(error)) from None

    def fetch(self, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        """All rows, in a transaction of its own that is rolled back."""
        try:
            with self._engine.connect() as connection:
                connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, int(timeout * 1000))}")
                return [tuple(row) for row in connection.execute(statement)]
        except sa.exc.SQLAlchemyError as error:
            raise _failed(error, timeout) from None
        except (UnicodeError, OverflowError, ValueError) as error:
            raise QueryError(Outcome.SYNTAX, f"the engine cannot take a value: {error}") from None

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    def number(self, cell: Expression, *, native: bool, shown: bool) -> Expression:
        """A pattern guards the cast, which would be an error for a bad cell."""
        if native:
            return cell
        bare = func.btrim(cast(cell, Text()))
        guard = bare.op("~", is_comparison=True)(sa.literal(f"^{NUMBER_PATTERN}$", Text()))
        return case((guard, cast(func.replace(bare, ",", ""), Numeric())), else_=None)

    def iso(self, cell: Expression) -> Expression:
        """Dates and times are written as ISO text."""
        return cast(cell, Text())

    def folded(self, cell: Expression, *, shown: bool = False) -> Expression:
        """By Unicode's own decomposition, which needs no extension."""
        if shown:
            return func.lower(func.trim(cell))
        low = func.replace(func.lower(cell), "ß", "ss")
        bare = func.regexp_replace(func.normalize(low, sa.text("NFD")), _MARKS, "", "g")
        composed = func.normalize(bare, sa.text("NFC"))
        return func.btrim(func.regexp_replace(composed, r"\s+", " ", "g"))


def _options(url: URL, ours: str) -> str:
    """The user's own options, and ours behind them, so that ours hold."""
    given = url.query.get("options", "")
    return f"{given if isinstance(given, str) else ' '.join(given)} {ours}".strip()


def _words(error: sa.exc.SQLAlchemyError) -> str:
    """What the server said in its first line, without statement and values."""
    said = str(getattr(error, "orig", None) or error).strip()
    return said.splitlines()[0] if said else type(error).__name__


def _failed(error: sa.exc.SQLAlchemyError, timeout: float) -> QueryError:
    state = getattr(getattr(error, "orig", None), "sqlstate", None) or ""
    if state == _CANCELED:
        return QueryError(Outcome.TIMEOUT, f"no answer within {timeout:g} s")
    lost = state.startswith(_CONNECTION) or getattr(error, "connection_invalidated", False)
    lost = lost or (isinstance(error, sa.exc.OperationalError) and not state)
    return QueryError(Outcome.UNAVAILABLE if lost else Outcome.SYNTAX, _words(error))
