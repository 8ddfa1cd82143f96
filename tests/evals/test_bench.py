"""Benches at a small size: what they read, what they compare, and what their commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from tests.support.words import Words
from triplewise.evals import bench
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import RDFS
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.retrieval import ranking as kg_ranking

EX = "http://example.org/"


def small_graph() -> LocalKG:
    """Two hubs with 1,000 facts, whose ends have names or not."""
    facts = [
        f"<{EX}m{i}> <{EX}{r}> <{EX}{h}> ." for i in range(500) for r, h in (("partOf", "a"), ("near", "b"))
    ]
    facts += [f'<{EX}m{i}> <{RDFS}label> "name {i} of {i % 7}" .' for i in range(450)]
    store = ox.Store()
    store.load("\n".join(facts).encode(), format=ox.RdfFormat.N_TRIPLES)
    profile = Profile(name="t", excluded_relations=("label$",), linkable_pattern=EX)
    kg = LocalKG(store, profile, "small")
    kg.limit = 100_000
    return kg


def test_observation_is_measured_in_every_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kg_ranking, "ROUNDS", (2, 2))
    monkeypatch.setattr(kg_ranking, "COLD_ROUNDS", (5, 5, 5))
    monkeypatch.setattr(bench, "WIDTH", 10)
    pairs = bench.real_pairs(small_graph(), 650)
    assert len(set(pairs)) == 650
    with pytest.raises(DataError, match="distinct texts, 5,250 are needed"):
        bench.real_pairs(small_graph(), 5_250)
    encoder: Any = Words()
    rows = bench.of_size(pairs[:400], encoder, encoder, ["name 12 of 5", "near name 7"], tmp_path)
    ways = ["every text encoded", "nothing cached", "the KG's vectors present", "seen before"]
    assert [row["way"] for row in rows] == ways
    assert rows[-1]["same top 10"] > 0.95
    assert all(row["times as fast"] > 0 for row in rows)
