"""`triplewise facts`, and `ask` with documents: reading, keeping, reviewing on a terminal."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.graphs.conftest import Cli, Done
from tests.support.early_frost import QUESTION, SENTENCE, film_model, write_films
from tests.support.openai_server import OpenAIServer


@pytest.fixture
def films(tmp_path: Path, openai_server: Callable[..., OpenAIServer]) -> list[str]:
    """Options of a run on a graph that does not say who directed Early Frost."""
    server = openai_server(film_model)
    named = {**write_films(tmp_path), "model": "openai:scripted", "base-url": server.url}
    own = {"--set": f"facts={named.pop('facts')}", **{f"--{name}": value for name, value in named.items()}}
    return [part for option in own.items() for part in option]


def store_of(films: list[str]) -> list[str]:
    """Options of `facts` that name graph and store of a run."""
    return ["--facts", films[1].removeprefix("facts="), *films[2:4]]


@pytest.fixture
def facts(films: list[str], cli: Cli) -> list[str]:
    """Options that name a store with one fact in it."""
    assert cli("ask", QUESTION, *films, "-q").out.startswith("Bert Boyle")
    return store_of(films)


def listed(cli: Cli, facts: list[str], *filters: str) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(cli("facts", "list", *facts, *filters, "--json").out)
    return found


def test_what_a_run_reads_is_told_and_kept(cli: Cli, films: list[str]) -> None:
    done = cli("ask", QUESTION, *films)
    assert done.code == 0, done.err
    assert f'read in Early Frost: "{SENTENCE}"' in done.out
    assert "1 of 1 from documents, not from the graph" in done.out
    document = json.loads(cli("ask", QUESTION, *films, "--json").out)
    (fact,) = document["facts"]
    assert (fact["sentence"], fact["status"]) == (SENTENCE, "proposed")
    assert document["proof"][0]["from_document"]["id"] == fact["id"]
    assert "1 of" not in document["labels"]
    assert document["text"].endswith("1 of the 1 facts that prove this was read from documents.")


def test_list_and_show(cli: Cli, facts: list[str]) -> None:
    table = cli("facts", "list", *facts).out
    assert "proposed" in table
    assert "(Early Frost, directed by, Bert Boyle)" in " ".join(table.split())
    (fact,) = listed(cli, facts)
    shown = cli("facts", "show", str(fact["id"])[:4], *facts).out
    for part in (SENTENCE, QUESTION, "by openai:scripted", "(Early Frost, directed by, Bert Boyle)"):
        assert part in " ".join(shown.split())


def test_accepted_facts_are_seen_and_rejected_ones_never_again(
    cli: Cli, films: list[str], facts: list[str]
) -> None:
    plain = [*films[:4], *films[6:8], "-q"]
    assert cli("ask", QUESTION, *plain, "--set", "overlay=accepted").code in (1, 4)  # not found, or not sure
    (fact,) = listed(cli, facts)
    assert cli("facts", "accept", str(fact["id"])[:5], *facts).out == "1 fact accepted\n"
    assert cli("facts", "accept", str(fact["id"])[:5], *facts).out == "0 facts accepted; 1 were so before\n"
    assert cli("ask", QUESTION, *plain, "--set", "overlay=accepted").out.startswith("Bert Boyle")
    assert cli("facts", "reject", "--all", "--status", "accepted", *facts).out == "1 fact rejected\n"
    assert cli("ask", QUESTION, *films, "-q").out.startswith("unknown")
    assert [f["status"] for f in listed(cli, facts)] == ["rejected"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("accept",), "which facts? give ids, or --all with filters; name facts by id, or give --all"),
        (("accept", "ab", "--all"), "which facts? give ids, or --all with filters; not both"),
        (("reject", "ab", "--text", "x"), "filters go with --all; beside ids, leave them out"),
        (("show", "zz"), "no fact has an id that begins with 'zz'"),
        (("list", "--status", "maybe"), "'maybe' is not one of"),
    ],
)
def test_errors_come_without_a_traceback(
    cli: Cli, facts: list[str], arguments: tuple[str, ...], message: str
) -> None:
    done = cli("facts", *arguments, *facts)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err


def start_on_a_terminal(*arguments: str) -> tuple[subprocess.Popen[str], int]:
    """Start a command with a terminal for its input; return the process and the terminal."""
    master, slave = pty.openpty()
    command, pipe = [sys.executable, "-m", "triplewise.graphs", *arguments], subprocess.PIPE
    process = subprocess.Popen(command, stdin=slave, stdout=pipe, stderr=pipe, text=True)
    os.close(slave)
    return process, master


def on_a_terminal(typed: str, *arguments: str) -> Done:
    """Run a command with a terminal for its input, on which something is typed."""
    process, master = start_on_a_terminal(*arguments)
    os.write(master, typed.encode())
    try:
        out, err = process.communicate(timeout=120)
    finally:
        os.close(master)
    return Done(process.returncode, out, err)


@pytest.mark.parametrize(
    ("typed", "answer", "status"),
    [("what\ny\n", "Bert Boyle", "accepted"), ("none\n", "unknown", "rejected")],
)
def test_a_person_is_asked_on_the_terminal(
    cli: Cli, films: list[str], typed: str, answer: str, status: str
) -> None:
    done = on_a_terminal(typed, "ask", QUESTION, *films, "--review", "-q")
    assert done.out.startswith(answer), done
    assert "(Early Frost, directed by, Bert Boyle)" in done.err
    assert SENTENCE in done.err
    assert [f["status"] for f in listed(cli, store_of(films))] == [status]


def test_a_person_picks_a_reading_on_the_terminal(cli: Cli) -> None:
    question = ("ask", "Where was Stanley Kubrick's wife born?", "--interactive", "-q")
    offered = on_a_terminal("0\n", *question).err
    number = next(line for line in offered.splitlines() if "United States of America" in line).split(":")[0]
    done = on_a_terminal(f"peso\n{number.strip()}\n", *question)
    assert (done.code, done.out) == (0, "United States of America\n"), done
    assert "Stanley Kubrick -[place of birth]-> ?place_of_birth" in done.err
    assert "'peso' is not a number from 0 to " in done.err
    assert on_a_terminal("\n", *question).out == "New York City\n"
    assert on_a_terminal("0\n", *question).code == 4
    assert cli(*question).code == 2  # no terminal to ask on


def test_a_run_killed_while_it_waits_for_a_person_asks_again(cli: Cli, films: list[str]) -> None:
    process, master = start_on_a_terminal("ask", QUESTION, *films, "--review", "-q")
    assert process.stderr is not None
    deadline = time.monotonic() + 60
    while "May it be used?" not in process.stderr.readline() and time.monotonic() < deadline:
        continue
    process.kill()
    process.communicate()
    os.close(master)
    done = on_a_terminal("all\n", "ask", "--resume", "-q")
    assert done.out.startswith("Bert Boyle"), done
    assert [f["status"] for f in listed(cli, store_of(films))] == ["accepted"]
