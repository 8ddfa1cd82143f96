"""Conditions and aggregations as a model writes them, and the rows that a query gives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast, get_args

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


class Condition(NamedTuple):
    """`column operator value`."""

    column: Column
    operator: str
    value: str


def read_aggregation(form: str) -> Aggregation:
    """An aggregation. Raises `ActionError` with code `bad_aggregation`."""
    name, legal = bare(form).upper(), get_args(Aggregation)
    name = _FUNCTIONS.get(name, name)
    if name not in legal:
        message = f"{form} is not an aggregation: {', '.join(legal[1:])}"
        raise ActionError("bad_aggregation", message, given=form, legal=list(legal[1:]))
    return cast(Aggregation, name)


def read_condition(schema: Schema, parts: Sequence[str], near: str = "") -> Condition:
    """`column, operator, value`; commas inside them need no quotes. Raises `bad_operator` or `bad_value`."""
    signs = [_SIGNS.get(bare(part).lower(), bare(part)) for part in parts]
    place = next((i for i, sign in enumerate(signs) if i and sign in OPERATORS), 1)
    column, operator = schema.find_column(", ".join(parts[:place]), near), signs[place]
    if operator not in OPERATORS:
        message = f"{parts[place]} is not an operator: {', '.join(OPERATORS)}"
        raise ActionError("bad_operator", message, given=parts[place], legal=list(OPERATORS))
    value = bare(", ".join(parts[place + 1 :]))
    if operator not in ("=", "!=") and column.kind == "number" and read_number(value) is None:
        message = f"{column.name} holds numbers, and {value} is none"
        raise ActionError("bad_value", message, given=value, column=column.name)
    return Condition(column, operator, value)


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query gave: `outcome` as for KGs (rows, empty, truncated, timeout, syntax, unavailable)."""

    outcome: Outcome
    rows: tuple[tuple[Value, ...], ...] = ()
    columns: tuple[str, ...] = ()
    message: str = ""
