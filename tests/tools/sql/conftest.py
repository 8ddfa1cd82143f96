"""One small database on every engine that runs here."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.sql_servers import MariaDB, Postgres
from triplewise.tools.sql.database import RelationalDatabase, open_database
from triplewise.tools.sql.schema import Column

TABLES = (
    'CREATE TABLE "the person" (id INTEGER PRIMARY KEY, "full ""name""" VARCHAR, born DATE, zip VARCHAR)',
    'CREATE TABLE film (id INTEGER PRIMARY KEY, title VARCHAR, "order" INTEGER, gross VARCHAR, seen BOOLEAN,'
    ' director INTEGER REFERENCES "the person"(id))',
    'CREATE TABLE prize (id INTEGER PRIMARY KEY, film_id INTEGER REFERENCES film(id), "prix année" VARCHAR)',
    "CREATE TABLE island (x VARCHAR)",
)
ROWS = (
    "INSERT INTO \"the person\" VALUES (1, 'José  Núñez', '1960-05-01', '00123'),"
    " (2, 'Ann Lee', '1970-01-02', '04567'), (3, 'Weiß', NULL, '1')",
    "INSERT INTO film VALUES (1, 'Alien', 3, '1,200', true, 1), (2, 'Zürich', 4, 'n/a', false, 1),"
    " (3, 'O''Hara; DROP TABLE film --', 5, '300.5', true, 2), (4, 'alien', 6, '', NULL, 3)",
    "INSERT INTO prize VALUES (1, 1, 'Oscar'), (2, 1, 'BAFTA'), (3, 3, 'Oscar')",
    "INSERT INTO island VALUES ('a')",
)


def sqlite_file(folder: Path) -> str:
    """A SQLite file with the small database."""
    path = folder / "small database.db"
    with sqlite3.connect(path) as connection:
        for statement in (*TABLES, *ROWS):
            connection.execute(statement)
    connection.close()
    return f"sqlite:///{path}"


def duckdb_file(folder: Path) -> str:
    """A DuckDB file with the small database."""
    duckdb = pytest.importorskip("duckdb")
    path = folder / "small.duckdb"
    with duckdb.connect(str(path)) as connection:
        for statement in (*TABLES, *ROWS):
            connection.execute(statement)
    return f"duckdb:///{path}"


@pytest.fixture(scope="session", params=["sqlite", "duckdb", "postgresql", "mysql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The small database on one engine after the other."""
    folder = tmp_path_factory.mktemp(request.param)
    if request.param == "sqlite":
        yield sqlite_file(folder)
    elif request.param == "duckdb":
        yield duckdb_file(folder)
    else:
        kind, package = {"postgresql": (Postgres, "psycopg"), "mysql": (MariaDB, "pymysql")}[request.param]
        pytest.importorskip(package)
        if missing := kind.missing():
            pytest.skip(missing)
        # MySQL reads "names" so only when told to, and wants a length for each text.
        first = ("SET SESSION sql_mode = 'ANSI_QUOTES'",) if kind is MariaDB else ()
        statements = [s.replace(" VARCHAR", " VARCHAR(99)") for s in (*first, *TABLES, *ROWS)]
        with kind(folder) as server:
            server.load(statements)
            yield server.url


@pytest.fixture(scope="session")
def database(url: str) -> Iterator[RelationalDatabase]:
    """The small database, opened read-only."""
    opened = open_database(url, timeout=10, limit=100)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def column(database: RelationalDatabase) -> Callable[[str], Column]:
    """A column by `table.name`."""
    columns = {c.id: c for t in database.schema.tables for c in t.columns}
    return columns.__getitem__
