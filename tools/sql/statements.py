"""From a query value to the one SELECT that means it (QueryAgent, appendix E, table 10, SQL version)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, TableClause, Text, and_, func
from sqlalchemy.sql.elements import quoted_name

from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.engines import Engine, Expression, QueryError, Statement, bound
from triplewise.tools.sql.schema import (
    OPERATORS,
    Column,
    Condition,
    Edge,
    JoinTree,
    Schema,
    SqlQuery,
    join_tree,
)
from triplewise.tools.sql.values import Value, read_date, read_number

_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


@dataclass(frozen=True)
class Writer:
    """Writes the statements of one database.

    Attributes:
        native: columns that are declared as what they compare as, so that no cell has to be read first.
        shown: write for people: without the guards against bad cells.
    """

    engine: Engine
    schema: Schema
    native: frozenset[Column]
    shown: bool = False

    @cached_property
    def tables(self) -> Mapping[str, TableClause]:
        """Tables by name."""
        return {
            t.name: sa.table(self._name(t.name), *(sa.column(self._name(c.name)) for c in t.columns))
            for t in self.schema.tables
        }

    def _name(self, name: str) -> str:
        """An identifier, quoted where SQLAlchemy does not know that it must be."""
        return quoted_name(name, True) if name.lower() in self.engine.reserved else name

    def cell(self, column: Column) -> Expression:
        """A column of a reflected table. Raises `QueryError` for any other."""
        table = self.tables.get(column.table)
        if table is None or column.name not in table.c:
            raise QueryError(Outcome.SYNTAX, f"there is no column {column.id}")
        found: Expression = table.c[column.name]
        return found

    def tree(self, query: SqlQuery) -> JoinTree:
        """How the tables of a query are joined. Raises `QueryError` where no key joins them."""
        columns = [*([query.answer] if query.answer else []), *(c.column for c in query.conditions)]
        if not columns:
            raise QueryError(Outcome.SYNTAX, "the query names no column yet")
        tree = join_tree(self.schema, [c.table for c in columns])
        if tree.lost:
            lost = ", ".join(tree.lost)
            raise QueryError(Outcome.SYNTAX, f"no foreign key leads from table {tree.root} to {lost}")
        return tree

    def answer(self, query: SqlQuery) -> Statement:
        """The answer of a query: one value, or one row for each row of the answer's table that fits."""
        assert query.answer is not None
        tree = self.tree(query)
        statement = sa.select(self._answer(query)).select_from(self.tables[tree.root])
        return self._restricted(statement, query, tree, multiply=False)

    def rows(self, query: SqlQuery) -> tuple[Statement, tuple[str, ...]]:
        """The matching rows, and what their columns are called: those of the first table, and conditions'."""
        tree = self.tree(query)
        table = next(t for t in self.schema.tables if t.name == tree.root)
        others = (c.column for c in query.conditions if c.column.table != tree.root)
        columns = tuple(dict.fromkeys([*table.columns, *others]))
        statement: Statement = sa.select(*(self.cell(c) for c in columns)).select_from(self.tables[tree.root])
        statement = self._restricted(statement, query, tree, multiply=True)
        if query.answer is not None and query.aggregation in ("MAX", "MIN"):
            best = self._number_or_cell(query.answer)
            statement = statement.where(best.is_not(None))
            statement = statement.order_by(best.desc() if query.aggregation == "MAX" else best.asc())
        return statement, tuple(c.name if c.table == tree.root else c.id for c in columns)

    def values(self, column: Column) -> Statement:
        """Distinct values of a column, most frequent first."""
        cell = self.cell(column)
        cell = self.engine.written(cell) if column.kind == "other" else cell
        grouped = sa.select(cell).where(cell.is_not(None)).group_by(cell)
        return grouped.order_by(func.count().desc(), cell)

    def same(self, column: Column, text: str) -> Statement:
        """Values of a column that are a text but for case, accents and spaces."""
        return self.values(column).where(self._folded(column, text))

    def like(self, column: Column, word: str) -> Statement:
        """Values of a column that hold a word."""
        cell = func.lower(self.engine.written(self.cell(column)))
        return self.values(column).where(cell.contains(word.lower(), autoescape=True))

    def _restricted(
        self, statement: Statement, query: SqlQuery, tree: JoinTree, *, multiply: bool
    ) -> Statement:
        """Conditions and joins. Without `multiply` a join that could repeat rows becomes an EXISTS."""
        conditions = list(query.conditions)
        joined: list[Edge] = []
        for edge in (e for e in tree.edges if e.source == tree.root):
            branch = tree.below(edge)
            if multiply or all(e.to_one for e in branch):
                joined += branch
                continue
            inside = {e.target for e in branch}
            kept = [c for c in conditions if c.column.table in inside]
            conditions = [c for c in conditions if c.column.table not in inside]
            statement = statement.where(self._exists(branch, kept))
        tables = self.tables
        source: Any = tables[tree.root]
        for edge in joined:
            source = source.join(tables[edge.target], self._on(edge))
        return statement.select_from(source).where(*(self.condition(c) for c in conditions))

    def _exists(self, branch: Sequence[Edge], conditions: Sequence[Condition]) -> ColumnElement[bool]:
        """Whether a row of the first table has partners that meet conditions."""
        first, rest = branch[0], branch[1:]
        tables = self.tables
        source: Any = tables[first.target]
        for edge in rest:
            source = source.join(tables[edge.target], self._on(edge))
        inner: Statement = sa.select(sa.literal_column("1")).select_from(source)
        inner = inner.where(self._on(first), *(self.condition(c) for c in conditions))
        return inner.correlate(tables[first.source]).exists()

    def _on(self, edge: Edge) -> ColumnElement[bool]:
        pairs = (self.tables[edge.source].c[a] == self.tables[edge.target].c[b] for a, b in edge.pairs)
        return and_(*pairs)

    def _answer(self, query: SqlQuery) -> Expression:
        """The answer's column under its aggregation. Raises `QueryError` for one there is not."""
        assert query.answer is not None
        cell = self.cell(query.answer)
        match query.aggregation:
            case "":
                return cell
            case "COUNT":
                return func.count(cell)
            case "MAX" | "MIN":
                best = self._number_or_cell(query.answer)
                return func.max(best) if query.aggregation == "MAX" else func.min(best)
            case "SUM" | "AVG":
                number = self._number(query.answer)
                return func.sum(number) if query.aggregation == "SUM" else func.avg(number)
            case _:
                raise QueryError(Outcome.SYNTAX, f"there is no aggregation {query.aggregation!r}")

    def _number_or_cell(self, column: Column) -> Expression:
        if column.kind == "number":
            return self._number(column)
        return self.engine.iso(self.cell(column)) if column.kind == "date" else self.cell(column)

    def _number(self, column: Column) -> Expression:
        return self.engine.number(self.cell(column), native=column in self.native, shown=self.shown)

    def _folded(self, column: Column, text: str) -> ColumnElement[bool]:
        cell = self.engine.written(self.cell(column))
        engine = self.engine
        other = bound(text.strip().lower()) if self.shown else engine.folded(bound(text))
        return engine.folded(cell, shown=self.shown) == other

    def condition(self, condition: Condition) -> ColumnElement[bool]:
        """A condition, compared as its column's kind asks. Raises `QueryError` where that cannot be."""
        column, operator, value = condition.column, condition.operator, condition.value
        if operator not in OPERATORS:
            raise QueryError(
                Outcome.SYNTAX, f"there is no operator {operator!r}; there are {', '.join(OPERATORS)}"
            )
        cell = self.cell(column)
        if value is None:
            if operator not in ("=", "!="):
                raise QueryError(Outcome.SYNTAX, f"nothing is {operator} no value")
            return cell.is_(None) if operator == "=" else cell.is_not(None)
        if condition.folded and operator in ("=", "!=") and column.kind in ("text", "other"):
            same = self._folded(column, str(value))
            return same if operator == "=" else ~same
        left, right = self._sides(column, operator, value)
        return left.op(operator, is_comparison=True)(right)

    def _sides(self, column: Column, operator: str, value: Value) -> tuple[Expression, Expression]:
        """Both sides of a comparison, as numbers, dates, truth values or texts."""
        cell, number = self.cell(column), read_number(value)
        ordered = operator not in ("=", "!=")
        if number is not None and (column.kind == "number" or (ordered and column.kind == "text")):
            return self._number(column), bound(number)
        if column.kind == "number" and ordered:
            raise QueryError(Outcome.SYNTAX, f"{column.id} holds numbers, and {value!r} is none")
        if column.kind == "date":
            return self._dates(column, str(value))
        truth = str(value).strip().lower()
        if column.kind == "boolean" and truth in (*_TRUE, *_FALSE):
            as_text = sa.case((cell, "true"), (~cell, "false"), else_=None)
            return as_text, bound("true" if truth in _TRUE else "false")
        text = cell if column.kind == "text" and column in self.native else self.engine.written(cell)
        return text, bound(str(value))

    def _dates(self, column: Column, value: str) -> tuple[Expression, Expression]:
        """Dates as exact as the one that is given: `= 1990` holds for every day of that year."""
        iso, given = self.engine.iso(self.cell(column)), read_date(value)
        if given is None:
            return iso, bound(value)
        return func.substr(iso, 1, len(given), type_=Text()), bound(given)
