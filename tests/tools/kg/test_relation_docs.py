"""Texts of relations: fetched for many at once, and only once."""

from __future__ import annotations

from dataclasses import replace

import pyoxigraph as ox
import pytest

from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile, RelationText
from triplewise.tools.kg.protocol import Meter
from triplewise.tools.kg.vocabulary import ALIASES, relation_descriptions, relation_texts

EX = "http://example.org/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"
PROFILE = Profile(
    entity_namespaces=(EX,),
    relation_namespaces=(EX,),
    alias_predicates=(EX + "alias", EX + "alsoCalled"),
    language="en",
    relations={"born": RelationText("place of birth", aliases=("born in",), object_type="place")},
)
TEXTS = f"""
<{EX}made> <{LABEL}> "created by"@en ; <{EX}alias> "made by"@en, "fait par"@fr, "maker" .
<{EX}made> <{EX}alsoCalled> "creator"@en .
<{EX}born> <{EX}alias> "born in"@en, "birthplace"@en .
"""


@pytest.fixture
def kg() -> LocalKG:
    store = ox.Store()
    many = "".join(
        f'<{EX}r{i}> <{LABEL}> "relation number {i}"@en ; <{EX}alias> "no. {i}" .\n' for i in range(50)
    )
    wordy = "".join(f'<{EX}wordy> <{EX}alias> "word {i}" .\n' for i in range(3 * ALIASES))
    store.load((TEXTS + many + wordy).encode(), format=ox.RdfFormat.TURTLE)
    return LocalKG(store, PROFILE, "texts")


def test_labels_and_aliases_of_many_cost_one_query_each(kg: LocalKG) -> None:
    names = [f"r{i}" for i in range(50)]
    meter = Meter(kg.meter)
    texts = relation_texts(kg, names)
    assert meter.queries <= 2
    assert list(texts) == names
    assert (texts["r7"].label, texts["r7"].aliases) == ("relation number 7", ("no. 7",))


def test_aliases_of_the_language_or_of_none(kg: LocalKG) -> None:
    made = relation_texts(kg, ["made"])["made"]
    assert made.label == "created by"
    assert set(made.aliases) == {"made by", "maker", "creator"}


def test_the_profile_speaks_first_and_is_not_repeated(kg: LocalKG) -> None:
    born = relation_texts(kg, ["born"])["born"]
    assert (born.label, born.object_type) == ("place of birth", "place")
    assert born.aliases == ("born in", "birthplace")


def test_descriptions_are_those_of_the_language(kg: LocalKG) -> None:
    describes = EX + "about"
    store = ox.Store()
    facts = f"""
    <{EX}made> <{describes}> "que fait"@fr, "who made it"@en .
    <{EX}r1> <{describes}> "the first" .
    """
    store.load(facts.encode(), format=ox.RdfFormat.TURTLE)
    described = LocalKG(store, replace(PROFILE, description_predicates=(describes,)), "described")
    meter = Meter(described.meter)
    texts = relation_descriptions(described, ["made", "r1", "r2", "no such:relation"])
    assert texts == {"made": "who made it", "r1": "the first"}
    assert meter.queries == 1
    assert relation_descriptions(kg, ["made"]) == {}
