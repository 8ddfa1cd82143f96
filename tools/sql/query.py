"""What a relational database holds, and a query over it as a value (QueryAgent, section 5.3 and appendix E).

A query is built part by part, like a PyQL program; it is immutable, so that rolling back a step is keeping
the old one. A run's state holds it as text, one action a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.values import ColumnKind, Value, fold, nearest, read_number

Aggregation = Literal["", "MAX", "MIN", "COUNT", "SUM", "AVG"]
OPERATORS = ("=", "!=", ">", "<", ">=", "<=")


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    `kind` says how its values compare: a TEXT column whose values all read as numbers is a `number`.
    `example` shows how dates are written.
    """

    table: str
    name: str
    kind: ColumnKind = "text"
    example: str = ""

    @property
    def id(self) -> str:
        """How actions name it where several tables have a column of this name: `table.column`."""
        return f"{self.table}.{self.name}"


@dataclass(frozen=True, slots=True)
class Table:
    """One table or view."""

    name: str
    columns: tuple[Column, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class Join:
    """A foreign key, as a join of a table with the one it refers to, or the other way round.

    `pairs`: columns of both that are equal. `to_one`: each row of `source` has at most one partner, so that
    joining multiplies nothing.
    """

    source: str
    target: str
    pairs: tuple[tuple[str, str], ...]
    to_one: bool = True

    def back(self) -> Join:
        """The same join from the table referred to."""
        return Join(self.target, self.source, tuple((b, a) for a, b in self.pairs), not self.to_one)

    def text(self) -> str:
        """E.g. `film.director_id = person.id`."""
        return " and ".join(f"{self.source}.{a} = {self.target}.{b}" for a, b in self.pairs)


@dataclass(frozen=True, slots=True)
class Schema:
    """All tables that may be asked, and how they hang together."""

    tables: tuple[Table, ...]
    keys: tuple[Join, ...] = ()

    @property
    def columns(self) -> tuple[Column, ...]:
        """All columns, in the order of the tables."""
        return tuple(c for t in self.tables for c in t.columns)

    def name_of(self, column: Column) -> str:
        """How a column is written: bare where no other table has its name."""
        same = [c for c in self.columns if fold(c.name) == fold(column.name)]
        return column.name if len(same) == 1 else column.id


@dataclass(frozen=True, slots=True)
class Condition:
    """`column operator value`. `folded`: text is compared without case, accents and outer spaces."""

    column: Column
    operator: str
    value: Value
    folded: bool = False


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A query so far: conditions (all must hold), and what is returned.

    The tables are those of the columns; a database joins them along foreign keys.
    """

    conditions: tuple[Condition, ...] = ()
    answer: Column | None = None
    aggregation: Aggregation = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query gave: `outcome` as for KGs (rows, empty, truncated, timeout, syntax, unavailable)."""

    outcome: Outcome
    rows: tuple[tuple[Value, ...], ...] = ()
    columns: tuple[str, ...] = ()
    message: str = ""


AGGREGATIONS: tuple[str, ...] = get_args(Aggregation)
SIGNS = {"==": "=", "is": "=", "equals": "=", "<>": "!=", "≠": "!=", "≥": ">=", "=>": ">=", "≤": "<=",
         "=<": "<="}  # fmt: skip
"""Ways to write an operator that can only mean one thing."""
FOLDED = "folded"
"""Said behind a value: text is compared without case, accents and outer spaces."""
FUNCTIONS = {"NONE": "", "NULL": "", "AVERAGE": "AVG", "MEAN": "AVG", "MAXIMUM": "MAX", "MINIMUM": "MIN",
             "TOTAL": "SUM", "NUMBER": "COUNT"}  # fmt: skip


def condition_arguments(schema: Schema, condition: Condition) -> tuple[str, ...]:
    """Return a condition as `add_condition` reads it."""
    folded = [FOLDED] if condition.folded else []
    return (schema.name_of(condition.column), condition.operator, str(condition.value), *folded)


def find_column(schema: Schema, form: str, near: Iterable[str] = ()) -> Column:
    """The column that a form means: by name, or `table.name`; case, accents and spaces do not matter.

    Args:
        near: tables of the query so far; of columns with one name theirs is meant.

    Raises:
        ActionError: `unknown_column` with the nearest names, `ambiguous_column` with all that fit.
    """
    given, columns = bare(form), schema.columns
    for reading in (str, fold, lambda text: "".join(c for c in fold(text) if c.isalnum())):
        fitting = [c for c in columns if reading(given) in (reading(c.id), reading(c.name))]
        fitting = [c for c in fitting if c.id == given] or fitting
        if len(fitting) > 1:
            fitting = [c for c in fitting if c.table in set(near)] or fitting
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            ids = [c.id for c in fitting]
            message = f"{given} is a column of several tables: {', '.join(ids)}"
            raise ActionError("ambiguous_column", message, options=ids)
    names = nearest(given, [schema.name_of(c) for c in columns], 5)
    raise ActionError("unknown_column", f"there is no column {given}", given=given, nearest=names)


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


def read_aggregation(form: str) -> Aggregation:
    """An aggregation. Raises `ActionError` with code `bad_aggregation`."""
    name = bare(form).upper()
    name = FUNCTIONS.get(name, name)
    if name not in AGGREGATIONS:
        legal = list(AGGREGATIONS[1:])
        message = f"{form} is no aggregation: {', '.join(legal)}"
        raise ActionError("bad_aggregation", message, given=form, legal=legal)
    return cast(Aggregation, name)


def read_condition(schema: Schema, parts: Sequence[str], near: Iterable[str] = ()) -> Condition:
    """`column, operator, value`, where commas inside a name or a value have not to be quoted.

    Raises:
        ActionError: as `find_column`; `bad_operator`; `bad_value` where numbers are compared with none.
    """
    signs = [SIGNS.get(bare(part).lower(), bare(part)) for part in parts]
    place = next((i for i, sign in enumerate(signs) if i and sign in OPERATORS), 1)
    column, operator = find_column(schema, ", ".join(parts[:place]), near), signs[place]
    if operator not in OPERATORS:
        message = f"{parts[place]} is no operator: {', '.join(OPERATORS)}"
        raise ActionError("bad_operator", message, given=parts[place], legal=list(OPERATORS))
    rest = list(parts[place + 1 :])
    folded = len(rest) > 1 and bare(rest[-1]).lower() == FOLDED
    value = bare(", ".join(rest[:-1] if folded else rest))
    if operator not in ("=", "!=") and column.kind == "number" and read_number(value) is None:
        message = f"{column.name} holds numbers, and {value} is none"
        raise ActionError("bad_value", message, given=value, column=column.name)
    return Condition(column, operator, value, folded)


def write(query: SqlQuery) -> str:
    """The text of a query: one action a line, arguments as JSON."""
    lines: list[tuple[str, list[Value]]] = [
        ("add_condition", [c.column.id, c.operator, c.value, *([True] if c.folded else [])])
        for c in query.conditions
    ]
    if query.answer is not None:
        lines.append(("set_answer", [query.answer.id, query.aggregation or "None"]))
    return "\n".join(f"{name}({json.dumps(a, ensure_ascii=False)[1:-1]})" for name, a in lines)


def read(text: str, schema: Schema) -> SqlQuery:
    """The query that `write` wrote. Raises `ActionError` where a text is none, or of another database."""
    query, columns = SqlQuery(), {c.id: c for c in schema.columns}
    for line in text.splitlines():
        name, _, rest = line.partition("(")
        try:
            id_, *arguments = json.loads(f"[{rest.removesuffix(')')}]")
            column = columns[id_]
        except (ValueError, KeyError, TypeError):
            raise ActionError("bad_program", f"no line of a program over this database: {line}") from None
        if name == "add_condition":
            added = Condition(column, str(arguments[0]), arguments[1], folded=len(arguments) > 2)
            query = replace(query, conditions=(*query.conditions, added))
        else:
            query = replace(query, answer=column, aggregation=read_aggregation(str(arguments[0])))
    return query
