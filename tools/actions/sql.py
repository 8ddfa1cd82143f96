"""QueryAgent's actions on a relational database (section 5.4, appendix E, table 10, SQL version).

The paper stops at one table; here several are joined along their foreign keys.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from triplewise.tools.actions.terms import list_values
from triplewise.tools.actions.toolset import ActionContext, Call, Feedback, Parameter, Toolset, action
from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.query import Rows, SqlQuery, read_aggregation, read_condition
from triplewise.tools.sql.schema import Schema, Table
from triplewise.tools.sql.values import fold

if TYPE_CHECKING:
    from triplewise.tools.sql.database import RelationalDatabase

NameRanker: TypeAlias = Callable[[Sequence[tuple[str, str]]], list[str]]
"""`services["rank_names"]`: (id, text) pairs -> ids, cut and ordered for the question."""

_COLUMN = Parameter("column", "text", "the name of a column; table.column where several tables have it")


def open_database_of(context: ActionContext) -> RelationalDatabase:
    """The database of a run. Raises `ActionError` where there is none."""
    database: RelationalDatabase | None = context.services.get("database")
    if database is None:
        raise ActionError("no_database", "no database is configured")
    return database


def _begun(context: ActionContext) -> tuple[RelationalDatabase, SqlQuery]:
    database = open_database_of(context)
    return database, SqlQuery.parse(context.program, database.schema)


@action(example="get_tables()")
def get_tables(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """See the tables with their columns, the ones that fit the question first."""
    schema = open_database_of(context).schema
    named = [(t.name, table_text(t)) for t in schema.tables]
    rank: NameRanker | None = context.services.get("rank_names")
    ids = rank(named) if rank else [name for name, _ in named]
    listed = [table_line(schema, t) for i in ids for t in schema.tables if t.name == i]
    left = len(schema.tables) - len(listed)
    more = f"\n... and {left} more tables" if left > 0 else ""
    return Feedback(outcome=Outcome.ROWS, observation="\n".join(listed) + more)


@action(Parameter("table", "text", "the name of a table"), example="get_columns(match)")
def get_columns(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """See the columns of one table."""
    schema = open_database_of(context).schema
    table = schema.find_table(arguments[0])
    observation = table_line(schema, table)
    return Feedback(arguments=(table.name,), outcome=Outcome.ROWS, observation=observation)


def table_text(table: Table) -> str:
    """A table in words, to be compared with a question."""
    return f"{table.name}: {', '.join(c.name for c in table.columns)} {table.doc}".strip().replace("_", " ")


def table_line(schema: Schema, table: Table, bare: bool = False) -> str:
    """A table with the names and kinds of its columns, and where its foreign keys lead.

    `bare` leaves the table's name out of its columns' names, also where other tables have such columns.
    """
    columns = ", ".join(
        f"{c.name if bare else schema.name_of(c)} ({c.kind}{f', e.g. {c.example}' if c.example else ''})"
        for c in table.columns
    )
    keys = [(k.pairs[0], k.target) for k in schema.keys if k.source == table.name]
    joins = "; ".join(f"{own} -> {target}.{theirs}" for (own, theirs), target in keys)
    return f"{table.name}: {columns}" + (f" [{joins}]" if joins else "")


@action(_COLUMN, example="get_column(Home team)", variadic=True, aliases=("get_column_values", "getColumn"))
def get_column(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Get the values stored in a column. Do this before a condition on it."""
    database, query = _begun(context)
    column = database.schema.find_column(", ".join(arguments), query.tables)
    name = database.schema.name_of(column)
    result = database.values(column, context.preview * 2)
    values = [str(row[0]) for row in result.rows]
    more = result.outcome is Outcome.TRUNCATED
    listed = list_values(values, more)
    return Feedback(
        arguments=(name,),
        # A preview is cut on purpose: that is no truncation to warn of.
        outcome=Outcome.ROWS if more else result.outcome,
        message=result.message,
        observation=f"The value stored in column {name} ({column.kind}) is {listed}."
        if result.outcome.ok
        else "",
        values={name: values},
    )


