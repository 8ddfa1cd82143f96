"""Answer: what was asked, the query that gives it, and the facts that prove it."""

from __future__ import annotations

from collections.abc import Iterable

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.phase import Update
from triplewise.nodes.resources import kg_of
from triplewise.nodes.state import Answer, AnswerStatus, ProofTriple, State
from triplewise.nodes.text import triple_text
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.terms import IRI, Triple, Variable
from triplewise.tools.pyql import PyQL

PROOF_LIMIT = 50
"""Most facts shown as proof."""


def labels_of(kg: KnowledgeGraph, values: Iterable[str]) -> tuple[str, ...]:
    """Readable text of answer values, in their order."""
    values = list(values)
    iris = {v: iri for v in values if (iri := kg.profile.expand(v)) is not None}
    found = kg.labels(iris.values())
    return tuple(found.get(iris[v], v) if v in iris else v for v in values)


def _proof(kg: KnowledgeGraph, triples: Iterable[Triple]) -> tuple[ProofTriple, ...]:
    """Facts with their readable text."""
    kept = list(dict.fromkeys(triples))[:PROOF_LIMIT]
    return tuple(ProofTriple(t, text) for t, text in zip(kept, triple_text(kg, kept), strict=True))


def _sentence(labels: tuple[str, ...]) -> str:
    """The answer in words."""
    if labels in (("true",), ("false",)):
        return "Yes." if labels == ("true",) else "No."
    if len(labels) > 1:
        return f"{', '.join(labels[:-1])} and {labels[-1]}."
    return f"{labels[0]}." if labels else ""


def _status(state: State, values: tuple[str, ...]) -> tuple[AnswerStatus, str]:
    """How the run ended, and why, in words."""
    verdict = state.verdict
    if verdict is not None and verdict.status == "spent":
        return "budget_spent", f"{verdict.note}; the answer is what was proven so far"
    if values:
        return "answered", ""
    if not state.linked:
        return "not_found", "no entity of the question was found in the knowledge graph"
    if not state.steps:
        return "not_found", "no action was taken"
    if not state.rules and state.last.feedback.action == "give_up":
        return "not_found", "no relation path from the linked entities fits the question"
    tried = f"{len(state.corrections)} corrections" if state.corrections else "no correction was needed"
    return "not_found", f"every way tried gave no result ({len(state.steps)} steps, {tried})"


def _build(state: State, kg: KnowledgeGraph, values: tuple[str, ...], sparql: str, proof: Iterable[Triple]) -> Update:
    """The answer value."""
    labels = labels_of(kg, values)
    status, reason = _status(state, values)
    answer = Answer(
        status=status,
        values=values,
        labels=labels,
        text=_sentence(labels) or f"Not found: {reason}.",
        sparql=sparql,
        proof=_proof(kg, proof),
        reason=reason,
        corrections=state.corrections,
    )
    return {"answer": answer}


def _best_effort(program: PyQL, kg: KnowledgeGraph) -> tuple[PyQL, tuple[str, ...]]:
    """When the budget ran out before `execute()`: the newest variable of the query so far."""
    if not program.answer and program.variables and not program.boolean:
        program = program.set_answer(program.variables[-1])
    result = kg.query(program.sparql(kg.profile))
    if result.boolean is not None:
        return program, (str(result.boolean).lower(),)
    terms = result.column(result.variables[0]) if result.rows else ()
    return program, tuple(kg.profile.short(t) for t in terms)


def program(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from the query that was built (QueryAgent)."""
    kg = kg_of(runtime.context)
    if not state.program:
        return memory(state, runtime)
    query = PyQL.parse(state.program, kg.profile)
    values = state.last.feedback.answers if state.steps else ()
    if state.verdict is not None and state.verdict.status == "spent" and not state.last.feedback.finished:
        query, values = _best_effort(query, kg)
    proof: tuple[Triple, ...] = ()
    if values:
        answers = [t for v in values[:PROOF_LIMIT] if (t := kg.profile.expand(v)) is not None]
        proof = query.proof(kg.profile, kg.query(query.proof_sparql(kg.profile, answers), limit=PROOF_LIMIT * 4))
    return _build(state, kg, tuple(values), query.sparql(kg.profile), proof)


def memory(state: State, runtime: Runtime[Context]) -> Update:
    """Answer from memory alone (ODA 2.2): the reflected facts prove it."""
    kg = kg_of(runtime.context)
    values = state.last.feedback.answers if state.steps and state.last.feedback.finished else ()
    paths = _paths_to(state, kg, values)
    return _build(state, kg, tuple(values), _path_query(state, kg, paths), [t for p in paths for t in p])


def _paths_to(state: State, kg: KnowledgeGraph, values: tuple[str, ...]) -> list[tuple[Triple, ...]]:
    """Paths of memory, cut behind the answer they reach; facts seen serve where memory holds none."""
    short = kg.profile.short
    wanted = set(values)
    paths = []
    for path in state.memory:
        ends = [i for i, t in enumerate(path) if short(t.object) in wanted or short(t.subject) in wanted]
        if ends:
            paths.append(path[: ends[-1] + 1])
    if paths or not wanted:
        return paths
    seen = (t for s in state.steps for t in s.feedback.triples)
    return [(t,) for t in dict.fromkeys(seen) if short(t.object) in wanted or short(t.subject) in wanted]


def _path_query(state: State, kg: KnowledgeGraph, paths: list[tuple[Triple, ...]]) -> str:
    """A query of the proof's shape: linked entities stay, every other node becomes a variable."""
    if not paths:
        return ""
    fixed = {e.id for e in state.linked}
    names: dict[object, Variable] = {}
    query = PyQL()
    end: Variable | None = None
    for t in paths[0]:
        ends = []
        for node in (t.subject, t.object):
            keep = isinstance(node, IRI) and kg.profile.short(node) in fixed
            ends.append(node if keep else names.setdefault(node, Variable(f"x{len(names) + 1}")))
        query = query.add_fact(ends[0], t.relation, ends[1]) if any(isinstance(e, Variable) for e in ends) else query
        end = next((e for e in reversed(ends) if isinstance(e, Variable)), end)
    return query.set_answer(end).sparql(kg.profile) if end is not None else ""


VARIANTS = {"program": program, "memory": memory}
