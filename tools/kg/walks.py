"""All simple paths between two nodes of an adjacency, shortest first, in one fixed order.

The paths of one length are grown hop by hop from the source, some thousand at a time, by array operations.
Before the last hop only nodes beside the target are kept, and before that, where it is worth knowing, only
nodes two hops away from it; so nearly every beginning that is followed becomes a path, and the search ends as
soon as it has enough of them.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator

import numpy as np

from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.kg.adjacency import Adjacency, Array
from triplewise.tools.kg.bounded import Deadline
from triplewise.tools.kg.protocol import Hop, Outcome, Paths

_LEAST, _MOST = 1 << 12, 1 << 19
"""Edges looked at between two looks at the clock."""
_QUICK, _SLOW = 0.004, 0.02
"""Seconds for a piece below which the next is larger, and above which it is smaller: a cold disk is slow."""
_HALF = np.uint64(32)


class Walks:
    """One search, within a deadline and a number of paths.

    Args:
        graph: the edges. allowed: for each code of the graph whether a path may take it; None for all.
    """

    def __init__(self, graph: Adjacency, allowed: Array | None, deadline: Deadline, limit: int) -> None:
        self._graph, self._allowed, self._deadline, self._limit = graph, allowed, deadline, limit
        self._piece = _LEAST
        self._late = deadline.passed

    def run(self, source: int, target: int, max_hops: int) -> Paths:
        """All simple paths of 1 to `max_hops` hops between two nodes; the outcome tells whether all."""
        found, goal = _Found(self._limit), _Goal(self, target)
        for length in range(1, max_hops + 1):
            start = np.array([[source]], np.int64)
            for nodes, codes in self._grown(start, np.empty((1, 0), np.int64), length, length, goal):
                found.add(nodes, codes)
                if found.full:
                    break
            if found.full or self._late:
                break
        return self._answer(found, target)

    def pieces(self, nodes: Array, near: Array | None) -> Iterator[tuple[Array, Array, Array]]:
        """Edges at some nodes, in order and piece by piece, those that lead to where `near` is true.

        Yields the places of the nodes among `nodes`, codes, and far ends. Ends early when time is over.
        """
        starts = self._graph.edges[nodes]
        behind = np.cumsum(self._graph.edges[nodes + 1] - starts)
        shift = starts - np.concatenate([[0], behind[:-1]])
        done, total = 0, int(behind[-1]) if len(behind) else 0
        while done < total:
            if self._deadline.passed:
                self._late = True
                return
            begun, stop = time.perf_counter(), min(done + self._piece, total)
            piece = self._piece_of(behind, shift, done, stop, near)
            self._pace(time.perf_counter() - begun)
            done = stop
            yield piece

    def _piece_of(
        self, behind: Array, shift: Array, done: int, stop: int, near: Array | None
    ) -> tuple[Array, Array, Array]:
        first, last = np.searchsorted(behind, [done, stop - 1], "right")
        bounds = np.clip(behind[first : last + 1], done, stop)
        counts = np.diff(bounds, prepend=done)
        rows = np.repeat(np.arange(first, last + 1), counts)
        at = np.arange(done, stop) + shift[rows]
        ends = self._graph.ends[at]
        if near is not None:
            kept = np.flatnonzero(near[ends])
            rows, at, ends = rows[kept], at[kept], ends[kept]
        codes = self._graph.codes[at]
        if self._allowed is not None:
            kept = np.flatnonzero(self._allowed[codes])
            rows, codes, ends = rows[kept], codes[kept], ends[kept]
        return rows, codes, ends

    def degrees(self, nodes: Array) -> int:
        """How many edges some nodes have."""
        return int((self._graph.edges[nodes + 1] - self._graph.edges[nodes]).sum())

    def ends_of(self, node: int) -> Array:
        """Far ends of a node's edges."""
        return self._graph.ends[self._graph.edges[node] : self._graph.edges[node + 1]]

    def marked(self, parts: Iterable[Array]) -> Array:
        """True for the nodes of all parts, shape (nodes of the graph,)."""
        found = np.zeros(self._graph.nodes, bool)
        for part in parts:
            found[part] = True
        return found

    def _pace(self, seconds: float) -> None:
        """Fit the size of the next piece to how long the last one took."""
        if seconds < _QUICK:
            self._piece = min(self._piece * 2, _MOST)
        elif seconds > _SLOW:
            self._piece = max(self._piece // 2, _LEAST)

    def _grown(
        self, nodes: Array, codes: Array, left: int, length: int, goal: _Goal
    ) -> Iterator[tuple[Array, Array]]:
        """Paths that begin with some nodes and codes, one a row, and go on for `left` hops."""
        if left == 1:
            yield goal.reached(nodes, codes)
            return
        for rows, code, ends in self.pieces(nodes[:, -1], goal.near(left - 1, length, nodes)):
            fresh = ends != goal.node
            for column in nodes.T:
                fresh &= ends != column[rows]
            rows, code, ends = rows[fresh], code[fresh], ends[fresh].astype(np.int64)
            if len(rows):
                further = np.column_stack([nodes[rows], ends]), np.column_stack([codes[rows], code])
                yield from self._grown(*further, left - 1, length, goal)

    def _answer(self, found: _Found, target: int) -> Paths:
        """The paths as terms, and in words what is missing among them."""
        known: dict[int, Term] = {}

        def term(number: int) -> Term:
            if number not in known:
                known[number] = self._graph.term(number)
            return known[number]

        paths = []
        for nodes, codes in found.rows[: self._limit]:
            terms = [*map(term, nodes), term(target)]
            paths.append(tuple(map(self._hop, terms, codes, terms[1:])))
        if found.full:
            return Paths(Outcome.TRUNCATED, tuple(paths), f"cut at the limit of {self._limit} paths")
        if self._late:
            message = f"no complete answer within {self._deadline.seconds:g} s"
            return Paths(Outcome.TIMEOUT, tuple(paths), message)
        return Paths(Outcome.ROWS if paths else Outcome.EMPTY, tuple(paths))

    def _hop(self, near: Term, code: int, far: Term) -> Hop:
        relation, forward = self._graph.relations[code // 2], code % 2 == 0
        subject, obj = (near, far) if forward else (far, near)
        if not isinstance(subject, IRI):
            raise TypeError(f"no triple can have the subject {subject!r}")
        return Hop(Triple(subject, relation, obj), forward)


class _Found:
    """Paths found so far, in order: nodes without the target, and codes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.rows: list[tuple[list[int], list[int]]] = []

    def add(self, nodes: Array, codes: Array) -> None:
        """Take some more, to one more than are wanted."""
        most = self._limit + 1 - len(self.rows)
        self.rows += zip(nodes[:most].tolist(), codes[:most].tolist(), strict=True)

    @property
    def full(self) -> bool:
        """Whether there are more than are wanted."""
        return len(self.rows) > self._limit


class _Goal:
    """The target of a search, and what lies near it, worked out when asked for."""

    def __init__(self, walks: Walks, node: int) -> None:
        self.node, self._walks = node, walks
        self._near: dict[int, Array] = {}
        parts = [
            np.empty((2, 0), np.uint32),
            *(np.stack(p[1:]) for p in walks.pieces(np.array([node]), None)),
        ]
        codes, ends = np.concatenate(parts, axis=1)
        # Seen from their far ends: the direction of each edge is turned round.
        self._into = np.sort((ends.astype(np.uint64) << _HALF) | (codes.astype(np.uint64) ^ np.uint64(1)))
        self._ends = ends

    def near(self, hops: int, length: int, nodes: Array) -> Array | None:
        """Where so many hops lead to the target: shape (nodes of the graph,); None for not known.

        `nodes` are the beginnings of paths that are about to be followed one hop.
        """
        if hops not in self._near and self._worth(hops, length, nodes):
            beside = np.unique(self._ends).astype(np.int64)
            pieces = ((self._ends,),) if hops == 1 else (p[2:] for p in self._walks.pieces(beside, None))
            self._near[hops] = self._walks.marked(ends for (ends,) in pieces)
        return self._near.get(hops)

    def _worth(self, hops: int, length: int, nodes: Array) -> bool:
        """Whether to find out where so many hops lead here, rather than to follow all that lies ahead."""
        if hops == 2 and length == 3:
            ahead = self._walks.ends_of(int(nodes[0, -1]))
            return self._walks.degrees(self._ends) < self._walks.degrees(ahead)
        return hops < 3

    def reached(self, nodes: Array, codes: Array) -> tuple[Array, Array]:
        """The paths made whole by their last hop."""
        last = nodes[:, -1].astype(np.uint64)
        low = np.searchsorted(self._into, last << _HALF)
        counts = np.searchsorted(self._into, (last + np.uint64(1)) << _HALF) - low
        rows = np.repeat(np.arange(len(nodes)), counts)
        within = np.arange(len(rows)) - np.repeat(np.cumsum(counts) - counts, counts)
        code = (self._into[low[rows] + within] & np.uint64(0xFFFFFFFF)).astype(np.int64)
        return nodes[rows], np.column_stack([codes[rows], code])
