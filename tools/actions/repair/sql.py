"""Corrections of a failed condition that were tried on the database and leave rows: ours, beyond QueryAgent.

Each kind of fix changes one thing: the spelling, the value, the column, or the direction of a comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from triplewise.tools.core.call import Call, Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.sql.database import RelationalDatabase
from triplewise.tools.sql.program import FOLDED, column_name, columns_of, read, read_condition
from triplewise.tools.sql.schema import Column, Condition, SqlQuery
from triplewise.tools.sql.values import Value, fold

SHOWN = 3
"""Values of an verified_fix shown."""
_TURNED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}


@dataclass(frozen=True, slots=True)
class SqlFix:
    """A fix that leaves rows: the call to make in place of the failed one, and what it finds."""

    call: Call
    finds: str

    def text(self) -> str:
        """E.g. `add_condition(City, =, New York) -> City: New York`."""
        return f"{self.call.text()} -> {self.finds}"


def sql_fixes(
    database: RelationalDatabase, program: str, feedback: Feedback, budget: int, most: int
) -> list[SqlFix]:
    """Mends of a condition that left no row, likeliest first.

    Args:
        database: where they are tried.
        program: the query before the failed step. feedback: what was said of that step.
        budget: queries that may be tried. most: fixes that are given back.

    Returns:
        [] for any other step, and where nothing that was tried leaves a row.
    """
    if feedback.action != "add_condition" or len(feedback.arguments) < 3 or budget < 1:
        return []
    try:
        query = read(program, database.schema)
        failed = read_condition(database.schema, feedback.arguments)
    except ActionError:
        return []
    found: list[SqlFix] = []
    for tried, condition in enumerate(_candidates(database, query, failed)):
        if tried >= budget or len(found) >= most:
            break
        rows = database.run(replace(query, answer=None, conditions=(*query.conditions, condition)), SHOWN)
        if rows.outcome.ok and rows.rows:
            found.append(_offer(database, condition, rows.columns, rows.rows))
    return found


def _candidates(database: RelationalDatabase, query: SqlQuery, failed: Condition) -> Iterator[Condition]:
    """What might have been meant, likeliest first."""
    text = str(failed.value)
    if failed.operator in ("=", "!="):
        if failed.column.kind in ("text", "other") and not failed.folded:
            yield replace(failed, folded=True)
        near = [v for v in database.find(failed.column, text) if fold(str(v)) != fold(text)]
        others = [replace(failed, column=c, value=v) for c, v in _elsewhere(database, failed)]
        yield from others[:2]
        yield from (replace(failed, value=v) for v in near)
        yield from others[2:]
    elif failed.operator in _TURNED:
        yield replace(failed, operator=_TURNED[failed.operator])


def _elsewhere(database: RelationalDatabase, failed: Condition) -> Iterator[tuple[Column, Value]]:
    """Other columns that hold the value, those of the same table first."""
    wanted = fold(str(failed.value))
    columns = [c for c in columns_of(database.schema) if c != failed.column and c.kind == failed.column.kind]
    for column in sorted(columns, key=lambda c: c.table != failed.column.table)[:12]:
        for value in database.find(column, str(failed.value), 1):
            if fold(str(value)) == wanted:
                yield column, value


def _offer(
    database: RelationalDatabase,
    condition: Condition,
    columns: tuple[str, ...],
    rows: tuple[tuple[Value, ...], ...],
) -> SqlFix:
    """A condition as the call that adds it, with the first row it leaves."""
    name = column_name(database.schema, condition.column)
    arguments = [name, condition.operator, str(condition.value), *([FOLDED] if condition.folded else [])]
    shown = [f"{c}: {v}" for c, v in zip(columns, rows[0], strict=True) if v is not None][:SHOWN]
    more = " and more rows" if len(rows) > 1 else ""
    return SqlFix(Call("add_condition", tuple(arguments)), f"{', '.join(shown)}{more}")
