"""Shortest paths of a whole graph in memory, as numbers (SymAgent, algorithm 1, line 3)."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np

Fact: TypeAlias = tuple[str, str, str]
"""A triple in N-Triples form: subject, relation, object."""


class ShortestPaths:
    """Breadth-first search over facts, walked in both directions.

    The facts are sorted first, so that the same graph gives the same paths whatever it was read from.

    Args:
        facts: distinct ones; nodes are what stands at their ends.
    """

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.facts: Sequence[Fact] = sorted(facts)
        self.nodes: Mapping[str, int] = {
            name: i for i, name in enumerate(sorted({n for s, _, o in self.facts for n in (s, o)}))
        }
        count = len(self.facts)
        heads = np.fromiter((self.nodes[s] for s, _, _ in self.facts), np.int32, count)
        tails = np.fromiter((self.nodes[o] for _, _, o in self.facts), np.int32, count)
        near, far = np.concatenate([heads, tails]), np.concatenate([tails, heads])
        order = np.argsort(near, kind="stable")
        self._far, self._fact = far[order], order % max(count, 1)
        self._start = np.searchsorted(near[order], np.arange(len(self.nodes) + 1))

    def between(
        self, source: str, targets: Collection[str], hops: int, draw: random.Random, every: bool = False
    ) -> dict[str, list[int]]:
        """Facts of the shortest path to each target, as their numbers in `facts`.

        Args:
            source, targets: nodes; those that the graph lacks are no targets. hops: longest path.
            draw: picks one of several shortest paths. every: take the facts of all of them instead.

        Returns:
            target -> numbers of facts, sorted; () for a target that is the source. Targets out of reach are
            left out.
        """
        if source not in self.nodes:
            return {}
        start = self.nodes[source]
        wanted = {self.nodes[t]: t for t in sorted(targets) if t in self.nodes}
        depth = self._depths(start, np.array(sorted(wanted), np.int64), hops)
        found = {}
        for node, name in wanted.items():
            if depth[node] >= 0:
                facts = self._every(node, depth) if every else self._one(node, depth, draw)
                found[name] = sorted(facts)
        return found

    def _depths(self, start: int, wanted: np.ndarray, hops: int) -> np.ndarray:
        """Distance of each node from the start, -1 where it was not reached before all wanted ones were."""
        depth: np.ndarray = np.full(len(self.nodes), -1, np.int16)
        depth[start] = 0
        frontier = np.array([start])
        for hop in range(1, hops + 1):
            if not len(frontier) or (depth[wanted] >= 0).all():
                break
            reached = np.unique(self._far[self._slots(frontier)])
            frontier = reached[depth[reached] < 0]
            depth[frontier] = hop
        return depth

    def _slots(self, nodes: np.ndarray) -> np.ndarray:
        """Where the neighbours of some nodes stand."""
        starts, ends = self._start[nodes], self._start[nodes + 1]
        sizes = ends - starts
        shifts: np.ndarray = np.repeat(starts - np.concatenate([[0], np.cumsum(sizes)[:-1]]), sizes)
        slots: np.ndarray = np.arange(int(sizes.sum())) + shifts
        return slots

    def _back(self, node: int, depth: np.ndarray) -> np.ndarray:
        """Where the neighbours of a node stand that are one step nearer to the start."""
        slots = np.arange(self._start[node], self._start[node + 1])
        return np.asarray(slots[depth[self._far[slots]] == depth[node] - 1])

    def _one(self, node: int, depth: np.ndarray, draw: random.Random) -> set[int]:
        """Facts of one shortest path, drawn at random step by step."""
        facts = set()
        while depth[node] > 0:
            slot = int(draw.choice(self._back(node, depth).tolist()))
            facts.add(int(self._fact[slot]))
            node = int(self._far[slot])
        return facts

    def _every(self, node: int, depth: np.ndarray) -> set[int]:
        """Facts of all shortest paths."""
        facts: set[int] = set()
        open_nodes, seen = [node], {node}
        while open_nodes:
            at = open_nodes.pop()
            if depth[at] <= 0:
                continue
            for slot in self._back(at, depth).tolist():
                facts.add(int(self._fact[slot]))
                if (near := int(self._far[slot])) not in seen:
                    seen.add(near)
                    open_nodes.append(near)
        return facts
