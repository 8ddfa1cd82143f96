"""`triplewise ask --trace`: the run as a page."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.graphs.conftest import Cli
from tests.graphs.test_page import run_in
from tests.support.openai_server import OpenAIServer
from triplewise.nodes.context import Context

QUESTION = "Where was Goethe's unmarried partner born?"


def the_question(path: Path) -> dict[str, object]:
    """The one question of a page, its trace in it."""
    run = run_in(path.read_text(encoding="utf-8"))
    return {**run["trace"], "about": run["about"]}


@pytest.mark.parametrize("form", [[], ["--json"]])
def test_the_page_is_written_however_the_answer_is_printed(cli: Cli, tmp_path: Path, form: list[str]) -> None:
    path = tmp_path / "run.html"
    plain = cli("ask", QUESTION, *form)
    done = cli("ask", QUESTION, *form, "--trace", str(path))
    assert (done.code, done.err) == (0, f"the run as a page: {path}\n")
    if "--json" not in form:
        assert done.out.splitlines()[:3] == plain.out.splitlines()[:3]
    told = the_question(path)
    assert (told["question"], told["labels"]) == (QUESTION, ["Offenbach am Main"])
    assert told["memory"] == [[["Q5879", "P451", "Q96902"], ["Q96902", "P19", "Q3042"]]]
    assert told["about"] == {"kg": "demo", "model": "embedded", "preset": "agent"} | {
        "triplewise": told["about"]["triplewise"]  # type: ignore[index]
    }


@pytest.mark.parametrize(
    ("asked", "status"),
    [(["Who wrote Xyzzyplugh?"], "not_found"), ([QUESTION, "--set", "max_steps=1"], "budget_spent")],
)
def test_a_run_without_an_answer_is_shown_too(
    cli: Cli, tmp_path: Path, asked: list[str], status: str
) -> None:
    path = tmp_path / "run.html"
    assert cli("ask", *asked, "--trace", str(path)).code == 1
    told = the_question(path)
    assert told["status"] == status
    assert told["reason"]


def test_a_database_is_shown_without_its_password(
    cli: Cli, tmp_path: Path, openai_server: Callable[..., OpenAIServer]
) -> None:
    assert Context(db="postgresql://me:secret@host/db").db == "postgresql://me:***@host/db"
    with sqlite3.connect(tmp_path / "films.sqlite") as connection:
        connection.execute("create table film (title text, awards integer)")
        connection.executemany("insert into film values (?, ?)", [("Alien", 3), ("Jaws", 5)])
    connection.close()
    path = tmp_path / "run.html"
    select = "query(SELECT title FROM film WHERE awards = 5)"
    server = openai_server([f"Thought: go on\nAction: {select}", "Thought: done\nAction: execute()"])
    model = ("--model", "openai:scripted", "--base-url", server.url, "--set", "api_key_env=")
    cli(
        "ask",
        "Which film won 5 awards?",
        "--db",
        str(tmp_path / "films.sqlite"),
        *model,
        "--trace",
        str(path),
    )
    told = the_question(path)
    assert str(told["sql"]).startswith("SELECT")
    assert told["labels"] == ["Jaws"]


def test_a_bad_place_is_told_before_anything_runs(cli: Cli, tmp_path: Path) -> None:
    done = cli("ask", QUESTION, "--trace", str(tmp_path / "nowhere" / "run.html"))
    assert (done.code, done.out) == (2, "")
    assert "no folder" in done.err
    assert "make it first" in done.err


def test_a_page_is_not_written_to_a_pipe(tmp_path: Path, cli: Cli) -> None:
    os.mkfifo(pipe := tmp_path / "run.html")
    done = cli("ask", QUESTION, "--trace", str(pipe))
    assert done.code == 2
    assert "a pipe or a device" in done.err
