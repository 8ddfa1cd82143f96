"""Where the values of a SELECT come from: cells and rows of tables, or the statement itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

_YES_NO = re.compile(r"yes|no|true|false|[01](\.0*)?", re.IGNORECASE)
_OF_ROWS = (
    exp.Star,
    exp.Columns,
    exp.Count,
    exp.Sum,
    exp.Avg,
    exp.Window,
)  # whatever they hold, rows decide their value


def own_value(tree: exp.Query) -> exp.Expr | None:
    """Return an output column of a qualified SELECT that may have a value of the statement's own, or None.

    A value comes from the database if a cell of a table leads to it or rows decide it, as they do a count. Of
    branches (CASE, COALESCE, UNION) each must; they may also be words for yes and no.
    """
    lineage = _Lineage(tree)
    for ways in lineage.columns(tree):
        if not lineage.all_read(ways):
            return ways[0]
    return None


class _Lineage:
    """Follows values through subqueries, WITH and joins."""

    def __init__(self, tree: exp.Query) -> None:
        self._scopes = {id(scope.expression): scope for scope in traverse_scope(tree)}
        self._known = dict[object, bool]()  # a table that names itself is as the rest of it is

    def columns(self, query: exp.Expr) -> list[list[exp.Expr]]:
        """Return for each output column of a query the expressions that give its values."""
        query = query.unnest()
        if isinstance(query, exp.SetOperation):
            return [a + b for a, b in zip(self.columns(query.left), self.columns(query.right), strict=False)]
        return [[column.unalias()] for column in query.selects] if isinstance(query, exp.Query) else []

    def all_read(self, ways: Sequence[exp.Expr | None]) -> bool:
        """Whether each of several ways to a value, NULL apart, comes from the database or says yes or no."""
        given = [way for way in ways if way is not None and not isinstance(way, exp.Null)]
        return bool(given) and all(self._is_read(way) or self._is_yes_no(way) for way in given)

    def _is_yes_no(self, node: exp.Expr) -> bool:
        select = node.parent_select
        is_word = isinstance(node, exp.Literal | exp.Boolean) and _YES_NO.fullmatch(str(node.this))
        conditions = is_word and select and select.find(exp.Column, exp.Star, exp.Count)
        return bool(conditions) and self._has_rows(select)

    def _is_read(self, node: exp.Expr) -> bool:
        """Whether a cell or the rows of a table lead to the value of an expression."""
        match node:
            case exp.Column():
                return self._is_column_read(node)
            case exp.Subquery():
                return all(map(self.all_read, self.columns(node)))
            case exp.Exists():
                return self._has_rows(node.this)
            case exp.Case():
                return self.all_read([*(c.args["true"] for c in node.args["ifs"]), node.args.get("default")])
            case exp.If():
                return self.all_read([node.args["true"], node.args.get("false")])
            case exp.Coalesce():
                return self.all_read([node.this, *node.expressions])
            case exp.Nullif():
                return self._is_read(node.this)
        is_of_rows = isinstance(node, _OF_ROWS) and self._has_rows(node.parent_select)
        return is_of_rows or any(map(self._is_read, node.iter_expressions()))

    def _is_column_read(self, column: exp.Column) -> bool:
        scope = self._scopes.get(id(column.parent_select))
        while scope is not None and column.table not in scope.sources:
            scope = scope.parent
        source = scope.sources[column.table] if scope is not None else None
        if not isinstance(source, Scope):
            return True
        query = source.expression
        if not isinstance(query, exp.Query):  # VALUES, or what a function unfolds
            return any(map(self._is_read, query.find_all(exp.Column)))
        ways = dict(zip(query.named_selects, self.columns(query), strict=False)).get(column.name)
        key = id(query), column.name
        if ways is not None and key not in self._known:
            self._known[key] = True
            self._known[key] = self.all_read(ways)
        return self._known.get(key, True)

    def _has_rows(self, query: exp.Expr | None) -> bool:
        """Whether a query reads a table, by whatever way."""
        if query is None or self._known.get(id(query)) is not None:
            return query is not None and self._known[id(query)]
        self._known[id(query)] = False
        scopes = (self._scopes.get(id(select)) for select in query.find_all(exp.Select))
        sources = [source for scope in scopes if scope for _, source in scope.selected_sources.values()]
        found = any(not isinstance(s, Scope) or self._has_rows(s.expression) for s in sources)
        self._known[id(query)] = found
        return found
