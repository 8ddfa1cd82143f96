"""What is around an entity: relations that fit the question, their direction, and values with ids."""

from __future__ import annotations

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.protocol import Meter
from triplewise.tools.retrieval.encoder import open_encoder
from triplewise.tools.retrieval.surroundings import VALUES, NearbyFact, grouped_lines, surroundings

GERMANY = IRI("http://www.wikidata.org/entity/Q183")


def test_the_fitting_relation_comes_first_with_values_and_ids() -> None:
    kg = open_kg("demo")
    facts = surroundings(kg, "What is the capital of Germany?", [GERMANY], open_encoder())
    lines = grouped_lines(kg, facts, ["Q183"])["Q183"]
    assert any(line.startswith("-> P36 (capital): Berlin [Q64]") for line in lines[:3])
    assert any(line.startswith("<- P17 (country): ") and line.endswith(", ...") for line in lines)
    assert all(line.count(" [Q") <= VALUES for line in lines)


def test_an_entity_costs_few_queries() -> None:
    kg, encoder = open_kg("demo"), open_encoder()
    surroundings(kg, "What is the capital of Germany?", [GERMANY], encoder)
    meter = Meter(kg.meter)
    surroundings(kg, "Which cities are in Germany?", [GERMANY], encoder)
    assert meter.queries <= 3


def test_facts_that_touch_no_topic_are_left_out() -> None:
    kg = open_kg("demo")
    fact = kg.neighbours(IRI("http://www.wikidata.org/entity/Q90")).triples[0]
    assert grouped_lines(kg, [NearbyFact(fact)], ["Q183"]) == {}


def test_facts_that_lead_on_from_each_other_are_shown_once() -> None:
    kg = open_kg("demo")
    there, back = kg.neighbours(GERMANY).triples[:2]
    facts = [NearbyFact(there, through=back), NearbyFact(back, through=there)]
    lines = grouped_lines(kg, facts, ["Q183"])["Q183"]
    assert len(lines) == 2
    assert all(line.count("{") == 1 for line in lines)
