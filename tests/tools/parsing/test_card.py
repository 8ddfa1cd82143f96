"""The schema card as it is shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import open_kg
from triplewise.tools.parsing import facts
from triplewise.tools.parsing.card import SchemaCard, leading_on
from triplewise.tools.pyql.program import PyQL
from triplewise.tools.retrieval.encoder import open_encoder
from triplewise.tools.retrieval.surroundings import grouped_lines

GRAPH = """
@prefix : <http://ex.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
:Hill a rdfs:Class ; rdfs:label "hill"@en .
:h1 a :Hill ; rdfs:label "High Hill"@en ; :heightInMetres 120 ; :in :c1 ; :climbedOn "1999-01-01"^^xsd:date .
:h2 a :Hill ; rdfs:label "Low Hill"@en ; :in :c1 .
:Country a rdfs:Class ; rdfs:label "country"@en .
:c1 a :Country ; rdfs:label "Freedonia"@en .
:in rdfs:label "country"@en ; skos:altLabel "lies in"@en .
"""


@pytest.fixture
def card(tmp_path: Path) -> SchemaCard:
    (tmp_path / "hills.ttl").write_text(GRAPH, encoding="utf-8")
    return SchemaCard.of(open_kg(tmp_path / "hills.ttl"), open_encoder())


def test_classes_by_their_members(card: SchemaCard) -> None:
    found = [(of.names[0], of.members, of.sample) for of in card.classes]
    assert found == [("hill", 2, "h1"), ("country", 1, "c1")]


def test_relations_with_names_ends_and_coverage(card: SchemaCard) -> None:
    height, country = (
        next(r for r in card.relations if name in r.names) for name in ("height in metres", "lies in")
    )
    assert (height.kind, height.unit, height.facts) == ("number", "metres", 1)
    assert str(height.domains[0]) == "hill (1 of 2)"
    assert (country.domains[0].name, country.ranges[0].name, country.facts) == ("hill", "country", 2)


def test_values_are_shown_as_actions_take_them(card: SchemaCard) -> None:
    climbed = next(r for r in card.relations if "climbed on" in r.names)
    assert climbed.samples == ('"1999-01-01"^^xsd:date',)
    assert climbed.shown == ("1 January 1999",)
    assert "e.g. 1 January 1999" in str(climbed)
    assert next(r for r in card.relations if "lies in" in r.names).samples == ("c1",)


def test_the_text_is_cut_at_a_number_of_lines(card: SchemaCard) -> None:
    lines = card.text(most=1).splitlines()
    assert lines[1].strip().endswith("hill: 2")
    assert lines[2].strip() == "and 1 more"
    assert lines[-1].strip() == "and 2 more"


def test_of_a_large_graph_relations_of_a_sample_are_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(facts, "SMALL", 3)
    (tmp_path / "hills.ttl").write_text(GRAPH, encoding="utf-8")
    card = SchemaCard.of(open_kg(tmp_path / "hills.ttl"), open_encoder())
    assert (card.is_whole, card.classes) == (False, ())
    assert "  in country (lies in): 2" in card.text().splitlines()


def test_facts_lead_on_to_what_is_not_yet_shown() -> None:
    kg = open_kg(Path(__file__).with_name("company.ttl"))
    mara, department, office, country, area = (
        IRI(f"http://company.example/{name}") for name in ("mara", "Department", "office", "country", "area")
    )
    text = "add_fact(mara, works_in, ?d)\nadd_fact(?d, office, ?o)\nadd_fact(?o, country, ?c)"
    program = PyQL.parse(text, kg.profile)
    found = list(leading_on(kg, [program], [mara], [], {IRI("http://company.example/works_in"), office}))
    line = "-> works_in (works in): sales {office: Berlin office [berlin] {country: Germany [germany]}}"
    assert grouped_lines(kg, found, ["mara"]) == {"mara": [line]}
    assert list(leading_on(kg, [program], [mara], [], {f.relation for f in program.facts()})) == []
    # From the members of a class whose card is shown.
    program = PyQL.parse(
        "add_type(?d, Department)\nadd_fact(?d, office, ?o)\nadd_fact(?o, area, ?a)", kg.profile
    )
    near, far = leading_on(kg, [program], [], [department], {office, country})
    assert near.through is not None
    assert near.through.object == department
    assert (far.triple.relation, far.through) == (area, near.triple)
    assert list(leading_on(kg, [program], [], [], set())) == []
