"""Asking a relational database in SQL that the model writes: ours, beside QueryAgent's four actions (`sql`).

Every SELECT is parsed and checked before it runs (`tools/sql/select.py`); what it finds is shown, and the
last one is the answer.
"""

from __future__ import annotations

from dataclasses import replace

from triplewise.tools.actions.refusal import unknown
from triplewise.tools.actions.sql import get_column, get_columns, get_tables, open_database_of
from triplewise.tools.actions.toolset import ActionContext, Parameter, Toolset, action
from triplewise.tools.core.call import Feedback
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.database import RelationalDatabase
from triplewise.tools.sql.schema import Rows
from triplewise.tools.sql.select import Select, find_columns, find_values, read_select
from triplewise.tools.sql.values import fold

SHOWN_ROWS = 10
"""Rows of a result that the model is shown."""
CELL = 80
"""Characters of a cell that are shown."""


@action(
    Parameter("select", "text", "one SELECT in the SQL of this database"),
    example="query(SELECT name FROM film WHERE year < 1950 ORDER BY year LIMIT 3)",
    variadic=True,
    aliases=("sql", "run_query"),
)
def query(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Run a SELECT and see its first rows. It becomes the answer when execute() follows."""
    database = open_database_of(context)
    select = read_select(", ".join(arguments), database)
    rows = _run(select, database, SHOWN_ROWS)
    if rows.rows and not answer_values(rows):
        rows = replace(rows, outcome=Outcome.EMPTY, rows=())  # nothing but NULL
    notes = [f"Note: {note}." for note in select.notes]
    return Feedback(
        arguments=(select.text,),
        # A preview is cut on purpose: that is no truncation to warn of.
        outcome=Outcome.ROWS if rows.outcome is Outcome.TRUNCATED else rows.outcome,
        message=rows.message,
        observation="\n".join([_table(rows), *notes]) if rows.rows else "The query has no result.",
        program=select.text,
        values={c: [str(row[i]) for row in rows.rows] for i, c in enumerate(rows.columns)},
        # A count of nothing, or EXISTS, is a row too.
        detail=_of_texts(select, database) if len(rows.rows) < 2 else {},
    )


def _run(select: Select, database: RelationalDatabase, limit: int | None) -> Rows:
    """The rows of a SELECT. Raises `ActionError` for one that the engine refuses."""
    rows = select.run(database, limit)
    if rows.outcome is Outcome.SYNTAX:
        raise ActionError("bad_sql", rows.message, given=select.text)
    return rows


def _table(rows: Rows) -> str:
    """Rows as text: the columns, then one line a row."""
    lines = [" | ".join(rows.columns)]
    for row in rows.rows:
        cells = ("NULL" if cell is None else str(cell).replace("\n", " ") for cell in row)
        lines.append(" | ".join(c if len(c) <= CELL else f"{c[: CELL - 3]}..." for c in cells))
    return "\n".join([*lines, "... and more rows"] if rows.outcome is Outcome.TRUNCATED else lines)


def _of_texts(select: Select, database: RelationalDatabase) -> dict[str, object]:
    """The texts of a SELECT that stand in no row, each with the nearest ones: what guidelines need of it."""
    missing = []
    for literal, column in select.texts(database.schema):
        near = [str(v) for v in database.find(column, literal.name.strip("%"))]
        matched = (
            any(fold(literal.name.strip("%")) in fold(v) for v in near) if "%" in literal.name else False
        )
        if literal.name not in near and not matched:
            missing.append({"text": literal.name, "column": column.id, "nearest": near})
    return {"missing": missing} if missing else {}


@action(
    Parameter("text", "text", "a name or a word of the question"),
    example="search(Berlin)",
    variadic=True,
)
def search(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Look up how the database writes a value, and in which columns; or columns by their name."""
    database, text = open_database_of(context), ", ".join(arguments).strip().strip("'\"")
    lines = [f"{column.id} = {value!r}" for column, value in find_values(database, text)]
    if named := find_columns(database.schema, text):
        lines.append(f"columns: {', '.join(column.id for column in named)}")
    return Feedback(
        arguments=(text,),
        outcome=Outcome.ROWS,
        observation="\n".join(lines) or f"No value and no column is like {text!r}.",
    )


@action(example="execute()")
def execute(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Finish: what the last query finds is the answer."""
    if not context.program:
        raise ActionError("execute_before_answer", "no query was made yet: use query(SELECT ...)")
    database = open_database_of(context)
    rows = _run(read_select(context.program, database), database, None)
    values = answer_values(rows)
    shown = ", ".join(values[:SHOWN_ROWS]) + (", ..." if len(values) > SHOWN_ROWS else "")
    return Feedback(
        outcome=rows.outcome,
        message=rows.message,
        observation=f"The answer is {shown}." if values else "The query has no result.",
        answers=values,
        finished=rows.outcome.ok,
    )


def answer_values(rows: Rows) -> tuple[str, ...]:
    """Return each distinct row as text, its cells joined by commas; rows of NULL are none."""
    full = (row for row in rows.rows if any(cell is not None for cell in row))
    return tuple(dict.fromkeys(", ".join(str(cell) for cell in row if cell is not None) for row in full))


SELECT = Toolset("select", (query, search, get_tables, get_columns, get_column, execute, unknown))
