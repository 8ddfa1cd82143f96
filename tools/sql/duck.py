"""DuckDB by its own driver: SQLAlchemy writes the statements, since its dialect for DuckDB cannot reflect.

CSV files are read into memory once; the files themselves are only read.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import Double, Text, case, cast, func
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.engine import Dialect
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.base import ColumnKind
from triplewise.tools.sql.engine import Engine, Expression, QueryError, RawColumn, RawKey, RawTable, Statement
from triplewise.tools.sql.reading import NUMBER_PATTERN

if TYPE_CHECKING:
    import duckdb

_LOCKED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "lock_configuration": "true",
}
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL", "UTINYINT",
            "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")  # fmt: skip
_COLUMNS = """
SELECT table_name, column_name, data_type, comment FROM duckdb_columns()
WHERE NOT internal AND database_name = current_database() AND schema_name = current_schema()
ORDER BY table_oid, column_index"""
_CONSTRAINTS = """
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
    """A DuckDB file, or one table read from a CSV file.

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
            self._connection = _opened(path)
        except duckdb.Error as error:
            raise DataError(f"DuckDB cannot open it: {_words(error)}", path) from None
        reserved = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        self.reserved = frozenset(str(name) for (name,) in self._connection.execute(reserved).fetchall())
        self._dialect = PGDialect(paramstyle="qmark")  # type: ignore[no-untyped-call]
        self._dialect._backslash_escapes = False

    @property
    def dialect(self) -> Dialect:
        """PostgreSQL's, whose way of writing DuckDB shares."""
        return self._dialect

    def tables(self) -> list[RawTable]:
        """All tables and views of the main schema."""
        columns = defaultdict[str, list[RawColumn]](list)
        for table, name, type_, doc in self._ask(_COLUMNS):
            columns[table].append(RawColumn(name, _kind(type_), doc or ""))
        primary, keys = dict[str, tuple[str, ...]](), defaultdict[str, list[RawKey]](list)
        for table, kind, own, referred, theirs in self._ask(_CONSTRAINTS):
            if kind == "PRIMARY KEY":
                primary[table] = tuple(own)
            else:
                keys[table].append(RawKey(tuple(own), referred, tuple(theirs)))
        return [RawTable(t, tuple(c), primary.get(t, ()), tuple(keys[t])) for t, c in columns.items()]

    def _ask(self, sql: str) -> list[tuple[Any, ...]]:
        return self._run(sql, [], 30.0)

    def fetch(self, statement: Statement, timeout: float) -> list[tuple[Any, ...]]:
        """All rows. A timer interrupts the query when its time is over."""
        compiled = statement.compile(dialect=self._dialect, compile_kwargs={"render_postcompile": True})
        names = compiled.positiontup or []
        return self._run(str(compiled), [compiled.params[name] for name in names], timeout)

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
            raise QueryError(Outcome.TIMEOUT, f"no answer within {timeout:g} s") from None
        except (duckdb.IOException, duckdb.ConnectionException) as error:
            raise QueryError(Outcome.UNAVAILABLE, _words(error)) from None
        except (duckdb.Error, UnicodeError, OverflowError, ValueError) as error:
            raise QueryError(Outcome.SYNTAX, _words(error)) from None
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
        if shown:
            return number
        return case((func.regexp_full_match(bare, NUMBER_PATTERN), number), else_=None)

    def iso(self, cell: Expression) -> Expression:
        """Dates and times are written as ISO text."""
        return cast(cell, Text())

    def folded(self, cell: Expression, *, shown: bool = False) -> Expression:
        """By DuckDB's own functions."""
        low = func.replace(func.lower(cell), "ß", "ss")
        bare = func.trim(func.strip_accents(func.nfc_normalize(low)))
        if shown:
            return func.trim(func.strip_accents(func.lower(cell)))
        return func.trim(func.regexp_replace(bare, r"\s+", " ", "g"))


def _opened(path: Path) -> duckdb.DuckDBPyConnection:
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
    for setting, value in ({} if locked == (True,) else _LOCKED).items():
        connection.execute(f"SET {setting} = {value}")
    return connection


def _kind(declared: str) -> ColumnKind | None:
    """How cells of a declared type compare; None where that has to be seen from the cells."""
    name = declared.upper().split("(")[0]
    if name == "VARCHAR":
        return None
    if name in _NUMBERS:
        return "number"
    if name == "DATE" or name.startswith("TIMESTAMP"):
        return "date"
    return "boolean" if name == "BOOLEAN" else "text" if name == "ENUM" else "other"


def _words(error: Exception) -> str:
    """What DuckDB said, in one line."""
    said = str(error).strip()
    return said.splitlines()[0] if said else type(error).__name__
