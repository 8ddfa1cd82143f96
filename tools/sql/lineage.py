"""Where the values of a SELECT come from: cells and rows of tables, or the statement itself."""

from __future__ import annotations

import re
from collections.abc import Iterable

from sqlglot import exp
from sqlglot.optimizer.scope import Scope, traverse_scope

_YES_NO = re.compile(r"'?(?:yes|no|true|false|[01](?:\.0*)?)'?", re.IGNORECASE)
_OF_ROWS = (exp.Star, exp.Columns, exp.Count, exp.Sum, exp.Avg, exp.Exists)


def own_value(tree: exp.Query) -> exp.Expr | None:
    """Return an output column of a qualified SELECT that may have a value of the statement's own, or None.

    A value comes from the database if a cell of a table leads to it or rows decide it, as they do a count. Of
    branches (CASE, COALESCE, UNION) each must; they may also be words for yes and no.
    """
    lineage = _Lineage(tree)
    return next((ways[0] for ways in _columns(tree) if not lineage.all_read(ways)), None)


def _columns(query: exp.Expr) -> list[list[exp.Expr]]:
    """Return for each output column of a query the expressions that give its values."""
    if isinstance(query := query.unnest(), exp.SetOperation):
        pairs = zip(_columns(query.left), _columns(query.right), strict=False)
        return [left + right for left, right in pairs]
    return [[column.unalias()] for column in query.selects] if isinstance(query, exp.Query) else []


class _Lineage:
    """Follows values through subqueries, WITH and joins."""

    def __init__(self, tree: exp.Query) -> None:
        self._scopes = {id(scope.expression): scope for scope in traverse_scope(tree)}
        self._known = dict[object, bool]()  # a table that names itself is as the rest of it is
        ctes = {cte.alias_or_name for cte in tree.find_all(exp.CTE)}
        is_table = any(table.name not in ctes for table in tree.find_all(exp.Table))
        self._has_rows = is_table and tree.find(exp.Column, *_OF_ROWS) is not None

    def all_read(self, ways: Iterable[exp.Expr | None]) -> bool:
        """Whether each of several ways to a value, NULL apart, comes from the database or says yes or no."""
        given = [way for way in ways if way is not None and not isinstance(way, exp.Null)]
        told = (self._is_read(way) or (self._has_rows and _YES_NO.fullmatch(way.sql())) for way in given)
        return bool(given) and all(told)

    def _is_read(self, node: exp.Expr) -> bool:
        match node:
            case exp.Column():
                return self._is_column_read(node)
            case exp.Window():  # of a rank, which holds nothing, the order decides
                return self._is_read(node.this) or not any(node.this.iter_expressions())
            case exp.Subquery():
                return all(map(self.all_read, _columns(node)))
            case exp.Case():
                return self.all_read([*(c.args["true"] for c in node.args["ifs"]), node.args.get("default")])
            case exp.If():
                return self.all_read([node.args["true"], node.args.get("false")])
            case exp.Coalesce():
                return self.all_read([node.this, *node.expressions])
        is_of_rows = isinstance(node, _OF_ROWS) and self._has_rows
        return is_of_rows or any(map(self._is_read, node.iter_expressions()))

    def _is_column_read(self, column: exp.Column) -> bool:
        scope = self._scopes.get(id(column.parent_select))
        while scope is not None and column.table not in scope.sources:
            scope = scope.parent
        source = scope.sources[column.table] if scope is not None else None
        query = source.expression if isinstance(source, Scope) else None
        if not isinstance(query, exp.Query):  # a table, or VALUES, or what a function unfolds
            return query is None or query.find(exp.Column) is not None
        key = id(query), column.name
        ways = dict(zip(query.named_selects, _columns(query), strict=False)).get(column.name)
        if ways is not None and key not in self._known:
            self._known[key] = True
            self._known[key] = self.all_read(ways)
        return self._known.get(key, True)
