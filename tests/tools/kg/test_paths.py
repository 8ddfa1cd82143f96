"""Paths: what brute force finds, shortest first, also with relations left out."""

from __future__ import annotations

from collections.abc import Iterator

import pyoxigraph as ox
from hypothesis import given, settings, strategies as st

from triplewise.tools.core.terms import IRI, Term, Triple, text
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.path_queries import find_paths, path_order
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Hop, Outcome

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
    hops=st.integers(1, 3),
    profile=st.sampled_from([PLAIN, HIDING]),
    limit=st.sampled_from([1, 3, 1_000]),
    target=st.sampled_from([1, 8]),
)
def test_all_simple_paths_or_the_first_of_them(
    edges: Edges, hops: int, profile: Profile, limit: int, target: int
) -> None:
    every = triples_of(edges)
    allowed = {t for t in every if not profile.excludes(t.relation)}
    expected = brute_force(allowed, e(0), node(target), hops)
    kg = LocalKG(store_of(every), profile, "t")
    kg.is_remote = True  # which is waited for
    paths = find_paths(kg, e(0), node(target), hops, limit)
    assert len(paths.paths) == min(limit, len(expected))
    assert [len(p) for p in paths.paths] == [len(p) for p in expected[:limit]]
    assert set(paths.paths) <= set(expected)
    outcome = Outcome.TRUNCATED if len(expected) > limit else Outcome.ROWS if expected else Outcome.EMPTY
    assert paths.outcome is outcome


ODD = r"""
@prefix x: <http://www.w3.org/2001/XMLSchema#> .
<http://e/0> <http://e/r0> 5, -7, 1.50, 2e3, true, "plain", "a\tb\nc\"d\\",
  "\u0001\u0008\u007F", "colour"@en-GB .
<http://e/0> <http://e/r0> "1903"^^x:gYear, "日本 😀", "", "INF"^^x:double, "abc"^^x:integer, <http://e/日本>,
  [ <http://e/r1> <http://e/1> ] .
<http://e/1> <http://e/r2> "plain" .
<http://e/a> <http://e/r0> <http://e/a/b> . <http://e/> <http://e/r> <http://e/1> .
"""


def test_paths_lead_to_terms_of_every_kind() -> None:
    store = ox.Store()
    store.load(ODD.encode(), format=ox.RdfFormat.TURTLE)
    kg = LocalKG(store, PLAIN, "t")
    objects = kg.query("SELECT ?o { <http://e/0> ?p ?o }").column("o")
    assert len(objects) == 16
    for end in objects:
        if not end.value.startswith("_:"):
            (path,) = find_paths(kg, e(0), end, 1, 10_000).paths
            assert path == (Hop(Triple(e(0), e("r0"), end), True),)
    blank = next(o for o in objects if isinstance(o, IRI) and o.value.startswith("_:"))
    routes = [[h.triple.object for h in p] for p in find_paths(kg, e(0), e(1), 2, 10_000).paths]
    assert routes == [[text("plain"), text("plain")], [blank, e(1)]]
