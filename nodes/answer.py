"""Answer: find the answer values, the query that gives them, and the facts that prove them.

`program` takes them from the query that was built (QueryAgent), `memory` from the network of paths (ODA 2.2).
`nodes/result.py` makes the answer of them: status, confidence, text.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

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

BOOLEAN = (("true",), ("false",))  # The values of a yes-no answer


def program(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the query (QueryAgent, algorithm 1, line 26); from memory where none was built."""
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
        with suppress(QueryFailedError):  # then there are no values
            values = _values_of(query, kg)
    try:
        proof = tuple(_proof_of(query, kg)) if values else ()
    except QueryFailedError as error:
        note = f"{NO_PROOF}: {error}"
    is_table, sparql = len(query.answer) > 1, query.sparql(kg.profile)
    return {"answer": build_answer(state, env, values, sparql, proof, note, is_table=is_table)}


def _of_sparql(state: State, env: Environment, values: tuple[str, ...]) -> Update:
    """Answer from SPARQL that the model wrote; the proof is its triple patterns with their bindings."""
    kg, short = env.kg, env.kg.profile.short
    patterns = parts_of(state.program).patterns if values else []
    rows = kg.query(proof_sparql(patterns), limit=PROOF_LIMIT * 4, foreign=True) if patterns else None
    shown = instantiate(patterns, rows) if rows is not None else ()
    proof = [t for t in shown if {short(t.subject), short(t.object)} & set(values)] or shown
    return {"answer": build_answer(state, env, normal_values(state.question, values), state.program, proof)}


