"""Observation (ODA, Algorithm 1): turns, caps, mediators, few queries; ranking without encoding each text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyoxigraph as ox
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.words import Words
from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, Literal, Triple
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import KnowledgeGraph, Meter
from triplewise.tools.retrieval import ranking
from triplewise.tools.retrieval.encoder import VectorStore, vectors_of
from triplewise.tools.retrieval.observation import Observation, ObserveSettings, observe
from triplewise.tools.retrieval.ranking import PairRanker, make_vectors

EX = "http://example.org/"
PROFILE = Profile(
    name="test",
    entity_namespaces=(EX,),
    relation_namespaces=(EX,),
    mediator_patterns=(f"^{EX}statement",),
)
DATE = "http://www.w3.org/2001/XMLSchema#date"


def iri(name: str) -> IRI:
    return IRI(EX + name)


def graph(*facts: tuple[str, str, str | Literal]) -> LocalKG:
    """A graph of facts by local names."""
    store = ox.Store()
    lines = [
        Triple(iri(s), iri(r), o if isinstance(o, Literal) else iri(o)).n3()
        for s, r, o in dict.fromkeys(facts)
    ]
    store.load("\n".join(lines).encode(), format=ox.RdfFormat.N_TRIPLES)
    return LocalKG(store, PROFILE, "small")


def facts_of(observation: Observation) -> list[tuple[str, ...]]:
    terms = ([n for h in s.hops for n in (h.subject, h.relation, h.object)] for s in observation.facts)
    return [tuple(n.value.removeprefix(EX) for n in fact) for fact in terms]


WORKS = graph(
    ("wild", "author", "london"),
    ("fang", "author", "london"),
    ("london", "born_in", "oakland"),
    ("oakland", "country", "america"),
    ("america", "capital", "washington"),
)


def seen(kg: KnowledgeGraph, question: str, *entities: str, **changes: Any) -> list[tuple[str, ...]]:
    values = ObserveSettings(**changes)
    return facts_of(observe(kg, question, [iri(e) for e in entities], Words(), values))


class TestTurns:
    def test_each_turn_is_one_hop_further(self) -> None:
        assert len(seen(WORKS, "author", "wild", depth=1)) == 1
        assert len(seen(WORKS, "author", "wild", depth=2, keep=100)) == 3
        assert len(seen(WORKS, "author", "wild", depth=3, keep=100)) == 4

    def test_the_next_turn_looks_from_the_best_ends_alone(self) -> None:
        kg = graph(("a", "author", "b"), ("a", "colour", "c"), ("b", "next", "d"), ("c", "next", "e"))
        found = seen(kg, "author", "a", depth=2, keep=50)
        assert ("b", "next", "d") in found
        assert ("c", "next", "e") not in found

    def test_every_entity_has_turns_of_its_own(self) -> None:
        kg = graph(
            *[("a", "author", f"a{i}") for i in range(5)], *[("b", "colour", f"b{i}") for i in range(5)]
        )
        both = seen(kg, "author", "a", "b", depth=1, width=3)
        assert sorted(both) == sorted(
            [*seen(kg, "author", "a", depth=1, width=3), *seen(kg, "author", "b", depth=1, width=3)]
        )
        assert {f[0] for f in both} == {"a", "b"}, "the closer relation does not crowd the other entity out"


class TestWhatIsRead:
    def test_mediators_are_read_through(self) -> None:
        kg = graph(
            ("marie", "spouse", "statement1"),
            ("statement1", "person", "pierre"),
            ("statement1", "start", Literal("1895-07-26", DATE)),
        )
        encoder = Words()
        found = facts_of(observe(kg, "spouse of marie", [iri("marie")], encoder, ObserveSettings(depth=1)))
        assert sorted(found) == [
            ("marie", "spouse", "statement1", "statement1", "person", "pierre"),
            ("marie", "spouse", "statement1", "statement1", "start", "1895-07-26"),
        ]
        assert {"spouse person pierre", "spouse start 26 July 1895"} <= set(encoder.encoded)

    @pytest.fixture
    def hub(self) -> LocalKG:
        small = [("hub", f"relation{i}", f"x{i}") for i in range(20)]
        return graph(*[(f"m{i}", "member", "hub") for i in range(500)], *small, ("hub", "capital", "city"))

    def test_a_hub_is_cut_and_said(self, hub: LocalKG) -> None:
        small = ObserveSettings(depth=1, facts=60, seed=4)
        result = observe(hub, "capital", [iri("hub")], Words(), small)
        assert facts_of(result)[0] == ("hub", "capital", "city")
        (cut,) = result.cuts
        assert "member 500" in cut
        assert "seed 4" in cut
        assert result == observe(hub, "capital", [iri("hub")], Words(), small)
        assert observe(hub, "capital", [iri("hub")], Words(), ObserveSettings(depth=1)).cuts == ()

    @pytest.mark.parametrize("count", [1, 12, 60])
    def test_queries_do_not_grow_with_nodes(self, count: int) -> None:
        kg = graph(
            *[(f"e{i}", "knows", f"f{i}") for i in range(60)], *[(f"f{i}", "job", f"g{i}") for i in range(60)]
        )
        meter = Meter(kg.meter)
        observe(kg, "job", [iri(f"e{i}") for i in range(count)], Words(), ObserveSettings(depth=2))
        # Two queries a turn, labels of ends in up to two, labels of relations in two.
        assert meter.queries <= 2 * 6

    def test_a_failing_engine_is_told(self) -> None:
        kg = graph(("a", "b", "c"))
        kg.close()
        with pytest.raises(QueryFailedError, match="unavailable"):
            observe(kg, "b", [iri("a")], Words(), ObserveSettings())


NODES = st.integers(0, 8).map(lambda i: f"n{i}")
FACTS = st.lists(
    st.tuples(NODES, st.sampled_from(["author", "capital", "spouse"]), NODES), min_size=1, max_size=30
)


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    FACTS,
    st.integers(1, 3),
    st.integers(1, 6),
    st.sampled_from([10.0, 50.0, 100.0]),
)
def test_parameters_are_respected(
    facts: list[tuple[str, str, str]], depth: int, width: int, keep: float
) -> None:
    kg, entities = graph(*facts), ["n0", "n1"]
    values = {"depth": depth, "width": width, "keep": keep}
    found = seen(kg, "author of the capital", *entities, **values)
    assert len(set(found)) == len(found) <= len(entities) * depth * width
    assert set(found) <= set(facts)
    assert found == seen(kg, "author of the capital", *entities, **values)
    near = set(entities)
    for _ in range(depth):
        near |= {n for s, _, o in facts for n in (s, o) if s in near or o in near}
    assert {n for s, _, o in found for n in (s, o)} <= near
    everything = seen(kg, "author of the capital", *entities, **{**values, "width": 100, "keep": 100.0})
    assert set(found) <= set(everything)


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neighbourhoods that are large already at some hundred texts."""
    monkeypatch.setattr(ranking, "ROUNDS", (2, 2))
    monkeypatch.setattr(ranking, "COLD_ROUNDS", (6, 6, 5))


