"""A statement that a model wrote takes neither all time nor all memory."""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from triplewise.tools.kg.protocol import Deadline, Meter, Outcome
from triplewise.tools.sql.database import open_database
from triplewise.tools.sql.engines import QueryError, open_engine


def test_a_text_without_end_is_refused_by_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    sqlite3.connect(path).close()
    engine = open_engine(URL.create("sqlite", database=str(path)), 5.0)
    with pytest.raises(QueryError):
        engine.fetch("SELECT hex(zeroblob(900000000))", 5.0)
    engine.close()


ENDLESS = (
    "SELECT printf('%.*c', 900000000, 'x')",  # SQLite counts to that number, whatever may be written
    "SELECT instr(zeroblob(9000000), zeroblob(4000000) || '1')",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
)


@pytest.mark.parametrize("written", ENDLESS)
def test_sqlite_is_ended_in_time_where_it_cannot_be_interrupted(tmp_path: Path, written: str) -> None:
    path = tmp_path / "people.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript("CREATE TABLE people (name TEXT); INSERT INTO people VALUES ('Ada')")
    database = open_database(f"sqlite:///{path}")
    run = Deadline(600.0)
    session = database.session(Meter(), 1.0, 10, run)
    start = time.monotonic()
    assert session.select(session.read_select(written)).outcome is Outcome.TIMEOUT
    threading.Timer(0.5, run.cancel).start()
    session = database.session(Meter(), 600.0, 10, run)
    assert session.select(session.read_select(written)).outcome is Outcome.TIMEOUT
    assert time.monotonic() - start < 20.0
    session = database.session(Meter(), 60.0, 10, Deadline(60.0))
    assert session.select(session.read_select("SELECT upper(name) FROM people")).rows == (("ADA",),)


def test_duckdb_is_ended_in_time_where_it_cannot_be_interrupted(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_text("name,age\nAda,36\nBob,40\n")
    engine = open_engine(URL.create("duckdb", database=str(path)), 5.0)
    assert engine.fetch("SELECT name FROM people WHERE age > 38", 10.0)[1] == [("Bob",)]
    start = time.monotonic()
    with pytest.raises(QueryError) as caught:
        engine.fetch("SELECT length(repeat('x', 4000000000))", 0.5)
    assert caught.value.outcome in (Outcome.TIMEOUT, Outcome.UNAVAILABLE)  # by what runs out first
    assert time.monotonic() - start < 20.0
    assert engine.fetch("SELECT count(*) FROM people", 10.0)[1] == [(2,)]
    engine.close()
