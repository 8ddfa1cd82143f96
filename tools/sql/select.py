"""A SELECT as a model writes it: parsed and checked with sqlglot before anything reaches the database.

One statement that only reads; every table and column known; what joins tables along no key is noted. What is
run is written anew from what was parsed, never the text itself, and cut at the database's limit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import sqlglot
from sqlglot import exp
from sqlglot.errors import OptimizeError, ParseError, TokenError
from sqlglot.optimizer.qualify import qualify
from sqlglot.optimizer.scope import Scope, traverse_scope

from triplewise.tools.core.errors import ActionError
from triplewise.tools.sql.schema import Column, Schema
from triplewise.tools.sql.values import nearest

NEAREST = 5
"""Names that are offered for one that there is not."""
_FORBIDDEN = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Lock, exp.Set, exp.Pragma)
_ORDERING = (exp.GT, exp.GTE, exp.LT, exp.LTE, exp.Between, exp.Ordered, exp.Max, exp.Min)
_FILE_READERS = ("read_", "glob", "pg_read", "pg_ls", "lo_", "dblink", "load_", "readfile")


@dataclass(frozen=True)
class Select:
    """A SELECT that may be run.

    Attributes:
        tree: what was parsed, or built (`Writer`). dialect: sqlglot's name of the database's SQL.
        notes: what is unusual about it, in words.
    """

    tree: exp.Query
    dialect: str
    notes: tuple[str, ...] = ()

    @cached_property
    def text(self) -> str:
        """The statement, written anew."""
        return self.tree.sql(dialect=self.dialect, identify=False)

    def limited(self, most: int) -> str:
        """The statement with a limit of rows, where it has none of its own."""
        return self.text if self.tree.args.get("limit") else self.tree.limit(most).sql(dialect=self.dialect)

    def ordered(self, schema: Schema) -> list[Column]:
        """Return the columns whose order counts as they are stored: compared by size, or sorted."""
        columns = [
            column
            for scope in traverse_scope(self.tree)
            for node in scope.find_all(*_ORDERING)
            for part in node.args.values()
            if isinstance(part, exp.Column) and (column := _column_of(part, scope, schema))
        ]
        return list(dict.fromkeys(columns))

    def texts(self, schema: Schema) -> list[tuple[exp.Literal, Column]]:
        """Return the texts that columns are compared with, each with its column."""
        texts = []
        for scope in traverse_scope(self.tree):
            for node in scope.find_all(exp.EQ, exp.NEQ, exp.Like, exp.ILike, exp.In):
                named = node.this.find(exp.Column)
                column = _column_of(named, scope, schema) if named is not None else None
                options = node.expressions if isinstance(node, exp.In) else [node.args.get("expression")]
                for option in options:
                    literal = option.this if isinstance(option, exp.Collate | exp.Lower) else option
                    if column and isinstance(literal, exp.Literal) and literal.is_string:
                        texts.append((literal, column))
        return texts


def read_select(text: str, schema: Schema, dialect: str) -> Select:
    """Return the statement that a text is.

    Args:
        text: as a model wrote it. schema: what there is. dialect: sqlglot's name of the database's SQL.

    Raises:
        ActionError: `bad_sql` (cannot be parsed), `several_statements`, `not_select`, `unknown_table`,
            `unknown_column`; the detail holds the nearest names.
    """
    try:
        trees = [t for t in sqlglot.parse(text.strip().rstrip(";"), dialect=dialect) if t is not None]
    except (ParseError, TokenError) as error:
        first = str(error).splitlines()[0]
        raise ActionError("bad_sql", f"this is no SQL that can be read: {first}", given=text) from None
    if len(trees) != 1:
        raise ActionError("several_statements", f"{len(trees)} statements, exactly one is due", given=text)
    (tree,) = trees
    if not isinstance(tree, exp.Query) or any(tree.find(kind) for kind in _FORBIDDEN):
        raise ActionError("not_select", "only a SELECT is allowed: the database is only read", given=text)
    for function in tree.find_all(exp.Anonymous, exp.Func):
        name = str(function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()
        if name.startswith(_FILE_READERS):
            raise ActionError("not_select", f"{name} reads files: only tables may be asked", given=name)
    own = {cte.alias_or_name.lower() for cte in tree.find_all(exp.CTE)}
    names = [t.name for t in schema.tables]
    for table in tree.find_all(exp.Table):
        if table.name.lower() not in {*own, *map(str.lower, names)}:
            near = [str(n) for n in nearest(table.name, names, NEAREST)] or names[:NEAREST]
            message = f"there is no table {table.name}"
            raise ActionError("unknown_table", message, given=table.name, nearest=near)
    columns: dict[str, object] = {t.name: {c.name: "text" for c in t.columns} for t in schema.tables}
    try:
        qualify(tree.copy(), schema=columns, dialect=dialect, identify=False, quote_identifiers=False)
    except (OptimizeError, ParseError) as error:
        known = {c.name.lower() for c in schema.columns} | {a.alias.lower() for a in tree.find_all(exp.Alias)}
        given = next((c.name for c in tree.find_all(exp.Column) if c.name.lower() not in known), "")
        ids = {c.name: c.id for c in schema.columns}
        near = [ids[str(n)] for n in nearest(given, list(ids), NEAREST)] if given else []
        message = f"there is no column {given}" if given else str(error).splitlines()[0]
        raise ActionError("unknown_column", message, given=given or message, nearest=near) from None
    return Select(tree, dialect, tuple(_unusual_joins(tree, schema)))


def _column_of(column: exp.Column, scope: Scope, schema: Schema) -> Column | None:
    tables = {alias: s.name for alias, s in scope.sources.items() if isinstance(s, exp.Table)}
    own = [tables[column.table]] if column.table in tables else list(tables.values())
    ids = {(c.table.lower(), c.name.lower()): c for c in schema.columns}
    known = (ids.get((table.lower(), column.name.lower())) for table in own)
    return next((c for c in known if c is not None), None)


def _unusual_joins(tree: exp.Query, schema: Schema) -> Iterator[str]:
    """Notes on tables that are joined along columns that are no key of one another."""
    keys = {
        frozenset((f"{key.source}.{own}".lower(), f"{key.target}.{other}".lower()))
        for key in schema.keys
        for own, other in key.pairs
    }
    for scope in traverse_scope(tree):
        tables = {alias: s.name for alias, s in scope.sources.items() if isinstance(s, exp.Table)}
        for join in scope.find_all(exp.Join):
            condition = join.args.get("on")
            for equal in condition.find_all(exp.EQ) if condition is not None else ():
                sides = [s for s in (equal.left, equal.right) if isinstance(s, exp.Column)]
                ids = [f"{tables.get(s.table, s.table)}.{s.name}" for s in sides]
                pair = frozenset(i.lower() for i in ids)
                if len(pair) == 2 and pair not in keys:
                    yield f"{ids[0]} = {ids[1]} is no key of the database; are these the same thing?"
