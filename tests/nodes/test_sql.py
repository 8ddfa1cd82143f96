"""Asking a relational database, with a scripted model."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyoxigraph import Store

from tests.support.calls import parse_call
from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, build_graph
from triplewise.graphs.cli.app import run
from triplewise.tools.actions import TOOLSETS, ActionContext, Feedback
from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.sql.database import open_database

Server = Callable[..., OpenAIServer]


@pytest.fixture
def db(tmp_path: Path) -> str:
    """Films, their directors and prizes."""
    path = tmp_path / "films.db"
    connection = sqlite3.connect(path)
    for statement in (
        "CREATE TABLE person (id INTEGER PRIMARY KEY, name TEXT)",
        "CREATE TABLE film (id INTEGER PRIMARY KEY, title TEXT, year INTEGER,"
        " director INTEGER REFERENCES person)",
        "CREATE TABLE prize (id INTEGER PRIMARY KEY, film_id INTEGER REFERENCES film, prize TEXT)",
        "INSERT INTO person VALUES (1, 'José Núñez'), (2, 'Ann Lee')",
        "INSERT INTO film VALUES (1, 'Red River', 1990, 1), (2, 'Blue Lake', 1995, 1),"
        " (3, 'Green Hill', 1999, 2)",
        "INSERT INTO prize VALUES (1, 1, 'Oscar'), (2, 3, 'Oscar'), (3, 3, 'BAFTA')",
    ):
        connection.execute(statement)
    connection.commit()
    connection.close()
    return f"sqlite:///{path}"


def act(db: str, call: Call, program: str = "") -> Feedback:
    """One action on the database."""
    bench = ActionContext(
        kg=LocalKG(Store(), load_profile("generic"), "none"),
        program=program,
        services={"database": open_database(db)},
    )
    return TOOLSETS["sql"].execute(bench, call)


def test_a_scripted_model_is_corrected(db: str, openai_server: Server) -> None:
    says = [
        "Thought: look\nAction: get_column(person.name)",
        "Thought: filter\nAction: add_condition(person.name, =, jose nunez)",
        "Thought: as told\nAction: add_condition(person.name, =, José Núñez)",
        "Thought: its number\nAction: set_answer(person.id)",
        "Thought: done\nAction: execute()",
    ]
    server = openai_server(says)
    context = Context(db=db, model="openai:scripted", base_url=server.url, api_key_env="")
    answer = build_graph("sql-paper").invoke(
        {"question": "What is the number of Jose Nunez?"}, context=context
    )["answer"]
    assert (answer.status, answer.values, answer.text) == ("answered", ("1",), "1.")
    assert answer.sql == 'SELECT "id" FROM "person" WHERE "name" = \'José Núñez\''
    assert answer.rows == ("id: 1; name: José Núñez",)
    (correction,) = answer.corrections
    assert correction.guideline == "sql_other_spelling"
    assert answer.sparql == ""
    assert answer.usage.queries > 3


@pytest.mark.parametrize(
    ("given", "match"), [({"model": "openai:any"}, "--db"), ({"db": "films.db"}, "needs a language model")]
)
def test_a_database_and_a_model_are_needed(given: dict[str, Any], match: str) -> None:
    with pytest.raises(ConfigurationError, match=match):
        build_graph("sql").invoke({"question": "How many?"}, context=Context(**given))


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (Call("get_column", ()), "arity"),
        (Call("get_column", ("titel",)), "unknown_column"),
        (Call("get_column", ("id",)), "ambiguous_column"),
        (Call("get_columns", ("movies",)), "unknown_table"),
        (Call("add_condition", ("title", "=")), "arity"),
        (Call("add_condition", ("title", "LIKE", "x")), "bad_operator"),
        (Call("add_condition", ("year", ">", "old")), "bad_value"),
        (Call("set_answer", ("year", "MEDIAN")), "bad_aggregation"),
        (Call("set_answer", ("title", "SUM")), "sum_of_text"),
        (Call("execute"), "execute_before_answer"),
        (Call("drop_table", ("film",)), "unknown_action"),
    ],
)
def test_mistakes_become_feedback(db: str, call: Call, code: str) -> None:
    assert act(db, call).error == code


def test_feedback_of_actions(db: str) -> None:
    assert "film: " in act(db, Call("get_tables")).observation
    assert "director -> person.id" in act(db, Call("get_columns", ("FILM",))).observation
    seen = act(db, Call("get_column", ("prize",)))
    assert seen.observation == "The value stored in column prize (text) is ['Oscar', 'BAFTA']."
    first = act(db, Call("add_condition", ('"Title"', "==", "'Red River'")))
    assert first.arguments == ("title", "=", "Red River")
    second = act(db, Call("add_condition", ("title", "=", "Blue Lake")), first.program)
    assert (second.outcome, second.detail["second_equality"]) == ("empty", True)
    done = act(db, Call("execute"), act(db, Call("set_answer", ("year",)), first.program).program)
    assert (done.answers, done.finished) == (("1990",), True)


def test_the_command_line_asks(
    db: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], openai_server: Server
) -> None:
    select = "query(SELECT f.title FROM film f JOIN prize p ON p.film_id = f.id WHERE p.prize = 'BAFTA')"
    server = openai_server([f"Thought: go on\nAction 1: {select}\nAction 2: execute()"] * 2)
    model = ("--model", "openai:scripted", "--base-url", server.url)
    question = ("ask", "Which film won the BAFTA?", "--set", "api_key_env=")
    assert run((*question, "--db", db, *model)) == 0
    shown = capsys.readouterr().out
    for part in ("Green Hill", "SELECT f.title", "Proof", "title: Green Hill"):
        assert part in shown
    assert run((*question, "--db", db, *model, "--json")) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["answer"], document["preset"], document["sparql"]) == (["Green Hill"], "sql", "")
    assert document["sql"].startswith("SELECT")
    assert run((*question, "--db", str(tmp_path / "no.db"), *model)) == 2
    assert "there is no such file" in capsys.readouterr().err
    assert run((*question, "--db", db)) == 2
    assert "asking a database needs a language model" in capsys.readouterr().err


def select(db: str, text: str, program: str = "", action: str = "query") -> Feedback:
    """A SELECT, or another action of its toolset, on the database."""
    kg = LocalKG(Store(), load_profile("generic"), "none")
    bench = ActionContext(kg=kg, program=program, services={"database": open_database(db)})
    return TOOLSETS["select"].execute(bench, parse_call(f"{action}({text})"))


@pytest.mark.parametrize(
    ("text", "answers"),
    [
        ("SELECT title FROM film ORDER BY year DESC LIMIT 2", ("Green Hill", "Blue Lake")),
        ("SELECT MAX(year) - MIN(year) FROM film", ("9",)),
        (
            "SELECT name, COUNT(*) FROM film JOIN person p ON director = p.id GROUP BY 1 HAVING COUNT(*) > 1",
            ("José Núñez, 2",),
        ),
        (
            "SELECT a.title FROM film a JOIN film b ON a.year < b.year WHERE b.title = 'Blue Lake'",
            ("Red River",),
        ),
        ("SELECT EXISTS(SELECT 1 FROM prize WHERE prize LIKE 'Os%' AND film_id IN (1, 2))", ("1",)),
        (
            "WITH t AS (SELECT film_id, COUNT(*) AS n FROM prize GROUP BY film_id) SELECT MAX(n) FROM t",
            ("2",),
        ),
        ("SELECT SUM(CASE WHEN year > 1990 THEN 1 ELSE 0 END) * 100 / COUNT(*) FROM film", ("66",)),
        ("SELECT CASE WHEN MAX(year) > 1990 THEN 'yes' ELSE 'no' END FROM film", ("yes",)),
        ("SELECT COALESCE(SUM(year), 0) FROM film WHERE year > 3000", ("0",)),
        (
            "SELECT title FROM film WHERE year < 1991 UNION SELECT name FROM person WHERE id = 2",
            ("Ann Lee", "Red River"),
        ),
        (
            "WITH RECURSIVE t(id, depth) AS (SELECT id, 0 FROM film WHERE id = 1 UNION ALL"
            " SELECT film.id, depth + 1 FROM film JOIN t ON film.id = t.id + 1) SELECT MAX(depth) FROM t",
            ("2",),
        ),
        (
            "SELECT (SELECT name FROM person WHERE id = film.director) || ', ' || year FROM film LIMIT 1",
            ("José Núñez, 1990",),
        ),
        ("SELECT ROW_NUMBER() OVER (ORDER BY year) FROM film LIMIT 1", ("1",)),
        ("SELECT t.* FROM (SELECT MIN(title) AS first FROM film) t", ("Blue Lake",)),
    ],
)
def test_what_a_model_selects_is_run(db: str, text: str, answers: tuple[str, ...]) -> None:
    found = select(db, text)
    assert (found.error, found.outcome) == ("", "rows")
    assert select(db, "", found.program, "execute").answers == answers


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("SELECT title FROM movie", "unknown_table"),
        ("SELECT titel FROM film", "unknown_column"),
        ("SELECT f.name FROM film f", "unknown_column"),
        ("SELECT title FROM film; DROP TABLE film", "several_statements"),
        ("WITH t AS (DELETE FROM film RETURNING id) SELECT id FROM t", "not_select"),
        ("SELECT load_extension('x')", "not_select"),
        ("SELECT title FROM film WHERE year >", "bad_sql"),
        ("SELECT no_such(title) FROM film", "bad_sql"),
        ("SELECT 'Alien'", "bad_sql"),
        ("SELECT 'Alien' FROM film LIMIT 1", "bad_sql"),
        ("WITH t AS (SELECT 'Alien' AS title) SELECT title FROM t", "bad_sql"),
        ("SELECT CASE WHEN COUNT(*) > 0 THEN 'Alien' END FROM film", "bad_sql"),
        ("SELECT IIF(year > 1990, 'Alien', title) FROM film", "bad_sql"),
        ("SELECT t.x FROM film JOIN (SELECT 'Alien' AS x) t LIMIT 1", "bad_sql"),
        ("SELECT t.x FROM (VALUES ('Alien')) AS t(x), film", "bad_sql"),
        ("SELECT title FROM film WHERE year > 3000 UNION SELECT 'Alien'", "bad_sql"),
        ("SELECT COALESCE(MAX(title), 'Alien') FROM film WHERE year > 3000", "bad_sql"),
        ("SELECT (SELECT 'Alien' WHERE film.year > 1) FROM film", "bad_sql"),
        ("SELECT UPPER('alien') FROM film WHERE year > 1990", "bad_sql"),
        ("SELECT title, 'Alien' FROM film", "bad_sql"),
        ("SELECT COUNT(*) FROM (SELECT 1)", "bad_sql"),
        ("SELECT FIRST_VALUE('Alien') OVER (ORDER BY year) FROM film", "bad_sql"),
        ("WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM t) SELECT SUM(n) FROM t", "bad_sql"),
    ],
)
def test_what_must_not_or_cannot_run_is_refused(db: str, text: str, code: str) -> None:
    assert select(db, text).error == code


def test_a_text_that_no_row_holds_is_named_with_the_nearest(db: str) -> None:
    failed = select(db, "SELECT title FROM film WHERE title = 'Red Rivers'")
    assert (failed.outcome, failed.detail["missing"][0]["nearest"][0]) == ("empty", "Red River")


def test_values_are_found_without_case_and_accents(db: str) -> None:
    assert "person.name = 'José Núñez'" in select(db, "jose nunez", action="search").observation


def test_a_question_that_the_database_cannot_answer_is_refused(db: str, openai_server: Server) -> None:
    server = openai_server(["Thought: there are no prices\nAction: unknown(there are no prices of films)"])
    context = Context(db=db, model="openai:scripted", base_url=server.url, api_key_env="")
    answer = build_graph("sql").invoke({"question": "What did Red River cost?"}, context=context)["answer"]
    assert (answer.status, answer.values, answer.reason) == ("not_found", (), "there are no prices of films")


def test_yes_and_no_are_read_from_a_select(db: str, openai_server: Server) -> None:
    query = "query(SELECT EXISTS(SELECT 1 FROM film WHERE year = 1990))"
    reply = f"Thought: exists\nAction 1: {query}\nAction 2: execute()"
    context = Context(db=db, model="openai:scripted", base_url=openai_server([reply]).url, api_key_env="")
    answer = build_graph("sql").invoke({"question": "Is there a film of 1990?"}, context=context)["answer"]
    used = (answer.usage.calls, answer.usage.queries)  # seen, executed and proven by one run of the SELECT
    assert (answer.values, answer.text, used) == (("true",), "Yes.", (1, 1))


def test_a_text_that_is_not_stored_is_noted_where_there_is_a_row_all_the_same(
    db: str, openai_server: Server
) -> None:
    count = "query(SELECT COUNT(*) FROM film WHERE title = 'Red Rivers')"
    right = "query(SELECT COUNT(*) FROM film WHERE title = 'Red River')"
    server = openai_server([f"Thought: a\nAction 1: {q}\nAction 2: execute()" for q in (count, right)])
    context = Context(db=db, model="openai:scripted", base_url=server.url, api_key_env="")
    state = build_graph("sql").invoke({"question": "How many films are called Red River?"}, context=context)
    assert "no row has" in state["steps"][0].observation
    assert state["answer"].values == ("1",)


def test_nothing_but_null_is_no_result(db: str) -> None:
    assert select(db, "SELECT MAX(year) FROM film WHERE year > 3000").outcome == "empty"


@pytest.mark.parametrize(
    ("condition", "missing"),
    [
        ("title LIKE 'R%d%r'", []),
        ("title = 'red river' COLLATE NOCASE", []),
        ("LOWER(title) = 'red river'", []),
        ("title IN ('Red River', 'Red Rover')", ["Red Rover"]),
    ],
)
def test_patterns_and_other_capitals_are_texts_that_rows_hold(
    db: str, condition: str, missing: list[str]
) -> None:
    found = select(db, f"SELECT COUNT(*) FROM film WHERE {condition}")
    assert [m["text"] for m in found.detail.get("missing", [])] == missing
