"""How values compare that a filter or superlative weighs: as numbers, dates or text, whatever their type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Variable
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.pyql.program import (
    COMPARISONS,
    MATCHES,
    TEMPORAL,
    Aggregate,
    Clause,
    Extreme,
    Filter,
    Kind,
    Not,
    Pattern,
    PyQL,
    Union,
    Value,
    is_text,
    variables_of,
)
from triplewise.tools.pyql.text import NUMERIC, read_iri

SAMPLE = 200
"""Rows of the values that a comparison is fitted to."""
NEAREST = 3
"""Values named that come nearest to what was compared."""
_SAMPLE_NUMBER = re.compile(r"\s*[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\s*")
_SAMPLE_DATE = re.compile(r"-?\d{4}-\d\d(?:-\d\d)?(?:T.*|Z|[+-]\d\d:\d\d)?")
# The only date types that every engine compares among themselves.
_COMPARABLE = {XSD + "date", XSD + "dateTime"}


def compared(kg: KnowledgeGraph, before: PyQL, after: PyQL) -> PyQL:
    """Return the program `after` clauses were added, with values compared and computed as what they are.

    The KG is asked for a sample of the values, with one query a comparison, only where datatypes matter.

    Raises:
        ActionError: `bad_comparison` if entities are to be ordered, or computed with.
    """
    clauses = before.clauses
    for clause in after.clauses[len(clauses) :]:
        clauses = (*clauses, _fitted(kg, clauses, clause))
    return replace(after, clauses=clauses)


def _fitted(kg: KnowledgeGraph, clauses: tuple[Clause, ...], clause: Clause) -> Any:
    """A clause, or an item of a pattern, with the kind of its comparison."""
    match clause:
        case Union(alternatives):
            return Union(tuple(_fitted_pattern(kg, clauses, pattern) for pattern in alternatives))
        case Not(pattern):
            return Not(_fitted_pattern(kg, clauses, pattern))
        case Filter(kind=""):
            return _fitted_filter(kg, clauses, clause)
        case Extreme(variable=variable, kind=""):
            values = sample(kg, clauses, (variable,))
            # Engines order entities by their ids, which means nothing. Where names are ids, years are too.
            if _are_nodes(values) and not kg.profile.percent_names:
                raise _no_value(variable, "which have no order")
            return replace(clause, kind=kind_of(values))
        case Aggregate(function="sum" | "average", of=of, kind=""):
            return replace(clause, kind=_number_kind(kg, clauses, (of,)))
        case Value(expression=expression, kind=""):
            return replace(clause, kind=_number_kind(kg, clauses, variables_of(expression, besides="year")))
    return clause


def _fitted_pattern(kg: KnowledgeGraph, clauses: tuple[Clause, ...], pattern: Pattern) -> Pattern:
    items: Pattern = ()
    for item in pattern:
        items = (*items, _fitted(kg, (*clauses, *items), item))
    return items


def _fitted_filter(kg: KnowledgeGraph, clauses: tuple[Clause, ...], clause: Filter) -> Filter:
    sides: tuple[Node, ...] = (clause.left, clause.right)
    has_text, matches = any(isinstance(s, Literal) and is_text(s) for s in sides), clause.operator in MATCHES
    if any(isinstance(s, IRI) for s in sides) or (matches and not has_text):
        return clause
    values = sample(kg, clauses, clause.mentions)
    if _are_nodes(values) and not kg.profile.percent_names:
        if clause.operator in COMPARISONS[2:]:
            raise _no_value(clause.mentions[0], "which have no order")
        if has_text:
            return replace(clause, kind="name")
    elif _are_nodes(values) and clause.operator in ("=", "!="):
        # A literal among entities whose names are their ids is the name of one.
        named = (read_iri(s.value, kg.profile) if isinstance(s, Literal) else None for s in sides)
        left, right = (iri or side for iri, side in zip(named, sides, strict=True))
        clause, sides = replace(clause, left=left, right=right), (left, right)
    if matches:
        return clause
    return replace(clause, kind=kind_of([*values, *(s for s in sides if isinstance(s, Literal))]))


def _number_kind(kg: KnowledgeGraph, clauses: tuple[Clause, ...], variables: Sequence[Variable]) -> Kind:
    """How numbers are read that are to be computed with: "number" if any is written as text."""
    for variable in variables:
        values = sample(kg, clauses, (variable,))
        traits = [_trait(v) for v in values if isinstance(v, Literal)]
        if any(t == "date" or t in TEMPORAL for t in traits):
            message = f"{variable.n3()} holds dates: compute with year({variable.n3()})"
            raise ActionError("bad_comparison", message, given=variable.n3())
        if values and not {"number", "digits"} & set(traits):
            raise _no_value(variable, "which are no numbers")
        if set(traits) - {"number"}:
            return "number"
    return ""


def _no_value(variable: Variable, why: str) -> ActionError:
    form = variable.n3()
    message = f"{form} holds entities or text, {why}: bind a number or date of them with add_fact"
    return ActionError("bad_comparison", message, given=form)


def _are_nodes(values: Sequence[Term]) -> bool:
    return bool(values) and not any(isinstance(v, Literal) for v in values)


def sample(
    kg: KnowledgeGraph, clauses: tuple[Clause, ...], variables: Sequence[Variable], computed: bool = False
) -> list[Term]:
    """Return values of variables that some clauses bind, with one query; computed numbers may be left out."""
    outputs = set() if computed else {c.output for c in clauses if isinstance(c, Aggregate | Value)}
    if not (columns := tuple(v for v in variables if v not in outputs)):
        return []
    result = kg.query(PyQL(clauses, columns).sparql(kg.profile, SAMPLE))
    return [v for row in result.rows for v in row if v is not None]


def describe_values(kg: KnowledgeGraph, clauses: tuple[Clause, ...], clause: Filter) -> dict[str, str]:
    """Return what each variable of a comparison holds: its range, and what is nearest to the other side."""
    described = {}
    for variable in clause.mentions:
        values = list(dict.fromkeys(sample(kg, clauses, (variable,), computed=True)))
        other = clause.right if clause.left == variable else clause.left
        if values:
            aim = other.value if isinstance(other, Literal) else ""
            described[variable.n3()] = _described(kg, values, aim)
    return described


def _described(kg: KnowledgeGraph, values: Sequence[Term], aim: str) -> str:
    literals, short = [v for v in values if isinstance(v, Literal)], kg.profile.short
    traits = {_trait(v) for v in literals}
    if literals and (traits == {"number"} or kind_of(literals) == "number"):
        units = {short(IRI(v.datatype)) for v in literals if not (v.language or v.datatype.startswith(XSD))}
        numbers = sorted({v.value for v in literals if _SAMPLE_NUMBER.fullmatch(v.value)}, key=float)
        near = numbers
        if _SAMPLE_NUMBER.fullmatch(aim):
            near = sorted(numbers, key=lambda n: abs(float(n) - float(aim)))[:NEAREST]
        of_units = f" ({', '.join(sorted(units)[:NEAREST])})" if units else ""
        return _range("numbers", numbers, near) + of_units
    if literals and traits <= {"date", *TEMPORAL}:
        dates = sorted(v.value for v in literals)
        return _range("dates", dates, dates)
    return _nearest(kg, values, aim, "texts" if literals else "nodes")


def _nearest(kg: KnowledgeGraph, values: Sequence[Term], aim: str, kind: str) -> str:
    """Return the values with the names nearest to a text, with ids; the first ones where there is no text."""
    from rapidfuzz import process

    short, names = kg.profile.short, kg.labels([v for v in values if isinstance(v, IRI)])
    texts = {names.get(v) or short(v): v for v in values}
    near = [m[0] for m in process.extract(aim, list(texts), limit=NEAREST)] if aim else list(texts)[:NEAREST]
    shown = [f"{t} [{short(texts[t])}]" if isinstance(texts[t], IRI) else f'"{t}"' for t in near]
    return f"{kind}{' nearest to it' if aim else ' such as'}: {', '.join(shown)}"


def _range(kind: str, values: Sequence[str], near: Sequence[str]) -> str:
    """E.g. `numbers from 1 to 8848, nearest: 8848, 8611`."""
    if len(values) <= NEAREST:
        return f"{kind}: {', '.join(values)}"
    nearest = f", nearest: {', '.join(near)}" if len(near) < len(values) else ""
    return f"{kind} from {values[0]} to {values[-1]}{nearest}"


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
