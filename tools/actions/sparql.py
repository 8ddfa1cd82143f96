"""Asking a graph in SPARQL that the model writes: ours, beside QueryAgent's PyQL, with the same checks.

A query is read (`tools/pyql/raw_sparql.py`), refused unless it only reads, run, and shown as rows with ids.
Of one that finds nothing, the patterns that do so are named.
"""

from __future__ import annotations

from dataclasses import replace

from triplewise.tools.actions import pyql
from triplewise.tools.actions.search import search
from triplewise.tools.actions.terms import names, short_ids, with_id
from triplewise.tools.actions.toolset import ActionContext, Feedback, Parameter, Toolset, action, unknown
from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Result
from triplewise.tools.pyql.program import Fact, PyQL
from triplewise.tools.pyql.raw_sparql import parts_of, proof_sparql, read_sparql
from triplewise.tools.pyql.sparql import instantiate

SHOWN_ROWS = 10
"""Rows of a result that the model is shown."""
PATTERNS = 6
"""Patterns of a query without result that are looked at."""


@action(
    Parameter("entity", "entity", "an entity id"), example="get_relation(Q1490)", aliases=("get_relations",)
)
def get_relation(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Get the one-hop relations of an entity, in both directions."""
    return pyql.get_relation.run(replace(context, program=""), arguments)


@action(
    Parameter("select", "text", "one SELECT or ASK"),
    example="query(SELECT ?capital WHERE { e:Q17 r:P36 ?capital })",
    variadic=True,
    aliases=("sparql", "run_query"),
)
def query(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Run a query and see its first rows. It becomes the answer when execute() follows."""
    kg = context.kg
    text = read_sparql(", ".join(arguments), kg.profile)
    result = _run(kg, text)
    if result.boolean is not None:
        answer = "yes" if result.boolean else "no"
        return Feedback(arguments=(text,), outcome=Outcome.ROWS, observation=answer, program=text)
    rows = Result(result.outcome, result.variables, result.rows[:SHOWN_ROWS])
    values = {v: short_ids(kg, rows.column(v)) for v in rows.variables} if rows.rows else {}
    patterns = parts_of(text).patterns
    named = names(kg, list(dict.fromkeys(term for row in rows.rows for term in row if term is not None)))
    lines = [" | ".join(f"?{v}" for v in rows.variables)]
    for row in rows.rows:
        lines.append(" | ".join("" if t is None else with_id(kg, t, named[t]) for t in row))
    more = [f"... {len(result.rows)} rows in all"] if len(result.rows) > len(rows.rows) else []
    return Feedback(
        arguments=(text,),
        outcome=result.outcome,
        message=result.message,
        observation="\n".join([*lines, *more]) if rows.rows else "The query has no result.",
        program=text,
        values=values,
        ids=values,
        triples=instantiate(patterns, rows),
        detail={"missing": _missing(kg, patterns)} if result.outcome is Outcome.EMPTY else {},
    )


def _run(kg: KnowledgeGraph, text: str) -> Result:
    """The result of a query. Raises `ActionError` for one that the engine refuses."""
    result = kg.query(text, foreign=True)
    if result.outcome is Outcome.SYNTAX:
        raise ActionError("bad_sparql", result.message, given=text)
    return result


def _missing(kg: KnowledgeGraph, patterns: list[Fact]) -> list[str]:
    """The first patterns that nothing meets together: those before it find something."""
    for n in range(1, min(len(patterns), PATTERNS) + 1):
        found = kg.query(proof_sparql(patterns[:n]), limit=1, foreign=True)
        if found.outcome is Outcome.EMPTY:
            short, triples = kg.profile.short, [(t.subject, t.relation, t.object) for t in patterns[:n]]
            return [" ".join(short(t) if isinstance(t, IRI) else t.n3() for t in ends) for ends in triples]
    return []


@action(example="execute()")
def execute(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
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
        finished=result.outcome.ok,
    )


_ACTIONS = (query, get_relation, search, execute, unknown)
SPARQL = Toolset("sparql", _ACTIONS, to_pyql=lambda text, profile: PyQL())
"""The program of a run is the text of its last query."""
