"""DuckDB for SQLAlchemy: enough of a dialect to ask a file, and the tables that it holds.

The dialects on PyPI do not work with DuckDB 2 and SQLAlchemy 2.1 together.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy import types
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.sql.compiler import SQLCompiler

_HERE = "database_name = current_database() AND schema_name = current_schema()"
_TABLES = f"""
SELECT table_name, comment FROM duckdb_tables() WHERE {_HERE} ORDER BY table_oid
"""
_VIEWS = f"SELECT view_name, comment FROM duckdb_views() WHERE {_HERE} AND NOT internal ORDER BY view_oid"
_COLUMNS = f"""
SELECT column_name, data_type, comment FROM duckdb_columns() WHERE {_HERE} AND table_name = ?
ORDER BY column_index
"""
_KEYS = f"""
SELECT constraint_type, constraint_column_names, referenced_table, referenced_column_names
FROM duckdb_constraints() WHERE {_HERE} AND table_name = ?
    AND constraint_type IN ('PRIMARY KEY', 'FOREIGN KEY')
ORDER BY constraint_index
"""
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


def reflect_duckdb(engine: sa.Engine) -> sa.MetaData:
    """The tables and views of a DuckDB database, with their columns and keys."""
    metadata = sa.MetaData()
    with engine.connect() as connection:
        ask = connection.exec_driver_sql
        for name, comment in (*ask(_TABLES).fetchall(), *ask(_VIEWS).fetchall()):
            columns = [sa.Column(c, _type(kind), comment=about) for c, kind, about in ask(_COLUMNS, (name,))]
            keys: list[sa.Constraint] = []
            for kind, own, table, theirs in ask(_KEYS, (name,)):
                if kind == "PRIMARY KEY":
                    keys.append(sa.PrimaryKeyConstraint(*own))
                else:
                    referred = [f"{table}.{column}" for column in theirs]
                    keys.append(sa.ForeignKeyConstraint(own, referred, link_to_name=True))
            sa.Table(name, metadata, *columns, *keys, comment=comment)
    return metadata


def _type(declared: str) -> types.TypeEngine[Any]:
    name = declared.upper().split("(")[0]
    return types.DateTime() if name.startswith("TIMESTAMP") else _TYPES.get(name, types.LargeBinary())
