"""Simple paths between two nodes, by a search that meets in the middle and leaves hubs for last.

For paths of up to k hops both sides together are widened k - 1 times, each time the side that costs less;
one last query joins the two rims. Every edge of every path is then known: it has an end that was widened,
or it lies between the rims. Nodes with very many edges are passed over at first: what lies off them is found
in little time, and they are looked through only if that was not enough.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextvars import copy_context
from itertools import islice
from typing import Protocol, TypeAlias

from triplewise.tools.core.terms import Term, Triple
from triplewise.tools.kg.bounded import Deadline, Workers
from triplewise.tools.kg.protocol import Hop, Outcome, Paths

Edge: TypeAlias = tuple[Term, Triple]
"""A triple, and the end of it that was asked for."""
Path: TypeAlias = tuple[Hop, ...]
Step: TypeAlias = tuple[Hop, Term]
"""A hop, and the node it leads to."""

HUB = 1_000
"""Edges from which a node is a hub."""
_JOIN_CAP = 20_000
"""Pairs of rim nodes up to which one joining query is cheaper than fetching all edges of a rim."""
_BRIDGE = 3
"""Longest chains between two hubs that a query is asked for."""
_BATCH = 500
"""Rim nodes joined at once; more may not be needed."""
_COUNTED = (2_000, 32_000, 512_000)
"""How far the edges of the two sides are counted to tell which has fewer."""
_FETCHING = 0.7
"""Share of the time for fetching edges; the rest is for reading paths off what was fetched."""
_CLOCK_EVERY = 256
_GRACE = 0.05
"""Seconds for a search to end by itself once its time is over, and to say what it could not look through."""
_SEARCHES = Workers()


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

    def bridges(self, left: Term, right: Term, hops: int, deadline: Deadline, most: int) -> list[Edge]:
        """Edges of simple chains of so many hops between two nodes, of at most so many chains."""
        ...

    def degree(self, nodes: Sequence[Term], deadline: Deadline, most: int = 2_000) -> int:
        """About how many edges the nodes have; an engine may stop counting beyond `most`."""
        ...

    def hubs(self, nodes: Sequence[Term], deadline: Deadline, above: int) -> list[Term]:
        """Those of the nodes that have more than so many edges."""
        ...


class _Side:
    """One side of the search: how far each node is from its end, and the rim widened next.

    `passed` are the hubs that were not widened, `counted` the edges of the rim and how far they were counted.
    """

    def __init__(self, start: Term) -> None:
        self.distance: dict[Term, int] = {start: 0}
        self.rim: list[Term] = [start]
        self.passed: list[Term] = []
        self.depth = 0
        self.counted = (0, 0)

    def at_least(self, node: Term) -> int:
        """A lower bound of the node's distance from this side's end."""
        return self.distance.get(node, 1 if self.passed else self.depth + 1)


class PathSearch:
    """One search, within a deadline and a number of paths."""

    def __init__(self, source: EdgeSource, deadline: Deadline, limit: int) -> None:
        self._engine, self._deadline, self._limit = source, deadline, limit
        self._fetching = Deadline(deadline.left * _FETCHING)
        self._at: dict[Term, list[Triple]] = {}
        self._widened: set[Term] = set()
        self._known_hubs: dict[Term, bool] = {}
        self._outcome, self._message = Outcome.ROWS, ""
        self._best: list[Path] = []

    def run_in_time(self, source: Term, target: Term, max_hops: int) -> Paths:
        """What `run` finds, or what it has found when the deadline is over, whatever it waits for then."""
        context = copy_context()  # queries are counted where the search was asked for

        def job(_: object) -> Paths:
            return context.run(self.run, source, target, max_hops)

        try:
            return _SEARCHES.run(job, self._deadline.left + _GRACE)
        except TimeoutError:
            message = f"no complete answer within {self._deadline.seconds:g} s"
            return Paths(Outcome.TIMEOUT, _in_order(self._best[: self._limit]), message)

    def run(self, source: Term, target: Term, max_hops: int) -> Paths:
        """All simple paths of 1 to `max_hops` hops, shortest first.

        Paths beyond the limit are left out, those through hubs before others; the outcome says so.
        """
        if source == target:
            return Paths(Outcome.EMPTY, message="source and target are the same node")
        left, right = _Side(source), _Side(target)
        if max_hops > 1 and not (self._light(left) or self._light(right)):
            if self._bridged(left, right, min(max_hops, _BRIDGE)):
                return self._answer(self._best, ())
            left, right = _Side(source), _Side(target)
        found: dict[Path, None] = {}
        for hubs_too in (False, True):
            if hubs_too:
                left, right = _Side(source), _Side(target)
            self._gather(left, right, max_hops, hubs_too)
            found |= dict.fromkeys(self._read(left, right, max_hops))
            if len(found) > self._limit or not self._going or not (left.passed or right.passed):
                break
        return self._answer(sorted(found, key=len), [*left.passed, *right.passed])

    @property
    def _going(self) -> bool:
        return self._outcome.ok

    def _gather(self, left: _Side, right: _Side, max_hops: int, hubs_too: bool) -> None:
        """Fetch the edges of all paths that are short enough, or of enough of them."""
        for _ in range(max_hops - 1):
            side = self._cheaper(left, right, hubs_too)
            if side is None or not self._going:
                break
            self._widen(side)
            if left.depth and right.depth and self._enough(left, right, left.depth + right.depth):
                return
        if left.rim and right.rim and self._going:
            self._join(left, right, max_hops)
        passed = [(side, far) for side, far in ((left, right), (right, left)) if side.passed]
        for side, far in passed:
            if self._going and len(side.passed) * len(far.distance) <= _JOIN_CAP:
                self._take(self._engine.edges_between(side.passed, list(far.distance), self._fetching))

    def _bridged(self, left: _Side, right: _Side, longest: int) -> bool:
        """Whether two hubs have enough paths of up to so many hops: queries tell, without fetching either."""
        self._take(self._engine.edges_between(left.rim, right.rim, self._fetching))
        for hops in range(2, longest + 1):
            within, most = Deadline(self._fetching.left / 4), 4 * (self._limit + 1)
            edges = self._engine.bridges(left.rim[0], right.rim[0], hops, within, most)
            self._take((edges, Outcome.ROWS, ""))
            if self._enough(left, right, hops):
                return True
        return False

    def _cheaper(self, left: _Side, right: _Side, hubs_too: bool) -> _Side | None:
        """The side to widen; without hubs, its rim is freed of them. None if there is nothing to widen."""
        if not (left.rim and right.rim):
            return None
        sides = [s for s in (left, right) if hubs_too or self._light(s)]
        if not sides:
            for side in (left, right):
                side.passed += side.rim
            return None
        if len(sides) < 2:
            return self._without_hubs(sides[0])
        first, second = sides
        if min(len(first.rim), len(second.rim)) * 100 < max(len(first.rim), len(second.rim)):
            chosen = first if len(first.rim) < len(second.rim) else second
        else:
            chosen = self._counted(first, second)
        return chosen if hubs_too else self._without_hubs(chosen)

    def _counted(self, first: _Side, second: _Side) -> _Side:
        """The side with fewer edges, counted no further than it takes to tell."""
        costs = [0, 0]
        for most in _COUNTED:
            costs = [self._degree(side, most) for side in (first, second)]
            if min(costs) < most:
                break
        return first if costs[0] <= costs[1] else second

    def _degree(self, side: _Side, most: int) -> int:
        """About how many edges the rim has, asked for once."""
        count, limit = side.counted
        if limit < most and limit <= count <= limit + len(side.rim):
            side.counted = (self._engine.degree(side.rim, self._fetching, most), most)
        return side.counted[0]

    def _light(self, side: _Side) -> list[Term]:
        """The rim without its hubs; a large rim is not looked at node by node."""
        if len(side.rim) > _BATCH:
            return side.rim
        unknown = [n for n in side.rim if n not in self._known_hubs]
        if unknown and self._degree(side, HUB) > HUB:
            found = set(self._engine.hubs(unknown, self._fetching, HUB))
        else:
            found = set()
        self._known_hubs |= {n: n in found for n in unknown}
        return [n for n in side.rim if not self._known_hubs[n]]

    def _without_hubs(self, side: _Side) -> _Side:
        """The side, with the hubs of its rim passed over."""
        light = self._light(side)
        side.passed += [n for n in side.rim if n not in set(light)] if len(light) < len(side.rim) else []
        if len(light) < len(side.rim):
            side.rim, side.counted = light, (0, 0)
        return side

    def _widen(self, side: _Side) -> None:
        """Fetch all edges of a rim; their far ends are the next one."""
        fresh = [n for n in side.rim if n not in self._widened]
        self._take(self._engine.edges(fresh, self._fetching))
        if self._going:
            self._widened.update(fresh)
        side.depth += 1
        rim: list[Term] = []
        for node in side.rim:
            for triple in self._at.get(node, ()):
                far = other_end(node, triple)
                if far not in side.distance:
                    side.distance[far] = side.depth
                    rim.append(far)
        side.rim, side.counted = rim, (0, 0)

    def _join(self, left: _Side, right: _Side, max_hops: int) -> None:
        """Fetch the edges between the two rims, until they give enough paths."""
        if len(left.rim) * len(right.rim) <= _JOIN_CAP:
            self._take(self._engine.edges_between(left.rim, right.rim, self._fetching))
            return
        side, far = (left, right) if self._counted(left, right) is left else (right, left)
        light = set(self._light(side))
        ends, order = set(far.rim), sorted(side.rim, key=lambda n: n not in light)
        for start in range(0, len(order), _BATCH):
            joined = self._take(self._engine.edges(order[start : start + _BATCH], self._fetching, ends))
            if not self._going or (joined and self._enough(left, right, max_hops)):
                return

    def _take(self, fetched: tuple[list[Edge], Outcome, str]) -> list[Edge]:
        edges, outcome, message = fetched
        if outcome not in (Outcome.ROWS, Outcome.EMPTY):
            self._outcome, self._message = outcome, message
        at = self._at
        for _, triple in edges:
            at.setdefault(triple.subject, []).append(triple)
            at.setdefault(triple.object, []).append(triple)
        return edges

    def _enough(self, left: _Side, right: _Side, max_hops: int) -> bool:
        """Whether the edges so far give more paths than are wanted."""
        return len(self._read(left, right, max_hops)) > self._limit

    def _read(self, left: _Side, right: _Side, max_hops: int) -> list[Path]:
        """Paths that the edges so far give, shortest first, one more than are wanted."""
        source, target = (next(iter(side.distance)) for side in (left, right))
        steps = _Steps(self._at, right)
        paths = (p for n in range(1, max_hops + 1) for p in self._walk(source, target, n, steps))
        found = list(islice(paths, self._limit + 1))
        if len(found) > len(self._best):
            self._best = found
        return found

    def _walk(self, source: Term, target: Term, length: int, steps: _Steps) -> Iterator[Path]:
        """Simple paths of exactly `length` hops, depth first in a fixed order; stops when time is over."""
        stack: list[tuple[Term, Path, frozenset[Term]]] = [(source, (), frozenset((source,)))]
        ticks = 0
        while stack:
            ticks += 1
            if ticks % _CLOCK_EVERY == 0 and self._deadline.passed:
                return
            node, path, seen = stack.pop()
            left_over = length - len(path) - 1
            onwards = steps.of(node, left_over)
            if left_over == 0:
                yield from ((*path, hop) for hop, far in onwards if far == target)
                continue
            for hop, far in reversed(onwards):
                if far not in seen and far != target:
                    stack.append((far, (*path, hop), seen | {far}))

    def _answer(self, found: Sequence[Path], passed: Sequence[Term]) -> Paths:
        """The paths, and in words what is missing among them."""
        kept = _in_order(found[: self._limit])
        if len(found) > self._limit:
            message = f"cut at the limit of {self._limit} paths"
            return Paths(Outcome.TRUNCATED, kept, message + _unsearched(passed))
        if self._going and self._deadline.passed:
            self._outcome = Outcome.TIMEOUT
            self._message = f"no complete answer within {self._deadline.seconds:g} s"
        if self._outcome is Outcome.ROWS and not kept:
            return Paths(Outcome.EMPTY)
        return Paths(self._outcome, kept, self._message)


class _Steps:
    """Steps from each node that come near enough to the target, worked out when asked for."""

    def __init__(self, at: dict[Term, list[Triple]], right: _Side) -> None:
        self._at, self._right = at, right
        self._known: dict[tuple[Term, int], list[Step]] = {}

    def of(self, node: Term, left_over: int) -> list[Step]:
        """Steps to nodes that may be within `left_over` hops of the target, in a fixed order."""
        if (node, left_over) not in self._known:
            near = self._near(node, left_over)
            self._known[node, left_over] = sorted(dict.fromkeys(near), key=_order)
        return self._known[node, left_over]

    def _near(self, node: Term, left_over: int) -> Iterator[Step]:
        at_least = self._right.at_least
        for triple in self._at.get(node, ()):
            far = other_end(node, triple)
            if far != node and at_least(far) <= left_over:
                yield Hop(triple, triple.subject == node), far


def _unsearched(hubs: Sequence[Term]) -> str:
    """Which hubs were not looked through, in words."""
    if not hubs:
        return ""
    more = f" and {len(hubs) - 3} more" if len(hubs) > 3 else ""
    return f"; not looked through: {', '.join(h.n3() for h in hubs[:3])}{more} (over {HUB:,} edges each)"


def _in_order(paths: Sequence[Path]) -> tuple[Path, ...]:
    """Shortest first, then by relation, direction and far end of their hops."""
    return tuple(sorted(paths, key=lambda p: (len(p), [_order((hop, _far(hop))) for hop in p])))


def _far(hop: Hop) -> Term:
    return hop.triple.object if hop.forward else hop.triple.subject


def _order(step: Step) -> tuple[str, bool, str]:
    hop, far = step
    return hop.triple.relation.value, not hop.forward, far.n3()


def other_end(node: Term, triple: Triple) -> Term:
    """The end of a triple that is not `node`."""
    return triple.object if node == triple.subject else triple.subject
