"""One suite for every engine: what a query means must not depend on where it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.database import RelationalDatabase, open_database
from triplewise.tools.sql.engines import QueryError
from triplewise.tools.sql.query import Aggregation, Condition, SqlQuery
from triplewise.tools.sql.schema import Column

Find = Callable[[str], Column]
NAME = 'the person.full "name"'


def answers(database: RelationalDatabase, query: SqlQuery) -> list[Any]:
    rows = database.run(query)
    assert rows.outcome.ok, rows.message
    return sorted((row[0] for row in rows.rows), key=str)


def test_kinds_are_those_of_the_cells(database: RelationalDatabase) -> None:
    kinds = {c.id: c.kind for t in database.schema.tables for c in t.columns}
    assert kinds["film.gross"] == "number"  # text: 1,200, n/a, 300.5 and an empty cell
    assert kinds["the person.zip"] == "text"  # 00123 is a code
    assert kinds["the person.born"] == "date"
    assert kinds["film.seen"] == "boolean"
    assert kinds["film.title"] == kinds[NAME] == "text"
    assert len(database.schema.keys) == 2


@pytest.mark.parametrize(
    ("name", "operator", "value", "films"),
    [
        ("film.title", "=", "Alien", ["Alien"]),
        ("film.gross", ">", "500", ["Alien"]),
        ("film.gross", "<", 1000, ["O'Hara; DROP TABLE film --"]),
        ("film.order", ">=", "5", ["O'Hara; DROP TABLE film --", "alien"]),
        ("film.seen", "=", "yes", ["Alien", "O'Hara; DROP TABLE film --"]),
        ("film.seen", "=", None, ["alien"]),
        ("the person.born", "=", "1960", ["Alien", "Zürich"]),
        ("the person.born", ">", "May 1960", ["O'Hara; DROP TABLE film --"]),
        (NAME, "=", "José  Núñez", ["Alien", "Zürich"]),
        ("the person.zip", "=", "123", []),
        ("prize.prix année", "=", "Oscar", ["Alien", "O'Hara; DROP TABLE film --"]),
    ],
)
def test_comparisons(
    database: RelationalDatabase,
    column: Find,
    name: str,
    operator: str,
    value: Any,
    films: list[str],
) -> None:
    condition = Condition(column(name), operator, value)
    query = SqlQuery((condition,), column("film.title"))
    assert answers(database, query) == films
    assert database.sql(query).startswith("SELECT film.title")


@pytest.mark.parametrize(
    ("name", "aggregation", "value"),
    [
        ("film.gross", "MAX", 1200),
        ("film.gross", "SUM", 1500.5),
        ("film.gross", "AVG", 750.25),
        ("film.title", "COUNT", 4),
        ("film.seen", "COUNT", 3),
        ("the person.born", "MIN", "1960-05-01"),
    ],
)
def test_aggregations(
    database: RelationalDatabase, column: Find, name: str, aggregation: Aggregation, value: Any
) -> None:
    assert answers(database, SqlQuery((), column(name), aggregation)) == [value]


def test_three_tables_are_joined_and_joins_repeat_nothing(database: RelationalDatabase, column: Find) -> None:
    any_prize = Condition(column("prize.prix année"), "!=", "none")
    people = SqlQuery((any_prize,), column(NAME))
    assert answers(database, people) == ["Ann Lee", "José  Núñez"]  # Alien has two prizes
    count = SqlQuery(
        (any_prize, Condition(column("the person.born"), "<", "1965")), column("film.title"), "COUNT"
    )
    assert answers(database, count) == [1]
    assert "EXISTS" in database.sql(count)
    rows = database.rows(count)
    assert {"title", "prize.prix année", "the person.born"} <= set(rows.columns)
    lost = database.run(SqlQuery((Condition(column("island.x"), "=", "a"),), column("film.title")))
    assert lost.outcome is Outcome.SYNTAX
    assert "no foreign key" in lost.message


def test_outcomes(database: RelationalDatabase, column: Find, url: str) -> None:
    titles = SqlQuery((), column("film.title"))
    cut = database.run(titles, 2)
    assert (cut.outcome, len(cut.rows)) == (Outcome.TRUNCATED, 2)
    assert database.run(titles, 4).outcome is Outcome.ROWS
    nothing = Condition(column("film.title"), "=", "x")
    assert database.run(SqlQuery((nothing,), column("film.order"), "MAX")).outcome is Outcome.EMPTY
    assert database.run(SqlQuery()).outcome is Outcome.SYNTAX
    assert database.run(SqlQuery((Condition(column("film.title"), "LIKE", "x"),))).outcome is Outcome.SYNTAX
    stranger = Column("film", "title; DROP TABLE film")
    assert database.run(SqlQuery((), stranger)).outcome is Outcome.SYNTAX
    with database.meter.block() as meter:
        database.run(titles)
    assert meter.queries == 1


def test_values_and_find(database: RelationalDatabase, column: Find) -> None:
    assert database.values(column("prize.prix année")).rows == (("Oscar",), ("BAFTA",))
    assert database.find(column("film.title"), "ZURICH")[0] == "Zürich"
    assert database.find(column("film.title"), "Allien")[0] in ("Alien", "alien")
    assert database.find(column("film.order"), "40")[0] == 6
    assert database.find(column("film.title"), "qqqq") == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(max_size=30)
    | st.sampled_from(
        ["' OR 1=1 --", '"; DROP TABLE film; --', "'; DELETE FROM film; --", "%", "\\", "\x00", "1e999"]
    ),
    operator=st.sampled_from(["=", "!=", "<", ">=", "; DROP TABLE film", "LIKE"]),
    name=st.sampled_from(["film.title", "film.order", "film.gross", "the person.born", "film.seen"]),
)
def test_whatever_is_written_is_a_value(
    database: RelationalDatabase, column: Find, text: str, operator: str, name: str
) -> None:
    query = SqlQuery((Condition(column(name), operator, text),), column("film.title"))
    assert database.run(query).outcome in (Outcome.ROWS, Outcome.EMPTY, Outcome.SYNTAX)
    assert isinstance(database.sql(query), str)
    assert database.run(SqlQuery((), column("film.title"), "COUNT")).rows == ((4,),)
    if operator == "=" and name == "film.title":
        assert len(database.run(query).rows) == (text in ("Alien", "alien", "Zürich"))


@pytest.mark.parametrize(
    "statement", ["DELETE FROM film", "CREATE TABLE evil (x INTEGER)", "DROP TABLE film"]
)
def test_the_connection_itself_cannot_write(
    database: RelationalDatabase, column: Find, statement: str
) -> None:
    with pytest.raises(QueryError, match=r"(?i)read.?only|not authorized"):
        database.engine.fetch(statement, 5.0)
    assert database.run(SqlQuery((), column("film.title"), "COUNT")).rows == ((4,),)


def test_a_slow_query_ends_as_a_time_out(url: str) -> None:
    opened = open_database(url, timeout=9, limit=50)
    joined = " ".join(f"JOIN film f{n} ON f{n - 1}.title <> LOWER(f{n}.title)" for n in range(1, 16))
    with pytest.raises(QueryError) as caught:
        opened.engine.fetch(f"SELECT COUNT(LOWER(f0.title)) FROM film f0 {joined}", 0.3)
    assert caught.value.outcome is Outcome.TIMEOUT
    assert opened.run(SqlQuery((), Column("film", "title"), "COUNT")).rows == ((4,),)


def test_a_select_is_asked_in_the_words_of_the_engine(database: RelationalDatabase) -> None:
    dialect = database.engine.dialect
    person, name = (database.schema.identifier(n).sql(dialect) for n in ("the person", 'full "name"'))

    def select(text: str) -> list[Any]:
        rows = database.select(database.read_select(text))
        assert rows.outcome.ok, rows.message
        return [row[0] for row in rows.rows]

    assert select(f"SELECT {name} FROM {person} WHERE {name} LIKE '%Lee%'") == ["Ann Lee"]
    assert select("SELECT COUNT(*) FROM film WHERE title = 'O''Hara; DROP TABLE film --'") == [1]
    # What a MySQL would run of a comment stays a comment.
    assert select("SELECT COUNT(*) FROM film /*! WHERE title = 'Alien' */") == [4]
    same = select("SELECT title FROM film WHERE title = 'ALIEN' ORDER BY id")
    assert same == (["Alien", "alien"] if database.engine.ignores_case else [])
    unknown = database.select(database.read_select("SELECT NO_SUCH(title) FROM film"))
    assert unknown.outcome is Outcome.SYNTAX


@pytest.mark.parametrize("text", ["SELECT LOAD_FILE('/etc/passwd')", "SELECT title INTO x FROM film"])
def test_files_are_not_read_and_nothing_is_made(database: RelationalDatabase, text: str) -> None:
    with pytest.raises(ActionError):
        database.read_select(text)
