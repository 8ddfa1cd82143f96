"""The demo KG: well-formed, fully labelled, and its questions' answers are what the gold SPARQL gives."""

from __future__ import annotations

import gzip
import json
from functools import cache
from importlib.resources import as_file, files
from typing import Any

import pyoxigraph as ox
import pytest

from triplewise.tools.kg.profile import load_profile

DATA = files("triplewise.tools.kg.demo")
ENTITY = "http://www.wikidata.org/entity/"
DIRECT = "http://www.wikidata.org/prop/direct/"
OTHER = "http://dbpedia.org/resource/"
XSD = "http://www.w3.org/2001/XMLSchema#"


def read(name: str) -> bytes:
    return gzip.decompress(DATA.joinpath(name).read_bytes())


@cache
def store() -> ox.Store:
    loaded = ox.Store()
    loaded.load(read("demo.nt.gz"), format=ox.RdfFormat.N_TRIPLES)
    return loaded


@cache
def names() -> dict[str, list[str]]:
    rows = (line.split("\t") for line in read("labels.tsv.gz").decode().splitlines())
    return {row[0]: row[1:] for row in rows}


def questions() -> list[dict[str, Any]]:
    return [json.loads(line) for line in DATA.joinpath("questions.jsonl").read_text("utf-8").splitlines()]


def short(term: Any) -> str:
    return str(term.value.removeprefix(ENTITY))


def test_size_and_shape() -> None:
    assert 3_000 <= len(store()) <= 8_000
    assert len(DATA.joinpath("demo.nt.gz").read_bytes()) < 300_000
    for quad in store():
        assert isinstance(quad.subject, ox.NamedNode)
        assert quad.subject.value.startswith((ENTITY + "Q", OTHER))
        assert quad.predicate.value.startswith(DIRECT + "P")
        if isinstance(quad.object, ox.Literal):
            assert quad.object.datatype.value in {XSD + "dateTime", XSD + "decimal", XSD + "string"}
        else:
            assert short(quad.object).startswith(("Q", OTHER))


def test_everything_is_labelled_and_nothing_else() -> None:
    used = {quad.predicate.value.removeprefix(DIRECT) for quad in store()}
    for quad in store():
        used |= {short(t) for t in (quad.subject, quad.object) if isinstance(t, ox.NamedNode)}
    assert used == set(names())
    for identifier, row in names().items():
        assert len(row) == 3, identifier
        assert row[0].strip() == row[0] != "", identifier


def test_profile_links_every_entity_and_gives_every_id_back() -> None:
    with as_file(DATA.joinpath("profile.yaml")) as path:
        profile = load_profile(path)
    for identifier in names():
        relation = identifier.startswith("P")
        iri = profile.expand(identifier, relation)
        assert iri is not None, identifier
        assert profile.expand(profile.short(iri), relation) == iri
        assert profile.linkable(iri.value) != relation


def test_both_sides_of_a_symmetric_fact() -> None:
    for relation in ("P47", "P451"):
        backward = f"SELECT ?a ?b {{ ?a <{DIRECT}{relation}> ?b MINUS {{ ?b <{DIRECT}{relation}> ?a }} }}"
        assert list(store().query(backward)) == []  # type: ignore[arg-type]


def test_questions_are_of_every_kind() -> None:
    asked = questions()
    assert len(asked) >= 50
    assert len({q["id"] for q in asked}) == len({q["question"] for q in asked}) == len(asked)
    kinds = {"paper", "1-hop", "2-hop", "3-hop", "intersection", "count", "superlative", "filter", "yes-no"}
    assert {q["kind"] for q in asked} >= kinds | {"date", "number", "type", "union", "negation", "most"}


@pytest.mark.parametrize("question", questions(), ids=lambda q: q["id"])
def test_gold_query_gives_the_answers(question: dict[str, Any]) -> None:
    for mention, entity in question["entities"].items():
        assert mention in question["question"]
        assert entity in names()
    result = store().query(question["sparql"])
    if isinstance(result, ox.QueryBoolean):
        assert question["answers"] == [str(bool(result)).lower()]
    else:
        assert isinstance(result, ox.QuerySolutions)
        assert sorted(question["answers"]) == sorted({short(row[0]) for row in result})
    assert question["answers"]


@pytest.mark.parametrize(
    ("words", "labels"),
    [
        ("both The Call of the Wild and White Fang", {"Yukon", "Canada"}),
        ("capital of the prefecture Tokyo", {"Shinjuku"}),
        ("What is the birthplace of Goethe's unmarried partner", {"Offenbach am Main"}),
        ("same category as Tropical Storm Rachel?", {"Tropical Storm Imelda"}),
        (
            "designers of the Manchester Baby",
            {"Atlas", "Ferranti Mark 1", "Ferranti Mercury", "MU5", "Manchester Mark 1"},
        ),
    ],
)
def test_the_papers_questions(words: str, labels: set[str]) -> None:
    (question,) = [q for q in questions() if words in q["question"]]
    assert {names()[answer][0] for answer in question["answers"]} == labels
