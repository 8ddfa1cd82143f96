"""What only the local engine does, and answers that are used again within one question."""

from __future__ import annotations

import pyoxigraph as ox
import pytest

from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.path_queries import find_paths
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Meter, Outcome

EX = "http://x/"


def e(name: object) -> IRI:
    return IRI(f"{EX}{name}")


def open_turtle(turtle: str, format: ox.RdfFormat = ox.RdfFormat.TURTLE) -> LocalKG:
    store = ox.Store()
    store.load(turtle.encode(), format=format, base_iri=EX)
    return LocalKG(store, Profile(), "test")


def test_named_graphs_are_read_as_one() -> None:
    kg = open_turtle("<a> <p> <b> . <g> { <b> <p> <c> }", ox.RdfFormat.TRIG)
    assert kg.query("SELECT ?x { ?x <http://x/p> ?y . ?y <http://x/p> ?z }").column("x") == (e("a"),)
    assert [len(p) for p in find_paths(kg, e("a"), e("c"), 3, 10_000).paths] == [2]


def test_a_prefix_that_is_not_declared_is_named_without_the_grammar() -> None:
    message = open_turtle("<a> <p> <b> .").query("SELECT ?x { ?x nope:p ?y }").message
    assert message.endswith("this prefix is not declared")
    assert "expected" not in message


def test_blank_nodes_are_iris_with_an_underscore() -> None:
    kg = open_turtle("<a> <p> [ <q> 1 ] .")
    (node,) = kg.query("SELECT ?x { ?y ?p ?x FILTER(isBlank(?x)) }").column("x")
    assert isinstance(node, IRI)
    assert node.value.startswith("_:")
    assert kg.labels([node]) == {}
    assert [
        len(p)
        for p in find_paths(
            kg, e("a"), Literal("1", "http://www.w3.org/2001/XMLSchema#integer"), 3, 10_000
        ).paths
    ] == [2]


BORDERS = "<http://www.wikidata.org/prop/direct/P47>"
PATTERN = f"{{ <http://www.wikidata.org/entity/Q183> {BORDERS} ?a . ?a {BORDERS} ?b . }}"


@pytest.fixture
def demo() -> KnowledgeGraph:
    return open_kg("demo")


@pytest.mark.parametrize("query", [f"SELECT DISTINCT ?a ?b WHERE {PATTERN}", f"ASK {PATTERN}"])
def test_an_answer_that_is_known_is_not_asked_for_again(demo: KnowledgeGraph, query: str) -> None:
    kg = demo.session(remember=True)
    meter = Meter(kg.meter)
    first, again = kg.query(query), kg.query(query)
    assert (first, meter.queries) == (again, 1)
    assert kg.query(query) == demo.query(query)


def test_a_cut_result_is_asked_for_again_with_another_limit(demo: KnowledgeGraph) -> None:
    query = f"SELECT DISTINCT ?a WHERE {PATTERN}"
    kg = demo.session(remember=True)
    meter = Meter(kg.meter)
    assert kg.query(query, limit=2).outcome is Outcome.TRUNCATED
    assert kg.query(query, limit=2).outcome is Outcome.TRUNCATED
    assert len(kg.query(query).rows) > 2
    assert meter.queries == 2


MIXED = (
    *('"99966202803223434377214"^^xsd:decimal', "1.5", '"NaN"^^xsd:double', "7", '"text"', '"text"@en'),
    *('"2020-01-10T10:00:00"^^xsd:dateTime', '"2020-01-10T12:00:00+13:00"^^xsd:dateTime', "<iri>"),
)
"""Values that have no one order."""


@pytest.mark.parametrize("key", ["?v", "DESC(?v)", "ASC(?v) DESC(?s)", "str(?s) ?v"])
def test_values_without_one_order_are_sorted_without_an_abort(key: str) -> None:
    facts = "".join(f"<s{i}{n}> <p> {value} ." for i in range(40) for n, value in enumerate(MIXED))
    facts += "".join(f"<n{i}> <p> {i * 7919 % 1000 - 500}.5 ; <q> {i * 7919 % 100} ." for i in range(300))
    kg = open_turtle(f"@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . {facts}")
    assert len(kg.query(f"SELECT ?s ?v {{ ?s <{EX}p> ?v }} ORDER BY {key}").rows) == 40 * len(MIXED) + 300
    numbers = kg.query(f"SELECT DISTINCT ?v {{ ?s <{EX}q> ?v }} ORDER BY DESC(?v) LIMIT 3").column("v")
    assert [number.value for number in numbers] == ["99", "98", "97"]


@pytest.mark.parametrize(
    "pattern", ["{" * 3_000, "?s ?p " + "[ ?p " * 200, "FILTER(" + "!" * 9_000, "(" * 3_000]
)
def test_a_query_that_would_overflow_the_stack_is_refused(pattern: str) -> None:
    closed = pattern.count("{") * "}" + pattern.count("[") * "]" + pattern.count("(") * ")"
    result = open_turtle("<a> <p> <b> .").query(f"SELECT * {{ {pattern} ?x {closed} }}")
    assert (result.outcome, "too long or too deep" in result.message) == (Outcome.SYNTAX, True)
