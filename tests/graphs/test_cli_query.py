"""A graph by hand and questions by the file: `triplewise query`, `triplewise ask --file`."""

from __future__ import annotations

import csv
import json
import re
import shlex
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.openai_server import OpenAIServer
from triplewise.graphs.around import ServedGraph
from triplewise.graphs.cli.app import run
from triplewise.graphs.cli.batch import COLUMNS, read_questions
from triplewise.nodes.state import Answer, State
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.reading import Reading

CAPITAL = "SELECT ?city { wd:Q17 wdt:P36 ?city }"


def test_a_query_shows_labels(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert run(["query", CAPITAL]) == 0
    assert "Tokyo (Q1490)" in capsys.readouterr().out
    file = tmp_path / "capital.rq"
    file.write_text(CAPITAL, encoding="utf-8")
    assert run(["query", str(file), "--csv"]) == 0
    assert capsys.readouterr().out.splitlines() == ["city,city_label", "Q1490,Tokyo"]
    assert run(["query", CAPITAL, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"][0]["city"]["label"] == "Tokyo"


def test_a_monstrous_cell_is_cut_where_people_read(capsys: pytest.CaptureFixture[str]) -> None:
    query = f'SELECT ?long {{ wd:Q17 wdt:P36 ?c BIND("{"x" * 100_000}" AS ?long) }}'
    assert run(["query", query]) == 0
    assert 2_000 <= capsys.readouterr().out.count("x") < 2_100
    assert run(["query", query, "--csv"]) == 0
    assert capsys.readouterr().out.count("x") >= 100_000


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        ("ASK { wd:Q17 wdt:P36 wd:Q1490 }", 0, "Yes"),
        ("ASK { wd:Q17 wdt:P36 wd:Q64 }", 1, "No"),
        ("DELETE WHERE { ?s ?p ?o }", 2, "would change"),
        ("SELECT ?x {", 2, "not valid SPARQL"),
        ("nowhere.rq", 2, "neither a query nor a file"),
        ("SELECT ?x { ?x wdt:P36 wdt:P36 }", 1, "no result"),
    ],
)
def test_what_a_query_may_be(query: str, code: int, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["query", query]) == code
    shown = capsys.readouterr()
    assert message in shown.out + shown.err


def test_a_file_of_questions_becomes_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "q.csv", tmp_path / "a.csv"
    file.write_text(
        'id,question\na,Who wrote Dracula?\nb,"What is the capital, of Atlantis?"\n', encoding="utf-8"
    )
    assert run(["ask", "--file", str(file), "--out", str(out), "--jobs", "2"]) == 0
    with out.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert tuple(rows[0]) == COLUMNS
    assert [(r["id"], r["status"], r["answer"]) for r in rows] == [
        ("a", "answered", "Bram Stoker"),
        ("b", "not_found", ""),
    ]
    assert "SELECT" in rows[0]["query"]
    assert (rows[0]["values"], rows[0]["iris"]) == ("Q36184", "http://www.wikidata.org/entity/Q36184")
    assert not list(tmp_path.glob("*.part"))


def test_a_batch_goes_on_where_it_was_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = tmp_path / "q.txt", tmp_path / "a.jsonl"
    file.write_text("Who wrote Dracula?\nWhat is the capital of Japan?\n", encoding="utf-8")
    done = dict.fromkeys(COLUMNS) | {
        "id": "1",
        "question": "Who wrote Dracula?",
        "status": "answered",
        "answer": "kept",
    }
    part = tmp_path / "a.jsonl.part"
    part.write_bytes(json.dumps(done).encode() + b'\n{"id": "1\xff"}\n{"id": "2", "quest')
    assert run(["ask", "--file", str(file), "--out", str(out)]) == 0
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [r["answer"] for r in records] == ["kept", "Tokyo"]
    assert "going on" in capsys.readouterr().err


def test_a_row_that_cannot_be_asked_fails_alone_and_columns_are_kept(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file, out = tmp_path / "q.csv", tmp_path / "a.csv"
    file.write_text(f"question;topic\nWho wrote Dracula?;=1+1\n{'x' * 60_000};long\n", encoding="utf-8")
    assert run(["ask", "--file", str(file), "--out", str(out)]) == 3
    with out.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [(r["status"], r["answer"], r["topic"]) for r in rows] == [
        ("answered", "Bram Stoker", "'=1+1"),
        ("failed", "", "long"),
    ]
    assert run(["ask", "--file", str(file), "--out", str(out)]) == 2
    assert "is there already" in capsys.readouterr().err
    assert run(["ask", "--file", str(file), "--out", str(out), "--overwrite"]) == 3


WHO = "Who wrote Dracula?"


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("q.csv", f"id,question\n0,Who wrote it, then?\n7,{WHO}\n", [("0", "failed"), ("7", "answered")]),
        ("q.csv", f"question\nWho, then, wrote Ulysses?\n{WHO}\n", [("2", "not_found"), ("3", "answered")]),
        ("q.csv", f'question;"a,b,c"\n;\n{WHO};x\n', [("2", "failed"), ("3", "answered")]),
        ("q.csv", f"id,note,question\n1\n2,x,{WHO}\n", [("1", "failed"), ("2", "answered")]),
        (
            "q.jsonl",
            f'{{"id": 0, "question": "{WHO}"}}\n{{"question": 5}}\n',
            [("0", "answered"), ("2", "failed")],
        ),
    ],
)
def test_a_row_is_read_whole_or_fails_alone(
    name: str, text: str, wanted: list[tuple[str, str]], tmp_path: Path
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    out = tmp_path / "folder" / "a.jsonl"
    run(["ask", "--file", str(tmp_path / name), "--out", str(out)])
    rows = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert [(row["id"], row["status"]) for row in rows] == wanted
    assert all(row["reason"] for row in rows if row["status"] != "answered")


def test_columns_named_like_ours_are_kept_and_no_formula_is_run(tmp_path: Path) -> None:
    file, out = tmp_path / "q.csv", tmp_path / "a.csv"
    file.write_text(f"question,answer,note,=1+1\n{WHO},gold,a,-1+1\n{WHO},-1.5,a,＝1\n", encoding="utf-8")
    (tmp_path / "a.csv.part").write_bytes(b'null\n{"id": [], "question": 5}\n' + b"[" * 100_000)
    assert run(["ask", "--file", str(file), "--out", str(out)]) == 0
    with out.open(encoding="utf-8", newline="") as lines:
        rows = list(csv.DictReader(lines))
    assert [(r["answer"], r["input_answer"], r["note"]) for r in rows] == [
        ("Bram Stoker", "gold", "a"),
        ("Bram Stoker", "-1.5", "a"),
    ]
    assert [row["'=1+1"] for row in rows] == ["'-1+1", "'＝1"]


def test_what_a_model_refuses_of_one_question_ends_no_batch(
    tmp_path: Path, openai_server: Callable[..., OpenAIServer]
) -> None:
    def reply(messages: Any) -> Any:
        text = messages[-1]["content"]
        if "Ulysses" in text:
            return {"error": "this input cannot be processed", "status": 422}
        return "Action 1: search(Dracula)" if "Observation 1" not in text else "Action 2: finish()"

    server, file = openai_server(reply), tmp_path / "q.txt"
    file.write_text(f"Who wrote Ulysses?\n{WHO}\n", encoding="utf-8")
    asking = ["ask", "--file", str(file), "--model", "openai:scripted", "--base-url", server.url]
    run([*asking, "--out", str(tmp_path / "a.jsonl"), "--set", "max_steps=2"])
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text(encoding="utf-8").splitlines()]
    assert [row["status"] == "failed" for row in rows] == [True, False]
    assert "cannot be processed" in rows[0]["reason"]
    file.write_text("Who wrote Ulysses?\n", encoding="utf-8")
    assert run(asking) == 2


