"""A query over a relational database as an immutable value (QueryAgent, section 5.3 and appendix E).

It is built part by part, like a PyQL program. A run's state holds it as text, one action a line.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, cast, get_args

from triplewise.tools.core.errors import ActionError
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.schema import Column, Schema, bare
from triplewise.tools.sql.values import Value, read_number

Aggregation = Literal["", "MAX", "MIN", "COUNT", "SUM", "AVG"]
OPERATORS = ("=", "!=", ">", "<", ">=", "<=")
_SIGNS = {"==": "=", "is": "=", "equals": "=", "<>": "!=", "≠": "!=", "≥": ">=", "=>": ">=", "≤": "<=",
          "=<": "<="}  # fmt: skip
_FUNCTIONS = {"NONE": "", "NULL": "", "AVERAGE": "AVG", "MEAN": "AVG", "MAXIMUM": "MAX", "MINIMUM": "MIN",
              "TOTAL": "SUM", "NUMBER": "COUNT"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Condition:
    """`column operator value`."""

    column: Column
    operator: str
    value: Value


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A query so far: conditions (all must hold), and what is returned.

    The tables are those of the columns; a database joins them along foreign keys.
    """

    conditions: tuple[Condition, ...] = ()
    answer: Column | None = None
    aggregation: Aggregation = ""

    @property
    def tables(self) -> tuple[str, ...]:
        """Names of the tables whose columns it names, that of the answer first."""
        answer = [self.answer.table] if self.answer else []
        return tuple(dict.fromkeys([*answer, *(c.column.table for c in self.conditions)]))

    def text(self) -> str:
        """One action a line, arguments as JSON."""
        lines: list[tuple[str, list[Value]]] = [
            ("add_condition", [c.column.id, c.operator, c.value]) for c in self.conditions
        ]
        if self.answer is not None:
            lines.append(("set_answer", [self.answer.id, self.aggregation or "None"]))
        return "\n".join(f"{name}({json.dumps(a, ensure_ascii=False)[1:-1]})" for name, a in lines)

    @classmethod
    def parse(cls, text: str, schema: Schema) -> SqlQuery:
        """The query that `text` wrote. Raises `ActionError` for what is none, or of another database."""
        query, columns = cls(), {c.id: c for c in schema.columns}
        for line in text.splitlines():
            name, _, rest = line.partition("(")
            try:
                id_, *arguments = json.loads(f"[{rest.removesuffix(')')}]")
                column = columns[id_]
            except (ValueError, KeyError, TypeError):
                message = f"no line of a program over this database: {line}"
                raise ActionError("bad_program", message) from None
            if name == "add_condition":
                added = Condition(column, str(arguments[0]), arguments[1])
                query = replace(query, conditions=(*query.conditions, added))
            else:
                query = replace(query, answer=column, aggregation=read_aggregation(str(arguments[0])))
        return query


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query gave: `outcome` as for KGs (rows, empty, truncated, timeout, syntax, unavailable)."""

    outcome: Outcome
    rows: tuple[tuple[Value, ...], ...] = ()
    columns: tuple[str, ...] = ()
    message: str = ""


def read_aggregation(form: str) -> Aggregation:
    """An aggregation. Raises `ActionError` with code `bad_aggregation`."""
    name, legal = bare(form).upper(), get_args(Aggregation)
    name = _FUNCTIONS.get(name, name)
    if name not in legal:
        message = f"{form} is no aggregation: {', '.join(legal[1:])}"
        raise ActionError("bad_aggregation", message, given=form, legal=list(legal[1:]))
    return cast(Aggregation, name)


def read_condition(schema: Schema, parts: Sequence[str], near: Iterable[str] = ()) -> Condition:
    """`column, operator, value`; commas inside them need no quotes. Raises `bad_operator` or `bad_value`."""
    signs = [_SIGNS.get(bare(part).lower(), bare(part)) for part in parts]
    place = next((i for i, sign in enumerate(signs) if i and sign in OPERATORS), 1)
    column, operator = schema.find_column(", ".join(parts[:place]), near), signs[place]
    if operator not in OPERATORS:
        message = f"{parts[place]} is no operator: {', '.join(OPERATORS)}"
        raise ActionError("bad_operator", message, given=parts[place], legal=list(OPERATORS))
    value = bare(", ".join(parts[place + 1 :]))
    if operator not in ("=", "!=") and column.kind == "number" and read_number(value) is None:
        message = f"{column.name} holds numbers, and {value} is none"
        raise ActionError("bad_value", message, given=value, column=column.name)
    return Condition(column, operator, value)
