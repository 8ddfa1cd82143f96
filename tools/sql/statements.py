"""From a query value to the one SELECT that means it (QueryAgent, appendix E, table 10, SQL version)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sqlglot import exp
from sqlglot.dialects.dialect import Dialect

from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.engines import QueryError
from triplewise.tools.sql.query import Condition, SqlQuery
from triplewise.tools.sql.schema import Column, Join, Schema
from triplewise.tools.sql.select import Select
from triplewise.tools.sql.values import NUMBER_PATTERN, Value, read_date, read_number

_SIGNS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ, "!=": exp.NEQ, ">": exp.GT, "<": exp.LT, ">=": exp.GTE, "<=": exp.LTE
}  # fmt: skip
_TRUE, _FALSE = ("true", "t", "yes", "y", "1"), ("false", "f", "no", "n", "0")


class Statement(NamedTuple):
    """A SELECT, what its columns are called ((): as the engine does), and what to know about its joins."""

    select: Select
    columns: tuple[str, ...] = ()
    note: str = ""


class JoinTree(NamedTuple):
    """Joined tables: the root, and joins in an order in which each source is joined before.

    `note` says which of several equally short ways was taken.
    """

    root: str
    joins: tuple[Join, ...] = ()
    note: str = ""


def join_tree(schema: Schema, tables: Sequence[str]) -> JoinTree:
    """The tables, first one as root, joined along shortest paths of foreign keys.

    Among equally short paths the one whose keys the schema names first is taken, and said so. Raises
    `QueryError` where no key leads to a table.
    """
    if not tables:
        raise QueryError(Outcome.SYNTAX, "the query names no column yet")
    root, joins, notes = tables[0], list[Join](), list[str]()
    both_ways = dict.fromkeys(join for key in schema.keys for join in (key, key.back()))
    for table in dict.fromkeys(tables[1:]):
        seen = {root, *(e.target for e in joins)}
        if table in seen:
            continue
        paths, ends = list[tuple[Join, ...]](), [(start, tuple[Join, ...]()) for start in seen]
        while ends and not paths:  # breadth first, in the schema's order
            onward = [(path, e) for end, path in ends for e in both_ways if e.source == end]
            ends = [(e.target, (*path, e)) for path, e in onward if e.target not in seen]
            paths = [path for end, path in ends if end == table]
            seen |= {end for end, _ in ends}
        if not paths:
            raise QueryError(Outcome.SYNTAX, f"no foreign key leads from table {root} to {table}")
        joins += paths[0]
        if len(paths) > 1:
            taken, other = (", ".join(e.text() for e in path) for path in paths[:2])
            notes.append(f"{table} is joined by {taken}; an equally short way is {other}.")
    return JoinTree(root, tuple(joins), " ".join(notes))


@dataclass(frozen=True)
class Writer:
    """Writes the statements of one database; `dialect` is sqlglot's name of its SQL."""

    schema: Schema
    dialect: str

    def answer(self, query: SqlQuery) -> Statement:
        """The answer of a query: one value, or one row for each row of the answer's table that fits."""
        if (answer := query.answer) is None:
            return self.rows(query)
        cell: exp.Expr = self.cell(answer)
        if query.aggregation in ("MAX", "MIN"):
            cell = self._ordered(answer)
        elif query.aggregation in ("SUM", "AVG"):
            cell = self._number(answer)
        cell = exp.func(query.aggregation, cell) if query.aggregation else cell
        tree = join_tree(self.schema, query.tables)
        select = self._restricted(exp.select(cell), query, tree, multiply=False)
        name = f"{query.aggregation}({answer.name})" if query.aggregation else answer.name
        return Statement(Select(select, self.dialect), (name,), tree.note)

    def rows(self, query: SqlQuery) -> Statement:
        """The rows that an answer is taken from, with the conditions' columns of other tables.

        For a largest or smallest value, the row that has it comes first.
        """
        tree = join_tree(self.schema, query.tables)
        own = (c for t in self.schema.tables if t.name == tree.root for c in t.columns)
        others = (c.column for c in query.conditions if c.column.table != tree.root)
        columns = tuple(dict.fromkeys([*own, *others]))
        select = self._restricted(exp.select(*map(self.cell, columns)), query, tree, multiply=True)
        if query.answer is not None and query.aggregation in ("MAX", "MIN"):
            best = self._ordered(query.answer)
            select = select.where(best.is_(exp.Null()).not_())
            select = select.order_by(self._sorted(best, desc=query.aggregation == "MAX"))
        names = tuple(c.name if c.table == tree.root else c.id for c in columns)
        return Statement(Select(select, self.dialect), names, tree.note)

    def values(self, column: Column, word: str = "") -> Statement:
        """Distinct values of a column, most frequent first; with a word, those that hold it."""
        cell = self.cell(column)
        is_text = column.kind == "other" or (column.kind == "text" and not column.is_native)
        shown: exp.Expr = exp.cast(cell, "text") if is_text else cell
        select = exp.select(shown).from_(self._table(column.table)).where(cell.is_(exp.Null()).not_())
        if word:
            lowered, part = exp.Lower(this=exp.cast(cell, "text")), exp.Literal.string(word.lower())
            select = select.where(exp.StrPosition(this=lowered, substr=part) > 0)
        frequent = self._sorted(exp.Count(this=exp.Star()), desc=True)
        select = select.group_by(shown).order_by(frequent, self._sorted(shown))
        return Statement(Select(select, self.dialect), (column.name,))

    def cell(self, column: Column) -> exp.Column:
        """Return a column of the schema. Raises `QueryError` for any other."""
        if column.id not in {c.id for c in self.schema.columns}:
            raise QueryError(Outcome.SYNTAX, f"there is no column {column.id}")
        return exp.column(self.schema.identifier(column.name), self.schema.identifier(column.table))

    def condition(self, condition: Condition) -> exp.Expr:
        """Return a condition, compared as its column's kind asks. Raises `QueryError` where it cannot be."""
        column, operator, value = condition.column, condition.operator, condition.value
        if operator not in _SIGNS:
            message = f"there is no operator {operator!r}; there are {', '.join(_SIGNS)}"
            raise QueryError(Outcome.SYNTAX, message)
        if value is None:
            if operator not in ("=", "!="):
                raise QueryError(Outcome.SYNTAX, f"nothing is {operator} no value")
            is_null = self.cell(column).is_(exp.Null())
            return is_null if operator == "=" else is_null.not_()
        left, right = self._sides(column, operator, value)
        return _SIGNS[operator](this=left, expression=right)

    def _sides(self, column: Column, operator: str, value: Value) -> tuple[exp.Expr, exp.Expr]:
        """Return both sides of a comparison, as numbers, dates, truth values or texts."""
        cell, number, written = self.cell(column), read_number(value), str(value)
        ordered = operator not in ("=", "!=")
        if number is not None and (column.kind == "number" or (ordered and column.kind == "text")):
            whole = abs(number) < 10**15 and number == int(number)
            return self._number(column), exp.Literal.number(int(number) if whole else number)
        if column.kind == "number" and ordered:
            raise QueryError(Outcome.SYNTAX, f"{column.id} holds numbers, and {value!r} is none")
        as_text: exp.Expr = exp.cast(cell, "text")
        if column.kind == "date":
            # As exact as the date that is given: `= 1990` holds for every day of that year.
            if date := read_date(written):
                first, length = exp.Literal.number(1), exp.Literal.number(len(date))
                as_text = exp.Substring(this=as_text, start=first, length=length)
            return as_text, exp.Literal.string(date or written)
        truth = written.strip().lower()
        if column.kind == "boolean" and truth in (*_TRUE, *_FALSE):
            case = exp.case().when(cell, exp.Literal.string("true"))
            case = case.when(cell.not_(), exp.Literal.string("false"))
            return case, exp.Literal.string("true" if truth in _TRUE else "false")
        return cell if column.kind == "text" and column.is_native else as_text, exp.Literal.string(written)

    def _number(self, column: Column) -> exp.Expr:
        """Return a cell as a number, NULL where it is none: a cast alone would be an error, or 0."""
        cell = self.cell(column)
        if column.kind == "number" and column.is_native:
            return cell
        bare = exp.Trim(this=exp.cast(cell, "text"))
        pattern = exp.Literal.string(f"^{NUMBER_PATTERN}$")
        is_number: exp.Expr = exp.RegexpLike(this=bare, expression=pattern)
        if self.dialect == "mysql":  # MariaDB has no REGEXP_LIKE
            is_number = exp.var(f"{bare.sql('mysql')} RLIKE {pattern.sql('mysql')}")
        number = exp.func("REPLACE", bare.copy(), exp.Literal.string(","), exp.Literal.string(""))
        return exp.case().when(is_number, exp.cast(number, "double"))

    def _ordered(self, column: Column) -> exp.Expr:
        """Return a cell as what the largest and smallest of its kind are told by."""
        if column.kind == "number":
            return self._number(column)
        cell = self.cell(column)
        return exp.cast(cell, "text") if column.kind == "date" else cell

    def _sorted(self, cell: exp.Expr, desc: bool = False) -> exp.Ordered:
        """Return an order in the engine's own place for NULLs, so that sqlglot adds nothing for them."""
        nulls = Dialect.get_or_raise(self.dialect).NULL_ORDERING
        first = {"nulls_are_small": not desc, "nulls_are_large": desc}.get(nulls, False)
        return exp.Ordered(this=cell, desc=desc, nulls_first=first)

    def _restricted(
        self, statement: exp.Select, query: SqlQuery, tree: JoinTree, *, multiply: bool
    ) -> exp.Select:
        """Conditions and joins. Without `multiply`, joins that could repeat rows are inside an EXISTS."""
        statement = statement.from_(self._table(tree.root))
        if multiply or all(join.to_one for join in tree.joins):
            for join in tree.joins:
                statement = statement.join(self._table(join.target), on=self._on(join))
            return statement.where(*map(self.condition, query.conditions))
        first, *others = tree.joins
        partners = exp.select("1").from_(self._table(first.target)).where(self._on(first))
        for join in others:
            partners = partners.join(self._table(join.target), on=self._on(join))
        own = [c for c in query.conditions if c.column.table == tree.root]
        partners = partners.where(*(self.condition(c) for c in query.conditions if c not in own))
        return statement.where(*map(self.condition, own), exp.Exists(this=partners))

    def _table(self, name: str) -> exp.Table:
        return exp.Table(this=self.schema.identifier(name))

    def _on(self, join: Join) -> exp.Expr:
        equal = [(Column(join.source, a), Column(join.target, b)) for a, b in join.pairs]
        return exp.and_(*(exp.EQ(this=self.cell(a), expression=self.cell(b)) for a, b in equal))
