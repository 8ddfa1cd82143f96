"""How values compare that a filter or superlative weighs: as numbers, dates or text, whatever their type."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from triplewise.tools.core.errors import ActionError
from triplewise.tools.core.terms import IRI, XSD, Literal, Node, Term, Variable
from triplewise.tools.kg.literals import NUMERIC
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.pyql import program as pyql
from triplewise.tools.pyql.text import is_computable, read_iri

SAMPLE, NEAREST = 200, 3
"""Rows of the values that a comparison is fitted to; values named that come nearest to what was compared."""
_NUMBER = re.compile(r"\s*[+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\s*")
_DATE = re.compile(r"-?\d{4}-\d\d(?:-\d\d)?(?:T.*|Z|[+-]\d\d:\d\d)?")
_DATES = pyql.TEMPORAL | {"date"}
_PLAIN = {"", XSD + "string", XSD + "boolean"}
# The only date types that every engine compares among themselves.
_COMPARABLE = {XSD + "date", XSD + "dateTime"}
_Clauses = tuple[pyql.Clause, ...]


def compared(kg: KnowledgeGraph, before: pyql.PyQL, after: pyql.PyQL) -> pyql.PyQL:
    """Return the program `after` clauses were added, with values compared and computed as what they are.

    A sample of the values is read from the KG, by one query per comparison, if datatypes matter.
    Raises `bad_comparison` if entities are to be ordered, or computed with.
    """
    return replace(after, clauses=_all_fitted(kg, before.clauses, after.clauses[len(before.clauses) :]))


def _all_fitted(kg: KnowledgeGraph, before: _Clauses, new: Sequence[pyql.Clause]) -> Any:
    """Clauses with new ones, each with the kind of its comparison."""
    for clause in new:
        before = (*before, _fitted(kg, before, clause))
    return before


def _fitted(kg: KnowledgeGraph, clauses: _Clauses, clause: pyql.Clause) -> Any:
    """A clause, or an item of a pattern, with the kind of its comparison."""
    match clause:
        case pyql.Union(alternatives):
            return pyql.Union(tuple(_all_fitted(kg, clauses, a)[len(clauses) :] for a in alternatives))
        case pyql.Not(items):
            return pyql.Not(_all_fitted(kg, clauses, items)[len(clauses) :])
        case pyql.Filter(kind=""):
            return _fitted_filter(kg, clauses, clause)
        case pyql.Extreme(variable=variable, kind=""):
            values = sample(kg, clauses, (variable,))
            # Engines order entities by their ids, which means nothing. Where names are ids, years are too.
            if not _are_nodes(values) or kg.profile.percent_names:
                return replace(clause, kind=kind_of(values))
            if not _have_numbers(kg, values):
                raise _no_value(variable, "which have no order")
            return replace(clause, kind="name")
        case pyql.Aggregate(function="sum" | "average", of=of, kind=""):
            values = sample(kg, clauses, (of,))
            traits = {_trait(v) for v in values if isinstance(v, Literal)}
            if traits & _DATES and kind_of(values) != "number":
                message = f"{of.n3()} holds dates, which are not numbers"
                raise ActionError("bad_comparison", message, given=of.n3())
            if values and not {"number", "digits"} & traits:
                raise _no_value(of, "which are not numbers")
            return replace(clause, kind="number" if traits - {"number"} else "")
    return clause


def _fitted_filter(kg: KnowledgeGraph, clauses: _Clauses, clause: pyql.Filter) -> pyql.Filter:
    sides = (clause.left, clause.right)
    has_text = any(isinstance(s, Literal) and pyql.is_text(s) for s in sides)
    matches, is_ordered = clause.operator in pyql.MATCHES, clause.operator in pyql.ORDERED
    if any(isinstance(s, IRI) for s in sides) or (matches and not has_text):
        return clause
    values = sample(kg, clauses, clause.mentions)
    if _are_nodes(values) and not kg.profile.percent_names:
        if is_ordered:
            raise _no_value(clause.mentions[0], "which have no order")
        if has_text:
            return replace(clause, kind="name")
    elif _are_nodes(values) and not (is_ordered or matches):
        # A literal among entities whose names are their ids is the name of one.
        named = (read_iri(s.value, kg.profile) if isinstance(s, Literal) else None for s in sides)
        left, right = (iri or side for iri, side in zip(named, sides, strict=True))
        clause = replace(clause, left=left, right=right)
    return clause if matches else replace(clause, kind=kind_of([*values, clause.left, clause.right]))


def _no_value(variable: Variable, why: str) -> ActionError:
    form = variable.n3()
    message = f"{form} holds entities or text, {why}: bind a number or date of them with add_fact"
    return ActionError("bad_comparison", message, given=form)


def _are_nodes(values: Sequence[Term]) -> bool:
    return bool(values) and not any(isinstance(v, Literal) for v in values)


def _have_numbers(kg: KnowledgeGraph, nodes: Sequence[Term]) -> bool:
    """Whether the names of most nodes have a number in them."""
    names = kg.labels([node for node in nodes if isinstance(node, IRI)]).values()
    return 2 * sum(re.search(r"\d", name) is not None for name in names) >= len(nodes)


def sample(
    kg: KnowledgeGraph, clauses: _Clauses, variables: Sequence[Variable], computed: bool = False
) -> list[Term]:
    """Return values of variables that some clauses bind, with one query; computed numbers may be left out."""
    outputs = set() if computed else {c.output for c in clauses if isinstance(c, pyql.Aggregate)}
    if not (columns := tuple(v for v in variables if v not in outputs)):
        return []
    result = kg.query(pyql.PyQL(clauses, columns).sparql(kg.profile, SAMPLE))
    return [v for row in result.rows for v in row if v is not None]


def describe_values(kg: KnowledgeGraph, clauses: _Clauses, clause: pyql.Filter) -> dict[str, str]:
    """Return what each variable of a comparison holds, such as `numbers from 1 to 8848, nearest: 8848`.

    Of nodes and texts those are named that come nearest to the other side.
    """
    described = {}
    for variable in clause.mentions:
        other = clause.right if clause.left == variable else clause.left
        aim = other.value if isinstance(other, Literal) else ""
        if values := list(dict.fromkeys(sample(kg, clauses, (variable,), computed=True))):
            described[variable.n3()] = _value_range(values, aim) or _nearest_names(kg, values, aim)
    return described


def _value_range(values: Sequence[Term], aim: str) -> str:
    """Return the range of numbers or dates, and the numbers nearest to `aim`; "" for other values."""
    literals = [v for v in values if isinstance(v, Literal)]
    traits = {_trait(v) for v in literals}
    if traits == {"number"} or kind_of(literals) == "number":
        kind, held = "numbers", sorted({v.value for v in literals if _NUMBER.fullmatch(v.value)}, key=float)
    elif literals and traits <= _DATES:
        kind, held = "dates", sorted({v.value for v in literals})
    else:
        return ""
    if len(held) <= NEAREST:
        return f"{kind}: {', '.join(held)}"
    text = f"{kind} from {held[0]} to {held[-1]}"
    if kind == "dates" or not _NUMBER.fullmatch(aim):
        return text
    return f"{text}, nearest: {', '.join(sorted(held, key=lambda n: abs(float(n) - float(aim)))[:NEAREST])}"


def _nearest_names(kg: KnowledgeGraph, values: Sequence[Term], aim: str) -> str:
    """Return the names of the nodes, or the texts, that are most like `aim`."""
    from rapidfuzz import process

    labels, short = kg.labels([v for v in values if isinstance(v, IRI)]), kg.profile.short
    texts = {labels.get(v) or short(v): v for v in values}
    near = [m[0] for m in process.extract(aim, list(texts), limit=NEAREST)] or list(texts)[:NEAREST]
    shown = [f"{t} [{short(texts[t])}]" if isinstance(texts[t], IRI) else f'"{t}"' for t in near]
    kind = "texts" if any(isinstance(v, Literal) for v in values) else "nodes"
    return f"{kind} nearest to it: {', '.join(shown)}"


def kind_of(values: Iterable[Node]) -> pyql.Kind:
    """Return how to compare values that are all to be compared with each other: as most of them are."""
    traits = [_trait(v) for v in values if isinstance(v, Literal)]
    dates = [t for t in traits if t in _DATES]
    if dates and 2 * len(dates) >= len(traits):
        return "" if len(set(traits)) == 1 and _COMPARABLE.issuperset(dates) else "date"
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
    """Return what a literal is as far as comparing goes: a date's datatype, or one of the words below."""
    if literal.datatype in NUMERIC:
        return "number" if is_computable(literal) else "digits"
    if literal.datatype in pyql.TEMPORAL:
        return literal.datatype
    if literal.language or literal.datatype not in _PLAIN:  # such as xsd:time, written as a text
        return "tagged"
    if _DATE.fullmatch(literal.value):
        return "date"
    return "digits" if _NUMBER.fullmatch(literal.value) else "text"
