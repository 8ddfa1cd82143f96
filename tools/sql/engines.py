"""SQLite, DuckDB and PostgreSQL: how each is opened read-only, reflected, asked, and spells what differs.

Only a SELECT built by `tools/sql/statements.py` passes, on a connection that cannot write. Identifiers come
from reflection and are quoted by SQLAlchemy; values are bound. Drivers are imported where they are used.
"""

from __future__ import annotations

import sqlite3
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import sqlalchemy as sa
from sqlalchemy import Double, Numeric, Select, Text, case, cast, func, literal, types
from sqlalchemy.dialects import sqlite as sqlite_dialect
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import URL, Dialect
from sqlalchemy.engine.reflection import ObjectKind
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.pool import QueuePool
from sqlalchemy.sql.elements import ColumnElement
from sqlalchemy.sql.functions import FunctionElement

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.values import NUMBER_PATTERN, ColumnKind, fold, read_number

if TYPE_CHECKING:
    import duckdb

Expression: TypeAlias = ColumnElement[Any]
Statement: TypeAlias = Select[*tuple[Any, ...]]


class DeclaredColumn(NamedTuple):
    """A column as the engine declares it; `kind` None where only its cells can tell."""

    name: str
    kind: ColumnKind | None
    doc: str = ""


class DeclaredKey(NamedTuple):
    """A foreign key as the engine declares it: own columns, the table referred to, and its columns."""

    columns: tuple[str, ...]
    table: str
    references: tuple[str, ...]


class DeclaredTable(NamedTuple):
    """A table or view as the engine declares it."""

    name: str
    columns: tuple[DeclaredColumn, ...]
    primary: tuple[str, ...] = ()
    keys: tuple[DeclaredKey, ...] = ()
    doc: str = ""


class QueryError(Exception):
    """A query that gave no rows, with what happened to it in the words of outcomes."""

    def __init__(self, outcome: Outcome, message: str) -> None:
        self.outcome, self.message = outcome, message
        super().__init__(message)


