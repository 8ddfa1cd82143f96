"""Bench observe: every way is measured against the exhaustive one, on a graph made for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyoxigraph as ox
import pytest

from tests.support.words import Words
from triplewise.evals.bench import observe as bench
from triplewise.tools.core.errors import DataError
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.retrieval.observation import preselect

EX = "http://example.org/"
LABEL = "http://www.w3.org/2000/01/rdf-schema#label"


@contextmanager
def small_graph() -> Iterator[KnowledgeGraph]:
    """Two hubs with 1,000 facts, whose ends have names or not."""
    facts = [
        f"<{EX}m{i}> <{EX}{r}> <{EX}{h}> ." for i in range(500) for r, h in (("partOf", "a"), ("near", "b"))
    ]
    facts += [f'<{EX}m{i}> <{LABEL}> "name {i} of {i % 7}" .' for i in range(450)]
    store = ox.Store()
    store.load("\n".join(facts).encode(), format=ox.RdfFormat.N_TRIPLES)
    profile = Profile(name="t", excluded_relations=("label$",), linkable_pattern=EX)
    yield EmbeddedKG(store, profile, "small", limit=100_000)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PROMISING", 1), ("FEWEST", 40), ("FEWEST_COLD", 60), ("DRAWN", 30)):
        monkeypatch.setattr(preselect, name, value)
    monkeypatch.setattr(bench, "WIDTH", 10)
    monkeypatch.setattr(bench, "MAP_PAIRS", 250)
    monkeypatch.setattr(preselect, "LEAST_PAIRS", 100)
    monkeypatch.setattr(bench, "open_graph", small_graph)
    monkeypatch.setattr(bench, "EmbeddedEncoder", lambda cached: Words())
    monkeypatch.setattr(bench, "open_encoder", Words)
    monkeypatch.setattr(bench, "_questions", lambda count: ["name 12 of 5", "near name 7"][:count])


@pytest.mark.usefixtures("small")
def test_every_way_is_measured_at_every_size() -> None:
    ways = bench.measure((200, 400), 2)
    assert [w.way for w in ways] == 2 * [bench.EXHAUSTIVE, bench.COLD, bench.WARM, bench.SEEN]
    by_way = {w.way: w for w in ways if w.size == 400}
    assert by_way[bench.EXHAUSTIVE].encoded == 400
    assert by_way[bench.SEEN].encoded == 1 < by_way[bench.WARM].encoded < by_way[bench.COLD].encoded < 400
    assert by_way[bench.SEEN].overlap > 0.95


@pytest.mark.usefixtures("small")
def test_a_graph_with_too_few_texts_is_told() -> None:
    with pytest.raises(DataError, match=r"distinct texts around its hubs, 5,250 are needed"):
        bench.measure((5_000,), 1)