class Home:
    """Stands for a KG with a folder for its vectors."""

    origin = None

    def __init__(self, folder: Path) -> None:
        self.cache_dirs, self.shared = (folder,), self


SYLLABLES = ["lon", "par", "ber", "mos", "tok", "ams", "del", "ox", "cam", "york", "shire", "ton", "burg"]
PAIRS = [
    (relation, f"{a}{b} {c}{a}")
    for relation in ("author", "capital city", "place of birth", "spouse")
    for a in SYLLABLES
    for b in SYLLABLES
    for c in SYLLABLES[:2]
]
QUESTION = "which capital city is lonton lonlon"


@pytest.mark.usefixtures("small_steps")
class TestRanking:
    def test_without_vectors_few_are_encoded(self, tmp_path: Path) -> None:
        encoder = Words()
        found = self.best(tmp_path, encoder, PAIRS, 10)
        assert len(set(found) & set(self.exhaustive(PAIRS, 10))) >= 8
        assert len(set(self.best(tmp_path, Words(), PAIRS, 10)) & set(found)) >= 8, "by vectors of before"
        assert sum(" ".join(p) in set(encoder.encoded) for p in PAIRS) < len(PAIRS) / 3

    def test_with_vectors_fewer_still(self, tmp_path: Path) -> None:
        kg = Home(tmp_path)
        store = self.store(kg, Words())
        store.vectors(sorted({t for pair in PAIRS for t in pair}))
        encoder = Words()
        found = self.best(tmp_path, encoder, PAIRS, 10)
        assert len(set(found) & set(self.exhaustive(PAIRS, 10))) >= 9
        assert sum(" ".join(p) in set(encoder.encoded) for p in PAIRS) <= 64

    @staticmethod
    def store(kg: Home, encoder: Words) -> VectorStore:
        return vectors_of(kg, encoder)  # type: ignore[arg-type]

    @staticmethod
    def best(folder: Path, encoder: Words, pairs: Sequence[tuple[str, str]], width: int) -> list[int]:
        places = PairRanker(Home(folder), QUESTION, encoder).best(pairs, width)  # type: ignore[arg-type]
        return [i for i, _ in places]

    @staticmethod
    def exhaustive(pairs: Sequence[tuple[str, str]], width: int) -> list[int]:
        encoder = Words()
        vectors = encoder.encode([" ".join(p) for p in pairs])
        scores = vectors @ encoder.encode([QUESTION])[0]
        return [int(i) for i in np.argsort(-scores, kind="stable")[:width]]


class TestVectorsOfAGraph:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory: pytest.TempPathFactory) -> Path:
        root = tmp_path_factory.mktemp("graph")
        lines = [f"{a}{b}|{relation.replace(' ', '_')}|{c}{a}{b}" for relation, _ in PAIRS[::26]
                 for a in SYLLABLES for b in SYLLABLES[:4] for c in SYLLABLES[:3]]  # fmt: skip
        (root / "facts.txt").write_text("\n".join(dict.fromkeys(lines)) + "\n", encoding="utf-8")
        load_kg([root / "facts.txt"], root / "kg")
        return root / "kg"

    def test_relations_and_ends_are_there_afterwards(self, folder: Path) -> None:
        kg, encoder, told = open_kg(folder), Words(), []
        made = make_vectors(folder, kg, encoder, progress=lambda stage, done, total: told.append(stage))
        store = vectors_of(kg, encoder)
        assert store.find(["lonpar", "capital city"])[0].all()
        assert (told[0], told[-1]) == ("texts of facts", "vectors of relations and ends")
        encoded = len(encoder.encoded)
        assert make_vectors(folder, kg, encoder, print) == made
        assert len(encoder.encoded) == encoded, "none is made again"
