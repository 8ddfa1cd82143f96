"""The search for paths: the same set as an exhaustive one, hubs or not, unless it says that it was cut."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterator, Sequence
from itertools import pairwise
from unittest.mock import patch

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.kg import pathsearch
from triplewise.tools.kg.bounded import Deadline
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.pathsearch import Edge
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Hop, Outcome

Edges = list[tuple[int, int, int]]
EDGES = st.lists(st.tuples(st.integers(0, 7), st.integers(0, 1), st.integers(0, 7)), max_size=22)


def e(name: object) -> IRI:
    return IRI(f"http://e/{name}")


def graph(edges: Edges) -> tuple[EmbeddedKG, set[Triple]]:
    triples = {Triple(e(s), e(f"r{r}"), e(o)) for s, r, o in edges}
    store = ox.Store()
    store.load("\n".join(t.n3() for t in triples).encode(), format=ox.RdfFormat.N_TRIPLES)
    return EmbeddedKG(store, Profile(), "t"), triples


def exhaustive(triples: set[Triple], node: IRI, target: IRI, hops: int) -> set[tuple[Hop, ...]]:
    """All simple paths, by trying every step."""

    def walk(node: IRI, path: tuple[Hop, ...], seen: frozenset[IRI]) -> Iterator[tuple[Hop, ...]]:
        if node == target:
            yield path
            return
        for t in triples if len(path) < hops else ():
            for near, far, forward in ((t.subject, t.object, True), (t.object, t.subject, False)):
                if near == node and isinstance(far, IRI) and far not in seen:
                    yield from walk(far, (*path, Hop(t, forward)), seen | {far})

    return set(walk(node, (), frozenset((node,))))


@settings(deadline=None, max_examples=200)
@given(edges=EDGES, hops=st.integers(1, 4), hub=st.integers(0, 6), pairs=st.sampled_from([0, 4, 20_000]))
def test_all_simple_paths_whatever_counts_as_a_hub(edges: Edges, hops: int, hub: int, pairs: int) -> None:
    kg, triples = graph(edges)
    expected = exhaustive(triples, e(0), e(1), hops)
    with patch.object(pathsearch, "HUB", hub), patch.object(pathsearch, "_JOIN_CAP", pairs):
        found = kg.paths(e(0), e(1), hops)
    assert set(found.paths) == expected
    assert len(found.paths) == len(expected)
    assert found.outcome is (Outcome.ROWS if expected else Outcome.EMPTY)
    assert all(len(a) <= len(b) for a, b in pairwise(found.paths))


@settings(deadline=None, max_examples=150)
@given(edges=EDGES, hops=st.integers(1, 4), hub=st.integers(0, 6), limit=st.integers(1, 4))
def test_what_is_cut_says_so_and_what_is_left_is_true(edges: Edges, hops: int, hub: int, limit: int) -> None:
    kg, triples = graph(edges)
    expected = exhaustive(triples, e(0), e(1), hops)
    with patch.object(pathsearch, "HUB", hub):
        found = kg.paths(e(0), e(1), hops, limit=limit)
    assert set(found.paths) <= expected
    assert len(found.paths) == min(limit, len(expected))
    assert (found.outcome is Outcome.TRUNCATED) is (len(expected) > limit)


@pytest.fixture(scope="module")
def dense() -> EmbeddedKG:
    """Two hubs that share all of their 30,000 neighbours, which are linked among themselves."""
    count = 30_000
    lines = [
        f"<http://e/{a}> <http://e/r> <http://e/n{i}> .\n"
        f"<http://e/n{i}> <http://e/q> <http://e/n{i * 7 % count}> ."
        for i in range(count)
        for a in ("left", "right")
    ]
    store = ox.Store()
    store.bulk_load("\n".join(lines).encode(), format=ox.RdfFormat.N_TRIPLES)
    return EmbeddedKG(store, Profile(), "dense")


FORGIVEN = 15.0
"""Seconds that a busy machine may add: without a deadline this search takes far longer."""


@pytest.mark.parametrize("seconds", [0.0, 0.05, 0.3])
def test_the_deadline_is_kept(dense: EmbeddedKG, seconds: float) -> None:
    start = time.perf_counter()
    found = dense.paths(e("left"), e("right"), 4, timeout=seconds, limit=1_000_000)
    assert time.perf_counter() - start < seconds + FORGIVEN
    assert found.outcome is Outcome.TIMEOUT
    assert "s" in found.message


def test_between_hubs_the_shortest_paths_are_enough(dense: EmbeddedKG) -> None:
    found = dense.paths(e("left"), e("right"), 3, timeout=20.0, limit=10)
    assert (found.outcome, {len(p) for p in found.paths}, len(found.paths)) == (Outcome.TRUNCATED, {2}, 10)
    assert "cut at the limit of 10 paths" in found.message


class _Stuck(EmbeddedKG):
    """An engine that hangs where all edges of a node are asked for, as in a query that nothing interrupts."""

    released = threading.Event()

    def edges(
        self, nodes: Sequence[Term], deadline: Deadline, ends: Collection[Term] | None = None
    ) -> tuple[list[Edge], Outcome, str]:
        self.released.wait(120)
        return super().edges(nodes, deadline, ends)


def test_a_query_that_hangs_is_not_waited_for_and_what_was_found_is_kept() -> None:
    store = ox.Store()
    lines = [f"<http://e/0> <http://e/r{i}> <http://e/1> .\n" for i in range(3)]
    store.load("".join(lines).encode(), format=ox.RdfFormat.N_TRIPLES)
    kg, start = _Stuck(store, Profile(), "stuck"), time.perf_counter()
    with patch.object(pathsearch, "HUB", 1):
        found = kg.paths(e(0), e(1), 3, timeout=2.0)
    assert time.perf_counter() - start < 60
    kg.released.set()
    assert (found.outcome, len(found.paths)) == (Outcome.TIMEOUT, 3)
    assert "no complete answer within 2 s" in found.message


@settings(deadline=None, max_examples=100)
@given(edges=EDGES, hops=st.integers(1, 4), hub=st.integers(0, 6))
def test_the_order_does_not_depend_on_what_counts_as_a_hub(edges: Edges, hops: int, hub: int) -> None:
    kg, _ = graph(edges)
    plain = kg.paths(e(0), e(1), hops)
    with patch.object(pathsearch, "HUB", hub):
        assert kg.paths(e(0), e(1), hops) == plain


@settings(deadline=None, max_examples=60)
@given(edges=EDGES, above=st.integers(0, 6))
def test_degrees_and_hubs_are_counted_up_to_a_bound(edges: Edges, above: int) -> None:
    kg, triples = graph(edges)
    nodes = [e(i) for i in range(8)]
    of = {n: sum((t.subject == n) + (t.object == n) for t in triples) for n in nodes}
    assert set(kg.hubs(nodes, Deadline(60), above)) == {n for n in nodes if of[n] > above}
    assert kg.degree(nodes, Deadline(60), 10) == min(11, sum(of.values()))
