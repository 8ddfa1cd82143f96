"""Graphs small enough to walk, and the walk that a cut has to agree with."""

from __future__ import annotations

import gzip
import random
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import pytest

pytest.importorskip("duckdb", reason="the extra `cut` is not installed")

E = "http://e.example/"
LABEL = "<http://www.w3.org/2000/01/rdf-schema#label>"
Fact = tuple[str, str, str]


def node(number: int) -> str:
    return f"<{E}n{number}>"


def random_graph(seed: int, nodes: int = 30, edges: int = 60) -> list[Fact]:
    """A graph with skewed degrees, loops, literals, repetitions and labels."""
    dice = random.Random(seed)
    facts: list[Fact] = []
    for _ in range(edges):
        s, o = (min(int(dice.paretovariate(0.8)), nodes) for _ in range(2))
        facts.append((node(s), f"<{E}p{dice.randrange(3)}>", node(dice.choice([o, dice.randint(1, nodes)]))))
    for number in range(1, nodes + 1):
        facts.append((node(number), LABEL, f'"name {number}"@en'))
        if dice.random() < 0.4:
            facts.append(
                (node(number), f"<{E}size>", f'"{number}"^^<http://www.w3.org/2001/XMLSchema#integer>')
            )
    facts += dice.sample(facts, 5)
    dice.shuffle(facts)
    return facts


def write_facts(path: Path, facts: list[Fact]) -> Path:
    path.write_text("".join(f"{s} {p} {o} .\n" for s, p, o in facts))
    return path


@dataclass(frozen=True)
class Walked:
    triples: set[Fact]
    hubs: set[tuple[int, str, str, int]]


def walk(facts: list[Fact], seeds: list[str], hops: int, limit: int) -> Walked:
    """The subgraph by breadth-first search in plain Python, as the documentation describes it."""
    sides: dict[str, dict[str, list[Fact]]] = {"out": defaultdict(list), "in": defaultdict(list)}
    for fact in set(facts):
        if fact[1] != LABEL:
            sides["out"][fact[0]].append(fact)
            if fact[2].startswith("<"):
                sides["in"][fact[2]].append(fact)
    everything = {term for s, _, o in facts for term in (s, o)}
    frontier = {seed for seed in seeds if seed in everything}
    seen, triples, hubs = set(frontier), set(), set()
    for hop in range(1, hops + 1):
        following: set[str] = set()
        for at in frontier:
            for side, index in sides.items():
                found = index[at]
                others = {f[2] if side == "out" else f[0] for f in found if f[2].startswith("<")}
                if limit and len(others) > limit and at not in seeds:
                    hubs.add((hop, at, side, len(others)))
                    found = [f for f in found if not f[2].startswith("<")]
                triples |= set(found)
                following |= {term for s, _, o in found for term in (s, o) if term.startswith("<")}
        frontier = following - seen
        seen |= frontier
    return Walked(triples, hubs)


def read_facts(path: Path) -> list[Fact]:
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    return [tuple(line.removesuffix(" .").split(" ", 2)) for line in lines]  # type: ignore[misc]
