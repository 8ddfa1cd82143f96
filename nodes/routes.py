"""Chains of facts from what a question names to its answer: proof and query of an answer from memory."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from triplewise.nodes.hints import contains_name
from triplewise.tools.core.terms import IRI, Node, Term, Triple, Variable
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import node_labels
from triplewise.tools.pyql.program import PyQL

Shape = tuple[tuple[IRI, bool], ...]
"""Relations of a chain, each with whether it is walked from subject to object."""


@dataclass(frozen=True, slots=True)
class Route:
    """A chain of facts from `start` to `end`; each hop says whether it is walked forward."""

    start: Term
    end: Term
    hops: tuple[tuple[Triple, bool], ...]


def find_routes(
    facts: Iterable[Triple], starts: Iterable[Term], is_answer: Callable[[Term], bool]
) -> list[Route]:
    """Return the shortest chain from every start to every answer; without one, the facts that name an answer.

    No chain leads through another start: what that one leads to is its own.
    """
    anchors, edges = dict.fromkeys(starts), dict[Term, list[tuple[Term, Triple, bool]]]()
    for triple in (facts := dict.fromkeys(facts)):
        edges.setdefault(triple.subject, []).append((triple.object, triple, True))
        edges.setdefault(triple.object, []).append((triple.subject, triple, False))
    routes: list[Route] = []
    for start in anchors:
        chains: dict[Term, tuple[tuple[Triple, bool], ...]] = {start: ()}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            if node != start and node in anchors:
                continue
            for neighbour, triple, forward in edges.get(node, ()):
                if neighbour not in chains:
                    chains[neighbour] = (*chains[node], (triple, forward))
                    queue.append(neighbour)
        routes += [Route(start, end, hops) for end, hops in chains.items() if hops and is_answer(end)]
    reached = {route.end for route in routes}
    for triple in facts:
        head, tail = triple.subject, triple.object
        for start, end, forward in ((head, tail, True), (tail, head, False)):
            if is_answer(end) and end not in reached:
                routes.append(Route(start, end, ((triple, forward),)))
    return routes


def routes_between(
    question: str, facts: Sequence[Triple], starts: Sequence[Term], kg: KnowledgeGraph
) -> list[Route]:
    """Return chains between what a question names, each once: linked nodes, and those in its words."""
    labels = node_labels(kg, [n for t in facts for n in (t.subject, t.object)])
    named = dict.fromkeys([*starts, *(n for n, label in labels.items() if contains_name(question, label))])
    routes: dict[frozenset[Triple], Route] = {}
    for route in find_routes(facts, named, named.__contains__):
        if route.start in named and route.end in named:
            routes.setdefault(frozenset(t for t, _ in route.hops), route)
    return list(routes.values())


def route_query(routes: Sequence[Route]) -> PyQL | None:
    """Return the query that routes stand for: starts stay, others become variables; None without routes.

    Chains of several starts are joined where each leads to all the answers; otherwise the chain that leads
    to most of them is taken.
    """
    ends: dict[tuple[Term, Shape], set[Term]] = {}
    for route in routes:
        shape = tuple((triple.relation, forward) for triple, forward in route.hops)
        ends.setdefault((route.start, shape), set()).add(route.end)
    if not ends:
        return None
    ranked = sorted(ends, key=lambda key: -len(ends[key]))
    best = {key[0]: key for key in reversed(ranked)}
    answers = {route.end for route in routes}
    joined = [key for key in ranked if key == best[key[0]] and ends[key] == answers]
    query, answer, used = PyQL(), Variable("answer"), 0
    for start, shape in joined or ranked[:1]:
        node: Node = start
        for place, (relation, forward) in enumerate(shape, 1):
            used += place < len(shape)
            following = answer if place == len(shape) else Variable(f"x{used}")
            subject, object_ = (node, following) if forward else (following, node)
            query, node = query.add_fact(subject, relation, object_), following
    return query.set_answer(answer)
