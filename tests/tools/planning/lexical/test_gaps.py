"""Rules that only documents can complete: which stay, and where they stand."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.tools.core.rules import Rule
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.linking.linker import link
from triplewise.tools.planning.lexical.planner import (
    GAP,
    Plan,
    PlanSettings,
    has_gap,
    make_plan,
    share_places,
)
from triplewise.tools.planning.seeds import Seed, SeedIndex, group_seeds
from triplewise.tools.retrieval.encoder import open_encoder

TURTLE = """
@prefix ex: <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
ex:bornIn rdfs:label "born in" .
ex:anna rdfs:label "Anna Arden" ; ex:bornIn ex:oslo . ex:oslo rdfs:label "Oslo" .
ex:bert rdfs:label "Bert Boyle" ; ex:bornIn ex:rome . ex:rome rdfs:label "Rome" .
ex:f3 rdfs:label "Cold Morning" ; ex:directedBy ex:cora . ex:cora rdfs:label "Cora Cline" .
"""
BORN = [("Anna Arden", "oslo"), ("Bert Boyle", "rome")]


@pytest.fixture
def kg(tmp_path: Path) -> KnowledgeGraph:
    (tmp_path / "films.ttl").write_text(TURTLE, encoding="utf-8")
    return open_kg(tmp_path / "films.ttl")


def planned(question: str, kg: KnowledgeGraph, settings: PlanSettings) -> Plan:
    seeds = [Seed(f"Where was {n} born?", (n,), (f"<http://example.org/{a}>",)) for n, a in BORN]
    encoder = open_encoder("embedded")
    linked = link(question, kg, encoder=encoder)
    return make_plan(question, linked, kg, encoder, SeedIndex(group_seeds(seeds)), settings)


def test_with_documents_a_rule_that_leads_nowhere_stays(kg: KnowledgeGraph) -> None:
    question = "Where was Cora Cline born?"
    first = planned(question, kg, PlanSettings(documents=True)).rules[0]
    assert (first.relations, has_gap(first)) == (("bornIn",), True)
    without = planned(question, kg, PlanSettings())
    assert not any(map(has_gap, without.rules))
    assert "the graph has nothing at [bornIn]" in without.dropped[0].reason


@given(st.lists(st.booleans(), max_size=20), st.integers(1, 10))
def test_neither_kind_of_rule_takes_the_place_of_the_other(gaps: list[bool], limit: int) -> None:
    rules = [Rule(f"e{i}", (), provenance=f"seeds, {GAP}" if gap else "seeds") for i, gap in enumerate(gaps)]
    chosen = share_places(rules, limit)
    assert chosen == [r for r in rules if r in chosen], "in order"
    assert len(chosen) == min(limit, len(rules)), "no place is left empty"
    assert sum(not has_gap(r) for r in chosen) >= min(gaps.count(False), limit - limit // 2)
    assert sum(map(has_gap, chosen)) >= min(gaps.count(True), limit // 2)
