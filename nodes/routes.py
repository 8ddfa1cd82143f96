"""From memory to proof: chains of facts that lead from the question's entities to an answer (ODA 2.3)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from triplewise.tools.core.terms import IRI, Node, Term, Triple, Variable
from triplewise.tools.pyql import PyQL

Shape = tuple[tuple[IRI, bool], ...]
"""Relations of a chain, each with whether it is walked from subject to object."""


@dataclass(frozen=True, slots=True)
class Route:
    """A chain of facts from `start` to `end`; each hop says whether it is walked forward."""

    start: Term
    end: Term
    hops: tuple[tuple[Triple, bool], ...]

    @property
    def shape(self) -> Shape:
        """The chain without its nodes."""
        return tuple((triple.relation, forward) for triple, forward in self.hops)


def find_routes(
    facts: Iterable[Triple], starts: Iterable[Term], is_answer: Callable[[Term], bool]
) -> list[Route]:
    """The shortest chain from every start to every answer; without one, the facts that name an answer.

    No chain leads through another start: what that one leads to is its own.
    """
    known = list(dict.fromkeys(facts))
    around: dict[Term, list[tuple[Triple, bool]]] = {}
    for triple in known:
        around.setdefault(triple.subject, []).append((triple, True))
        around.setdefault(triple.object, []).append((triple, False))
    anchors = dict.fromkeys(starts)
    routes = [r for start in anchors for r in _from(start, around, anchors, is_answer)]
    reached = {route.end for route in routes}
    for triple in known:
        for start, end, forward in (
            (triple.subject, triple.object, True),
            (triple.object, triple.subject, False),
        ):
            if is_answer(end) and end not in reached:
                routes.append(Route(start, end, ((triple, forward),)))
    return routes


def _from(
    start: Term,
    around: Mapping[Term, Sequence[tuple[Triple, bool]]],
    anchors: Collection[Term],
    is_answer: Callable[[Term], bool],
) -> list[Route]:
    """Shortest chains from one node to answers, breadth first, ending where they meet another anchor."""
    chains: dict[Term, tuple[tuple[Triple, bool], ...]] = {start: ()}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node != start and node in anchors:
            continue
        for triple, forward in around.get(node, ()):
            far = triple.object if forward else triple.subject
            if far not in chains:
                chains[far] = (*chains[node], (triple, forward))
                queue.append(far)
    return [Route(start, end, hops) for end, hops in chains.items() if hops and is_answer(end)]


def route_query(routes: Sequence[Route]) -> PyQL | None:
    """The query that routes stand for: starts stay, every other node becomes a variable; None without routes.

    Chains of several starts are joined where each leads to all the answers; otherwise the chain that leads
    to most of them is taken.
    """
    ends: dict[tuple[Term, Shape], set[Term]] = {}
    for route in routes:
        ends.setdefault((route.start, route.shape), set()).add(route.end)
    if not ends:
        return None
    answers = {route.end for route in routes}
    best: dict[Term, tuple[Term, Shape]] = {}
    for key in sorted(ends, key=lambda k: -len(ends[k])):
        best.setdefault(key[0], key)
    joined = [key for key in best.values() if ends[key] == answers]
    chosen = joined or [max(best.values(), key=lambda k: len(ends[k]))]
    return _join(chosen)


def _join(chains: Collection[tuple[Term, Shape]]) -> PyQL:
    """Chains that end in one variable."""
    query, answer, used = PyQL(), Variable("answer"), 0
    for start, shape in chains:
        node: Node = start
        for place, (relation, forward) in enumerate(shape, 1):
            used += place < len(shape)
            following = answer if place == len(shape) else Variable(f"x{used}")
            ends = (node, following) if forward else (following, node)
            query, node = query.add_fact(ends[0], relation, ends[1]), following
    return query.set_answer(answer)