@pytest.mark.parametrize(
    ("name", "text", "arguments", "message"),
    [
        ("q.csv", "text\nWho?\n", [], "column or key `question`"),
        ("q.txt", "\n\n", [], "holds no question"),
        ("q.txt", "Who?\n", ["--out", "a.xls"], "must end in"),
        ("q.txt", "Who?\n", ["--out", f"{'x' * 300}.csv"], "cannot be written: File name too long"),
        ("q.txt", "Who?\n", ["--trace", "t.html"], "--file goes without"),
    ],
)
def test_a_batch_that_cannot_be(
    name: str,
    text: str,
    arguments: list[str],
    message: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = tmp_path / name
    file.write_text(text, encoding="utf-8")
    assert run(["ask", "--file", str(file), *arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_configuration_file_sets_what_options_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "[settings]\nmin_confidence = 1.0\n"
    (tmp_path / "triplewise.toml").write_text(text, encoding="utf-8")
    assert run(["ask", "-q", "Who wrote Dracula?"]) == 4
    assert run(["ask", "-q", "Who wrote Dracula?", "--set", "min_confidence=0"]) == 0
    (tmp_path / "triplewise.toml").write_text("[settings]\nmax_stpes = 3\n", encoding="utf-8")
    assert run(["ask", "Who wrote Dracula?"]) == 2
    assert "did you mean 'max_steps' or" in capsys.readouterr().err
    (tmp_path / "triplewise.toml").write_text("[settings]\nkg = 2020-01-01\n", encoding="utf-8")
    assert run(["ask", "Who wrote Dracula?"]) == 2
    assert "is read as a date" in capsys.readouterr().err


def test_a_database_is_asked_by_hand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shop = tmp_path / "shop.sqlite"
    with closing(sqlite3.connect(shop)) as connection:
        connection.execute("CREATE TABLE products (name, price)")
        connection.execute("INSERT INTO products VALUES ('Kettle', 25)")
        connection.commit()
    asked = ["query", "SELECT name, price FROM products", "--db", str(shop)]
    assert run([*asked, "--csv"]) == 0
    assert capsys.readouterr().out.split() == ["name,price", "Kettle,25"]
    assert run([*asked, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == [{"name": "Kettle", "price": "25"}]
    for statement, part in (
        ("DELETE FROM products", "only a SELECT"),
        ("SELECT nme FROM products", "nearest: products.name"),
    ):
        assert run(["query", statement, "--db", str(shop)]) == 2
        assert part in capsys.readouterr().err
    assert run(["ask", "What does the Kettle cost?", "--db", str(shop)]) == 2
    assert "its file is read as a graph: give it as `kg`" in capsys.readouterr().err
    assert run(["ask", "What is the price of the Kettle?", "--kg", str(shop), "-q"]) == 0
    assert capsys.readouterr().out == "25\n"
    assert run(["kg", "load", str(shop), "--into", str(tmp_path / "loaded")]) == 2
    assert f"ask it as it is, with --kg {shop} or --db {shop}" in capsys.readouterr().err


@pytest.mark.parametrize("status", ["unsure", "not_found"])
def test_the_relation_that_was_read_gets_the_name(status: Any) -> None:
    """Where a relation of something else was read, only what is not found gets help, of the nearest one."""
    served = ServedGraph.open("agent", {"kg": "demo"})
    linked = LinkedEntity("Marie Curie", 26, 37, "Q7186", "Marie Curie", 1.0)

    def help_of(read: str) -> tuple[list[str], list[str]]:
        reading = Reading("", f"Marie Curie -[{read}]-> ?x", 0.0, 0.5, uncovered=("profession",))
        about: Any = {"linked": (linked,), "readings": (reading,), "answer": Answer(status)}
        held = served.held(State(question="What is the profession of Marie Curie?", **about))
        assert held is not None
        names = [shlex.split(cure.command)[3] for cure in held.cures if "kg name" in cure.command]
        return names, [relation.label for relation in held.entities[0].relations]

    names, relations = help_of("owner")
    assert names == ([] if status == "unsure" else relations[:1])
    assert help_of(relations[-1])[0] == relations[-1:]


def test_help_is_shown_where_the_answer_is_not_sure(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "Who wrote Dracula?", "--set", "min_confidence=1"]) == 4
    assert "What the graph holds about Dracula" in capsys.readouterr().out


def test_json_ld_is_read_and_no_context_fetched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    label = "http://www.w3.org/2000/01/rdf-schema#label"
    context = {"label": label, "price": "http://e.org/price"}
    node = {"@id": "http://e.org/kettle", "label": "Red Kettle", "price": 25}
    own, remote = tmp_path / "shop.jsonld", tmp_path / "remote.jsonld"
    own.write_text(json.dumps({"@context": context, **node}), encoding="utf-8")
    remote.write_text(json.dumps({"@context": "https://schema.org/", **node}), encoding="utf-8")
    assert run(["ask", "What is the price of the Red Kettle?", "--kg", str(own), "-q"]) == 0
    assert capsys.readouterr().out == "25\n"
    assert run(["ask", "Who?", "--kg", str(remote)]) == 2
    assert "write the context into the file" in capsys.readouterr().err


def test_where_nothing_is_found_the_graph_says_what_it_holds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    question = "What is the zodiac sign of Marie Curie?"
    assert run(["ask", question]) in (1, 4)
    shown = " ".join(capsys.readouterr().out.split())
    assert "What the graph holds about Marie Curie" in shown
    assert "--seeds FILE" in shown
    assert run(["ask", "What does Marie Curie taste like?"]) == 1
    assert 'is what you call "taste", add the name' in capsys.readouterr().out
    command = re.search(r"triplewise (kg name .*?) Or write", shown)
    assert command is not None
    typed = shlex.split(command[1])
    assert run(typed) == 0
    assert "is also called" in capsys.readouterr().err
    assert run(["kg", "name", "Place of Birth", "x"]) == 2
    assert run(["kg", "name", "place of birth", "x"]) == 0
    assert capsys.readouterr().err.count("P19 is also called 'x'") == 1
    kept = (tmp_path / "triplewise" / "names.jsonl").read_text().splitlines()
    assert json.loads(kept[0])["name"] == typed[3]


def test_two_columns_of_one_name_are_both_kept(tmp_path: Path) -> None:
    (file := tmp_path / "asked.csv").write_text("question,note,note\nWho wrote Dracula?,a,b\n")
    (row,) = read_questions(str(file))
    assert (row["note"], row["note_2"]) == ("a", "b")
