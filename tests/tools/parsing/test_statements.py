"""Slots are filled by the relation of that name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support.statements import statements
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.linking.linker import link
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.parsing.statements import slot_readings
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import Encoder, open_encoder


@cache
def demo() -> tuple[KnowledgeGraph, Encoder]:
    return open_kg("demo"), open_encoder("embedded")


def values(kg: KnowledgeGraph, reading: Reading) -> list[str]:
    """What the program of a reading finds, as terms are written; true or false."""
    result = kg.query(PyQL.parse(reading.program, kg.profile).sparql(kg.profile))
    return [v.n3() for v in result.column(result.variables[0])] if result.rows else [str(result.boolean)]


def slots_for(relation: str, topic: str, kg: str = "demo") -> tuple[Reading, ...]:
    graph = open_kg(kg, profile=None if kg == "demo" else "wikidata")
    return slot_readings(relation, link("x", graph, given={"x": topic}), graph, open_encoder("embedded"))


@pytest.mark.parametrize("relation", ["P19", "P36", "P27", "P161", "P37", "P50", "P17"])
def test_slots_made_from_facts_are_filled_with_all_their_values(relation: str) -> None:
    kg, encoder = open_kg("demo"), open_encoder("embedded")
    for statement in statements(kg, relation, 6):
        name = statement.slot.partition(" [SEP] ")[2]
        (reading,) = slot_readings(name, [statement.subject], kg, encoder)
        expected = [iri.n3() for v in statement.values if (iri := kg.profile.expand(v)) is not None]
        assert sorted(values(kg, reading)) == sorted(expected)


@pytest.mark.parametrize(
    ("relation", "fact"),
    [
        ("seat of government", "add_fact(Q419, P36, ?"),  # an alias
        ("shares border with", "add_fact(Q419, P47, ?"),
    ],
)
def test_the_name_may_be_written_otherwise(relation: str, fact: str) -> None:
    (reading, *_) = slots_for(relation, "Q419")
    assert reading.program.startswith(fact)


@pytest.mark.parametrize("relation", ["place of birth", "capital of", "favourite colour"])
def test_no_other_relation_stands_in_for_one_that_the_entity_lacks(relation: str) -> None:
    assert slots_for(relation, "Q419") == ()


ENTITY = "<http://www.wikidata.org/entity/"
TURTLE = """
@prefix wd: <http://www.wikidata.org/entity/> . @prefix wdt: <http://www.wikidata.org/prop/direct/> .
@prefix p: <http://www.wikidata.org/prop/> . @prefix ps: <http://www.wikidata.org/prop/statement/> .
@prefix pq: <http://www.wikidata.org/prop/qualifier/> .
@prefix wds: <http://www.wikidata.org/entity/statement/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
wd:P26 rdfs:label "spouse"@en . wd:P39 rdfs:label "position held"@en . wd:P580 rdfs:label "start time"@en .
wd:Q1 rdfs:label "Ann"@en . wd:Q2 rdfs:label "Ben"@en . wd:Q3 rdfs:label "mayor"@en .
wd:Q2 wdt:P26 wd:Q1 . wd:Q1 p:P39 wds:a . wds:a ps:P39 wd:Q3 ; pq:P580 "2001" .
"""


@pytest.fixture
def graph(tmp_path: Path) -> str:
    couples = "".join(
        f"wd:Q{i} wdt:P26 wd:Q{i + 1} . wd:Q{i + 1} wdt:P26 wd:Q{i} .\n" for i in range(10, 30, 2)
    )
    file = tmp_path / "graph.ttl"
    file.write_text(TURTLE + couples, encoding="utf-8")
    return str(file)


def test_a_relation_that_goes_both_ways_is_read_from_its_other_end(graph: str) -> None:
    (reading,) = slots_for("spouse", "Q1", graph)
    assert ", P26, Q1)" in reading.program
    assert values(open_kg(graph, profile="wikidata"), reading) == [ENTITY + "Q2>"]


def test_a_mediator_is_read_through(graph: str) -> None:
    (reading,) = slots_for("position held (statement)", "Q1", graph)
    assert values(open_kg(graph, profile="wikidata"), reading) == [ENTITY + "Q3>"]
