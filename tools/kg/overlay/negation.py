"""NOT EXISTS over a KG and facts beside it, with each way to meet its patterns apart.

`{ A . B }` exists if the KG meets both, or the KG one and a fact the other, or facts both. A way with facts
is a condition on variables, so that no union of rows stands inside EXISTS.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, Term, Variable
from triplewise.tools.kg.overlay.known import Allowed, Facts, rows_of
from triplewise.tools.kg.overlay.patterns import Path, Pattern, relations_of

MOST = 3
"""Patterns that facts may match in one NOT EXISTS."""
ROWS = 500
"""Rows that facts may give for one way."""

Row: TypeAlias = Mapping[Variable, Term]


def without(
    patterns: Sequence[Pattern], facts: Facts, allowed: Allowed, outside: Collection[Variable]
) -> list[str] | None:
    """The filters to add to `FILTER NOT EXISTS { patterns }`; [] if no fact can match one of them.

    `outside`: variables that stand elsewhere in the query. None where it cannot be written so.
    """
    if any(isinstance(p.predicate, Path) and relations_of(p.predicate) & facts.relations for p in patterns):
        return None
    rows = [_rows(p, facts, allowed) for p in patterns]
    touched = [i for i, found in enumerate(rows) if found]
    if len(touched) > MOST:
        return None
    filters = []
    for size in range(1, len(touched) + 1):
        for chosen in combinations(touched, size):
            joined = _joined([rows[i] for i in chosen])
            if len(joined) > ROWS:
                return None
            others = [p for i, p in enumerate(patterns) if i not in chosen]
            if joined:
                filters.append(_filter(others, joined, outside))
    return filters


def _rows(pattern: Pattern, facts: Facts, allowed: Allowed) -> list[Row]:
    """What the facts that a pattern matches bind."""
    if isinstance(pattern.predicate, Path):
        return []
    variables, rows = rows_of(pattern, facts.matching(pattern, allowed))
    return [dict(zip(variables, row, strict=True)) for row in rows]


def _joined(tables: Sequence[Sequence[Row]]) -> list[Row]:
    """Rows that agree, one of each table."""
    found: list[Row] = [{}]
    for table in tables:
        found = [{**a, **b} for a in found for b in table if all(a[v] == b[v] for v in a.keys() & b.keys())]
    return found


def _filter(others: Sequence[Pattern], rows: Sequence[Row], outside: Collection[Variable]) -> str:
    """That no row holds, together with the patterns that are left to the KG."""
    seen = {v for p in others for v in p.variables}
    wanted = [{v: t for v, t in row.items() if v in seen or v in outside} for row in rows]
    rows = [dict(items) for items in dict.fromkeys(tuple(row.items()) for row in wanted)]
    condition = " || ".join(_row_text(row, seen) for row in rows)
    if not others:
        return f"FILTER(!({condition}))"
    return f"FILTER NOT EXISTS {{ {' . '.join(p.n3() for p in others)} FILTER({condition}) }}"


def _row_text(row: Row, seen: Collection[Variable]) -> str:
    """That the variables have the values of a row; one that is not bound may have any."""
    return f"({' && '.join(_parts(row, seen)) or 'true'})"


def _parts(row: Row, seen: Collection[Variable]) -> Iterator[str]:
    for variable, term in row.items():
        name = variable.n3()
        equal = f"{name} = {term.n3()}" if isinstance(term, IRI) else f"sameTerm({name}, {term.n3()})"
        yield equal if variable in seen else f"(!BOUND({name}) || {equal})"
