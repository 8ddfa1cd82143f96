"""Asking a graph in SPARQL that the model writes: not in the papers, with the same checks as PyQL.

A query is read (`tools/pyql/raw_sparql.py`), refused unless it only reads, run, and shown as rows with ids.
Of one that finds nothing, the patterns that do so are named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from triplewise.tools.actions import pyql
from triplewise.tools.actions.search import search
from triplewise.tools.actions.terms import names, short_ids, with_id
from triplewise.tools.actions.toolset import ActionContext, Feedback, Toolset, action, unknown
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Result
from triplewise.tools.pyql.program import Fact, PyQL
from triplewise.tools.pyql.raw_sparql import parts_of, proof_sparql, read_sparql
from triplewise.tools.pyql.sparql import instantiate

SHOWN_ROWS, PATTERNS = 10, 6  # Rows that the model is shown; patterns looked at of a query without result


@action("get_relation(Q1490)", "get_relations")
def get_relation(context: ActionContext, entity: Annotated[str, "entity", "an entity id"]) -> Feedback:
    """Get the one-hop relations of an entity, in both directions."""
    return pyql.get_relation.run(replace(context, program=""), entity)


@action("query(SELECT ?capital WHERE { e:Q17 r:P36 ?capital })", "sparql", "run_query")
def query(context: ActionContext, *select: Annotated[str, "text", "one SELECT or ASK"]) -> Feedback:
    """Run a query and see its first rows. It becomes the answer when execute() follows."""
    kg = context.kg
    text = read_sparql(", ".join(select), kg.profile)
    result, (patterns, _, _, factless) = _run(kg, text), parts_of(text)
    if factless:
        message = "it asks the graph for no fact, only for what it says itself: write a triple pattern"
        raise ActionError("bad_sparql", message, given=text)
    if result.boolean is not None:
        answer = "yes" if result.boolean else "no"
        return Feedback(arguments=(text,), outcome=Outcome.ROWS, observation=answer, program=text)
    rows = Result(result.outcome, result.variables, result.rows[:SHOWN_ROWS])
    values = {v: short_ids(kg, rows.column(v)) for v in rows.variables} if rows.rows else {}
    named = names(kg, (term for row in rows.rows for term in row))
    lines = [" | ".join(f"?{v}" for v in rows.variables)]
    lines += [" | ".join("" if t is None else with_id(kg, t, named[t]) for t in row) for row in rows.rows]
    if len(result.rows) > SHOWN_ROWS:
        lines.append(f"... {len(result.rows)} rows in all")
    shown = "\n".join(lines) if rows.rows else "The query has no result."
    missing = {} if rows.rows else {"missing": _missing(kg, patterns[:PATTERNS])}
    return Feedback(
        arguments=(text,), message=result.message, outcome=result.outcome, observation=shown, program=text,
        values=values, ids=values, triples=instantiate(patterns, rows), detail=missing,
    )  # fmt: skip


def _missing(kg: KnowledgeGraph, patterns: Sequence[Fact]) -> list[str]:
    """Return the first patterns that nothing meets together: those before the last one find something."""
    for n in range(1, 1 + len(patterns)):
        if kg.query(proof_sparql(patterns[:n]), limit=1, foreign=True).outcome is Outcome.EMPTY:
            ends = [(t.subject, t.relation, t.object) for t in patterns[:n]]
            return [" ".join(kg.profile.short(t) if isinstance(t, IRI) else t.n3() for t in e) for e in ends]
    return []


def _run(kg: KnowledgeGraph, text: str) -> Result:
    """The result of a query. Raises `ActionError` for one that the engine refuses."""
    result = kg.query(text, foreign=True)
    if result.outcome is Outcome.SYNTAX:
        raise ActionError("bad_sparql", result.message, given=text)
    return result


@action("execute()")
def execute(context: ActionContext) -> Feedback:
    """Finish: what the last query finds in its first column is the answer."""
    if not context.program:
        raise ActionError("execute_before_answer", "no query was made yet: use query(SELECT ...)")
    result = _run(context.kg, context.program)
    if result.boolean is not None:
        answers: tuple[str, ...] = ("true" if result.boolean else "false",)
    else:
        answers = tuple(short_ids(context.kg, result.column(result.variables[0]))) if result.rows else ()
    return Feedback(
        outcome=Outcome.ROWS if result.boolean is not None else result.outcome,
        message=result.message,
        observation=f"{len(answers)} answers." if answers else "The query has no result.",
        answers=answers,
        finished=True,
    )


_ACTIONS = (query, get_relation, search, execute, unknown)
SPARQL = Toolset("sparql", _ACTIONS, to_pyql=lambda text, profile: PyQL())
"""The program of a run is the text of its last query."""
