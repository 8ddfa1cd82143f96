"""`triplewise plan`, `plan index` and `kg thin` as a person uses them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.graphs.conftest import Cli

FILMS = """\
@prefix : <http://films.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:alien rdfs:label "Alien" ; :director :scott . :aliens rdfs:label "Aliens" ; :director :cameron .
:rain rdfs:label "Black Rain" ; :director :scott . :dune rdfs:label "Dune" ; :cast :weaver .
:scott rdfs:label "Ridley Scott" . :cameron rdfs:label "James Cameron" . :weaver rdfs:label "Weaver" .
:director rdfs:label "director" .
"""


MODEL = ("--model", "openai:none", "--base-url", "http://127.0.0.1:9/v1")
"""A model that is shown a plan: to plan, it is not asked."""


@pytest.fixture
def films(tmp_path: Path) -> str:
    path = tmp_path / "films.ttl"
    path.write_text(FILMS)
    return str(path)


@pytest.fixture
def seeds(tmp_path: Path) -> str:
    rows = [
        ("who made Aliens?", "Aliens", ["James Cameron"]),
        ("who made Black Rain?", "Black Rain", ["scott"]),
    ]
    path = tmp_path / "seeds.jsonl"
    lines = [json.dumps({"question": q, "topic_entity": t, "answers": a}) for q, t, a in rows]
    path.write_text("\n".join(lines))
    return str(path)


def test_what_is_dropped_is_told_with_its_reason(cli: Cli, films: str, seeds: str) -> None:
    asked = ("plan", "who made Dune?", "--kg", films, "--seeds", seeds, *MODEL)
    told = " ".join(cli(*asked).out.split())
    assert "Dropped" in told
    assert "no grounding" in told
    assert "no grounding" in json.loads(cli(*asked, "--json").out)["dropped"][0]["reason"]


def test_plan_as_json(cli: Cli, films: str, seeds: str) -> None:
    done = cli("plan", "who made Alien?", "--kg", films, "--seeds", seeds, "--json", *MODEL)
    document = json.loads(done.out)
    first = document["rules"][0]
    assert (first["support"], first["precision"], first["recall"]) == (2, 1.0, 1.0)
    assert [a["relation"] for a in first["path"]] == ["director"]
    assert document["entities"][0]["label"] == "Alien"
    document = json.loads(cli("plan", "who is the director of Alien?", "--kg", films, "--json").out)
    assert document["rules"] == []
    first = document["readings"][0]
    assert first["text"] == "Alien -[director]-> ?director"
    assert first["program"].splitlines() == ["add_fact(alien, director, ?director)", "set_answer(?director)"]
    assert first["values"] == ["scott"]


def test_an_index_serves_later_questions(cli: Cli, films: str, seeds: str) -> None:
    assert "Support 0" not in cli("plan", "who made Alien?", "--kg", films).out
    done = cli("plan", "index", seeds, "--kg", films)
    assert done.code == 0
    assert "2 usable" in done.out
    planned = json.loads(cli("plan", "who made Alien?", "--kg", films, "--json").out)
    assert planned["readings"][0]["provenance"] == "2 seed questions"
    without = json.loads(cli("plan", "who made Alien?", "--kg", films, "--seeds", "none", "--json").out)
    assert not any("seed" in r["provenance"] for r in without["readings"])


@pytest.mark.parametrize(
    ("command", "part"),
    [
        ("plan", "Missing command"),
        ("plan index none.jsonl", "none.jsonl"),
        ("plan who --kg none.ttl", "none.ttl"),
        ("kg thin --kg none.ttl --questions none.jsonl --into x --drop 0.5", "none"),
        ("kg thin --kg demo --questions none.jsonl --into x --drop 2", "--drop"),
    ],
)
def test_errors_come_without_a_traceback(
    cli: Cli, command: str, part: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = cli(*command.split())
    assert done.code == 2
    assert part in done.err
    assert "Traceback" not in done.err


def test_a_thinned_graph_can_be_asked(cli: Cli, films: str, seeds: str, tmp_path: Path) -> None:
    thin = str(tmp_path / "thin")
    done = cli("kg", "thin", "--kg", films, "--questions", seeds, "--into", thin, "--drop", "1")
    assert done.code == 0
    assert ["dropped", "2"] in [line.split() for line in done.out.splitlines()]
    assert cli("ask", "who is the director of Alien?", "--kg", thin, "-q").out == "Ridley Scott\n"
    assert cli("ask", "who is the director of Aliens?", "--kg", thin, "-q").code in (1, 4), "not sure at best"
    again = cli("kg", "thin", "--kg", films, "--questions", seeds, "--into", thin, "--drop", "1")
    assert (again.code, "exists already" in again.err) == (2, True)
