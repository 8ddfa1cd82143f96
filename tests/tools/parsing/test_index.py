"""What an index makes of a graph: relations through mediators, classes, names, and where classes lead."""

from __future__ import annotations

from pathlib import Path

import pytest

from triplewise.tools.core.terms import IRI, XSD, Literal
from triplewise.tools.kg import open_kg
from triplewise.tools.parsing.denotation import values_at
from triplewise.tools.parsing.facts import whole_facts
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.local import index_for
from triplewise.tools.parsing.relations import Relation, number
from triplewise.tools.parsing.vocabulary import Vocabulary
from triplewise.tools.retrieval.encoder import open_encoder

EX = "http://ex.org/"
FB, NAME = "http://rdf.freebase.com/ns/", "http://www.w3.org/2000/01/rdf-schema#label"
HEAD = """
@prefix : <http://ex.org/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
GRAPH = """
:Animal a rdfs:Class ; rdfs:label "animal"@en .
:Dog a rdfs:Class ; rdfs:label "dog"@en, "Hund"@de ; skos:altLabel "hound"@en ; rdfs:subClassOf :Animal .
:Cat a rdfs:Class ; rdfs:label "cat"@en ; rdfs:subClassOf :Animal .
:Person a rdfs:Class ; rdfs:label "person"@en .
:n1 a :Dog ; rdfs:label "Rex"@en ; :ownedBy :n3 ; :bornOn "2015-07-01"^^xsd:date ; :weight 30 , 32 .
:n2 a :Cat ; rdfs:label "Tom"@en, "Kater Tom"@de ; :ownedBy :n3 ;
  :bornOn "2019-01-01"^^xsd:date ; :weight 4.5 .
