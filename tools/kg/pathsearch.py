"""Simple paths between two nodes, by a search that meets in the middle.

For paths of up to k hops both sides together are widened k - 1 times, each time the side that costs less;
one last query joins the two rims. Every edge of every path is then known: it has an end that was widened,
or it lies between the rims.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Protocol, TypeAlias

from triplewise.tools.kg.base import Hop, Outcome, Paths
from triplewise.tools.kg.bounded import Deadline
from triplewise.tools.kg.terms import Term, Triple

Edge: TypeAlias = tuple[Term, Triple]
"""A triple, and the end of it that was asked for."""
Path: TypeAlias = tuple[Hop, ...]
Step: TypeAlias = tuple[Hop, Term]
"""A hop, and the node it leads to."""

_JOIN_CAP = 20_000
"""Pairs of rim nodes up to which one joining query is cheaper than fetching all edges of a rim."""


_FETCHING = 0.7
"""Share of the time for fetching edges; the rest is for reading paths off what was fetched."""


class EdgeSource(Protocol):
    """What the search needs of an engine; each call is a few batched queries."""

    def edges(
        self, nodes: Sequence[Term], deadline: Deadline, ends: Collection[Term] | None = None
    ) -> tuple[list[Edge], Outcome, str]:
        """All edges at the nodes, or those of them that lead to one of `ends`."""
        ...

    def edges_between(
        self, left: Sequence[Term], right: Sequence[Term], deadline: Deadline
    ) -> tuple[list[Edge], Outcome, str]:
        """The edges between two sets of nodes, named by their left end."""
        ...

    def degree(self, nodes: Sequence[Term], deadline: Deadline) -> int:
        """About how many edges the nodes have."""
        ...


class _Side:
    """One side of the search: how far each node is from its end, and the rim widened next."""

    def __init__(self, start: Term) -> None:
        self.distance: dict[Term, int] = {start: 0}
        self.rim: list[Term] = [start]
        self.depth = 0

    def widen(self, edges: Sequence[Edge]) -> None:
        self.depth += 1
        self.rim = []
        for node, triple in edges:
            other = other_end(node, triple)
            if other not in self.distance:
                self.distance[other] = self.depth
                self.rim.append(other)

    def at_least(self, node: Term) -> int:
        """A lower bound of the node's distance from this side's end."""
        return self.distance.get(node, self.depth + 1)


class PathSearch:
    """One search, within a deadline and a number of paths."""

    def __init__(self, source: EdgeSource, deadline: Deadline, limit: int) -> None:
        self._engine, self._deadline, self._limit = source, deadline, limit
        self._fetching = Deadline(deadline.left * _FETCHING)
        self._triples: dict[Triple, None] = {}
        self._outcome, self._message = Outcome.ROWS, ""

    def run(self, source: Term, target: Term, max_hops: int) -> Paths:
        """All simple paths of 1 to `max_hops` hops, shortest first."""
        if source == target:
            return Paths(Outcome.EMPTY, message="source and target are the same node")
        left, right = _Side(source), _Side(target)
        for _ in range(max_hops - 1):
            if not (left.rim and right.rim and self._going):
                break
            side = self._cheaper(left, right)
            side.widen(self._take(self._engine.edges(side.rim, self._fetching)))
        if left.rim and right.rim and self._going:
            self._join(left, right)
        return self._answer(source, target, max_hops, left, right)

    @property
    def _going(self) -> bool:
        return self._outcome.ok

    def _cheaper(self, left: _Side, right: _Side) -> _Side:
        if min(len(left.rim), len(right.rim)) * 100 < max(len(left.rim), len(right.rim)):
            return left if len(left.rim) < len(right.rim) else right
        costs = [self._engine.degree(side.rim, self._fetching) for side in (left, right)]
        return left if costs[0] <= costs[1] else right

    def _join(self, left: _Side, right: _Side) -> None:
        """Fetch the edges between the two rims."""
        if len(left.rim) * len(right.rim) <= _JOIN_CAP:
            self._take(self._engine.edges_between(left.rim, right.rim, self._fetching))
            return
        side, other = (left, right) if self._cheaper(left, right) is left else (right, left)
        self._take(self._engine.edges(side.rim, self._fetching, set(other.rim)))

    def _take(self, fetched: tuple[list[Edge], Outcome, str]) -> list[Edge]:
        edges, outcome, message = fetched
        if outcome not in (Outcome.ROWS, Outcome.EMPTY):
            self._outcome, self._message = outcome, message
        self._triples.update((triple, None) for _, triple in edges)
        return edges

    def _answer(self, source: Term, target: Term, max_hops: int, left: _Side, right: _Side) -> Paths:
        steps = self._useful_steps(max_hops, left, right)
        found: list[Path] = []
        for length in range(1, max_hops + 1):
            for path in self._walk(source, target, length, steps, right):
                if len(found) == self._limit:
                    return Paths(Outcome.TRUNCATED, tuple(found), f"cut at the limit of {self._limit} paths")
                found.append(path)
        if self._deadline.passed and self._going:
            self._outcome = Outcome.TIMEOUT
            self._message = f"no complete answer within {self._deadline.seconds:g} s"
        if self._outcome is Outcome.ROWS and not found:
            return Paths(Outcome.EMPTY)
        return Paths(self._outcome, tuple(found), self._message)

    def _useful_steps(self, max_hops: int, left: _Side, right: _Side) -> dict[Term, list[Step]]:
        """Steps from each node that can lie on a short enough path."""
        reach: dict[Term, tuple[int, int]] = {}
        for triple in self._triples:
            for node in (triple.subject, triple.object):
                if node not in reach:
                    reach[node] = (left.at_least(node), right.at_least(node))
        steps: dict[Term, list[Step]] = {}
        for triple in self._triples:
            subject, obj = triple.subject, triple.object
            (from_s, to_s), (from_o, to_o) = reach[subject], reach[obj]
            if from_s + 1 + to_o <= max_hops and subject != obj:
                steps.setdefault(subject, []).append((Hop(triple, True), obj))
            if from_o + 1 + to_s <= max_hops and subject != obj:
                steps.setdefault(obj, []).append((Hop(triple, False), subject))
        return steps

    def _walk(
        self, source: Term, target: Term, length: int, steps: dict[Term, list[Step]], right: _Side
    ) -> Iterator[Path]:
        """Simple paths of exactly `length` hops, depth first in a fixed order; stops when time is over."""
        stack: list[tuple[Term, Path, frozenset[Term]]] = [(source, (), frozenset((source,)))]
        ordered: dict[Term, list[Step]] = {}
        while stack and not self._deadline.passed:
            node, path, seen = stack.pop()
            left_over = length - len(path) - 1
            if node not in ordered:
                ordered[node] = sorted(steps.get(node, ()), key=_order)
            if left_over == 0:
                yield from ((*path, hop) for hop, far in ordered[node] if far == target)
                continue
            for hop, far in reversed(ordered[node]):
                if far not in seen and far != target and right.at_least(far) <= left_over:
                    stack.append((far, (*path, hop), seen | {far}))


def _order(step: Step) -> tuple[str, bool, str]:
    hop, far = step
    return hop.triple.relation.value, not hop.forward, far.n3()


def other_end(node: Term, triple: Triple) -> Term:
    """The end of a triple that is not `node`."""
    return triple.object if node == triple.subject else triple.subject
