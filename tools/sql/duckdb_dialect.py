"""DuckDB for SQLAlchemy: enough of a dialect to reflect a file and to ask it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy import types
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.compiler import SQLCompiler

_HERE = "WHERE database_name = current_database() AND schema_name = current_schema()"
_NUMBERS = ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE", "DECIMAL",
            "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT")  # fmt: skip
_TYPES: dict[str, types.TypeEngine[Any]] = {
    **dict.fromkeys(_NUMBERS, types.Numeric()),
    "VARCHAR": types.String(),
    "BOOLEAN": types.Boolean(),
    "DATE": types.Date(),
    "ENUM": types.Enum(),
}


class DuckConnection:
    """A connection as DB-API has them: its cursors share its transaction, and closing one leaves it open."""

    def __init__(self, connection: Any, *, is_cursor: bool = False) -> None:
        self._connection, self._is_cursor = connection, is_cursor

    def cursor(self) -> DuckConnection:
        """Return a cursor on the same connection."""
        return DuckConnection(self._connection, is_cursor=True)

    def close(self) -> None:
        """Close the connection; nothing for a cursor."""
        if not self._is_cursor:
            self._connection.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)


class DuckCompiler(SQLCompiler):
    """Standard SQL, with DuckDB's operator for regular expressions."""

    def visit_regexp_match_op_binary(self, binary: Any, operator: Any, **options: Any) -> str:
        """Write a match."""
        return self._generate_generic_binary(binary, " ~ ", **options)


class DuckDialect(DefaultDialect):
    """Every transaction is read-only."""

    name = driver = "duckdb"
    default_paramstyle = "qmark"
    statement_compiler = DuckCompiler
    supports_statement_cache = True
    supports_native_boolean = True
    supports_comments = True

    @classmethod
    def import_dbapi(cls) -> Any:
        """Return the driver."""
        import duckdb

        return duckdb

    def initialize(self, connection: sa.Connection) -> None:
        """Learn which words this version of DuckDB wants quoted."""
        super().initialize(connection)
        words = "SELECT keyword_name FROM duckdb_keywords() WHERE keyword_category <> 'unreserved'"
        reserved = connection.exec_driver_sql(words).scalars()
        self.identifier_preparer.reserved_words = {str(word) for word in reserved}

    def do_begin(self, dbapi_connection: Any) -> None:
        """Begin a transaction that cannot write."""
        dbapi_connection.execute("BEGIN TRANSACTION READ ONLY")

    def do_rollback(self, dbapi_connection: Any) -> None:
        """Roll back, where there is anything to."""
        import duckdb

        with suppress(duckdb.TransactionException):
            dbapi_connection.rollback()

    def get_table_names(self, connection: sa.Connection, schema: str | None = None, **_: Any) -> list[str]:
        """Return the tables of the main schema."""
        own = f"SELECT table_name FROM duckdb_tables() {_HERE} ORDER BY table_oid"
        return [str(name) for (name,) in connection.exec_driver_sql(own)]

    def get_view_names(self, connection: sa.Connection, schema: str | None = None, **_: Any) -> list[str]:
        """Return the views of the main schema."""
        own = f"SELECT view_name FROM duckdb_views() {_HERE} AND NOT internal ORDER BY view_oid"
        return [str(name) for (name,) in connection.exec_driver_sql(own)]

    def get_columns(self, connection: sa.Connection, table_name: str, *_: Any, **__: Any) -> Any:
        """Return the columns of a table or view."""
        query = f"SELECT column_name, data_type, comment FROM duckdb_columns() {_HERE} AND table_name = ? "
        rows = connection.exec_driver_sql(f"{query} ORDER BY column_index", (table_name,))
        return [{"name": name, "type": _type(kind), "nullable": True, "default": None, "comment": comment}
                for name, kind, comment in rows]  # fmt: skip

    def get_pk_constraint(self, connection: sa.Connection, table_name: str, *_: Any, **__: Any) -> Any:
        """Return the primary key of a table."""
        keys = _constraints(connection, table_name, "PRIMARY KEY")
        return {"name": None, "constrained_columns": list(keys[0][0]) if keys else []}

    def get_foreign_keys(self, connection: sa.Connection, table_name: str, *_: Any, **__: Any) -> Any:
        """Return the foreign keys of a table."""
        return [{"name": None, "constrained_columns": list(own), "referred_schema": None,
                 "referred_table": table, "referred_columns": list(theirs), "options": {}}
                for own, table, theirs in _constraints(connection, table_name, "FOREIGN KEY")]  # fmt: skip

    def get_indexes(self, *_: Any, **__: Any) -> Any:
        """Return none: no query needs to know of one."""
        return []


def _constraints(connection: sa.Connection, table: str, kind: str) -> Sequence[Any]:
    """Return own columns, table referred to, and its columns, of the constraints of one kind."""
    query = (
        "SELECT constraint_column_names, referenced_table, referenced_column_names FROM duckdb_constraints() "
        f"{_HERE} AND table_name = ? AND constraint_type = ? ORDER BY constraint_index"
    )
    return connection.exec_driver_sql(query, (table, kind)).fetchall()


def _type(declared: str) -> types.TypeEngine[Any]:
    name = declared.upper().split("(")[0]
    return types.DateTime() if name.startswith("TIMESTAMP") else _TYPES.get(name, types.LargeBinary())
