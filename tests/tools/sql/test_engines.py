"""One suite for every engine: what a query means must not depend on where it runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from sqlglot import exp

from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Meter, Outcome
from triplewise.tools.sql.database import RelationalDatabase, open_database
from triplewise.tools.sql.engines import QueryError
from triplewise.tools.sql.schema import Aggregation, Column, Condition
from triplewise.tools.sql.values import Rows

Find = Callable[[str], Column]
NAME = 'the person.full "name"'


def ask(
    database: RelationalDatabase,
    answer: Column,
    condition: Condition | None = None,
    aggregation: Aggregation = "",
    limit: int | None = None,
) -> Rows:
    """The rows of a query, read back from its text as a run does."""
    query = database.query_of(answer.table)
    query = (query.where(condition) if condition else query).returning(answer, aggregation)
    read = database.query(query.text)
    assert read is not None
    if condition:
        assert len(read.conditions) == 1
        assert read.where(condition) is read
    return database.select(read, limit)


def answers(
    database: RelationalDatabase,
    answer: Column,
    condition: Condition | None = None,
    aggregation: Aggregation = "",
) -> list[Any]:
    rows = ask(database, answer, condition, aggregation)
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
    ("name", "operator", "value", "answer", "found"),
    [
        ("film.title", "=", "Alien", "film.title", ["Alien"]),
        ("film.gross", ">", "500", "film.title", ["Alien"]),
        ("film.gross", "<", "1000", "film.title", ["O'Hara; DROP TABLE film --"]),
        ("film.order", ">=", "5", "film.title", ["O'Hara; DROP TABLE film --", "alien"]),
        ("film.seen", "=", "yes", "film.title", ["Alien", "O'Hara; DROP TABLE film --"]),
        ("film.seen", "!=", "true", "film.title", ["Zürich"]),
        ("the person.born", "=", "1960", NAME, ["José  Núñez"]),
        ("the person.born", ">", "May 1960", NAME, ["Ann Lee"]),
        (NAME, "=", "José  Núñez", "the person.id", [1]),
        ("the person.zip", "=", "123", NAME, []),
        ("prize.prix année", "=", "Oscar", "prize.film_id", [1, 3]),
    ],
)
def test_comparisons(
    database: RelationalDatabase,
    column: Find,
    name: str,
    operator: str,
    value: str,
    answer: str,
    found: list[Any],
) -> None:
    condition = Condition(column(name), operator, value)
    assert answers(database, column(answer), condition) == found


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
    assert answers(database, column(name), None, aggregation) == [value]


def test_a_query_reads_one_table_and_its_rows_prove_the_answer(
    database: RelationalDatabase, column: Find
) -> None:
    query = database.query_of("film").where(Condition(column("film.seen"), "=", "yes"))
    most = query.returning(column("film.gross"), "MAX").rows()
    rows = database.select(most)
    assert {"title", "order"} <= set(rows.columns)
    assert [row[1] for row in rows.rows] == ["Alien", "O'Hara; DROP TABLE film --"]
    with pytest.raises(ActionError) as caught:
        query.where(Condition(column("the person.born"), "<", "1965"))
    assert caught.value.code == "bad_query"


def test_outcomes(database: RelationalDatabase, column: Find) -> None:
    title = column("film.title")
    cut = ask(database, title, limit=2)
    assert (cut.outcome, len(cut.rows)) == (Outcome.TRUNCATED, 2)
    assert ask(database, title, limit=4).outcome is Outcome.ROWS
    assert ask(database, title, Condition(title, "=", "x")).outcome is Outcome.EMPTY
    meter = Meter(database.meter)
    ask(database, title)
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
    operator=st.sampled_from(["=", "!=", "<", ">="]),
    name=st.sampled_from(["film.title", "film.order", "film.gross", "film.seen"]),
)
def test_whatever_is_written_is_a_value(
    database: RelationalDatabase, column: Find, text: str, operator: str, name: str
) -> None:
    rows = ask(database, column("film.title"), Condition(column(name), operator, text))
    assert rows.outcome in (Outcome.ROWS, Outcome.EMPTY, Outcome.SYNTAX)
    assert answers(database, column("film.title"), None, "COUNT") == [4]
    if operator == "=" and name == "film.title":
        assert len(rows.rows) == (text in ("Alien", "alien", "Zürich"))


@pytest.mark.parametrize(
    "statement", ["DELETE FROM film", "CREATE TABLE evil (x INTEGER)", "DROP TABLE film"]
)
def test_the_connection_itself_cannot_write(
    database: RelationalDatabase, column: Find, statement: str
) -> None:
    with pytest.raises(QueryError, match=r"(?i)read.?only|not authorized"):
        database.engine.fetch(statement, 5.0)
    assert answers(database, column("film.title"), None, "COUNT") == [4]


def test_a_slow_query_ends_as_a_time_out(url: str) -> None:
    opened = open_database(url, timeout=9, limit=50)
    joined = " ".join(f"JOIN film f{n} ON f{n - 1}.title <> LOWER(f{n}.title)" for n in range(1, 16))
    with pytest.raises(QueryError) as caught:
        opened.engine.fetch(f"SELECT COUNT(LOWER(f0.title)) FROM film f0 {joined}", 0.3)
    assert caught.value.outcome is Outcome.TIMEOUT
    assert answers(opened, Column("film", "title"), None, "COUNT") == [4]


def test_a_select_is_asked_in_the_words_of_the_engine(database: RelationalDatabase) -> None:
    dialect = database.engine.dialect
    person, name = (exp.to_identifier(n, quoted=True).sql(dialect) for n in ("the person", 'full "name"'))

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
