"""How the values of a variable are to be compared, told from a sample of them.

KGs store numbers and dates with mixed datatypes, or as plain strings; engines then compare nothing, or text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import XSD, Literal, Term, Variable
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.pyql import Count, Extreme, Filter, Kind, PyQL
from triplewise.tools.pyql.program import MATCHES, TEMPORAL
from triplewise.tools.pyql.text import NUMERIC, read_iri

SAMPLE = 200
_NUMBER = re.compile(r"\s*[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\s*")
_DATE = re.compile(r"-?\d{4}-\d\d(?:-\d\d)?(?:T.*|Z|[+-]\d\d:\d\d)?")
# The only date types that every engine compares among themselves.
_COMPARABLE = {XSD + "date", XSD + "dateTime"}


def compared(kg: KnowledgeGraph, before: PyQL, after: PyQL) -> PyQL:
    """The program `after` a filter or superlative was added, with values compared as what they are.

    Args:
        kg: asked for a sample of the values, with one query, only where datatypes matter.
        before: the program without the clause.
        after: the program with it.

    Raises:
        ActionError: `bad_comparison` if entities are to be ordered.
    """
    clause = after.clauses[-1] if len(after.clauses) == len(before.clauses) + 1 else None
    if not isinstance(clause, Filter | Extreme) or clause.kind or not _matters(clause):
        return after
    counts = {c.output for c in before.clauses if isinstance(c, Count)}
    variables = [v for v in clause.mentions if v not in counts]
    if not variables:
        return after
    values = _sample(kg, before, variables)
    if isinstance(clause, Extreme):
        _refuse_entities(kg, clause, values)
    if isinstance(clause, Filter):
        clause = _named(kg, clause, values)
        values += [side for side in (clause.left, clause.right) if isinstance(side, Literal)]
    fitted = replace(clause, kind=kind_of(values))
    return replace(after, clauses=(*before.clauses, fitted))


def _refuse_entities(kg: KnowledgeGraph, clause: Extreme, values: Sequence[Term]) -> None:
    """Raise `bad_comparison` for a superlative of entities: engines order their ids, which means nothing.

    Where names are ids, a year is an entity too.
    """
    if values and not kg.profile.percent_names and not any(isinstance(v, Literal) for v in values):
        form = clause.variable.n3()
        raise ActionError(
            "bad_comparison",
            f"{form} holds entities, which have no order: bind a number or date of them with add_fact",
            given=form,
        )


def _matters(clause: Filter | Extreme) -> bool:
    """Whether datatypes decide what a comparison means: not for entities, nor for text matches."""
    if isinstance(clause, Extreme):
        return True
    return clause.operator not in MATCHES and all(
        isinstance(side, Literal | Variable) for side in (clause.left, clause.right)
    )


def _sample(kg: KnowledgeGraph, program: PyQL, variables: Iterable[Variable]) -> list[Term]:
    """Some values of the variables; none if the engine could not tell."""
    asked = replace(program, answer=tuple(variables), boolean=False, order=None)
    result = kg.query(asked.preview_sparql(kg.profile, SAMPLE))
    return [value for row in result.rows for value in row if value is not None] if result.outcome.ok else []


def _named(kg: KnowledgeGraph, clause: Filter, values: list[Term]) -> Filter:
    """A filter whose literal names an entity, where all values are entities with their names as ids."""
    if not values or any(isinstance(v, Literal) for v in values) or clause.operator not in ("=", "!="):
        return clause
    sides = [
        (read_iri(side.value, kg.profile) or side) if isinstance(side, Literal) and kg.profile.percent_names
        else side
        for side in (clause.left, clause.right)
    ]  # fmt: skip
    return replace(clause, left=sides[0], right=sides[1])


def kind_of(values: Iterable[Term]) -> Kind:
    """How to compare values that are all to be compared with each other."""
    traits = [_trait(v) for v in values if isinstance(v, Literal)]
    found = set(traits)
    dates = {t for t in found if t in TEMPORAL or t == "date"}
    if dates:
        return "" if len(found) == 1 and dates <= _COMPARABLE else "date"
    if found <= {"number"}:
        return ""
    digits = sum(t in ("digits", "number") for t in traits)
    if digits and 2 * digits >= len(traits):
        return "number"
    return "text" if "tagged" in found else ""


def is_measure(term: Term) -> bool:
    """Whether a value is a number or a date, by its datatype or by how it is written."""
    return isinstance(term, Literal) and _trait(term) not in ("tagged", "text")


def _trait(literal: Literal) -> str:
    """What a literal is as far as comparing goes."""
    if literal.datatype in NUMERIC:
        return "number"
    if literal.datatype in TEMPORAL:
        return literal.datatype
    if literal.language:
        return "tagged"
    if _DATE.fullmatch(literal.value):
        return "date"
    return "digits" if _NUMBER.fullmatch(literal.value) else "text"
