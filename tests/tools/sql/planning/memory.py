"""A database of Python lists: what the planner needs of one, and a count of the queries it asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.base import (
    Column,
    ColumnKind,
    Condition,
    ForeignKey,
    Rows,
    Schema,
    SqlQuery,
    Table,
    Value,
)
from triplewise.tools.sql.planning.words import fold, number_in

TESTS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    ">": lambda a, b: bool(a > b),
    "<": lambda a, b: bool(a < b),
    ">=": lambda a, b: bool(a >= b),
    "<=": lambda a, b: bool(a <= b),
}


class MemoryDatabase:
    """Tables as lists of rows; joins by trying all pairs.

    Args:
        tables: name -> header and rows.
        keys: pairs of `table.column` that refer to one another. kinds: of columns
        that are no text, by `table.column`.
    """

    def __init__(
        self,
        tables: dict[str, tuple[Sequence[str], Sequence[Sequence[Value]]]],
        keys: Sequence[tuple[str, str]] = (),
        kinds: Mapping[str, ColumnKind] | None = None,
    ) -> None:
        self.rows = {name: [tuple(row) for row in rows] for name, (_, rows) in tables.items()}
        kind = kinds or {}
        made = [
            Table(name, tuple(Column(name, c, kind.get(f"{name}.{c}", "text")) for c in header))
            for name, (header, _) in tables.items()
        ]
        by_id = {column.id: column for table in made for column in table.columns}
        joins = tuple(ForeignKey((by_id[a],), (by_id[b],)) for a, b in keys)
        self._schema = Schema(tuple(made), joins)
        self.queries: list[SqlQuery] = []
        self.kept = 10**9

    @property
    def schema(self) -> Schema:
        return self._schema

    def run(self, query: SqlQuery, limit: int | None = None) -> Rows:
        self.queries.append(query)
        assert query.answer is not None
        rows = [row for row in self._joined(query) if all(self._holds(c, row) for c in query.conditions)]
        values = [row[query.answer] for row in rows]
        found = tuple((value,) for value in self._aggregated(values, query.aggregation))[:limit]
        return Rows(Outcome.ROWS if found else Outcome.EMPTY, found)

    def sql(self, query: SqlQuery) -> str:
        return repr(query)

    def values(self, column: Column, limit: int = 20) -> Rows:
        counted = Counter(self._column(column)).most_common(min(limit, self.kept))
        rows = tuple((value,) for value, _ in counted)
        full = len(set(self._column(column))) > len(rows)
        return Rows(Outcome.TRUNCATED if full else Outcome.ROWS if rows else Outcome.EMPTY, rows)

    def find(self, column: Column, text: str, limit: int = 5) -> Sequence[Value]:
        return [v for v in dict.fromkeys(self._column(column)) if fold(str(v)) == fold(text)][:limit]

    def _column(self, column: Column) -> list[Value]:
        table = next(t for t in self._schema.tables if t.name == column.table)
        return [row[table.columns.index(column)] for row in self.rows[column.table]]

    def _joined(self, query: SqlQuery) -> list[dict[Column, Value]]:
        """Rows of all tables of the query and those between them, joined along keys."""
        assert query.answer is not None
        wanted = {query.answer.table, *(c.column.table for c in query.conditions)}
        names = list(wanted) if len(wanted) == 1 else list(self.rows)
        tables = [t for t in self._schema.tables if t.name in names]
        found = []
        for rows in product(*(self.rows[t.name] for t in tables)):
            row = {c: v for t, r in zip(tables, rows, strict=True) for c, v in zip(t.columns, r, strict=True)}
            if all(row[k.columns[0]] == row[k.references[0]] for k in self._schema.keys if len(tables) > 1):
                found.append(row)
        return found

    @staticmethod
    def _holds(condition: Condition, row: dict[Column, Value]) -> bool:
        cell, value = row[condition.column], condition.value
        if not isinstance(value, str) and condition.operator not in ("=", "!="):
            number = number_in(str(cell))
            return number is not None and TESTS[condition.operator](number, value)
        return TESTS[condition.operator](cell, value)

    @staticmethod
    def _aggregated(values: Sequence[Value], function: str) -> list[Value]:
        if not function:
            return list(values)
        if function == "COUNT":
            return [len(values)]
        numbers = [n for v in values if (n := number_in(str(v))) is not None]
        if not numbers:
            return []
        total = sum(numbers)
        return [
            {"MAX": max(numbers), "MIN": min(numbers), "SUM": total, "AVG": total / len(numbers)}[function]
        ]
