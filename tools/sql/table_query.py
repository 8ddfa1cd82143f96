"""QueryAgent's query over one table, built part by part (section 5.3 and appendix E, table 10, SQL version).

A query so far is a SELECT of all columns, until the answer is set. A run's state holds it as SQL.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from sqlglot import exp

from triplewise.tools.core.errors import ActionError
from triplewise.tools.sql.schema import Aggregation, Column, Condition
from triplewise.tools.sql.select import Select
from triplewise.tools.sql.values import NUMBER_PATTERN, read_date, read_number

_OPERATORS: dict[str, type[exp.Binary]] = {
    "=": exp.EQ, "!=": exp.NEQ, ">": exp.GT, "<": exp.LT, ">=": exp.GTE, "<=": exp.LTE
}  # fmt: skip
_TRUTH = {**dict.fromkeys(("true", "t", "yes", "y", "1"), True),
          **dict.fromkeys(("false", "f", "no", "n", "0"), False)}  # fmt: skip


@dataclass(frozen=True)
class TableQuery(Select):
    """A query over one table: conditions that all must hold, and the answer's column once it is set."""

    tree: exp.Select

    @property
    def table(self) -> str:
        """The table whose rows it reads."""
        return next(table.name for table in self.tree.find_all(exp.Table))

    @property
    def conditions(self) -> list[exp.Expr]:
        """The conditions so far."""
        where = self.tree.args.get("where")
        both = where.this if where else None
        return list(both.flatten()) if isinstance(both, exp.And) else [both] if both else []

    @property
    def has_answer(self) -> bool:
        """Whether the answer's column is set."""
        return not self.tree.is_star

    def where(self, condition: Condition) -> TableQuery:
        """The query with one more condition. Raises `ActionError` for a column of another table."""
        added = self._comparison(condition)
        if added.sql(self.dialect) in {c.sql(self.dialect) for c in self.conditions}:
            return self
        return replace(self, tree=self.tree.where(added))

    def is_other_equality(self, condition: Condition) -> bool:
        """Whether a condition asks of a column that equals another value already to equal this one."""
        equal = [c for c in self.conditions if isinstance(c, exp.EQ) and condition.operator == "="]
        of_column = [c for c in equal if condition.column.name in {x.name for x in c.find_all(exp.Column)}]
        return bool(of_column) and self.where(condition) is not self

    def returning(self, column: Column, function: Aggregation) -> TableQuery:
        """The query with its answer. Raises `ActionError` for a column of another table."""
        cell = self._cell(column)
        if function:
            number = function in ("SUM", "AVG") or (function in ("MAX", "MIN") and column.kind == "number")
            cell = exp.func(function, self._number(column) if number else cell)
        return replace(self, tree=self.tree.select(cell, append=False))

    def rows(self) -> TableQuery:
        """The rows that prove the answer; that of a largest or smallest value first."""
        rows, best = self.tree.select("*", append=False), self.tree.expressions[0]
        if isinstance(best, exp.Max | exp.Min):
            order = f"{best.this.sql(self.dialect)} {'DESC' if isinstance(best, exp.Max) else ''}"
            rows = rows.where(best.this.is_(exp.null()).not_()).order_by(order, dialect=self.dialect)
        return replace(self, tree=rows)

    def _cell(self, column: Column) -> exp.Expr:
        if column.table != self.table:
            message = f"{column.id} is not a column of {self.table}, and a query reads one table"
            raise ActionError("bad_query", message)
        return exp.column(column.name, quoted=True)

    def _number(self, column: Column) -> exp.Expr:
        """Return a cell as a number, NULL where it is none: a cast alone would be an error, or 0."""
        cell = self._cell(column)
        if column.kind == "number" and column.is_native:
            return cell
        bare_text = exp.Trim(this=exp.cast(cell, "text"))
        is_number = exp.RegexpLike(this=bare_text, expression=exp.Literal.string(f"^{NUMBER_PATTERN}$"))
        number = exp.func("REPLACE", bare_text.copy(), exp.Literal.string(","), exp.Literal.string(""))
        return exp.case().when(is_number, exp.cast(number, "double"))

    def _comparison(self, condition: Condition) -> exp.Expr:
        """Return a condition whose sides compare as numbers, dates, truth values or texts."""
        column, operator, value = condition
        cell, number, kind = self._cell(column), read_number(value), column.kind
        left: exp.Expr = exp.cast(cell, "text")
        right: exp.Expr = exp.Literal.string(value)
        if number is not None and (kind == "number" or (operator not in ("=", "!=") and kind == "text")):
            whole = abs(number) < 10**15 and number == int(number)
            left, right = self._number(column), exp.Literal.number(int(number) if whole else number)
        elif kind == "date" and (date := read_date(value)):
            # As exact as the date that is given: `= 1990` holds for every day of that year.
            left = exp.func("SUBSTRING", left, exp.Literal.number(1), exp.Literal.number(len(date)))
            right = exp.Literal.string(date)
        elif kind == "boolean" and value.lower() in _TRUTH:
            left, right = cell, exp.convert(_TRUTH[value.lower()])
        elif kind == "text" and column.is_native:
            left = cell
        return _OPERATORS[operator](this=left, expression=right)
