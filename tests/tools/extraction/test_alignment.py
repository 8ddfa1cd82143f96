"""Triples from text in a KG's own terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from tests.support.cinema import iri, write_cinema
from triplewise.tools.core.facts import ExtractedFact, Passage, RawTriple
from triplewise.tools.core.terms import IRI, XSD, Literal, Triple
from triplewise.tools.extraction.alignment import align
from triplewise.tools.extraction.resolution import MINTED, mint, resolve
from triplewise.tools.kg import KnowledgeGraph, open_kg

BASE = "http://example.org/"
PLACE = Passage("The text.", "A page", "page.txt")


@pytest.fixture(scope="module")
def kg(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KnowledgeGraph]:
    opened = open_kg(write_cinema(tmp_path_factory.mktemp("alignment")))
    yield opened
    opened.close()


def raw(subject: str, relation: str, obj: str, confidence: float = 0.9) -> RawTriple:
    words = relation.split()  # "birth place" -> birthPlace
    id_ = BASE + words[0] + "".join(map(str.title, words[1:]))
    return RawTriple(subject, id_, obj, "The text.", PLACE, confidence)


def one(kg: KnowledgeGraph, subject: str, relation: str, obj: str) -> ExtractedFact:
    (fact,) = align([raw(subject, relation, obj)], kg, "Who?", "a model")
    return fact


def triple(subject: str, relation: str, obj: str | Literal) -> Triple:
    end = IRI(iri(obj)) if isinstance(obj, str) else obj
    return Triple(IRI(iri(subject)), IRI(BASE + relation), end)


def test_names_and_labels_become_the_graphs_terms(kg: KnowledgeGraph) -> None:
    fact = one(kg, "red harbor", "directed by", "“Eva Stein”")
    assert fact.triple == triple("Red Harbor", "directedBy", "Eva Stein")
    assert (fact.question, fact.document, fact.source) == ("Who?", "A page", "page.txt")
    assert (fact.sentence, fact.reader, fact.status, fact.labels) == ("The text.", "a model", "proposed", {})
    assert fact.time.endswith("+00:00")
    assert fact.confidence == pytest.approx(0.9)


def test_a_triple_worded_from_its_object_is_turned_around(kg: KnowledgeGraph) -> None:
    assert one(kg, "Eva Stein", "directed by", "Red Harbor").triple == triple(
        "Red Harbor", "directedBy", "Eva Stein"
    )
    assert one(kg, "Lima", "birth place", "Eva Stein").triple == triple("Eva Stein", "birthPlace", "Lima")


def test_a_new_entity_has_one_id_however_it_is_written(kg: KnowledgeGraph) -> None:
    fact = one(kg, "Red Harbor", "directed by", "Zoë Quist")
    assert isinstance(fact.triple.object, IRI)
    assert fact.triple.object == mint("zoe  QUIST")
    assert fact.triple.object.value.startswith(MINTED)
    assert fact.labels == {fact.triple.object.value: "Zoë Quist"}
    assert fact.confidence < 0.9
    short = kg.profile.short(fact.triple.object)
    assert [n.node for n in resolve(kg, [short])[short]] == [fact.triple.object]
    assert align([raw("Red Harbor", "directed by", "somebody else")], kg, "", "x") == (), "no name"


def test_a_node_of_another_kind_is_another_entity(kg: KnowledgeGraph) -> None:
    fact = one(kg, "Red Harbor", "directed by", "Lima")
    assert fact.triple.object == mint("Lima"), "the graph's Lima is a town"


def test_values_become_literals_of_the_relations_range(kg: KnowledgeGraph) -> None:
    year = one(kg, "Red Harbor", "release year", "May 3, 1987")
    assert year.triple.object == Literal("1987", XSD + "gYear")
    people = one(kg, "Lima", "population", "1.2 million")
    assert people.triple.object == Literal("1200000", XSD + "integer")
    assert align([raw("Lima", "population", "many")], kg, "", "x") == ()


def test_conflicts_with_functional_relations_are_flagged(kg: KnowledgeGraph) -> None:
    assert one(kg, "Red Harbor", "directed by", "Eva Stein").conflicts == (
        "(Red Harbor, directed by, Ann Lee)",
    )
    assert one(kg, "Red Harbor", "starring", "Eva Stein").conflicts == (), "it has two of them"
    assert one(kg, "Red Harbor", "release year", "1987").conflicts == ("(Red Harbor, release year, 1990)",)


def test_a_triple_read_twice_is_one_fact_of_the_surer_sentence(kg: KnowledgeGraph) -> None:
    weak = raw("Red Harbor", "directed by", "Eva Stein", 0.6)
    strong = replace(raw("Eva Stein", "directed by", "Red Harbor", 0.8), sentence="Other.")
    (fact,) = align([weak, strong], kg, "", "x")
    assert (fact.sentence, fact.confidence) == ("Other.", 0.8)


TEXT = st.one_of(
    st.text(max_size=20), st.sampled_from(["Red Harbor", "Eva Stein", "1987", "directed by", "<x>", "m.1"])
)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(TEXT, TEXT, TEXT, st.floats(0, 1)), max_size=4))
def test_never_raises_and_keeps_provenance(
    kg: KnowledgeGraph, parts: list[tuple[str, str, str, float]]
) -> None:
    for fact in align([RawTriple(*p[:3], "The text.", PLACE, p[3]) for p in parts], kg, "q", "r"):
        assert fact.sentence == "The text."
        assert 0 <= fact.confidence <= 1
        assert fact.triple.relation.value.startswith("http")
        minted = [t.value for t in (fact.triple.subject, fact.triple.object) if t.value.startswith(MINTED)]
        assert set(minted) == set(fact.labels)