def memory(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from memory (ODA 2.2), with the paths from the linked entities to the answer as proof.

    Where none leads there, the triples of all steps are searched for paths, then the observation.
    """
    env = environment(runtime)
    if env.context.offline and state.program:  # without a model the answer is the query's
        return program(state, runtime)
    kg = env.kg
    given = state.last.feedback.answers if state.steps and state.last.feedback.finished else ()
    values = normal_values(state.question, given)
    paths = _paths_to(values, state, kg)
    query = None if values in BOOLEAN else path_query(paths)
    proof = list(dict.fromkeys(triple for path in paths for triple, _ in path.hops))
    if values == ("true",) and proof:
        query = PyQL(tuple(Fact(t.subject, t.relation, t.object) for t in proof), boolean=True)
    answer = build_answer(state, env, values, query.sparql(kg.profile) if query else "", proof)
    if answer.status == "answered" and not answer.proof:
        answer = replace(answer, status="unsure", reason=UNPROVEN, text=f"{UNSURE}{answer.text}")
    return {"answer": answer}


def _paths_to(values: Sequence[str], state: State, kg: KnowledgeGraph) -> list[Path]:
    """Return the paths to answers, or for yes or no between what the question names, in what was read."""
    remembered = [t for path in state.memory for t in path]
    starts = [t for e in state.linked if (t := read_term(e.id, kg.profile)) is not None]
    if values in BOOLEAN:
        return paths_between(state.question, remembered, starts, kg)
    seen = [t for s in state.standing for t in s.feedback.triples]
    observed = [t for s in state.observation for t in (s.through, s.triple) if t is not None]
    sources = (remembered, seen, observed) if values else ()
    found = (find_paths(facts, starts, lambda n: kg.profile.short(n) in values) for facts in sources)
    return next(filter(None, found), [])


VARIANTS = {"program": program, "memory": memory}


def answer_of_reading(reading: Reading, state: State, env: Environment, note: str) -> Answer:
    """Return the answer of a reading that a person picked, without confidence; `note` is its reason."""
    kg = env.kg
    query = compared(kg, PyQL(), PyQL.parse(reading.program, kg.profile))
    values, proof = _values_of(query, kg), _proof_of(query, kg)
    return build_answer(state, env, values, query.sparql(kg.profile), proof, note, calibrate=False)


def _values_of(query: PyQL, kg: KnowledgeGraph) -> tuple[str, ...]:
    """Return the answer values of a query."""
    result = kg.query(query.sparql(kg.profile))
    return tuple(row_texts(kg, result)) if result.boolean is None else (str(result.boolean).lower(),)


def _proof_of(query: PyQL, kg: KnowledgeGraph) -> Sequence[Triple]:
    """Return the facts that prove the answers of a query."""
    result = kg.query(query.sparql(kg.profile))
    answers = result.column(result.variables[0])[:PROOF_LIMIT] if result.rows else ()
    return query.prove(kg, answers, PROOF_LIMIT * 4)


class Path(NamedTuple):
    """Facts that lead from `start` to `end`, each with whether it is followed from subject to object."""

    start: Term
    end: Term
    hops: tuple[tuple[Triple, bool], ...]


def find_paths(facts: Iterable[Triple], starts: Iterable[Term], is_end: Callable[[Term], bool]) -> list[Path]:
    """Return a shortest path from each start to each answer, else the facts with the answer in them."""
    anchors, edges = dict.fromkeys(starts), dict[Term, list[tuple[Term, Triple, bool]]]()
    for triple in (facts := dict.fromkeys(facts)):
        edges.setdefault(triple.subject, []).append((triple.object, triple, True))
        edges.setdefault(triple.object, []).append((triple.subject, triple, False))
    paths: list[Path] = []
    for start in anchors:
        hops_to: dict[Term, tuple[tuple[Triple, bool], ...]] = {start: ()}
        queue = deque([start])
        while queue:
            node = queue.popleft()
            # A path ends at the next start, which has paths of its own.
            if node != start and node in anchors:
                continue
            for neighbour, triple, forward in edges.get(node, ()):
                if neighbour not in hops_to:
                    hops_to[neighbour] = (*hops_to[node], (triple, forward))
                    queue.append(neighbour)
        paths += [Path(start, end, hops) for end, hops in hops_to.items() if hops and is_end(end)]
    reached = {path.end for path in paths}
    for triple in facts:
        head, tail = triple.subject, triple.object
        for start, end, forward in ((head, tail, True), (tail, head, False)):
            if is_end(end) and end not in reached:
                paths.append(Path(start, end, ((triple, forward),)))
    return paths


def paths_between(
    question: str, facts: Sequence[Triple], starts: Sequence[Term], kg: KnowledgeGraph
) -> list[Path]:
    """Return the paths between nodes that a question names: linked ones, and those whose label is in it."""
    labels = node_labels(kg, [n for t in facts for n in (t.subject, t.object)])
    named = dict.fromkeys([*starts, *(n for n, label in labels.items() if contains_name(question, label))])
    paths: dict[frozenset[Triple], Path] = {}
    for path in find_paths(facts, named, named.__contains__):
        if path.start in named and path.end in named:
            paths.setdefault(frozenset(t for t, _ in path.hops), path)
    return list(paths.values())


def path_query(paths: Sequence[Path]) -> PyQL | None:
    """Return the query of paths, joined where each start leads to all answers; None without paths."""
    ends: dict[tuple[Term, tuple[tuple[IRI, bool], ...]], set[Term]] = {}  # start and relations of a path
    for path in paths:
        relations = tuple((triple.relation, forward) for triple, forward in path.hops)
        ends.setdefault((path.start, relations), set()).add(path.end)
    if not ends:
        return None
    ranked = sorted(ends, key=lambda key: -len(ends[key]))
    best = {key[0]: key for key in reversed(ranked)}  # start -> its relation path to most answers
    answers = {path.end for path in paths}
    # A path that misses an answer is left out: joined to the others it would remove that answer.
    joined = [key for key in ranked if key == best[key[0]] and ends[key] == answers]
    query, answer, used = PyQL(), Variable("answer"), 0
    for start, relations in joined or ranked[:1]:
        node: Node = start
        for place, (relation, forward) in enumerate(relations, 1):
            used += place < len(relations)
            following = answer if place == len(relations) else Variable(f"x{used}")
            subject, object_ = (node, following) if forward else (following, node)
            query, node = query.add_fact(subject, relation, object_), following
    return query.set_answer(answer)
