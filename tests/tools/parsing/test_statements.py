"""Claims are proved or contradicted by what the graph holds, slots filled by the relation of that name."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests.support.statements import statements
from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.linking.linker import link
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.parsing.statements import claim_readings, slot_readings
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import Encoder, open_encoder


@cache
def demo() -> tuple[KnowledgeGraph, Encoder]:
    return open_kg("demo"), open_encoder("embedded")


def readings_for(claim: str, **topic: str) -> tuple[Reading, ...]:
    kg, encoder = demo()
    given = {name.replace("_", " "): id_ for name, id_ in topic.items()}
    return claim_readings(claim, link(claim, kg, given=given), kg, encoder)


def values(kg: KnowledgeGraph, reading: Reading) -> list[str]:
    """What the program of a reading finds, as terms are written; true or false."""
    result = kg.query(PyQL.parse(reading.program, kg.profile).sparql(kg.profile))
    return [v.n3() for v in result.column(result.variables[0])] if result.rows else [str(result.boolean)]


def truth(readings: tuple[Reading, ...]) -> bool | None:
    """Whether the best reading holds on the graph; None without one."""
    return values(demo()[0], readings[0]) == ["True"] if readings else None


SINGLE = ("P19", "P36", "P20", "P57", "P38", "P86", "P50")
SEVERAL = ("P27", "P161", "P136", "P37", "P840", "P69")


@pytest.mark.parametrize("relation", [*SINGLE, *SEVERAL])
def test_no_claim_made_from_facts_is_judged_wrongly(relation: str) -> None:
    kg, encoder = demo()
    judged = [
        (s.truth, truth(claim_readings(s.text, [s.subject], kg, encoder)))
        for s in statements(kg, relation, 12)
    ]
    assert (True, False) not in judged
    assert (False, True) not in judged
    assert judged.count((True, True)) >= 9
    # Where a subject may have several values, a claim that is not there may still be true.
    assert (judged.count((False, False)) >= 6) is (relation in SINGLE)


def test_the_reading_that_proves_is_the_fact_itself() -> None:
    (reading, *_) = readings_for("The capital of Peru is Lima.", Peru="Q419")
    assert reading.program.splitlines() == ["add_fact(Q419, P36, Q2868)", "ask()"]
    assert reading.text == "yes or no: Peru -[capital]-> Lima"


@pytest.mark.parametrize(
    ("claim", "topic"),
    [
        ("Lima is a planet.", {"Lima": "Q2868"}),  # nothing excludes it
        ("The capital of Peru is Lima on the moon.", {"Peru": "Q419"}),  # says more than the fact
        ("Peru sold Lima.", {"Peru": "Q419"}),  # another relation than any between the two
    ],
)
def test_what_the_graph_does_not_say_is_left_open(claim: str, topic: dict[str, str]) -> None:
    assert readings_for(claim, **topic) == ()


def test_dates_are_compared_by_year() -> None:
    church = {"Alonzo_Church": "dbr:Alonzo_Church"}
    assert truth(readings_for("Alonzo Church was born in 1903.", **church)) is True
    assert truth(readings_for("Alonzo Church was born in 1904.", **church)) is False
    assert readings_for("Alonzo Church was born in 12 places.", **church) == ()


def test_without_a_word_for_it_the_first_name_is_the_subject() -> None:
    assert truth(readings_for("Lima is in Peru.", Lima="Q2868"))
    assert truth(readings_for("Lima is in Peru.", Peru="Q419"))
    assert truth(readings_for("Lima is in Peru.", Peru="Q419", Lima="Q2868"))
    assert readings_for("Peru is in Charles Darwin.", Peru="Q419") == ()


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
