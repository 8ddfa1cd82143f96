"""A statement that a model wrote takes neither all time nor all memory."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest
from sqlalchemy.engine import URL

from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.engines import QueryError, open_engine


def test_a_text_without_end_is_refused_by_sqlite(tmp_path: Path) -> None:
    path = tmp_path / "a.sqlite"
    sqlite3.connect(path).close()
    engine = open_engine(URL.create("sqlite", database=str(path)), 5.0)
    with pytest.raises(QueryError):
        engine.fetch("SELECT hex(zeroblob(900000000))", 5.0)
    engine.close()


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
