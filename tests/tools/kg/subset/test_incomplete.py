"""Thinning: what is dropped lies on shortest paths, by its seed; nothing else goes, and nothing is lost."""

from __future__ import annotations

import json
import random
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg import open_kg
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.subset.incomplete import (
    DROPPED,
    Fact,
    IncompleteReport,
    ShortestPaths,
    TopicQuestion,
    make_incomplete,
)

NODES = [f"n{i}" for i in range(7)]
FACTS = st.lists(
    st.tuples(st.sampled_from(NODES), st.sampled_from("pqr"), st.sampled_from(NODES)),
    min_size=1,
    max_size=12,
    unique=True,
)


def distance(facts: list[Fact], source: str, target: str) -> int | None:
    """Plain breadth-first search."""
    depth, queue = {source: 0}, deque([source])
    while queue:
        node = queue.popleft()
        for s, _, o in facts:
            for near, far in ((s, o), (o, s)):
                if near == node and far not in depth:
                    depth[far] = depth[node] + 1
                    queue.append(far)
    return depth.get(target)


@settings(max_examples=150, deadline=None)
@given(FACTS, st.sampled_from(NODES), st.integers(1, 4))
def test_paths_are_shortest_and_join_their_ends(facts: list[Fact], source: str, hops: int) -> None:
    graph = ShortestPaths(facts)
    found = graph.between(source, NODES, hops, random.Random(1))
    for target in NODES:
        far = distance(facts, source, target) if source in graph.edges else None
        if target not in graph.edges or far is None or far > hops:
            assert target not in found
            continue
        path = found[target]
        assert distance(path, source, target) == far
        assert len(path) == far


TURTLE = """\
@prefix : <http://films.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
:alien rdfs:label "Alien" ; :director :scott ; :cast :weaver ; :year "1979" .
:rain rdfs:label "Black Rain" ; :director :scott ; :cast :douglas .
:aliens rdfs:label "Aliens" ; :director :cameron ; :cast :weaver .
:scott rdfs:label "Ridley Scott" ; :birthplace :shields . :shields rdfs:label "South Shields" .
:cameron rdfs:label "James Cameron" . :weaver rdfs:label "Sigourney Weaver" .
:douglas rdfs:label "Michael Douglas" .
"""
ROWS: list[tuple[str, str, list[str]]] = [
    ("where was the director of Alien born?", "Alien", ["South Shields"]),
    ("who acts in films by the director of Alien?", "alien", ["Michael Douglas", "Sigourney Weaver"]),
    ("when was Alien made?", "Alien", ["1979"]),
    ("who made Dune?", "Dune", ["Nobody"]),
]
Make = Callable[..., Any]


@pytest.fixture
def questions(tmp_path: Path) -> Path:
    path = tmp_path / "questions.jsonl"
    lines = [json.dumps({"question": q, "topic_entity": t, "answers": a}) for q, t, a in ROWS]
    path.write_text("\n".join(lines))
    return path


@pytest.fixture
def films(tmp_path: Path) -> Path:
    path = tmp_path / "films.ttl"
    path.write_text(TURTLE)
    return path


def made(
    source: Path | str, questions: Path, into: Path, drop: float, seed: int = 1, **more: Any
) -> IncompleteReport:
    records = map(json.loads, questions.read_text().splitlines())
    asked = [TopicQuestion(r["question"], [r["topic_entity"]], r["answers"]) for r in records]
    return make_incomplete(source, asked, into, drop=drop, seed=seed, questions_file=questions, **more)


def facts_of(source: Path) -> set[str]:
    kg = open_kg(source)
    assert isinstance(kg, LocalKG)
    return {f"{q.subject} {q.predicate} {q.object} ." for q in kg.quads()}


@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 1.0])
@pytest.mark.parametrize("seed", [1, 2])
def test_the_union_gives_the_graph_back(
    films: Path, questions: Path, tmp_path: Path, share: float, seed: int
) -> None:
    report = made(films, questions, tmp_path / "thin", share, seed)
    whole, rest = facts_of(films), facts_of(tmp_path / "thin")
    gone = set((tmp_path / "thin" / DROPPED).read_text().splitlines())
    assert rest | gone == whole
    assert not rest & gone
    assert len(gone) == report.dropped == round(share * report.collected)
    assert not any("label" in line for line in gone), "names are no facts of a path"
    assert (report.questions, report.unknown, report.unreached) == (4, 1, 1)
    # director, birthplace; cast (one hop, a shortcut), director and director and cast; year.
    assert report.collected == 6


def test_one_seed_drops_the_same_from_a_file_and_from_a_folder(
    films: Path, questions: Path, tmp_path: Path
) -> None:
    load_kg([films], tmp_path / "store")
    made(films, questions, tmp_path / "a", 0.5, 3)
    made(tmp_path / "store", questions, tmp_path / "b", 0.5, 3)
    assert (tmp_path / "a" / DROPPED).read_bytes() == (tmp_path / "b" / DROPPED).read_bytes()
    seeds = set()
    for seed in range(6):
        made(films, questions, tmp_path / f"s{seed}", 0.5, seed)
        seeds.add((tmp_path / f"s{seed}" / DROPPED).read_bytes())
    assert len(seeds) > 1


def test_nothing_is_overwritten_and_what_died_is_no_hindrance(
    films: Path, questions: Path, tmp_path: Path
) -> None:
    target = tmp_path / "thin"
    calls = []

    def die(stage: str, _done: int, _total: int | None) -> None:
        calls.append(stage)
        if stage == "writing what stays":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        made(films, questions, target, 0.5, progress=die)
    assert not target.exists()
    made(films, questions, target, 0.5)
    assert sorted(path.name for path in tmp_path.glob(".thin*")) == []
    with pytest.raises(ConfigurationError, match="exists already"):
        made(films, questions, target, 0.5)