@action(
    _COLUMN,
    Parameter("op", "operator", "one of =, !=, >, <, >=, <="),
    Parameter("value", "value", "a text, number or date, as the column stores it"),
    Parameter("how", "text", "folded: text is compared without case and accents", False),
    example="add_condition(Home team, =, Carlton)",
    variadic=True,
    aliases=("addCondition", "add_filter"),
)
def add_condition(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Keep only the rows where the column compares with the value in this way."""
    database, query = _begun(context)
    condition = read_condition(database.schema, arguments, query.tables)
    added = () if condition in query.conditions else (condition,)
    after = replace(query, conditions=(*query.conditions, *added))
    result = database.run(replace(after, answer=None), context.preview)
    column, name = condition.column, database.schema.name_of(condition.column)
    looked_up = Call("get_column", (name,)).text()
    detail: dict[str, Any] = {  # what guidelines need to know
        "column": name,
        "inspected": column.kind in ("number", "date")
        or (looked_up in context.memory.calls and looked_up not in context.memory.failed),
        "second_equality": condition.operator == "="
        and any(c.column == column and c.operator == "=" and c != condition for c in query.conditions),
        "before": len(query.conditions),
    }
    if result.outcome is Outcome.EMPTY:
        text, near = str(condition.value), [str(v) for v in database.find(column, str(condition.value))]
        folded = [v for v in near if fold(v) == fold(text)]
        detail |= {"nearest": near, "in_column": text in near, "folded": folded}
    shown = condition.arguments(database.schema)
    return replace(_preview(after, result), arguments=shown, detail=detail)


@action(
    _COLUMN,
    Parameter("aggregation", "text", "None, MAX, MIN, COUNT, SUM or AVG; COUNT for how many", False),
    example="set_answer(Crowd, MAX)",
    variadic=True,
)
def set_answer(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Say which column the query returns, and what is done with its values."""
    database, query = _begun(context)
    *names, last = arguments
    aggregation = read_aggregation(last) if names else ""
    column = database.schema.find_column(", ".join(names or [last]), query.tables)
    name = database.schema.name_of(column)
    if aggregation in ("SUM", "AVG") and column.kind != "number":
        message = f"{aggregation} needs numbers; {name} holds {column.kind}"
        raise ActionError("sum_of_text", message, column=name, given=aggregation)
    after = replace(query, answer=column, aggregation=aggregation)
    feedback = _preview(after, database.run(after, context.preview))
    return replace(feedback, arguments=(name, aggregation or "None"))


def _preview(query: SqlQuery, result: Rows) -> Feedback:
    """What a query finds so far: the first values of each column."""
    if result.outcome is Outcome.SYNTAX:
        raise ActionError("bad_query", result.message)
    cells = {c: list(dict.fromkeys(str(row[i]) for row in result.rows)) for i, c in enumerate(result.columns)}
    more = result.outcome is Outcome.TRUNCATED
    observation = " ".join(f"{c}: {list_values(v, more)}." for c, v in cells.items())
    observation = observation if result.rows else "No row is left."
    if result.message:
        observation = f"{observation} ({result.message})"
    return Feedback(
        outcome=Outcome.ROWS if more else result.outcome,
        message=result.message,
        observation=observation if result.outcome.ok else "",
        program=query.text(),
        values=cells,
    )


@action(example="execute()")
def execute(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """Execute the query and finish with its answer."""
    database, query = _begun(context)
    if query.answer is None:
        raise ActionError("execute_before_answer", "no answer is set: use set_answer")
    result = database.run(query)
    if result.outcome is Outcome.SYNTAX:
        raise ActionError("bad_query", result.message)
    values = dict.fromkeys(str(row[0]) for row in result.rows if row[0] is not None)
    shown = list(values)[: context.preview]
    listed = list_values(shown, len(values) > len(shown))
    observation = f"The answer is {listed}." if values else "The query has no result."
    return Feedback(
        outcome=result.outcome,
        message=result.message,
        observation=observation if result.outcome.ok else "",
        values={result.columns[0] if result.columns else query.answer.name: shown},
        answers=tuple(values),
        detail={"aggregation": query.aggregation},
        finished=result.outcome.ok,
    )


SQL = Toolset("sql", (get_tables, get_columns, get_column, add_condition, set_answer, execute))
