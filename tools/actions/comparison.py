"""How values compare that a filter or superlative weighs: as numbers, dates or text, whatever their type."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Term
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.pyql.program import MATCHES, TEMPORAL, Count, Extreme, Filter, Kind, PyQL
from triplewise.tools.pyql.text import NUMERIC, read_iri

SAMPLE = 200
_SAMPLE_NUMBER = re.compile(r"\s*[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\s*")
_SAMPLE_DATE = re.compile(r"-?\d{4}-\d\d(?:-\d\d)?(?:T.*|Z|[+-]\d\d:\d\d)?")
# The only date types that every engine compares among themselves.
_COMPARABLE = {XSD + "date", XSD + "dateTime"}


def compared(kg: KnowledgeGraph, before: PyQL, after: PyQL) -> PyQL:
    """Return the program `after` a filter or superlative was added, with values compared as what they are.

    Args:
        kg: asked for a sample of the values, with one query, only where datatypes matter.
        before: the program without the clause.
        after: the program with it.

    Raises:
        ActionError: `bad_comparison` if entities are to be ordered.
    """
    profile = kg.profile
    clause = after.clauses[-1] if len(after.clauses) == len(before.clauses) + 1 else None
    if not isinstance(clause, Filter | Extreme) or clause.kind:
        return after
    sides = (clause.left, clause.right) if isinstance(clause, Filter) else ()
    if (isinstance(clause, Filter) and clause.operator in MATCHES) or any(isinstance(s, IRI) for s in sides):
        return after
    counts = {c.output for c in before.clauses if isinstance(c, Count)}
    variables = tuple(v for v in clause.mentions if v not in counts)
    if not variables:
        return after
    sampled = replace(before, answer=variables, boolean=False, order=None)
    result = kg.query(sampled.preview_sparql(profile, SAMPLE))
    values = [v for row in result.rows for v in row if v is not None] if result.outcome.ok else []
    entities = bool(values) and not any(isinstance(v, Literal) for v in values)
    if isinstance(clause, Extreme):
        # Engines order entities by their ids, which means nothing. Where names are ids, a year is one too.
        if entities and not profile.percent_names:
            form = clause.variable.n3()
            raise ActionError(
                "bad_comparison",
                f"{form} holds entities, which have no order: bind a number or date of them with add_fact",
                given=form,
            )
    else:
        if entities and profile.percent_names and clause.operator in ("=", "!="):
            # A literal among entities whose names are their ids is the name of one.
            left, right = ((read_iri(s.value, profile) or s) if isinstance(s, Literal) else s for s in sides)
            clause, sides = replace(clause, left=left, right=right), (left, right)
        values += [side for side in sides if isinstance(side, Literal)]
    return replace(after, clauses=(*before.clauses, replace(clause, kind=kind_of(values))))


def kind_of(values: Iterable[Term]) -> Kind:
    """Return how to compare values that are all to be compared with each other."""
    traits = [_trait(v) for v in values if isinstance(v, Literal)]
    if dates := {t for t in traits if t in TEMPORAL or t == "date"}:
        return "" if len(set(traits)) == 1 and dates <= _COMPARABLE else "date"
    if set(traits) <= {"number"}:
        return ""
    digits = sum(t in ("digits", "number") for t in traits)
    if digits and 2 * digits >= len(traits):
        return "number"
    return "text" if "tagged" in traits else ""


def is_measure(term: Term) -> bool:
    """Whether a value is a number or a date, by its datatype or by how it is written."""
    return isinstance(term, Literal) and _trait(term) not in ("tagged", "text")


def _trait(literal: Literal) -> str:
    """Return what a literal is as far as comparing goes."""
    if literal.datatype in NUMERIC:
        return "number"
    if literal.datatype in TEMPORAL:
        return literal.datatype
    if literal.language:
        return "tagged"
    if _SAMPLE_DATE.fullmatch(literal.value):
        return "date"
    return "digits" if _SAMPLE_NUMBER.fullmatch(literal.value) else "text"
