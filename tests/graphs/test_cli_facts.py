"""`triplewise facts`, and `ask` with documents: reading, keeping, reviewing on a terminal."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.graphs.conftest import Cli
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


def listed(cli: Cli, facts: list[str], *filters: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cli("facts", "list", *facts, *filters, "--json").out)
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


def test_what_is_listed(cli: Cli, facts: list[str]) -> None:
    table = cli("facts", "list", *facts).out
    assert "proposed" in table
    assert "(Early Frost, directed by, Bert Boyle)" in " ".join(table.split())
    (fact,) = listed(cli, facts)
    assert SENTENCE in " ".join(table.split())
    assert (fact["status"], fact["readings"][0]["question"]) == ("proposed", QUESTION)


def test_accepted_facts_are_seen_and_rejected_ones_never_again(
    cli: Cli, films: list[str], facts: list[str]
) -> None:
    plain = [*films[:4], *films[6:8], "-q"]
    assert cli("ask", QUESTION, *plain, "--set", "overlay=accepted").code in (1, 4)  # not found, or not sure
    (fact,) = listed(cli, facts)
    assert cli("facts", "accept", str(fact["id"])[:5], *facts).out == "1 fact accepted\n"
    assert cli("facts", "accept", str(fact["id"])[:5], *facts).out == "0 facts accepted; 1 were so before\n"
    assert cli("ask", QUESTION, *plain, "--set", "overlay=accepted").out.startswith("Bert Boyle")
    assert cli("facts", "reject", str(fact["id"]), *facts).out == "1 fact rejected\n"
    assert cli("ask", QUESTION, *films, "-q").out.startswith("unknown")
    assert [f["status"] for f in listed(cli, facts)] == ["rejected"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("accept",), "Missing argument 'ID...'"),
        (("reject", "zz"), "no fact has an id that begins with 'zz'"),
    ],
)
def test_errors_come_without_a_traceback(
    cli: Cli, facts: list[str], arguments: tuple[str, ...], message: str
) -> None:
    done = cli("facts", *arguments, *facts)
    assert done.code == 2
    assert message in done.err
    assert "Traceback" not in done.err
