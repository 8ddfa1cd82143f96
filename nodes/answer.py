"""Answer: the values that were found, the query that gives them, and the facts that prove them.

`program` takes them from the query that was built (QueryAgent), `memory` from the network of paths (ODA 2.2).
What becomes of them (status, confidence, words) is in `nodes/result.py`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.hints import contains_name
from triplewise.nodes.result import NO_PROOF, PROOF_LIMIT, UNPROVEN, UNSURE, build_answer, normal_values
from triplewise.nodes.state import Answer, State
from triplewise.tools.actions.comparison import compared
from triplewise.tools.actions.terms import row_texts
from triplewise.tools.actions.toolset import Feedback
from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, Node, Term, Triple, Variable
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import node_labels
from triplewise.tools.parsing.reading import Reading
from triplewise.tools.pyql.program import Fact, PyQL
from triplewise.tools.pyql.raw_sparql import parts_of, proof_sparql
from triplewise.tools.pyql.sparql import instantiate
from triplewise.tools.pyql.text import read_term

BOOLEAN = (("true",), ("false",))  # The values of an answer by true or false


def program(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the query that was built (QueryAgent, algorithm 1, line 26); from memory without one."""
    env, last = environment(runtime), state.last.feedback if state.steps else Feedback()
    if not state.program:
        return memory(state, runtime)
    kg, values = env.kg, last.answers if last.finished else ()
    if env.toolset.name == "sparql":
        return _of_sparql(state, env, values)
    query, proof, note = env.toolset.to_pyql(state.program, kg.profile), tuple[Triple, ...](), ""
    if state.is_spent and not last.finished:
        if not query.answer and query.variables and not query.boolean:
            query = query.set_answer(query.variables[-1])
        with suppress(QueryFailedError):  # then nothing is proven so far
            values = _values_of(query, kg)
    try:
        proof = tuple(_proof_of(query, kg)) if values else ()
    except QueryFailedError as error:
        note = f"{NO_PROOF}: {error}"
    is_table, sparql = len(query.answer) > 1, query.sparql(kg.profile)
    return {"answer": build_answer(state, env, values, sparql, proof, note, is_table=is_table)}


def _of_sparql(state: State, env: Environment, values: tuple[str, ...]) -> Update:
    """Return the answer of a query that the model wrote as SPARQL: its patterns, instantiated, prove it."""
    kg, short = env.kg, env.kg.profile.short
    patterns = parts_of(state.program).patterns if values else []
    rows = kg.query(proof_sparql(patterns), limit=PROOF_LIMIT * 4, foreign=True) if patterns else None
    shown = instantiate(patterns, rows) if rows is not None else ()
    proof = [t for t in shown if {short(t.subject), short(t.object)} & set(values)] or shown
    return {"answer": build_answer(state, env, normal_values(state.question, values), state.program, proof)}


def memory(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from memory alone (ODA 2.2), with the paths that lead to the answer as proof."""
    env = environment(runtime)
    if env.context.embedded and state.program:  # without a model memory decides nothing
        return program(state, runtime)
    kg, query = env.kg, None
    given = state.last.feedback.answers if state.steps and state.last.feedback.finished else ()
    values, memorised = normal_values(state.question, given), [t for path in state.memory for t in path]
    starts = [t for e in state.linked if (t := read_term(e.id, kg.profile)) is not None]
    if values in BOOLEAN:
        routes = routes_between(state.question, memorised, starts, kg)
    else:
        seen = [t for s in state.standing for t in s.feedback.triples]
        observed = [t for s in state.observation for t in (s.through, s.triple) if t is not None]
        sources = (memorised, seen, observed) if values else ()
        tried = (find_routes(facts, starts, lambda n: kg.profile.short(n) in values) for facts in sources)
        routes = next(filter(None, tried), [])
        query = route_query(routes)
    proof = list(dict.fromkeys(triple for route in routes for triple, _ in route.hops))
    if values == ("true",) and proof:
        query = PyQL(tuple(Fact(t.subject, t.relation, t.object) for t in proof), boolean=True)
    answer = build_answer(state, env, values, query.sparql(kg.profile) if query else "", proof)
    if answer.status == "answered" and not answer.proof:
        answer = replace(answer, status="unsure", reason=UNPROVEN, text=f"{UNSURE}{answer.text}")
    return {"answer": answer}


VARIANTS = {"program": program, "memory": memory}


def answer_of_reading(reading: Reading, state: State, env: Environment, note: str) -> Answer:
    """Return the answer that a reading gives, with no confidence; `note` says why it is taken."""
    kg = env.kg
    query = compared(kg, PyQL(), PyQL.parse(reading.program, kg.profile))
    values, proof = _values_of(query, kg), _proof_of(query, kg)
    return build_answer(state, env, values, query.sparql(kg.profile), proof, note, calibrate=False)


def _values_of(query: PyQL, kg: KnowledgeGraph) -> tuple[str, ...]:
    """Return what a query gives, as an answer has it."""
    result = kg.query(query.sparql(kg.profile))
    if result.boolean is not None:
        return (str(result.boolean).lower(),)
    return tuple(row_texts(kg, result))


def _proof_of(query: PyQL, kg: KnowledgeGraph) -> Sequence[Triple]:
    """Return the facts that a query rests on."""
    result = kg.query(query.sparql(kg.profile))
    answers = result.column(result.variables[0])[:PROOF_LIMIT] if result.rows else ()
    return query.proof(kg.profile, kg.query(query.proof_sparql(kg.profile, answers), limit=PROOF_LIMIT * 4))


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
    """Return the shortest chain from every start to every answer, else the facts that name an answer."""
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
            # A chain ends at the next start, which has chains of its own.
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
    """Return the query that routes stand for, joined where each leads to all answers; None without any."""
    ends: dict[tuple[Term, Shape], set[Term]] = {}
    for route in routes:
        shape = tuple((triple.relation, forward) for triple, forward in route.hops)
        ends.setdefault((route.start, shape), set()).add(route.end)
    if not ends:
        return None
    ranked = sorted(ends, key=lambda key: -len(ends[key]))
    best = {key[0]: key for key in reversed(ranked)}  # start -> its shape that leads to most answers
    answers = {route.end for route in routes}
    # A start whose shape misses an answer is left out, for joined to the others it would remove that answer.
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
