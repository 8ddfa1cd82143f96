"""Indexes of endpoints' graphs and of parts of large ones hold what the whole graph holds."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyoxigraph as ox
import pytest

from tests.support.oxigraph_server import DistantServer
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.parsing import facts
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.local import index_for, local_index
from triplewise.tools.retrieval.encoder import open_encoder

BOLIVIA, MARS = IRI("http://www.wikidata.org/entity/Q750"), IRI("http://www.wikidata.org/entity/Q111")


@pytest.fixture(scope="module")
def demo() -> LocalKG:
    kg = open_kg("demo")
    assert isinstance(kg, LocalKG)
    return kg


@pytest.fixture(scope="module")
def server(demo: LocalKG) -> Iterator[DistantServer]:
    store = ox.Store()
    store.bulk_extend(demo.quads())
    with DistantServer(store, delay_ms=50) as running:
        yield running


@pytest.fixture
def endpoint(demo: LocalKG, server: DistantServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[EndpointKG]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    kg = EndpointKG(server.url, demo.profile)
    kg.index = demo.index
    server.reset()
    yield kg
    kg.close()


class Far(EndpointKG):
    """An endpoint of this machine that is taken for one of another."""

    def __init__(self, url: str, profile: Profile) -> None:
        super().__init__(url, profile)
        self.is_local = False


def test_an_endpoint_is_read_whole_as_the_same_graph_here(
    demo: LocalKG, endpoint: EndpointKG, server: DistantServer
) -> None:
    encoder = open_encoder()
    here, there = index_for(demo, encoder, "", tuple), index_for(endpoint, encoder, "", tuple)
    assert server.waves <= 5
    assert set(there.terms) == set(here.terms)
    assert [(r.path, r.names, len(r.starts)) for r in there.rels] == [
        (r.path, r.names, len(r.starts)) for r in here.rels
    ]
    assert {of.names for of in there.classes} == {of.names for of in here.classes}


def test_facts_of_an_endpoint_are_kept_on_disk(
    demo: LocalKG, server: DistantServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(facts, "PAUSE", 0.0)
    sizes = []
    for _ in range(2):
        kg = Far(server.url, demo.profile)
        kg.cache_dirs = (tmp_path,)
        server.reset()
        found = facts.whole_facts(kg)
        assert found is not None
        sizes.append((sum(len(list(pairs)) for _, pairs in found), bool(server.asked)))
        kg.close()
    assert [asked for _, asked in sizes] == [True, False]
    assert sizes[0][0] == sizes[1][0]


def test_a_large_graph_has_no_whole_index(demo: LocalKG, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(facts, "SMALL", 100)
    kg = LocalKG(demo._store or ox.Store(), demo.profile, "large")
    assert GraphIndex.whole(kg, open_encoder()) is None


def test_a_local_index_has_what_lies_around_the_entities(demo: LocalKG) -> None:
    whole, part = (
        index_for(demo, open_encoder(), "", tuple),
        local_index(demo, open_encoder(), "Which countries border Bolivia?", [BOLIVIA]),
    )
    assert len(part.terms) < len(whole.terms)
    for index in (whole, part):
        border = next(r for r in index.rels if "shares border with" in r.names)
        found = index.apply(border.i, 1, frozenset([index.numbers_of[BOLIVIA]]))
        assert {index.label(i) for i in found} == {"Argentina", "Brazil", "Chile", "Paraguay", "Peru"}


def test_a_local_index_has_the_classes_of_the_question_by_any_name(demo: LocalKG) -> None:
    index = local_index(demo, open_encoder(), "How many moons does Mars have?", [MARS])
    assert any("moon" in of.names and index.members(c) for c, of in enumerate(index.classes))


def test_a_local_index_of_an_endpoint_takes_few_round_trips(
    endpoint: EndpointKG, server: DistantServer
) -> None:
    index = local_index(endpoint, open_encoder(), "Which countries border Bolivia?", [BOLIVIA])
    assert BOLIVIA in index.numbers_of
    assert server.waves <= 9
    server.reset()
    assert local_index(endpoint, open_encoder(), "Which countries border Bolivia?", [BOLIVIA]) is index
    assert not server.asked


def test_entities_are_looked_for_only_where_they_are_needed(demo: LocalKG) -> None:
    def nodes() -> list[IRI]:
        raise AssertionError("the graph is small")

    assert index_for(demo, open_encoder(), "Which countries border Bolivia?", nodes) is index_for(
        demo, open_encoder(), "", tuple
    )
