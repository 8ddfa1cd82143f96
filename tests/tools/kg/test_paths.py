"""Paths: what brute force finds, in order, by whole numbers and by queries, also with relations left out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyoxigraph as ox
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from triplewise.tools.core.terms import IRI, Term, Triple, text
from triplewise.tools.kg import adjacency
from triplewise.tools.kg.adjacency import build_adjacency
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.open import open_kg
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Hop, Outcome, path_order

Walk = tuple[Hop, ...]
Edges = list[tuple[int, int, int]]
EDGES = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 3), st.integers(0, 8)), max_size=24)
PLAIN, HIDING = Profile(), Profile(excluded_relations=("r3$",))


def e(name: object) -> IRI:
    return IRI(f"http://e/{name}")


def node(number: int) -> Term:
    """Most nodes are IRIs, the last two literals."""
    return text(f"{number}/") if number > 6 else e(number)


def triples_of(edges: Edges) -> set[Triple]:
    return {Triple(e(s), e(f"r{r}"), node(o)) for s, r, o in edges}


def store_of(triples: set[Triple]) -> ox.Store:
    store = ox.Store()
    store.load("\n".join(t.n3() for t in triples).encode(), format=ox.RdfFormat.N_TRIPLES)
    return store


def brute_force(triples: set[Triple], source: Term, target: Term, hops: int) -> list[Walk]:
    """All simple paths, by trying every step, in their order."""

    def walk(node: Term, path: Walk, seen: frozenset[Term]) -> Iterator[Walk]:
        if node == target:
            yield path
            return
        for t in triples if len(path) < hops else ():
            for near, far, forward in ((t.subject, t.object, True), (t.object, t.subject, False)):
                if near == node and far not in seen:
                    yield from walk(far, (*path, Hop(t, forward)), seen | {far})

    return sorted(walk(source, (), frozenset((source,))), key=path_order)


@settings(deadline=None, max_examples=200)
@given(
    edges=EDGES,
    hops=st.integers(1, 4),
    built=st.sampled_from([PLAIN, HIDING]),
    used=st.sampled_from([PLAIN, HIDING]),
    limit=st.sampled_from([0, 1, 3, 1_000]),
    piece=st.sampled_from([1, 3, 4096]),
    target=st.sampled_from([1, 8]),
)
def test_all_simple_paths_in_order_or_the_first_of_them(
    edges: Edges, hops: int, built: Profile, used: Profile, limit: int, piece: int, target: int
) -> None:
    every = triples_of(edges)
    allowed = {t for t in every if not used.excludes(t.relation)}
    expected = brute_force(allowed, e(0), node(target), hops)
    with patch.object(adjacency, "_PIECE", piece):
        store = store_of(every)
        kg = EmbeddedKG(store, used, "t", adjacency=lambda: build_adjacency(store, built))
        paths = kg.paths(e(0), node(target), hops, limit=limit, timeout=60)
    assert list(paths.paths) == expected[:limit]
    outcome = Outcome.TRUNCATED if len(expected) > limit else Outcome.ROWS if expected else Outcome.EMPTY
    assert paths.outcome is outcome
    by_queries = EmbeddedKG(store, used, "t", adjacency=lambda: None)
    others = by_queries.paths(e(0), node(target), hops, limit=limit, timeout=60)
    assert len(others.paths) == min(limit, len(expected))
    assert set(others.paths) <= set(expected)
    assert others.outcome is outcome or limit == 0


@settings(deadline=None, max_examples=100)
@given(edges=EDGES, added=EDGES, target=st.sampled_from([1, 8]))
def test_triples_are_added_to_an_adjacency(edges: Edges, added: Edges, target: int) -> None:
    old, new = triples_of(edges), triples_of(added)
    store = store_of(old)
    graph = build_adjacency(store, PLAIN)
    assert graph is not None
    grown = graph.with_triples(new - old)
    kg = EmbeddedKG(store, PLAIN, "t", adjacency=lambda: grown)
    assert list(kg.paths(e(0), node(target), 3, timeout=60).paths) == brute_force(
        old | new, e(0), node(target), 3
    )


ODD = r"""
@prefix x: <http://www.w3.org/2001/XMLSchema#> .
<http://e/0> <http://e/r0> 5, -7, 1.50, 2e3, true, "plain", "a\tb\nc\"d\\",
  "\u0001\u0008\u007F", "colour"@en-GB .
<http://e/0> <http://e/r0> "1903"^^x:gYear, "日本 😀", "", "INF"^^x:double, "abc"^^x:integer, <http://e/日本>,
  [ <http://e/r1> <http://e/1> ] .
<http://e/1> <http://e/r2> "plain" .
<http://e/a> <http://e/r0> <http://e/a/b> . <http://e/> <http://e/r> <http://e/1> .
"""


def test_terms_of_every_kind_are_found_and_come_back_as_the_store_has_them() -> None:
    store = ox.Store()
    store.load(ODD.encode(), format=ox.RdfFormat.TURTLE)
    graph = build_adjacency(store, PLAIN)
    assert graph is not None
    kg = EmbeddedKG(store, PLAIN, "t", adjacency=lambda: graph)
    objects = kg.query("SELECT ?o { <http://e/0> ?p ?o }").column("o")
    assert len(objects) == 16
    assert [graph.number(o) for o in objects if graph.number(o) is None] == []
    for end in objects:
        (path,) = kg.paths(e(0), end, 1).paths
        assert path == (Hop(Triple(e(0), e("r0"), end), True),)
    blank = next(o for o in objects if isinstance(o, IRI) and o.value.startswith("_:"))
    routes = [[h.triple.object for h in p] for p in kg.paths(e(0), e(1), 2).paths]
    assert routes == [[text("plain"), text("plain")], [blank, e(1)]]
    numbers = [graph.number(e(name)) for name in ("", "0", "1", "a", "a/b")]
    assert all(n is not None for n in numbers)


def test_a_loaded_folder_answers_without_queries(tmp_path: Path) -> None:
    (tmp_path / "a.nt").write_text("<http://e/0> <http://e/r> <http://e/1> .\n")
    kg = open_kg(load_kg([tmp_path / "a.nt"], tmp_path / "kg").path)
    with patch.object(EmbeddedKG, "query", side_effect=AssertionError("the store was read")):
        assert len(kg.paths(e(0), e(1)).paths) == 1
    assert kg.paths(e(0), e(1), timeout=0.0).outcome is Outcome.TIMEOUT
    kg.close()
    assert kg.paths(e(0), e(1)).outcome is Outcome.UNAVAILABLE


@pytest.mark.parametrize("bound", [{"_KEY_BITS": 4}, {"_TRIPLE_BYTES": 1 << 60}])
def test_a_graph_that_is_too_large_is_searched_by_queries(
    bound: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    kg = EmbeddedKG(store_of(triples_of([(0, 0, 1), (1, 0, 2), (2, 0, 3)])), PLAIN, "t")
    with patch.multiple(adjacency, **bound):
        assert [len(p) for p in kg.paths(e(0), e(3)).paths] == [3]
    assert "searched for by queries" in caplog.text
