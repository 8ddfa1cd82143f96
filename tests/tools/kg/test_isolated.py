"""Queries of a person or a model run where they can be ended."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyoxigraph as ox
import pytest

from triplewise.tools.core import isolation
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Deadline, Outcome

RUNAWAY = "SELECT * { ?a ?b ?c . ?d ?e ?f . ?g ?h ?i } ORDER BY ?a ?d ?g"
LARGE = " ".join(f"BIND(CONCAT(?t{n}, ?t{n}) AS ?t{n + 1})" for n in range(30))
LARGE = f"SELECT (STRLEN(?t30) AS ?n) {{ BIND('ten letters' AS ?t0) {LARGE} }}"  # of a text of ten GiB
SMALL = "SELECT ?x { ?x <http://x/p> <http://x/1> }"


def _graph(store: ox.Store) -> ox.Store:
    node = ox.NamedNode
    store.extend(
        ox.Quad(node(f"http://x/{n}"), node("http://x/p"), node(f"http://x/{n + 1}")) for n in range(500)
    )
    return store


@pytest.fixture(params=["memory", "disk"])
def kg(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalKG]:
    path = None
    store = _graph(ox.Store())
    if request.param == "disk":
        path = tmp_path / "store"
        _graph(ox.Store(str(path))).flush()
        store = ox.Store.read_only(str(path))
    opened = LocalKG(store, Profile(), "test", path=path)
    yield opened
    opened.close()


def test_answers_are_those_of_the_engine_in_this_process(kg: LocalKG) -> None:
    for query in (
        SMALL,
        "ASK { <http://x/3> ?p ?o }",
        "SELECT * { ?x ?p ?y } ORDER BY ?x LIMIT 7",
        "SELECT ?x {",
    ):
        ours, theirs = kg.query(query), kg.query(query, foreign=True)
        assert (ours.outcome, ours._rows, ours._boolean) == (theirs.outcome, theirs._rows, theirs._boolean)


def test_a_runaway_query_is_ended_and_the_next_one_answers(kg: LocalKG) -> None:
    start = time.monotonic()
    assert kg.query(RUNAWAY, timeout=0.5, foreign=True).outcome is Outcome.TIMEOUT
    assert time.monotonic() - start < 5.0
    assert kg.query(SMALL, foreign=True).column("x") == (IRI("http://x/0"),)
    assert len(kg._isolated._idle) == 1


def test_a_query_that_needs_too_much_memory_is_ended(kg: LocalKG, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(isolation, "MEMORY", 100 << 20)
    result = kg.query(LARGE, timeout=60.0, foreign=True)
    assert result.outcome is Outcome.TIMEOUT
    assert "memory" in result.message


def test_a_cancelled_run_ends_its_query(kg: LocalKG) -> None:
    deadline = Deadline(60.0)
    session = kg.session(deadline=deadline)
    assert kg.query(SMALL, foreign=True).outcome is Outcome.ROWS
    deadline.cancel()
    assert session.query(RUNAWAY, foreign=True).outcome is Outcome.TIMEOUT


def test_queries_wait_for_their_turn(kg: LocalKG, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = [kg._isolated._turns.acquire(blocking=False) for _ in range(isolation.PROCESSES)]
    result = kg.query(SMALL, timeout=0.2, foreign=True)
    assert all(taken)
    assert (result.outcome, "other queries" in result.message) == (Outcome.TIMEOUT, True)


def test_a_slow_start_is_not_counted_as_a_slow_query(kg: LocalKG, monkeypatch: pytest.MonkeyPatch) -> None:
    start = isolation._Process.__init__

    def late(self: isolation._Process, *arguments: Any) -> None:
        start(self, *arguments)
        time.sleep(1.0)

    monkeypatch.setattr(isolation._Process, "__init__", late)
    assert kg.query(SMALL, timeout=1.0, foreign=True).outcome is Outcome.ROWS
