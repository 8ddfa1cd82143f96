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


def test_profile_links_every_entity_and_gives_every_id_back() -> None:
    with as_file(DATA.joinpath("profile.yaml")) as path:
        profile = load_profile(path)
    for identifier in names():
        relation = identifier.startswith("P")
        iri = profile.expand(identifier, relation)
        assert iri is not None, identifier
        assert profile.expand(profile.short(iri), relation) == iri
        assert profile.linkable(iri.value) != relation


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
