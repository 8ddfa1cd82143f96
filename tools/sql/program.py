"""The query program of the SQL toolset as text, one action a line, and how columns are named in it.

The value itself is `SqlQuery`, which is immutable: rolling back a step is keeping the old text.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import get_args

from triplewise.tools.core.errors import ActionError
from triplewise.tools.sql.schema import OPERATORS, Aggregation, Column, Condition, Schema, SqlQuery, Table
from triplewise.tools.sql.values import Value, fold, nearest, read_number

AGGREGATIONS: tuple[str, ...] = get_args(Aggregation)
SIGNS = {
    "==": "=",
    "<>": "!=",
    "≠": "!=",
    "≥": ">=",
    "≤": "<=",
    "=>": ">=",
    "=<": "<=",
    "is": "=",
    "equals": "=",
}
"""Ways to write an operator that can only mean one thing."""
FOLDED = "folded"
"""Said behind a value: text is compared without case, accents and outer spaces."""
FUNCTIONS = {"NONE": "", "NULL": "", "AVERAGE": "AVG", "MEAN": "AVG", "MAXIMUM": "MAX", "MINIMUM": "MIN",
             "TOTAL": "SUM", "NUMBER": "COUNT"}  # fmt: skip


def columns_of(schema: Schema) -> tuple[Column, ...]:
    """All columns, in the schema's order."""
    return tuple(c for t in schema.tables for c in t.columns)


def column_name(schema: Schema, column: Column) -> str:
    """How a column is written: bare where no other table has its name."""
    same = [c for c in columns_of(schema) if fold(c.name) == fold(column.name)]
    return column.name if len(same) == 1 else column.id


def condition_arguments(schema: Schema, condition: Condition) -> tuple[str, ...]:
    """Return a condition as `add_condition` reads it."""
    folded = [FOLDED] if condition.folded else []
    return (column_name(schema, condition.column), condition.operator, str(condition.value), *folded)


def find_column(schema: Schema, form: str, near: Iterable[str] = ()) -> Column:
    """The column that a form means: by name, or `table.name`; case, accents and spaces do not matter.

    Args:
        schema: where to look.
        form: as an agent wrote it, in quotes or not.
        near: tables of the query so far; of columns with one name theirs is meant.

    Raises:
        ActionError: `unknown_column` with the nearest names, `ambiguous_column` with all that fit.
    """
    given, columns = bare(form), columns_of(schema)
    for reading in (str, fold, lambda text: "".join(c for c in fold(text) if c.isalnum())):
        fitting = [c for c in columns if reading(given) in (reading(c.id), reading(c.name))]
        fitting = [c for c in fitting if c.id == given] or fitting
        if len(fitting) > 1:
            fitting = [c for c in fitting if c.table in set(near)] or fitting
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            ids = [c.id for c in fitting]
            raise ActionError(
                "ambiguous_column", f"{given} is a column of several tables: {', '.join(ids)}", options=ids
            )
    names = [column_name(schema, c) for c in columns]
    near_names = nearest(given, names, 5)
    raise ActionError("unknown_column", f"there is no column {given}", given=given, nearest=near_names)


def find_table(schema: Schema, form: str) -> Table:
    """The table that a form means. Raises `ActionError` with code `unknown_table`."""
    given, names = bare(form), [t.name for t in schema.tables]
    for table in schema.tables:
        if fold(table.name) == fold(given):
            return table
    near = nearest(given, names, 5) or names[:20]
    raise ActionError("unknown_table", f"there is no table {given}", given=given, nearest=near)


def bare(form: str) -> str:
    """A form without outer quotes of any kind."""
    text = form.strip()
    if len(text) > 1 and (text[0], text[-1]) in (('"', '"'), ("'", "'"), ("`", "`"), ("[", "]")):
        return text[1:-1].strip()
    return text


def read_operator(form: str) -> str:
    """An operator. Raises `ActionError` with code `bad_operator`."""
    sign = SIGNS.get(bare(form).lower(), bare(form))
    if sign not in OPERATORS:
        legal = ", ".join(OPERATORS)
        raise ActionError(
            "bad_operator", f"{form} is no operator: {legal}", given=form, legal=list(OPERATORS)
        )
    return sign


def read_aggregation(form: str) -> Aggregation:
    """An aggregation. Raises `ActionError` with code `bad_aggregation`."""
    name = bare(form).upper()
    name = FUNCTIONS.get(name, name)
    if name not in AGGREGATIONS:
        legal = list(AGGREGATIONS[1:])
        raise ActionError(
            "bad_aggregation", f"{form} is no aggregation: {', '.join(legal)}", given=form, legal=legal
        )
    return name  # type: ignore[return-value]


def read_condition(schema: Schema, parts: Sequence[str], near: Iterable[str] = ()) -> Condition:
    """`column, operator, value`, where commas inside a name or a value have not to be quoted.

    Raises:
        ActionError: as its three readers, and `bad_value` where a column of numbers is compared with none.
    """
    signs = [i for i, p in enumerate(parts) if i and SIGNS.get(bare(p).lower(), bare(p)) in OPERATORS]
    place = signs[0] if signs else 1
    column = find_column(schema, ", ".join(parts[:place]), near)
    rest = list(parts[place + 1 :])
    folded = len(rest) > 1 and bare(rest[-1]).lower() == FOLDED
    operator, value = read_operator(parts[place]), bare(", ".join(rest[:-1] if folded else rest))
    if operator not in ("=", "!=") and column.kind == "number" and read_number(value) is None:
        raise ActionError(
            "bad_value", f"{column.name} holds numbers, and {value} is none", given=value, column=column.name
        )
    return Condition(column, operator, value, folded)


def write(query: SqlQuery) -> str:
    """The text of a query: one action a line, arguments as JSON."""
    lines = [_line("add_condition", c.column.id, c.operator, c.value, *([True] if c.folded else []))
             for c in query.conditions]  # fmt: skip
    if query.answer is not None:
        lines.append(_line("set_answer", query.answer.id, query.aggregation or "None"))
    return "\n".join(lines)


def _line(name: str, *arguments: Value) -> str:
    return f"{name}({', '.join(json.dumps(a, ensure_ascii=False) for a in arguments)})"


def read(text: str, schema: Schema) -> SqlQuery:
    """The query that `write` wrote. Raises `ActionError` where a text is none, or of another database."""
    query = SqlQuery()
    ids = {c.id: c for c in columns_of(schema)}
    for line in text.splitlines():
        name, _, rest = line.partition("(")
        try:
            arguments = json.loads(f"[{rest.removesuffix(')')}]")
        except ValueError:
            raise ActionError("bad_program", f"no line of a program: {line}") from None
        column = ids.get(str(arguments[0])) if arguments else None
        if column is None:
            raise ActionError("bad_program", f"no line of a program over this database: {line}")
        if name == "add_condition":
            folded = len(arguments) > 3
            added = Condition(column, str(arguments[1]), arguments[2], folded)
            query = replace(query, conditions=(*query.conditions, added))
        else:
            query = replace(query, answer=column, aggregation=read_aggregation(str(arguments[1])))
    return query
