"""Seeds mined ahead: kept per graph, found again, never half written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from triplewise.tools.core.errors import ConfigurationError, DataError, KGUnavailableError
from triplewise.tools.core.rules import Atom
from triplewise.tools.kg import KnowledgeGraph, Outcome, Result, open_kg
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.protocol import Meter
from triplewise.tools.planning.mining import Miner
from triplewise.tools.planning.seed_store import index_seeds, seeds_for
from triplewise.tools.planning.seeds import SeedIndex

TURTLE = """\
@prefix : <http://films.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:alien rdfs:label "Alien" ; :director :scott . :aliens rdfs:label "Aliens" ; :director :cameron .
:rain rdfs:label "Black Rain" ; :director :scott ; :cast :douglas .
:scott rdfs:label "Ridley Scott" . :cameron rdfs:label "James Cameron" . :douglas rdfs:label "Douglas" .
"""
ROWS = [
    ("who directed Alien?", "Alien", ["Ridley Scott"]),
    ("who directed Aliens?", "Aliens", ["James Cameron"]),
    ("who acts in Black Rain?", "Black Rain", ["Douglas"]),
    ("who acts in Dune?", "Dune", ["Nobody"]),
]
HOPS = 3


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's cache folder, empty."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    return folder


@pytest.fixture
def seeds(tmp_path: Path) -> str:
    return write(tmp_path / "seeds.jsonl", ROWS)


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    path = tmp_path / "dump" / "films.ttl"
    path.parent.mkdir()
    path.write_text(TURTLE)
    return path


@pytest.fixture
def store(tmp_path: Path, dump: Path) -> Path:
    load_kg([dump], tmp_path / "store")
    return tmp_path / "store"


def write(path: Path, rows: list[tuple[str, str, list[str]]]) -> str:
    lines = [json.dumps({"question": q, "topic_entity": t, "answers": a}) for q, t, a in rows]
    path.write_text("\n".join(lines))
    return str(path)


def test_what_is_kept_is_not_mined_again(store: Path, seeds: str) -> None:
    kg = open_kg(store)
    report = index_seeds(seeds, str(store), kg, HOPS)
    assert report[1:] == (4, 2, 4, 1)
    assert report.path.parent == store / "seeds"
    for path in (seeds, None):
        index = seeds_for(str(store), kg, path, HOPS)
        assert index is not None
        match = index.search("who directed Dune?", [(13, 17)])[0]
        meter = Meter(kg.meter)
        mined = Miner(kg, index).mine(match.seeds)
        assert meter.queries == 0
        assert mined == Miner(kg, SeedIndex({})).mine(match.seeds)
        assert [(m.path, m.support) for m in mined] == [((Atom("director", True),), 2)]


def test_another_graph_other_seeds_or_other_caps_are_mined_anew(
    dump: Path, seeds: str, tmp_path: Path
) -> None:
    index_seeds(seeds, str(dump), open_kg(dump), HOPS)
    other = seeds_for(str(dump), open_kg(dump), write(tmp_path / "other.jsonl", ROWS[:1]), HOPS)
    assert other is not None
    assert len(other.groups) == 1
    shorter = seeds_for(str(dump), open_kg(dump), None, 2)
    assert shorter is not None
    assert list(shorter.groups)
    assert all(shorter.groups[text] for text in shorter.groups)
    assert shorter.mined == {}
    dump.write_text(TURTLE + ":dune rdfs:label 'Dune' .")
    assert seeds_for(str(dump), open_kg(dump), None, HOPS) is None


def test_what_is_broken_off_goes_on(store: Path, seeds: str) -> None:
    kg, mined = open_kg(store), list[int]()

    def stop(_stage: str, done: int, _total: int | None) -> None:
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index_seeds(seeds, str(store), kg, HOPS, stop)
    assert seeds_for(str(store), kg, None, HOPS) is None, "half an index is none"
    (part,) = (store / "seeds").glob("*.part")
    part.write_text(part.read_text() + '{"masked": "who')  # a line that was cut
    for _ in range(2):
        meter = Meter(kg.meter)
        assert index_seeds(seeds, str(store), kg, HOPS).mined == 4
        mined.append(meter.queries)
    assert mined[0] > mined[1]


def test_a_graph_that_does_not_answer_is_no_graph_without_paths(
    store: Path, seeds: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kg = open_kg(store)

    def refuse(*_: Any) -> Result:
        return Result(Outcome.UNAVAILABLE, message="nobody there")

    with monkeypatch.context() as patch:
        patch.setattr(kg, "_run", refuse)
        with pytest.raises(KGUnavailableError):
            index_seeds(seeds, str(store), kg, HOPS)
    assert index_seeds(seeds, str(store), kg, HOPS).empty == 1


def test_without_a_place_and_without_a_file_it_is_said(store: Path, seeds: str, tmp_path: Path) -> None:
    kg: KnowledgeGraph = open_kg(store)
    with pytest.raises(DataError, match=r"none\.jsonl"):
        index_seeds(str(tmp_path / "none.jsonl"), str(store), kg, HOPS)
    kg.cache_dirs = ()
    with pytest.raises(ConfigurationError, match="no folder"):
        index_seeds(seeds, str(store), kg, HOPS)
    assert seeds_for(str(store), kg, None, HOPS) is None


def test_a_damaged_index_is_said(store: Path, seeds: str) -> None:
    path = index_seeds(seeds, str(store), open_kg(store), HOPS).path
    path.write_bytes(b"no database at all" * 300)
    with pytest.raises(DataError, match="index the seeds again"):
        seeds_for(str(store), open_kg(store), None, HOPS)
    path.unlink()
    assert index_seeds(seeds, str(store), open_kg(store), HOPS).mined == 4
