"""Subclass closures are written out without changing what a query means."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.endpoint import find_closures, list_subclasses
from triplewise.tools.kg.engine import read_query
from triplewise.tools.kg.profile import load_profile

P = "PREFIX e: <http://e/>\n"
GRAPH = b"""
@prefix e: <http://e/> .
e:lake e:sub e:water . e:crater e:sub e:lake . e:loop e:sub e:crater . e:crater e:sub e:loop .
e:a e:is e:lake . e:b e:is e:crater . e:c e:is e:water . e:d e:is e:hill .
e:a e:in e:x . e:b e:in e:x . e:d e:in e:x .
"""


@pytest.fixture
def kg() -> EmbeddedKG:
    store = ox.Store()
    store.load(GRAPH, format=ox.RdfFormat.TURTLE)
    return EmbeddedKG(store, load_profile("generic"), "classes")


@pytest.mark.parametrize(
    "group",
    [
        "?x e:is/e:sub* e:lake .",
        "?x e:in e:x . ?x e:is/e:sub* e:water .",
        "?x e:in e:x . ?x e:is ?t . ?t e:sub* e:lake",
        "{ ?x e:is/e:sub* e:lake . } UNION { ?x e:is/e:sub* e:hill . }",
        "?x e:in e:x . FILTER NOT EXISTS { ?x e:is/e:sub* e:lake . }",
        "?x e:is/e:sub* e:nothing .",
    ],
)
def test_same_answers_without_the_closure(kg: EmbeddedKG, group: str) -> None:
    query = read_query(f"{P}SELECT DISTINCT ?x WHERE {{ {group} }}")
    plain = list_subclasses(query, kg.query)
    assert "*" not in plain.text
    assert set(kg.query(plain.text).rows) == set(kg.query(query.text).rows)


@pytest.mark.parametrize(
    "group", ["?x e:is/e:sub* ?class .", "?x e:is e:lake .", 'FILTER("?x e:is/e:sub* e:lake ." = ?y)']
)
def test_nothing_else_is_touched(kg: EmbeddedKG, group: str) -> None:
    query = read_query(f"{P}SELECT DISTINCT ?x WHERE {{ ?x e:in ?y . {group} }}")
    assert not list(find_closures(query))
    assert list_subclasses(query, kg.query) is query


def test_a_closure_that_cannot_be_had_stays(kg: EmbeddedKG) -> None:
    query = read_query(f"{P}SELECT DISTINCT ?x WHERE {{ ?x e:is/e:sub* e:lake . }}")
    assert list_subclasses(query, lambda _text: kg.query("SELECT nonsense")) is query