:n3 a :Person ; rdfs:label "Ann Lee"@en ; :livesIn :n5 ; :address [ :street "Main Street" ; :town :n5 ] .
:n4 a :Person ; rdfs:label "Bob Ray"@en ; :livesIn :n6 ; :knows :n3 .
:n5 rdfs:label "Springfield"@en .
:n6 rdfs:label "Shelbyville"@en .
:ownedBy rdfs:label "owned by"@en .
"""
JOBS = """
:Job a rdfs:Class ; rdfs:label "job"@en .
:Person a rdfs:Class ; rdfs:label "person"@en .
:Firm a rdfs:Class ; rdfs:label "firm"@en .
:p1 a :Person ; rdfs:label "Ann Lee"@en . :p2 a :Person ; rdfs:label "Bob Ray"@en .
:f1 a :Firm ; rdfs:label "Acme"@en . :f2 a :Firm ; rdfs:label "Globex"@en .
:j1 a :Job ; :worker :p1 ; :employer :f1 ; :since 2010 .
:j2 a :Job ; :worker :p2 ; :employer :f2 ; :since 2012 .
:j3 a :Job ; :worker :p2 ; :employer :f1 ; :since 2014 .
"""


def index_of(turtle: str, folder: Path) -> GraphIndex:
    (folder / "graph.ttl").write_text(HEAD + turtle, encoding="utf-8")
    kg = open_kg(folder / "graph.ttl")
    facts = whole_facts(kg)
    assert facts is not None
    return GraphIndex(facts, kg, open_encoder())


@pytest.fixture
def animals(tmp_path: Path) -> GraphIndex:
    return index_of(GRAPH, tmp_path)


def relation(index: GraphIndex, *names: str) -> Relation:
    """The relation of a path of local names, `^` before what is walked backwards."""
    path = tuple((IRI(EX + name.removeprefix("^")), name[0] != "^") for name in names)
    return next(r for r in index.rels if r.path == path)


def nodes(index: GraphIndex, *labels: str) -> frozenset[int]:
    return frozenset(i for i in range(len(index.terms)) if index.label(i) in labels)


def members(index: GraphIndex, name: str) -> set[str]:
    c = next(c for c, of in enumerate(index.classes) if name in of.names)
    return {index.label(i) for i in index.members(c)}


def test_relations_have_all_their_names_and_kinds(animals: GraphIndex) -> None:
    assert relation(animals, "ownedBy").names == ["owned by"]
    assert relation(animals, "bornOn").names == ["born on"]
    assert (relation(animals, "bornOn").kind, relation(animals, "bornOn").dtype) == ("date", "date")
    assert (relation(animals, "weight").kind, relation(animals, "livesIn").kind) == ("number", "entity")


def test_images_of_sets(animals: GraphIndex) -> None:
    owned = relation(animals, "ownedBy").i
    assert animals.apply(owned, 1, nodes(animals, "Rex")) == nodes(animals, "Ann Lee")
    assert animals.apply(owned, -1, nodes(animals, "Ann Lee")) == nodes(animals, "Rex", "Tom")
    home = animals.walk(((owned, 1), (relation(animals, "livesIn").i, 1)), nodes(animals, "Rex", "Tom"))
    assert home == nodes(animals, "Springfield")
    assert animals.apply(owned, -1, nodes(animals, "Ann Lee")) is animals.apply(
        owned, 1 - 2, nodes(animals, "Ann Lee")
    )


def test_a_number_may_have_several_values(animals: GraphIndex) -> None:
    (rex,) = nodes(animals, "Rex")
    assert values_at({rex}, ((relation(animals, "weight").i, 1),), animals)[rex] == (30, 32)
    assert relation(animals, "weight").i in animals.numeric(nodes(animals, "Rex", "Tom"))


def test_members_of_subclasses_count(animals: GraphIndex) -> None:
    assert members(animals, "animal") == {"Rex", "Tom"}
    assert members(animals, "hound") == {"Rex"}


def test_what_has_no_class_is_of_the_class_that_a_relation_implies(animals: GraphIndex) -> None:
    implied = next(of for of in animals.classes if of.steps == ((relation(animals, "livesIn").i, 1),))
    assert implied.iri is None
    assert implied.real
    assert members(animals, "lives in") == {"Springfield", "Shelbyville"}
    assert all(not animals.classes[c].real for c in animals.literal_classes)


def test_blank_nodes_are_looked_through(animals: GraphIndex) -> None:
    street = relation(animals, "address", "street")
    assert street.names[0] == "address street"
    assert {animals.label(o) for o in street.objects} == {"Main Street"}
    assert not any(len(r.path) == 1 and r.path[0][0] == IRI(EX + "address") for r in animals.rels)


def test_nodes_that_only_join_others_are_one_step(tmp_path: Path) -> None:
    jobs = index_of(JOBS, tmp_path)
    employer = relation(jobs, "^employer", "worker")
    assert employer.names == ["worker"]
    assert employer.inverse == ["employer"]
    assert jobs.apply(employer.i, 1, nodes(jobs, "Acme")) == nodes(jobs, "Ann Lee", "Bob Ray")
    since = relation(jobs, "^worker", "since")
    assert {jobs.label(i) for i in jobs.apply(since.i, 1, nodes(jobs, "Bob Ray"))} == {"2012", "2014"}


def test_a_nameless_node_beside_named_ones_is_an_end_of_its_relation(tmp_path: Path) -> None:
    named = (f':m.{k} :director :m.{k}0 . :m.{k}0 <{NAME}> "D{k}"@en .' for k in range(1, 10))
    turtle = [
        f"@prefix : <{FB}> .",
        *named,
        ":m.11 :director :m.99 . :m.12 :director :m.99 .",
        ":m.99 :born :m.13 .",
    ]
    (tmp_path / "films.ttl").write_text("\n".join(turtle), encoding="utf-8")
    kg = open_kg(tmp_path / "films.ttl", profile="freebase")
    index = GraphIndex(whole_facts(kg) or (), kg, open_encoder())
    director = next(r for r in index.rels if r.path == ((IRI(FB + "director"), True),))
    assert index.numbers_of[IRI(FB + "m.99")] in director.objects


def test_names_by_key_and_word(animals: GraphIndex) -> None:
    (ann,), (tom,) = nodes(animals, "Ann Lee"), nodes(animals, "Tom")
    assert animals.named.by_key["annlee"] == [(ann, "exact")]
    assert animals.named.by_key["katertom"] == [(tom, "exact")]
    assert ann in animals.named.by_word["lee"]
    assert animals.named.by_key["mainstreet"][0][1] == "literal"
    assert "dog" not in animals.named.by_key  # a class is no entity


def test_paths_between_classes(animals: GraphIndex) -> None:
    def of(*labels: str) -> frozenset[int]:
        return animals.sig(nodes(animals, *labels))

    owned, lives = relation(animals, "ownedBy").i, relation(animals, "livesIn").i
    assert animals.paths(of("Rex"), of("Ann Lee"))[0] == ((owned, 1),)
    assert animals.paths(of("Rex"), of("Springfield"))[0] == ((owned, 1), (lives, 1))
    assert animals.paths(of("Rex"), frozenset()) == []


def test_a_superclass_leads_where_its_subclasses_lead(animals: GraphIndex) -> None:
    animal = next(c for c, of in enumerate(animals.classes) if "animal" in of.names)
    person = next(c for c, of in enumerate(animals.classes) if "person" in of.names)
    assert animals.steps(animal)[relation(animals, "ownedBy").i, 1] == {person: 1.0}


def test_results_of_earlier_questions_are_forgotten(animals: GraphIndex) -> None:
    owned = relation(animals, "ownedBy")
    animals.apply(owned.i, 1, owned.subjects)
    assert animals.keep(frozenset(owned.subjects)) is owned.subjects
    animals.forget(most=0)
    assert not animals.cache


def test_an_index_is_made_once(tmp_path: Path) -> None:
    from triplewise.tools.retrieval.encoder import open_encoder

    (tmp_path / "graph.ttl").write_text(HEAD + GRAPH, encoding="utf-8")
    kg, encoder = open_kg(tmp_path / "graph.ttl"), open_encoder()
    index = index_for(kg, encoder, "", tuple)
    assert index_for(kg.session(), encoder, "", tuple) is index
    vectors = Vocabulary.of(index).relations.similarity(encoder.encode(["owned by"]))
    assert vectors[0].argmax() == relation(index, "ownedBy").i


def test_what_a_class_is_follows_from_examples_of_all_kinds(tmp_path: Path) -> None:
    from triplewise.tools.retrieval.encoder import open_encoder

    names = (
        "pupil",
        "composer",
        "veterinarian",
        "beekeeper",
        "concert hall",
        "harbour town",
        "horse",
        "lorry",
    )
    facts = (f':{n.replace(" ", "")} a rdfs:Class ; rdfs:label "{n}" . :a{i} a :{n.replace(" ", "")} .'
             for i, n in enumerate(names))  # fmt: skip
    (tmp_path / "graph.ttl").write_text(HEAD + "\n".join(facts), encoding="utf-8")
    index = index_for(open_kg(tmp_path / "graph.ttl"), open_encoder(), "", tuple)
    known = Vocabulary.of(index)
    classes = {name: c for c, of in enumerate(index.classes) for name in of.names}
    for wh, those in (("who", names[:4]), ("where", names[4:6])):
        like = known.classes_like(wh)
        least = min(like[classes[name]] for name in those)
        assert least > max(like[classes[name]] for name in names if name not in those)


@pytest.mark.parametrize(
    ("value", "datatype", "expected"),
    [
        ("12.5", XSD + "decimal", 12.5),
        ("1990", XSD + "gYear", 1990.0),
        ("1990-01-01", XSD + "date", 1990.0),
        ("10:30", XSD + "time", 10.5),
        ("true", XSD + "boolean", None),
        ("12", XSD + "string", None),
        ("POINT(1 2)", "http://www.opengis.net/ont/geosparql#wktLiteral", None),
    ],
)
def test_places_on_a_line(value: str, datatype: str, expected: float | None) -> None:
    assert number(Literal(value, datatype)) == expected
