"""QueryAgent's actions on a database: a query reads one table (5.4, appendix E, table 10, SQL version)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

from triplewise.tools.actions.terms import list_values
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, Toolset, action
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.schema import Schema, Table, read_aggregation, read_condition
from triplewise.tools.sql.values import Rows, fold

if TYPE_CHECKING:
    from triplewise.tools.sql.database import RelationalDatabase
    from triplewise.tools.sql.select import Select
    from triplewise.tools.sql.table_query import TableQuery

NameRanker: TypeAlias = Callable[[Sequence[tuple[str, str]]], list[str]]
"""`services["rank_names"]`: (id, text) pairs -> ids, cut and ordered for the question."""
Name = Annotated[str, "text", "the name of a column; table.column where several tables have it"]


def open_database_of(context: ActionContext) -> RelationalDatabase:
    """The database of a run. Raises `ActionError` where there is none."""
    database: RelationalDatabase | None = context.services.get("database")
    if database is None:
        raise ActionError("no_database", "no database is configured")
    return database


def _begun(context: ActionContext) -> tuple[RelationalDatabase, TableQuery | None]:
    database = open_database_of(context)
    return database, database.query(context.program)


@action("get_tables()")
def get_tables(context: ActionContext) -> Feedback:
    """See the tables with their columns, the ones that fit the question first."""
    schema = open_database_of(context).schema
    rank: NameRanker = context.services.get("rank_names") or (lambda named: [name for name, _ in named])
    tables = {t.name: t for t in schema.tables}
    lines = [table_line(schema, tables[i]) for i in rank([(n, table_text(t)) for n, t in tables.items()])]
    lines += [f"... and {left} more tables"] if (left := len(tables) - len(lines)) > 0 else []
    return Feedback(outcome=Outcome.ROWS, observation="\n".join(lines))


@action("get_columns(match)")
def get_columns(context: ActionContext, table: Annotated[str, "text", "the name of a table"]) -> Feedback:
    """See the columns of one table."""
    schema = open_database_of(context).schema
    found = schema.find_table(table)
    return Feedback(arguments=(found.name,), outcome=Outcome.ROWS, observation=table_line(schema, found))


def table_text(table: Table) -> str:
    """A table in words, to be compared with a question."""
    return f"{table.name}: {', '.join(c.name for c in table.columns)}".replace("_", " ")


def table_line(schema: Schema, table: Table, bare: bool = False) -> str:
    """A table with the names and kinds of its columns, and where its foreign keys lead.

    `bare` leaves the table's name out of its columns' names, also where other tables have such columns.
    """
    columns = ", ".join(
        f"{c.name if bare else schema.name_of(c)} ({c.kind}{' stored as text' * c.as_text}"
        f"{f', e.g. {c.example!r}' if c.example else ''})"
        for c in table.columns
    )
    keys = [(k.pairs[0], k.target) for k in schema.keys if k.source == table.name]
    joins = "; ".join(f"{own} -> {target}.{theirs}" for (own, theirs), target in keys)
    return f"{table.name}: {columns}" + (f" [{joins}]" if joins else "")


@action("get_column(Home team)", "get_column_values", "getColumn")
def get_column(context: ActionContext, *column: Name) -> Feedback:
    """Get the values stored in a column. Do this before a condition on it."""
    database, query = _begun(context)
    found = database.schema.find_column(", ".join(column), query.table if query else "")
    name, result = database.schema.name_of(found), database.values(found, context.preview * 2)
    values = [str(row[0]) for row in result.rows]
    # A preview is cut on purpose: no warning about truncation.
    more = result.outcome is Outcome.TRUNCATED
    observation = f"The value stored in column {name} ({found.kind}) is {list_values(values, more)}."
    return Feedback(
        arguments=(name,),
        outcome=Outcome.ROWS if more else result.outcome,
        message=result.message,
        observation=observation if result.outcome.ok else "",
        values={name: values},
    )


@action("add_condition(Home team, =, Carlton)", "addCondition", "add_filter")
def add_condition(
    context: ActionContext,
    column: Name,
    op: Annotated[str, "operator", "one of =, !=, >, <, >=, <="],
    value: Annotated[str, "value", "a text, number or date, as the column stores it"],
    *more: Annotated[str, "text", "what a comma has split from the value", False],
) -> Feedback:
    """Keep only the rows where the column compares with the value in this way."""
    database, query = _begun(context)
    condition = read_condition(database.schema, (column, op, value, *more), query.table if query else "")
    compared, name = condition.column, database.schema.name_of(condition.column)
    query = query or database.query_of(compared.table)
    after = query.where(condition)
    result = database.select(after.rows(), context.preview)
    looked_up, calls = Call("get_column", (name,)).text(), set(context.memory.calls) - context.memory.failed
    detail: dict[str, Any] = {  # what guidelines need to know
        "column": name,
        "inspected": compared.kind in ("number", "date") or looked_up in calls,
        "second_equality": query.is_other_equality(condition),
        "before": len(query.conditions),
    }
    if result.outcome is Outcome.EMPTY:
        text, near = condition.value, [str(v) for v in database.find(compared, condition.value)]
        folded = [v for v in near if fold(v) == fold(text)]
        detail |= {"nearest": near, "in_column": text in near, "folded": folded}
    arguments = (name, condition.operator, condition.value)
    return replace(_preview(after, result), arguments=arguments, detail=detail)


@action("set_answer(Crowd, MAX)")
def set_answer(
    context: ActionContext,
    column: Name,
    *aggregation: Annotated[str, "text", "None, MAX, MIN, COUNT, SUM or AVG; COUNT for how many", False],
) -> Feedback:
    """Say which column the query returns, and what is done with its values."""
    database, query = _begun(context)
    *names, last = (column, *aggregation)
    function = read_aggregation(last) if names else ""
    found = database.schema.find_column(", ".join(names or [last]), query.table if query else "")
    name = database.schema.name_of(found)
    if function in ("SUM", "AVG") and found.kind != "number":
        message = f"{function} needs numbers; {name} holds {found.kind}"
        raise ActionError("sum_of_text", message, column=name, given=function)
    after = (query or database.query_of(found.table)).returning(found, function)
    result = database.select(after, context.preview)
    result = replace(result, columns=(f"{function}({found.name})" if function else found.name,))
    return replace(_preview(after, result), arguments=(name, function or "None"))


def _preview(query: TableQuery, result: Rows) -> Feedback:
    """What a query finds so far: the first values of each column."""
    if result.outcome is Outcome.SYNTAX:
        raise ActionError("bad_query", result.message)
    cells = {c: list(dict.fromkeys(str(row[i]) for row in result.rows)) for i, c in enumerate(result.columns)}
    more, rows = result.outcome is Outcome.TRUNCATED, answer_values(result)
    observation = " ".join(f"{c}: {list_values(v, more)}." for c, v in cells.items())
    outcome = Outcome.ROWS if more else result.outcome
    return Feedback(
        outcome=Outcome.EMPTY if outcome.ok and not rows else outcome,
        message=result.message,
        observation=(observation if rows else "No row is left.") if result.outcome.ok else "",
        program=query.text,
        values=cells,
    )


@action("execute()")
def execute(context: ActionContext) -> Feedback:
    """Execute the query and finish with its answer."""
    query = open_database_of(context).query(context.program)
    if query is None or not query.has_answer:
        raise ActionError("execute_before_answer", "no answer is set: use set_answer")
    return finish(query, context)


def run_select(select: Select, database: RelationalDatabase) -> Rows:
    """The rows of a SELECT. Raises `ActionError` for one that the engine refuses."""
    rows = database.select(select)
    if rows.outcome is Outcome.SYNTAX:
        raise ActionError("bad_sql", rows.message, given=select.text)
    return rows


def finish(select: Select, context: ActionContext) -> Feedback:
    """Finish with what a SELECT finds."""
    rows = run_select(select, open_database_of(context))
    values = answer_values(rows)
    shown = ", ".join(values[: context.preview]) + (", ..." if len(values) > context.preview else "")
    return Feedback(
        outcome=rows.outcome if values or not rows.outcome.ok else Outcome.EMPTY,
        message=rows.message,
        observation=f"The answer is {shown}." if values else "The query has no result.",
        answers=values,
        finished=rows.outcome.ok,
    )


def answer_values(rows: Rows) -> tuple[str, ...]:
    """Return each distinct row as text, its cells joined by commas; rows of NULL are none."""
    full = (row for row in rows.rows if any(cell is not None for cell in row))
    return tuple(dict.fromkeys(", ".join(str(cell) for cell in row if cell is not None) for row in full))


SQL = Toolset("sql", (get_tables, get_columns, get_column, add_condition, set_answer, execute))
