"""What only the embedded engine does, and the path search against brute force."""

from __future__ import annotations

import threading
from itertools import pairwise

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triplewise.tools.core.terms import IRI, Literal, Term, Triple, text
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.engine import Workers
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Hop, KnowledgeGraph, Outcome

EX = "http://x/"


def e(name: object) -> IRI:
    return IRI(f"{EX}{name}")


def open_turtle(turtle: str, format: ox.RdfFormat = ox.RdfFormat.TURTLE) -> EmbeddedKG:
    store = ox.Store()
    store.load(turtle.encode(), format=format, base_iri=EX)
    return EmbeddedKG(store, Profile(), "test")


def test_named_graphs_are_read_as_one() -> None:
    kg = open_turtle("<a> <p> <b> . <g> { <b> <p> <c> }", ox.RdfFormat.TRIG)
    assert kg.query("SELECT ?x { ?x <http://x/p> ?y . ?y <http://x/p> ?z }").column("x") == (e("a"),)
    assert [len(p) for p in kg.paths(e("a"), e("c")).paths] == [2]


def test_blank_nodes_are_iris_with_an_underscore() -> None:
    kg = open_turtle("<a> <p> [ <q> 1 ] .")
    (node,) = kg.query("SELECT ?x { ?y ?p ?x FILTER(isBlank(?x)) }").column("x")
    assert isinstance(node, IRI)
    assert node.value.startswith("_:")
    assert kg.labels([node]) == {}
    assert [
        len(p) for p in kg.paths(e("a"), Literal("1", "http://www.w3.org/2001/XMLSchema#integer")).paths
    ] == [2]


def test_illegal_iris_of_a_lenient_load_do_not_crash() -> None:
    store = ox.Store()
    store.bulk_load(b"<http://x/a b> <http://x/p> 1 .", format=ox.RdfFormat.TURTLE, lenient=True)
    result = EmbeddedKG(store, Profile(), "t").query("SELECT ?s { ?s ?p ?o }")
    assert result.column("s") == (IRI("http://x/a%20b"),)


def test_an_unknown_function_is_the_querys_fault(memory_kg: KnowledgeGraph) -> None:
    result = memory_kg.query("SELECT (<http://x/f>(1) AS ?y) {}")
    assert result.outcome in (Outcome.SYNTAX, Outcome.ROWS)


def test_an_unlabelled_kg_is_not_asked_twice() -> None:
    kg = EmbeddedKG(ox.Store(), Profile(label_predicates=()), "none")
    assert kg.labels([e("a")]) == {}


Edges = list[tuple[int, int, int]]
EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 1), st.integers(0, 8)), max_size=16)


@settings(deadline=None, max_examples=150)
@given(edges=EDGES, hops=st.integers(1, 4))
def test_paths_are_all_simple_paths(edges: Edges, hops: int) -> None:
    triples = {Triple(e(s), e(f"r{r}"), _node(o)) for s, r, o in edges}
    store = ox.Store()
    store.load("\n".join(t.n3() for t in triples).encode(), format=ox.RdfFormat.N_TRIPLES)
    result = EmbeddedKG(store, Profile(), "t").paths(e(0), _node(1), hops)
    expected = _brute_force(triples, e(0), _node(1), hops)
    assert set(result.paths) == expected
    assert len(result.paths) == len(expected)
    assert result.outcome is (Outcome.ROWS if expected else Outcome.EMPTY)
    assert all(len(a) <= len(b) for a, b in pairwise(result.paths))


def _node(number: int) -> Term:
    return text(str(number)) if number > 6 else e(number)


def _brute_force(triples: set[Triple], source: Term, target: Term, hops: int) -> set[tuple[Hop, ...]]:
    found: set[tuple[Hop, ...]] = set()

    def walk(node: Term, path: tuple[Hop, ...], seen: frozenset[Term]) -> None:
        if node == target:
            found.add(path)
            return
        if len(path) == hops:
            return
        for t in triples:
            for near, far, forward in ((t.subject, t.object, True), (t.object, t.subject, False)):
                if near == node and far not in seen:
                    walk(far, (*path, Hop(t, forward)), seen | {far})

    walk(source, (), frozenset((source,)))
    return found


class TestWorkers:
    def test_values_and_errors_come_back(self) -> None:
        workers = Workers()
        assert workers.run(lambda _: 42, 1) == 42
        with pytest.raises(ZeroDivisionError):
            workers.run(lambda _: 1 / 0, 1)

    def test_a_job_given_up_is_told_and_its_place_comes_back(self) -> None:
        workers, told = Workers(size=1), threading.Event()

        def job(cancelled: threading.Event) -> None:
            cancelled.wait(5)
            told.set()

        with pytest.raises(TimeoutError, match=r"0\.05 s"):
            workers.run(job, 0.05)
        assert told.wait(5)
        assert workers.run(lambda _: 1, 5) == 1

    def test_jobs_that_never_end_make_room_and_do_not_pile_up(self) -> None:
        workers, release = Workers(size=2), threading.Event()
        for _ in range(4):
            with pytest.raises(TimeoutError):
                workers.run(lambda _: release.wait(60), 0.02)
        assert workers.run(lambda _: 1, 5) == 1
        for _ in range(2):
            with pytest.raises(TimeoutError):
                workers.run(lambda _: release.wait(60), 0.02)
        with pytest.raises(TimeoutError, match="still occupy"):
            workers.run(lambda _: 1, 0.05)
        release.set()
        assert workers.run(lambda _: 1, 5) == 1