class Engine(ABC):
    """A database that can be read.

    Attributes:
        name: sqlite, postgresql or duckdb.
        dialect: how statements are written for people.
        reserved: words that SQLAlchemy does not know to quote here.
    """

    name: str
    dialect: Dialect
    reserved: frozenset[str] = frozenset()

    @abstractmethod
    def tables(self) -> list[DeclaredTable]:
        """All tables and views of the default schema. Raises `QueryError`."""

    @abstractmethod
    def fetch(self, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        """All rows of a statement. Raises `QueryError`; a spent time-out, in seconds, is one."""

    @abstractmethod
    def close(self) -> None:
        """Free what is held. Safe to call twice."""

    @abstractmethod
    def number(self, cell: Expression, *, native: bool, shown: bool) -> Expression:
        """A cell as a number, NULL where it is none.

        `native`: the column is declared as a number. `shown`: the expression is for people.
        """

    @abstractmethod
    def folded(self, cell: Expression, *, shown: bool = False) -> Expression:
        """A text without case, accents, and outer or repeated spaces."""

    def iso(self, cell: Expression) -> Expression:
        """A date as ISO text."""
        return cast(cell, Text())

    def written(self, cell: Expression) -> Expression:
        """Any cell as text."""
        return cast(cell, Text())

    def text(self, statement: Statement) -> str:
        """A statement with its values written out, for people: it is never run."""
        compiled = statement.compile(dialect=self.dialect, compile_kwargs={"literal_binds": True})
        return "\n".join(line.rstrip() for line in str(compiled).splitlines())


def bound(value: str | int | float) -> Expression:
    """A value as a bound parameter, of a type that every engine compares with columns of its kind."""
    if isinstance(value, str):
        return literal(value, Text())
    whole = abs(value) < 10**15 and value == int(value)
    return literal(int(value), Numeric(asdecimal=False)) if whole else literal(float(value), Double())


def _first_line(error: Exception) -> str:
    """What the database said in its first line, without statement and values."""
    message = str(getattr(error, "orig", None) or error).strip()
    return message.splitlines()[0] if message else type(error).__name__


def _late(timeout: float) -> QueryError:
    return QueryError(Outcome.TIMEOUT, f"no answer within {timeout:g} s")


class _SQLAlchemyEngine(Engine):
    """An engine with a driver that SQLAlchemy speaks to, reflected by its inspector."""

    _engine: sa.Engine

    def tables(self) -> list[DeclaredTable]:
        """All tables and views of the default schema, in a few queries for all of them."""
        try:
            return _inspect(self._engine)
        except sa.exc.SQLAlchemyError as error:
            raise QueryError(Outcome.UNAVAILABLE, _first_line(error)) from None

    def fetch(self, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        """All rows, in a transaction of its own that is rolled back."""
        try:
            with self._engine.connect() as connection:
                return self._rows(connection, statement, timeout)
        except sa.exc.SQLAlchemyError as error:
            raise self._failure(error, timeout) from None
        except (UnicodeError, OverflowError, ValueError) as error:
            raise QueryError(Outcome.SYNTAX, f"the engine cannot take a value: {error}") from None

    def close(self) -> None:
        """Close all connections."""
        self._engine.dispose()

    @abstractmethod
    def _rows(self, connection: sa.Connection, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        """The rows of a statement, ended when its time is over."""

    @abstractmethod
    def _failure(self, error: sa.exc.SQLAlchemyError, timeout: float) -> QueryError:
        """What happened to a query, from what the driver raised."""


_KINDS: tuple[tuple[type[Any], ColumnKind], ...] = (
    (types.Boolean, "boolean"),
    (types.Numeric, "number"),
    (types.Integer, "number"),
    (types.DateTime, "date"),
    (types.Date, "date"),
    (types.Enum, "text"),
)


def _kind_of_type(declared: Any) -> ColumnKind | None:
    """How cells of a declared type compare; None where that has to be seen from the cells."""
    if isinstance(declared, types.String | types.NullType) and not isinstance(declared, types.Enum):
        return None
    return next((kind for type_, kind in _KINDS if isinstance(declared, type_)), "other")


def _inspect(engine: sa.Engine) -> list[DeclaredTable]:
    """All tables and views of the default schema but the engine's own. Raises what SQLAlchemy raises."""
    with warnings.catch_warnings(), engine.connect() as connection:
        # Types that SQLAlchemy does not know are no fault of the user: their cells tell how they compare.
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        inspector = sa.inspect(connection)
        columns = inspector.get_multi_columns(kind=ObjectKind.ANY)
        primary: dict[Any, Any] = dict(inspector.get_multi_pk_constraint(kind=ObjectKind.TABLE))
        keys: dict[Any, Any] = dict(inspector.get_multi_foreign_keys(kind=ObjectKind.TABLE))
        try:
            comments: dict[Any, Any] = dict(inspector.get_multi_table_comment(kind=ObjectKind.ANY))
        except NotImplementedError:
            comments = {}

    def primary_of(schema: Any, table: str) -> tuple[str, ...]:
        return tuple(primary.get((schema, table), {}).get("constrained_columns") or ())

    return [
        DeclaredTable(
            name,
            tuple(
                DeclaredColumn(c["name"], _kind_of_type(c["type"]), str(c.get("comment") or ""))
                for c in found
            ),
            primary_of(schema, name),
            tuple(
                # A key that names no columns means the primary key of the table it refers to.
                DeclaredKey(
                    tuple(key["constrained_columns"]),
                    str(key["referred_table"]),
                    tuple(key["referred_columns"])
                    or primary_of(key.get("referred_schema"), str(key["referred_table"])),
                )
                for key in keys.get((schema, name), ())
            ),
            str(comments.get((schema, name), {}).get("text") or ""),
        )
        for (schema, name), found in columns.items()
        if found and not (engine.name == "sqlite" and name.startswith("sqlite_"))
    ]


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


class SQLiteEngine(_SQLAlchemyEngine):
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
        self.dialect = sqlite_dialect.dialect(paramstyle="named")

    def _connect(self) -> sqlite3.Connection:
        """A connection that can only read, twice over."""
        opened = sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        opened.execute("PRAGMA query_only = ON")
        opened.create_function("tw_number", 1, _cell_number, deterministic=True)
        opened.create_function("tw_fold", 1, _cell_folded, deterministic=True)
        opened.set_authorizer(_authorize)
        return opened

    def _rows(self, connection: sa.Connection, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        end = time.monotonic() + timeout
        driver = connection.connection.driver_connection
        assert isinstance(driver, sqlite3.Connection)
        driver.set_progress_handler(lambda: int(time.monotonic() > end), _OPERATIONS)
        try:
            return [tuple(row) for row in connection.execute(statement)]
        finally:
            driver.set_progress_handler(None, 0)

    def _failure(self, error: sa.exc.SQLAlchemyError, timeout: float) -> QueryError:
        message = _first_line(error)
        if "interrupted" in message:
            return _late(timeout)
        signs = ("locked", "malformed", "disk I/O", "not a database", "unable to open")
        lost = any(sign in message for sign in signs)
        return QueryError(Outcome.UNAVAILABLE if lost else Outcome.SYNTAX, message)

    def number(self, cell: Expression, *, native: bool, shown: bool) -> Expression:
        """A column of any type may hold any cell, so that cells are read one by one."""
        if not shown:
            return func.tw_number(cell, type_=Double())
        return cell if native else cast(func.replace(cell, ",", ""), sa.REAL())

    def iso(self, cell: Expression) -> Expression:
        """SQLite keeps dates as text."""
        return cell

    def folded(self, cell: Expression, *, shown: bool = False) -> Expression:
        """By a function of ours: SQLite knows no accents. For people, without case."""
        return func.lower(func.trim(cell)) if shown else func.tw_fold(cell, type_=Text())


def _authorize(action: int, first: str | None, second: str | None, *_where: str | None) -> int:
    """Whether SQLite may carry out a part of a statement."""
    reads = action in _READS and (second or "").lower() != "load_extension"
    inspects = action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PRAGMAS
    return sqlite3.SQLITE_OK if reads or inspects else sqlite3.SQLITE_DENY


def _cell_number(cell: Any) -> float | int | None:
    return cell if isinstance(cell, int | float) else read_number(cell) if isinstance(cell, str) else None


def _cell_folded(cell: Any) -> str | None:
    return None if cell is None or isinstance(cell, bytes) else fold(str(cell))


class PostgresEngine(_SQLAlchemyEngine):
    """A PostgreSQL database.

    Args:
        url: with driver `postgresql+psycopg`.
        timeout: seconds to wait for a connection.
    """

    name = "postgresql"

    def __init__(self, url: URL, timeout: float) -> None:
        given = url.query.get("options", "")
        given = given if isinstance(given, str) else " ".join(given)
        # Read-only by the transaction, and by default for anything that would begin one of its own.
        # The user's own options stand before ours, so that ours hold.
        self._engine = sa.create_engine(
            url,
            connect_args={
                "connect_timeout": max(2, min(10, int(timeout))),
                "options": f"{given} -c default_transaction_read_only=on".strip(),
                "application_name": "triplewise",
            },
            execution_options={"postgresql_readonly": True},
            pool_pre_ping=True,
        )
        self.dialect = _standard_dialect("named")

    def _rows(self, connection: sa.Connection, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        connection.exec_driver_sql(f"SET LOCAL statement_timeout = {max(1, int(timeout * 1000))}")
        return [tuple(row) for row in connection.execute(statement)]

    def _failure(self, error: sa.exc.SQLAlchemyError, timeout: float) -> QueryError:
        state = getattr(getattr(error, "orig", None), "sqlstate", None) or ""
        if state == "57014":  # canceled
            return _late(timeout)
        lost = state.startswith(("08", "57P", "53", "28", "3D")) or getattr(
            error, "connection_invalidated", False
        )
        lost = lost or (isinstance(error, sa.exc.OperationalError) and not state)
        return QueryError(Outcome.UNAVAILABLE if lost else Outcome.SYNTAX, _first_line(error))

    def number(self, cell: Expression, *, native: bool, shown: bool) -> Expression:
        """A pattern guards the cast, which would be an error for a bad cell."""
        if native:
            return cell
        bare = func.btrim(cast(cell, Text()))
        guard = bare.op("~", is_comparison=True)(sa.literal(f"^{NUMBER_PATTERN}$", Text()))
        return case((guard, cast(func.replace(bare, ",", ""), Numeric())), else_=None)

    def folded(self, cell: Expression, *, shown: bool = False) -> Expression:
        """By Unicode's own decomposition, which needs no extension."""
        if shown:
            return func.lower(func.trim(cell))
        low = func.replace(func.lower(cell), "ß", "ss")
        bare = func.regexp_replace(func.normalize(low, sa.text("NFD")), "[\u0300-\u036f]", "", "g")
        composed = func.normalize(bare, sa.text("NFC"))
        return func.btrim(func.regexp_replace(composed, r"\s+", " ", "g"))


def _standard_dialect(paramstyle: str) -> Dialect:
    """PostgreSQL's way of writing, with strings as the standard has them; DuckDB shares it."""
    dialect = PGDialect(paramstyle=paramstyle)  # type: ignore[no-untyped-call]
    dialect._backslash_escapes = False
    return dialect


_DUCK_SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}
_DUCK_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
                 "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")  # fmt: skip
_DUCK_COLUMNS = """
SELECT table_name, column_name, data_type, comment FROM duckdb_columns()
WHERE NOT internal AND database_name = current_database() AND schema_name = current_schema()
ORDER BY table_oid, column_index"""
_DUCK_CONSTRAINTS = """
SELECT table_name, constraint_type, constraint_column_names, referenced_table, referenced_column_names
FROM duckdb_constraints()
WHERE database_name = current_database() AND schema_name = current_schema()
  AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
ORDER BY table_oid, constraint_index"""


class _TryNumber(FunctionElement[float]):
    """A text as a number, NULL where it is none: DuckDB's TRY_CAST."""

    inherit_cache = True
    type = Double()


@compiles(_TryNumber)
def _write_try_number(element: _TryNumber, compiler: Any, **options: Any) -> str:
    return f"TRY_CAST({compiler.process(element.clauses, **options)} AS DOUBLE)"


class DuckEngine(Engine):
    """A DuckDB file, or one table read from a CSV file into memory; the files themselves are only read.

    It is asked by its own driver: SQLAlchemy writes the statements, since its dialect for DuckDB cannot
    reflect.

    Args:
        path: a DuckDB file, or a `.csv` or `.tsv` file.

    Raises:
        DataError: there is no such file, or DuckDB cannot read it.
    """

    name = "duckdb"

    def __init__(self, path: Path) -> None:
        import duckdb

        self.path = path
        if not path.is_file():
            raise DataError("there is no such file; check the path", path)
        try:
            self._connection = _open_duckdb(path)
        except duckdb.Error as error:
            raise DataError(f"DuckDB cannot open it: {_first_line(error)}", path) from None
        reserved = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        self.reserved = frozenset(str(name) for (name,) in self._connection.execute(reserved).fetchall())
        self.dialect = _standard_dialect("qmark")

    def tables(self) -> list[DeclaredTable]:
        """All tables and views of the main schema."""
        columns = defaultdict[str, list[DeclaredColumn]](list)
        for table, name, type_, doc in self._run(_DUCK_COLUMNS, [], 30.0):
            columns[table].append(DeclaredColumn(name, _kind_of_duck_type(type_), doc or ""))
        primary, keys = dict[str, tuple[str, ...]](), defaultdict[str, list[DeclaredKey]](list)
        for table, kind, own, referred, theirs in self._run(_DUCK_CONSTRAINTS, [], 30.0):
            if kind == "PRIMARY KEY":
                primary[table] = tuple(own)
            else:
                keys[table].append(DeclaredKey(tuple(own), referred, tuple(theirs)))
        return [
            DeclaredTable(table, tuple(found), primary.get(table, ()), tuple(keys[table]))
            for table, found in columns.items()
        ]

    def fetch(self, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        """All rows. A timer interrupts the query when its time is over."""
        compiled = statement.compile(dialect=self.dialect, compile_kwargs={"render_postcompile": True})
        return self._run(
            str(compiled), [compiled.params[name] for name in compiled.positiontup or []], timeout
        )

    def _run(self, sql: str, values: list[Any], timeout: float) -> list[tuple[Any, ...]]:
        """Rows, from a cursor and in a read-only transaction of its own."""
        import duckdb

        cursor = self._connection.cursor()
        timer = threading.Timer(timeout, cursor.interrupt)
        timer.daemon = True
        try:
            cursor.execute("BEGIN TRANSACTION READ ONLY")
            timer.start()
            return [tuple(row) for row in cursor.execute(sql, values).fetchall()]
        except duckdb.InterruptException:
            raise _late(timeout) from None
        except (duckdb.IOException, duckdb.ConnectionException) as error:
            raise QueryError(Outcome.UNAVAILABLE, _first_line(error)) from None
        except (duckdb.Error, UnicodeError, OverflowError, ValueError) as error:
            raise QueryError(Outcome.SYNTAX, _first_line(error)) from None
        finally:
            timer.cancel()
            cursor.close()

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def number(self, cell: Expression, *, native: bool, shown: bool) -> Expression:
        """TRY_CAST is no error for a bad cell; for people the pattern that guards it is left out."""
        if native:
            return cell
        bare = func.trim(cast(cell, Text()))
        number = _TryNumber(func.replace(bare, ",", ""))
        return number if shown else case((func.regexp_full_match(bare, NUMBER_PATTERN), number), else_=None)

    def folded(self, cell: Expression, *, shown: bool = False) -> Expression:
        """By DuckDB's own functions."""
        if shown:
            return func.trim(func.strip_accents(func.lower(cell)))
        low = func.replace(func.lower(cell), "ß", "ss")
        bare = func.trim(func.strip_accents(func.nfc_normalize(low)))
        return func.trim(func.regexp_replace(bare, r"\s+", " ", "g"))


def _open_duckdb(path: Path) -> duckdb.DuckDBPyConnection:
    """A connection that can neither write nor reach another file."""
    import duckdb

    if path.suffix.lower() in (".csv", ".tsv"):
        connection = duckdb.connect(":memory:")
        name = path.stem.replace('"', '""')
        connection.execute(f'CREATE TABLE "{name}" AS SELECT * FROM read_csv(?)', [str(path)])
    else:
        connection = duckdb.connect(str(path), read_only=True)
    # Connections of one process to one file share their settings, which the first one has locked.
    locked = connection.execute("SELECT current_setting('lock_configuration')").fetchone()
    for setting, value in ({} if locked == (True,) else _DUCK_SETTINGS).items():
        connection.execute(f"SET {setting} = {value}")
    return connection


def _kind_of_duck_type(declared: str) -> ColumnKind | None:
    """How cells of a declared type compare; None where that has to be seen from the cells."""
    name = declared.upper().split("(")[0]
    if name == "VARCHAR":
        return None
    if name in _DUCK_NUMBERS:
        return "number"
    if name == "DATE" or name.startswith("TIMESTAMP"):
        return "date"
    return "boolean" if name == "BOOLEAN" else "text" if name == "ENUM" else "other"
