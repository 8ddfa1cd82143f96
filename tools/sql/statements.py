"""From a query value to the one SELECT that means it (QueryAgent, appendix E, table 10, SQL version)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy import (
    ColumnElement,
    Double,
    Numeric,
    Select,
    TableClause,
    Text,
    and_,
    case,
    cast,
    func,
    literal,
)

from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.engines import QueryError
from triplewise.tools.sql.query import OPERATORS, Column, Condition, Join, Schema, SqlQuery
from triplewise.tools.sql.values import NUMBER_PATTERN, Value, read_date, read_number

Expression: TypeAlias = ColumnElement[Any]
Statement: TypeAlias = Select[*tuple[Any, ...]]
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Joined tables: the root, and joins in an order in which each source is joined before.

    `note` says which of several equally short ways was taken.
    """

    root: str
    joins: tuple[Join, ...] = ()
    note: str = ""

    def below(self, join: Join) -> tuple[Join, ...]:
        """The joins of the subtree that begins with one, that one first."""
        branch = [join]
        for other in self.joins:
            if other not in branch and other.source in {e.target for e in branch}:
                branch.append(other)
        return tuple(branch)


def join_tree(schema: Schema, tables: Sequence[str]) -> JoinTree:
    """The tables, first one as root, joined along shortest paths of foreign keys.

    Among equally short paths the one whose keys the schema names first is taken, and said so. Raises
    `QueryError` where no key leads to a table.
    """
    root, joins, notes = tables[0], list[Join](), list[str]()
    for table in dict.fromkeys(tables[1:]):
        joined = [root, *(e.target for e in joins)]
        if table in joined:
            continue
        paths = _shortest(schema, joined, table)
        if not paths:
            raise QueryError(Outcome.SYNTAX, f"no foreign key leads from table {root} to {table}")
        joins += paths[0]
        if len(paths) > 1:
            taken, other = (", ".join(e.text() for e in path) for path in paths[:2])
            notes.append(f"{table} is joined by {taken}; an equally short way is {other}.")
    return JoinTree(root, tuple(joins), " ".join(notes))


def _shortest(schema: Schema, joined: Sequence[str], goal: str) -> list[tuple[Join, ...]]:
    """All shortest paths from any joined table to a new one, breadth first, in the schema's order."""
    joins = dict.fromkeys(join for key in schema.keys for join in (key, key.back()))
    seen, ends = set(joined), [(start, tuple[Join, ...]()) for start in joined]
    while ends:
        onward = [(path, e) for end, path in ends for e in joins if e.source == end]
        ends = [(e.target, (*path, e)) for path, e in onward if e.target not in seen]
        if paths := [path for end, path in ends if end == goal]:
            return paths
        seen |= {end for end, _ in ends}
    return []


