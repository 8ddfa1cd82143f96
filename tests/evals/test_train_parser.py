"""Training of the parser: sets of questions, what is taken from a graph, and a run from end to end."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from triplewise.evals import question_sets, train_parser
from triplewise.evals.train_parser import Taken, chosen, needed, without
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import open_kg
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.query import Image, Nodes
from triplewise.tools.retrieval.encoder import open_encoder


def test_a_fifth_of_every_set_is_held_out_and_never_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TRIPLEWISE_DATA", str(tmp_path))
    folder = tmp_path / "geoquery"
    folder.mkdir()
    records = [{"id": f"geo-{i}", "question": f"Question {i}?", "answers": [str(i)]} for i in range(200)]
    with gzip.open(folder / "train.jsonl.gz", "wt") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    (first,) = question_sets.question_sets(["geoquery"])
    (again,) = question_sets.question_sets(["geoquery"])
    assert (first.questions, first.held_out) == (again.questions, again.held_out)
    assert len(first.questions) + len(first.held_out) == 200
    assert 25 <= len(first.held_out) <= 55
    assert not {q.question for q in first.questions} & {q.question for q in first.held_out}
    with pytest.raises(ConfigurationError, match="unknown set"):
        list(question_sets.question_sets(["nonsense"]))


def test_what_a_query_needs_is_taken_from_the_graph() -> None:
    kg = open_kg("demo")
    index = index_for(kg, open_encoder(), "", tuple)
    capital = next(r.i for r in index.rels if r.names[0] == "capital")
    france = next(n for n in range(len(index.terms)) if index.label(n) == "France")
    relation, entity = needed(Image(((capital, 1),), Nodes(frozenset({france}))), index)
    assert (relation.is_relation, entity.is_relation) == (True, False)
    for taken in (relation, entity):
        rest = without(kg, taken)
        assert rest is not None
        ask = f"ASK {{ <{entity.iri.value}> <{relation.iri.value}> ?x }}"
        assert kg.query(ask).boolean is True
        assert rest.query(ask).boolean is False


def test_every_question_gives_one_thing_to_take_mostly_relations() -> None:
    options = (Taken(IRI("http://x/r"), True), Taken(IRI("http://x/e"), False))
    made = chosen([options] * 6 + [()], 5)
    assert {taken.is_relation: numbers for taken, numbers in made.items()} == {False: [0, 3], True: [1, 2, 4]}


def test_a_run_trains_reports_and_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(train_parser, "FOLDER", tmp_path)
    monkeypatch.setattr("triplewise.tools.learning.calibration.LEAST", 10)
    options = ["--sets", "staff,rivers", "--questions", "12", "--rounds", "1"]
    run = CliRunner().invoke(train_parser.app, options)
    assert run.exit_code == 0, run.output
    weights = json.loads((tmp_path / "weights.json").read_text("utf-8"))
    assert set(train_parser.PRIOR) <= set(weights)
    assert 0.0 < json.loads((tmp_path / "confidence.json").read_text("utf-8"))["min_confidence"] <= 1.0
