"""Benches at a small size: what they read, what they compare, and what their commands print."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from tests.support.words import Words
from triplewise.evals import bench
from triplewise.evals.bench import LOOPS, MISTAKES, savings, script_of
from triplewise.evals.data import DATA_VARIABLE
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.terms import RDFS
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.retrieval import ranking as kg_ranking

EX = "http://example.org/"


def test_a_program_becomes_the_replies_of_an_agent() -> None:
    facts = (("Q1", "P1", "?a"), ("?b", "P2", "?a"))
    assert [reply.splitlines()[1] for reply in script_of(facts, "?b")] == [
        "Action: get_relation(Q1)",
        "Action: add_fact(Q1, P1, ?a)",
        "Action: get_relation(?a)",
        "Action: add_fact(?b, P2, ?a)",
        "Action: set_answer(?b)",
        "Action: execute()",
    ]
    for mistake in MISTAKES.values():
        replies = list(script_of(facts, "?b", [mistake]))
        assert len(replies) == 7
        assert replies[1] != replies[2]
        assert replies[2].endswith("Action: add_fact(Q1, P1, ?a)")


def test_every_saving_saves_on_the_same_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(DATA_VARIABLE, raising=False)
    for name in [*LOOPS][5:]:
        monkeypatch.delitem(LOOPS, name)
    rows = {row["loop"]: row for row in savings(4)}
    faithful, ours = rows["faithful (QueryAgent's paper)"], rows["ours"]
    assert faithful["questions"] == ours["same answers"] == 4
    assert ours["queries"] < rows["ours, a query for each label"]["queries"]
    assert ours["queries of faithful"] <= 0.6
    assert ours["prompt tokens"] < rows["ours, history full"]["prompt tokens"] < faithful["prompt tokens"]
    assert ours["calls"] == faithful["calls"]


def small_graph() -> EmbeddedKG:
    """Two hubs with 1,000 facts, whose ends have names or not."""
    facts = [
        f"<{EX}m{i}> <{EX}{r}> <{EX}{h}> ." for i in range(500) for r, h in (("partOf", "a"), ("near", "b"))
    ]
    facts += [f'<{EX}m{i}> <{RDFS}label> "name {i} of {i % 7}" .' for i in range(450)]
    store = ox.Store()
    store.load("\n".join(facts).encode(), format=ox.RdfFormat.N_TRIPLES)
    profile = Profile(name="t", excluded_relations=("label$",), linkable_pattern=EX)
    return EmbeddedKG(store, profile, "small", limit=100_000)


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
