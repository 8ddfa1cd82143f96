"""Corrections of a failed condition that were tried on the database and leave rows: ours, beyond QueryAgent.

Each kind of fix changes one thing: the spelling, the value, the column, or the direction of a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from triplewise.tools.actions.repair.verify import VerifiedFix
from triplewise.tools.actions.toolset import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.sql.query import Condition, SqlQuery, read_condition
from triplewise.tools.sql.values import fold

if TYPE_CHECKING:
    from triplewise.tools.sql.database import RelationalDatabase

SPELLING = 75.0
"""How alike two texts must be (0 to 100) to be spellings of one name: "Vegemite" is no "Vegie-spread"."""
SHOWN = 3
"""Values shown of what a fix finds."""
_TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


def sql_fixes(
    database: RelationalDatabase, program: str, feedback: Feedback, budget: int, most: int
) -> list[VerifiedFix]:
    """Return fixes of a condition that left no row, likeliest first; [] for any other step.

    Args:
        program: the query before the failed step. feedback: what was said of that step.
        budget: queries that may be tried. most: fixes to return.
    """
    if feedback.action == "query" and feedback.detail.get("missing"):
        return _select_fixes(database, feedback, budget, most)
    if feedback.action != "add_condition" or len(feedback.arguments) < 3 or budget < 1:
        return []
    try:
        query = SqlQuery.parse(program, database.schema)
        failed = read_condition(database.schema, feedback.arguments)
    except ActionError:
        return []
    fixes: list[VerifiedFix] = []
    for tried, condition in enumerate(_candidates(database, failed)):
        if tried >= budget or len(fixes) >= most:
            break
        rows = database.run(replace(query, answer=None, conditions=(*query.conditions, condition)), SHOWN)
        if rows.outcome.ok and rows.rows:
            arguments = condition.arguments(database.schema)
            cells = zip(rows.columns, rows.rows[0], strict=True)
            shown = ", ".join([f"{column}: {cell}" for column, cell in cells if cell is not None][:SHOWN])
            more = " and more rows" if len(rows.rows) > 1 else ""
            fixes.append(VerifiedFix(Call("add_condition", arguments), f"{shown}{more}"))
    return fixes


def _select_fixes(
    database: RelationalDatabase, feedback: Feedback, budget: int, most: int
) -> list[VerifiedFix]:
    """Return the failed SELECT with texts as the database writes them, where that finds rows."""
    from rapidfuzz import fuzz

    select = database.read_select(feedback.arguments[0])
    nearest = {m["text"]: m["nearest"] for m in feedback.detail["missing"]}
    tried = [
        select.replaced(literal, value)
        for literal, _ in select.texts(database.schema)
        for value in nearest.get(literal.name, ())
        if fuzz.ratio(fold(literal.name), fold(value)) >= SPELLING
    ]
    fixes: list[VerifiedFix] = []
    for candidate in tried[:budget]:
        rows = database.select(candidate)
        if rows.outcome.ok and rows.rows and len(fixes) < most:
            shown = ", ".join(str(cell) for cell in rows.rows[0] if cell is not None)
            fixes.append(VerifiedFix(Call("query", (candidate.text,)), shown))
    return fixes


def _candidates(database: RelationalDatabase, failed: Condition) -> Iterator[Condition]:
    text, column = str(failed.value), failed.column
    if failed.operator in _TURNED:
        yield replace(failed, operator=_TURNED[failed.operator])
        return
    if column.kind in ("text", "other") and not failed.folded:
        yield replace(failed, folded=True)
    near = [v for v in database.find(column, text) if fold(str(v)) != fold(text)]
    # Other columns that hold the value, those of the same table first.
    alike = [c for c in database.schema.columns if c != column and c.kind == column.kind]
    others = [
        replace(failed, column=other, value=value)
        for other in sorted(alike, key=lambda c: c.table != column.table)[:12]
        for value in database.find(other, text, 1)
        if fold(str(value)) == fold(text)
    ]
    yield from others[:2]
    yield from (replace(failed, value=v) for v in near)
    yield from others[2:]