@dataclass(frozen=True)
class Writer:
    """Writes the statements of one database.

    Attributes:
        schema: what there is. tables: how statements name it.
        native: columns that are declared as what they compare as, so that no cell has to be read first.
        spellings: column, text -> its values that are the text but for case, accents and spaces.
    """

    schema: Schema
    tables: Mapping[str, TableClause]
    native: frozenset[Column]
    spellings: Callable[[Column, str], Sequence[Value]]

    def cell(self, column: Column) -> Expression:
        """Return a column of a reflected table. Raises `QueryError` for any other."""
        table = self.tables.get(column.table)
        if table is None or column.name not in table.c:
            raise QueryError(Outcome.SYNTAX, f"there is no column {column.id}")
        return table.c[column.name]

    def tree(self, query: SqlQuery) -> JoinTree:
        """How the tables of a query are joined. Raises `QueryError` where no key joins them."""
        columns = [*([query.answer] if query.answer else []), *(c.column for c in query.conditions)]
        if not columns:
            raise QueryError(Outcome.SYNTAX, "the query names no column yet")
        return join_tree(self.schema, [c.table for c in columns])

    def answer(self, query: SqlQuery) -> Statement:
        """The answer of a query: one value, or one row for each row of the answer's table that fits."""
        assert query.answer is not None
        tree = self.tree(query)
        cell = self.cell(query.answer)
        match query.aggregation:
            case "COUNT":
                cell = func.count(cell)
            case "MAX" | "MIN" | "SUM" | "AVG" as name:
                is_best = name in ("MAX", "MIN")
                value = self._number_or_cell(query.answer) if is_best else self._number(query.answer)
                cell = getattr(func, name.lower())(value)
        return self._restricted(sa.select(cell), query, tree, multiply=False)

    def rows(self, query: SqlQuery) -> tuple[Statement, tuple[str, ...]]:
        """The matching rows, and what their columns are called: those of the first table, and conditions'."""
        tree = self.tree(query)
        table = next(t for t in self.schema.tables if t.name == tree.root)
        others = (c.column for c in query.conditions if c.column.table != tree.root)
        columns = tuple(dict.fromkeys([*table.columns, *others]))
        statement: Statement = sa.select(*(self.cell(c) for c in columns))
        statement = self._restricted(statement, query, tree, multiply=True)
        if query.answer is not None and query.aggregation in ("MAX", "MIN"):
            best = self._number_or_cell(query.answer)
            statement = statement.where(best.is_not(None))
            statement = statement.order_by(best.desc() if query.aggregation == "MAX" else best.asc())
        return statement, tuple(c.name if c.table == tree.root else c.id for c in columns)

    def values(self, column: Column) -> Statement:
        """Distinct values of a column, most frequent first."""
        cell = self.cell(column)
        if column.kind == "other" or (column.kind == "text" and column not in self.native):
            cell = cast(cell, Text())
        grouped = sa.select(cell).where(cell.is_not(None)).group_by(cell)
        return grouped.order_by(func.count().desc(), cell)

    def like(self, column: Column, word: str) -> Statement:
        """Values of a column that hold a word."""
        return self.values(column).where(cast(self.cell(column), Text()).icontains(word, autoescape=True))

    def _restricted(
        self, statement: Statement, query: SqlQuery, tree: JoinTree, *, multiply: bool
    ) -> Statement:
        """Conditions and joins. Without `multiply` a join that could repeat rows becomes an EXISTS."""
        conditions, joined = list(query.conditions), list[Join]()
        for join in (e for e in tree.joins if e.source == tree.root):
            branch = tree.below(join)
            if multiply or all(e.to_one for e in branch):
                joined += branch
                continue
            inside = {e.target for e in branch}
            inner = [c for c in conditions if c.column.table in inside]
            conditions = [c for c in conditions if c.column.table not in inside]
            partners: Statement = sa.select(sa.literal_column("1"))
            partners = partners.select_from(self._joined(join.target, branch[1:]))
            partners = partners.where(self._on(join), *map(self.condition, inner))
            statement = statement.where(partners.correlate(self.tables[join.source]).exists())
        return statement.select_from(self._joined(tree.root, joined)).where(*map(self.condition, conditions))

    def _joined(self, first: str, joins: Sequence[Join]) -> Any:
        source: Any = self.tables[first]
        for join in joins:
            source = source.join(self.tables[join.target], self._on(join))
        return source

    def _on(self, join: Join) -> ColumnElement[bool]:
        source, target = self.tables[join.source], self.tables[join.target]
        return and_(*(source.c[a] == target.c[b] for a, b in join.pairs))

    def _number_or_cell(self, column: Column) -> Expression:
        if column.kind == "number":
            return self._number(column)
        return cast(self.cell(column), Text()) if column.kind == "date" else self.cell(column)

    def _number(self, column: Column) -> Expression:
        """Return a cell as a number, NULL where it is none: a cast alone would be an error, or 0."""
        cell = self.cell(column)
        if column in self.native:
            return cell
        bare = func.trim(cast(cell, Text()), type_=Text())
        number: ColumnElement[float] = cast(func.replace(bare, ",", ""), Double())
        return case((bare.regexp_match(f"^{NUMBER_PATTERN}$"), number), else_=None)

    def condition(self, condition: Condition) -> ColumnElement[bool]:
        """Return a condition, compared as its column's kind asks. Raises `QueryError` where it cannot be."""
        column, operator, value = condition.column, condition.operator, condition.value
        if operator not in OPERATORS:
            message = f"there is no operator {operator!r}; there are {', '.join(OPERATORS)}"
            raise QueryError(Outcome.SYNTAX, message)
        cell = self.cell(column)
        if value is None:
            if operator not in ("=", "!="):
                raise QueryError(Outcome.SYNTAX, f"nothing is {operator} no value")
            return cell.is_(None) if operator == "=" else cell.is_not(None)
        left, rights = self._sides(column, operator, value)
        if condition.folded and operator in ("=", "!=") and column.kind in ("text", "other"):
            rights = [_bound(str(v)) for v in self.spellings(column, str(value))] or rights
        if len(rights) > 1:
            return left.in_(rights) if operator == "=" else left.not_in(rights)
        return left.op(operator, is_comparison=True)(rights[0])

    def _sides(self, column: Column, operator: str, value: Value) -> tuple[Expression, list[Expression]]:
        """Return both sides of a comparison, as numbers, dates, truth values or texts."""
        cell, number = self.cell(column), read_number(value)
        ordered = operator not in ("=", "!=")
        if number is not None and (column.kind == "number" or (ordered and column.kind == "text")):
            return self._number(column), [_bound(number)]
        if column.kind == "number" and ordered:
            raise QueryError(Outcome.SYNTAX, f"{column.id} holds numbers, and {value!r} is none")
        if column.kind == "date":
            # As exact as the date that is given: `= 1990` holds for every day of that year.
            iso, date = cast(cell, Text()), read_date(str(value))
            left = iso if date is None else func.substr(iso, 1, len(date), type_=Text())
            return left, [_bound(date or str(value))]
        truth = str(value).strip().lower()
        if column.kind == "boolean" and truth in (*_TRUE, *_FALSE):
            as_text = case((cell, "true"), (~cell, "false"), else_=None)
            return as_text, [_bound("true" if truth in _TRUE else "false")]
        text = cell if column.kind == "text" and column in self.native else cast(cell, Text())
        return text, [_bound(str(value))]


def _bound(value: str | int | float) -> Expression:
    """Return a value as a bound parameter, of a type that every engine compares with columns of its kind."""
    if isinstance(value, str):
        return literal(value, Text())
    is_whole = abs(value) < 10**15 and value == int(value)
    return literal(int(value), Numeric(asdecimal=False)) if is_whole else literal(float(value), Double())
