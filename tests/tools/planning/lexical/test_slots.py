"""Slots: the relation of that very name; else the one most like it; and nothing in the place of either."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.statements import statements
from triplewise.tools.core.rules import Rule
from triplewise.tools.kg import open_kg
from triplewise.tools.linking.linker import link
from triplewise.tools.planning.bodies import answers
from triplewise.tools.planning.lexical.statements import slot_rules
from triplewise.tools.retrieval.encoder import open_encoder


def rules_for(relation: str, topic: str, kg: str = "demo") -> tuple[Rule, ...]:
    graph = open_kg(kg, profile=None if kg == "demo" else "wikidata")
    return slot_rules(relation, link("x", graph, given={"x": topic}), graph, open_encoder("embedded"))


@pytest.mark.parametrize("relation", ["P19", "P36", "P27", "P161", "P37", "P50", "P17"])
def test_slots_made_from_facts_are_filled_with_all_their_values(relation: str) -> None:
    kg, encoder = open_kg("demo"), open_encoder("embedded")
    for statement in statements(kg, relation, 6):
        (rule,) = slot_rules(statement.slot.partition(" [SEP] ")[2], [statement.subject], kg, encoder)
        assert {kg.profile.short(v) for v in answers(kg, rule)} == statement.values


@pytest.mark.parametrize(
    ("relation", "arrow"),
    [
        ("seat of government", "-[P36]->"),  # an alias
        ("shares border with", "-[P47]->"),
    ],
)
def test_the_name_may_be_written_otherwise(relation: str, arrow: str) -> None:
    (rule, *_) = rules_for(relation, "Q419")
    assert arrow in rule.text()


@pytest.mark.parametrize("relation", ["place of birth", "capital of", "favourite colour"])
def test_no_other_relation_stands_in_for_one_that_the_entity_lacks(relation: str) -> None:
    assert rules_for(relation, "Q419") == ()


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
    (rule,) = rules_for("spouse", "Q1", graph)
    assert "<-[P26]-" in rule.text()
    assert [v.n3() for v in answers(open_kg(graph, profile="wikidata"), rule)] == [ENTITY + "Q2>"]


def test_a_mediator_is_read_through(graph: str) -> None:
    (rule,) = rules_for("position held (statement)", "Q1", graph)
    assert [v.n3() for v in answers(open_kg(graph, profile="wikidata"), rule)] == [ENTITY + "Q3>"]
