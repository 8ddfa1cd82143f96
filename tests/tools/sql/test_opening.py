"""Opening a database: what is wrong is said with how to fix it, and nothing is made or betrayed."""

from __future__ import annotations

import socket
import sqlite3
import time
from pathlib import Path

import pytest

from triplewise.tools.actions.sql import table_line
from triplewise.tools.core.errors import ConfigurationError, DataError, KGUnavailableError
from triplewise.tools.sql import engines
from triplewise.tools.sql.database import open_database
from triplewise.tools.sql.engines import Declared
from triplewise.tools.sql.schema import _keys


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("nonsense", "names no database"),
        ("sqlite://", "needs a file"),
        ("duckdb:///:memory:", "needs a file"),
        ("oracle://scott:tiger@host/db", "are not supported"),
        ("postgresql://u:s3cret@host:port/x", "cannot be read"),
        ("mysql://u:s3cret@host", "needs a database"),
        ("mssql://u:s3cret@host/x", "are not supported"),
    ],
)
def test_bad_urls(url: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message) as caught:
        open_database(url)
    assert "s3cret" not in str(caught.value)
    assert "tiger" not in str(caught.value)


@pytest.mark.parametrize("kind", ["mysql", "postgresql"])
def test_a_server_that_says_nothing_is_not_waited_for(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "SPARE", 0.0)
    with socket.create_server(("127.0.0.1", 0)) as server, pytest.raises(KGUnavailableError):
        open_database(f"{kind}://u:s3cret@127.0.0.1:{server.getsockname()[1]}/x", timeout=1.0)


@pytest.mark.parametrize("name", ["no.db", "no.duckdb", "no.csv"])
def test_a_file_that_is_not_there_is_not_made(tmp_path: Path, name: str) -> None:
    with pytest.raises(DataError, match="no such"):
        open_database(str(tmp_path / name))
    assert not list(tmp_path.iterdir())


def test_files_that_are_no_database(tmp_path: Path) -> None:
    for name in ("x.db", "x.duckdb"):
        (tmp_path / name).write_text("this is no database, only a text that is long enough" * 20)
        with pytest.raises((DataError, KGUnavailableError), match="cannot"):
            open_database(str(tmp_path / name))


@pytest.mark.parametrize("kind", ["postgresql", "mysql", "mariadb"])
def test_a_missing_driver_names_the_extra(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr("triplewise.tools.sql.database.find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"pip install 'triplewise\[sql\]'"):
        open_database(f"{kind}://u:p@127.0.0.1/x")


@pytest.mark.parametrize(("kind", "driver"), [("postgresql", "psycopg"), ("mysql", "pymysql")])
def test_an_unreachable_server_is_named_without_the_password(kind: str, driver: str) -> None:
    pytest.importorskip(driver)
    with pytest.raises(KGUnavailableError, match="check host, database, user and password") as caught:
        open_database(f"{kind}://u:s3cret@127.0.0.1:1/x?password=0thers3cret", timeout=2)
    assert "s3cret" not in str(caught.value)


def test_a_csv_file_is_a_table(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    (tmp_path / "my films.csv").write_text('title,"box office"\nAlien,"1,200"\nDune,300\n')
    database = open_database(str(tmp_path / "my films.csv"))
    columns = {c.name: c for c in database.schema.tables[0].columns}
    assert database.schema.tables[0].name == "my films"
    most = database.query_of(columns["box office"].table).returning(columns["box office"], "MAX")
    assert database.select(most).rows == ((1200,),)


def test_a_table_says_how_its_columns_are_written_and_what_they_are_likely_joined_by(tmp_path: Path) -> None:
    connection = sqlite3.connect(tmp_path / "x.db")
    for statement in (
        "CREATE TABLE film (id INTEGER, isan TEXT, title TEXT, gross TEXT, seen TEXT)",
        "CREATE TABLE prize (id INTEGER, prize TEXT, isan TEXT)",
        "INSERT INTO film VALUES (1, 'f1', NULL, '1,200', '1990-05-17'), (2, 'f2', 'It''s\nme', '7', NULL)",
        "INSERT INTO prize VALUES (1, 'Oscar', 'f1'), (2, 'BAFTA', 'f1'), (3, 'Bear', 'f9')",
    ):
        connection.execute(statement)
    connection.commit()
    connection.close()
    database = open_database(str(tmp_path / "x.db"))
    film, prize = (table_line(database.schema, table, bare=True) for table in database.schema.tables)
    assert film == (
        """film: id (number), isan (text, e.g. 'f1'), title (text, e.g. "It's\\nme"), """
        "gross (number stored as text), seen (date, e.g. '1990-05-17')"
    )
    joins = "[isan -> film.isan]"
    assert prize == f"prize: id (number), prize (text, e.g. 'Oscar'), isan (text, e.g. 'f1') {joins}"
    columns = {c.id: c for t in database.schema.tables for c in t.columns}
    most = database.query_of("film").returning(columns["film.gross"], "MAX")
    assert database.select(most).rows == ((1200,),)


def test_keys_that_only_names_imply_join_too(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    connection = sqlite3.connect(path)
    for statement in (
        "CREATE TABLE teams (id INTEGER PRIMARY KEY, name TEXT)",
        "CREATE TABLE game (day TEXT, team_id INTEGER,"
        " home INTEGER REFERENCES teams, away INTEGER REFERENCES teams)",
    ):
        connection.execute(statement)
    connection.close()
    keys = [(k.pairs[0][0], f"{k.target}.{k.pairs[0][1]}") for k in open_database(str(path)).schema.keys]
    assert set(keys) == {("home", "teams.id"), ("away", "teams.id"), ("team_id", "teams.id")}


def test_keys_of_thousands_of_tables_are_found_in_a_moment() -> None:
    """Keys that names imply are looked up, not looked for among all pairs of tables."""
    parts = range(3_000)
    columns = {n: {"id": "INTEGER", "name": "TEXT", f"part_{(n + 7) % 3_000}_id": "INTEGER"} for n in parts}
    declared = {f"part_{n}": Declared(columns[n], ("id",)) for n in parts}
    start, shown = time.process_time(), {c: c for names in columns.values() for c in names}
    keys = list(_keys(declared, shown | {name: name for name in declared}))
    assert time.process_time() - start < 3
    assert {(k.source, k.target) for k in keys} == {(f"part_{n}", f"part_{(n + 7) % 3_000}") for n in parts}
