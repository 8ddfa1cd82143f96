"""The same observation from every engine: triples, scores, order and cuts, from wherever it is made."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from tests.support.words import Words
from triplewise.tools.core.terms import Term
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.retrieval.observation import Observation, ObserveSettings, observe

from .conftest import FACTS, GRAPH, LITERALS, PROFILE, facts
from .test_conformance import e

# Members of the hub only join it to nothing else; london joins books to places and people.
MEDIATORS = replace(PROFILE, mediator_patterns=("^http://example.org/(member[0-9]|london$)",))
NODES = sorted({name for name in FACTS.replace(".", " ").split() if not any(c.isupper() for c in name)})
QUESTION = "which author of the wild is born within a state, and who is a member of the hub"


def everywhere(kg: KnowledgeGraph) -> Iterator[tuple[str, Observation]]:
    """Observations from each node, both ways and outgoing, one to three turns deep, cut and whole."""
    starts: list[list[Term]] = [[e(node)] for node in (*NODES, *LITERALS, "hub", "member007", "nobody")]
    starts += [[e("call"), e("fang")], [e("hub"), e("london"), e("year")]]
    for at, entities in enumerate(starts):
        for depth, direction in ((1, "both"), (3, "both"), (3, "forward")):
            settings = ObserveSettings(
                depth=depth,
                width=12,
                keep=30,
                direction=direction,  # type: ignore[arg-type]
                facts=(10_000, 30)[at % 2],
                seed=at,
            )
            seen = observe(kg, QUESTION, entities, Words(), settings)
            yield f"{[str(n) for n in entities]} {depth} {direction}", seen


@pytest.mark.parametrize("profile", [PROFILE, MEDIATORS], ids=["plain", "mediators"])
def test_observations_are_the_same_wherever_they_are_made(
    kg: KnowledgeGraph, with_profile: Callable[[Profile], KnowledgeGraph], profile: Profile
) -> None:
    import pyoxigraph as ox

    store = ox.Store()
    store.load(facts().encode(), format=ox.RdfFormat.N_TRIPLES)
    reference = dict(everywhere(EmbeddedKG(store, profile, "reference")))
    here = dict(everywhere(with_profile(profile)))
    assert here == reference
    assert sum(len(seen.facts) > 5 for seen in here.values()) > 20
    assert any(seen.cuts for seen in here.values())
    through = any(len(s.hops) > 1 for seen in here.values() for s in seen.facts)
    assert through is (profile is MEDIATORS)


@pytest.fixture
def with_profile(
    kg: KnowledgeGraph, request: pytest.FixtureRequest
) -> Iterator[Callable[[Profile], KnowledgeGraph]]:
    """The engine under test with another profile."""
    opened: list[KnowledgeGraph] = []

    def make(profile: Profile) -> KnowledgeGraph:
        if isinstance(kg, EmbeddedKG):
            assert kg._opened.store is not None
            made: KnowledgeGraph = EmbeddedKG(kg._opened.store, profile, kg.name)
        else:
            url = request.getfixturevalue("virtuoso")
            made = EndpointKG(url, profile, name=kg.name, graph=GRAPH)
            opened.append(made)
        return made

    yield make
    for made in opened:
        made.close()
