"""Asking a relational database in SQL that the model writes; every SELECT is checked before it runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from triplewise.tools.actions import sql
from triplewise.tools.actions.toolset import ActionContext, Feedback, Toolset, action, unknown
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.values import nearest

if TYPE_CHECKING:
    from triplewise.tools.sql.database import RelationalDatabase
    from triplewise.tools.sql.select import Select

SHOWN_ROWS, CELL = 10, 80  # Rows of a result, and characters of a cell, that the model is shown
VALUES, COLUMNS = 8, 5  # Values and columns of a search that are shown


@action("query(SELECT name FROM film WHERE year < 1950 ORDER BY year LIMIT 3)", "sql", "run_query")
def query(
    context: ActionContext, *select: Annotated[str, "text", "one SELECT in the SQL of this database"]
) -> Feedback:
    """Run a SELECT and see its first rows. It becomes the answer when execute() follows."""
    database = sql.open_database_of(context)
    statement = database.read_select(", ".join(select))
    if statement.own:
        message = f"no table holds its column {statement.own[:CELL]}: select columns, COUNT or EXISTS"
        raise ActionError("bad_sql", message, given=statement.text)
    rows = sql.run_select(statement, database)
    shown = rows.rows[:SHOWN_ROWS] if sql.answer_values(rows) else ()  # only NULL: no result
    lines = [" | ".join(rows.columns)]
    for row in shown:
        cells = ("NULL" if cell is None else str(cell).replace("\n", " ") for cell in row)
        lines.append(" | ".join(c if len(c) <= CELL else f"{c[: CELL - 3]}..." for c in cells))
    lines += ["... and more rows"] if len(rows.rows) > len(shown) else []
    # A preview is cut on purpose: no warning about truncation.
    outcome = Outcome.ROWS if rows.outcome is Outcome.TRUNCATED else rows.outcome
    return Feedback(
        arguments=(statement.text,),
        outcome=Outcome.EMPTY if rows.rows and not shown else outcome,
        message=rows.message,
        observation="\n".join(lines) if shown else "The query has no result.",
        program=statement.text,
        values={c: [str(row[i]) for row in shown] for i, c in enumerate(rows.columns)},
        # A count of nothing, or EXISTS, is a row too.
        detail=_missing(statement, database) if len(shown) < 2 else {},
    )


def _missing(select: Select, database: RelationalDatabase) -> dict[str, object]:
    """What guidelines need of a SELECT: its texts that stand in no row, each with the nearest ones."""
    missing = []
    for text, column in select.texts(database.schema) if not database.engine.ignores_case else ():
        near = [str(v) for v in database.find(column, text)]
        if text not in near:
            missing.append({"text": text, "column": column.id, "nearest": near})
    return {"missing": missing} if missing else {}


@action("search(Berlin)")
def search(
    context: ActionContext, *text: Annotated[str, "text", "a name or a word of the question"]
) -> Feedback:
    """Look up how the database writes a value, and in which columns; or columns by their name."""
    from rapidfuzz import fuzz

    database, given = sql.open_database_of(context), ", ".join(text).strip().strip("'\"")
    columns = database.schema.columns
    texts = (column for column in columns if column.kind in ("text", "other"))
    held = [(column.id, str(value)) for column in texts for value in database.find(column, given, 2)]
    held.sort(key=lambda pair: -fuzz.WRatio(given.lower(), pair[1].lower()))
    lines = [f"{column} = {value!r}" for column, value in held[:VALUES]]
    ids = {column.id.replace("_", " "): column.id for column in columns}
    if named := nearest(given, list(ids), COLUMNS):
        lines.append(f"columns: {', '.join(ids[str(name)] for name in named)}")
    observation = "\n".join(lines) or f"No value and no column is like {given!r}."
    return Feedback(arguments=(given,), outcome=Outcome.ROWS, observation=observation)


@action("execute()")
def execute(context: ActionContext) -> Feedback:
    """Finish: what the last query finds is the answer."""
    if not context.program:
        raise ActionError("execute_before_answer", "no query was made yet: use query(SELECT ...)")
    return sql.finish(sql.open_database_of(context).read_select(context.program), context)


_ACTIONS = (query, search, sql.get_tables, sql.get_columns, sql.get_column, execute, unknown)
SELECT = Toolset("select", _ACTIONS)
