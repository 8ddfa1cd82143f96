"""A SELECT as a model writes it, checked with sqlglot: one statement that reads known tables and columns.

What is run is written anew from what was parsed, and cut at the database's limit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import sqlglot
from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.errors import OptimizeError, ParseError, TokenError
from sqlglot.generators.mysql import MySQLGenerator
from sqlglot.optimizer.qualify import qualify

from triplewise.tools.core.errors import ActionError
from triplewise.tools.sql.lineage import own_value
from triplewise.tools.sql.schema import Column, Schema
from triplewise.tools.sql.values import nearest

NEAREST = 5  # names that are offered for an unknown one
_FORBIDDEN = (exp.DML, exp.DDL, exp.Command, exp.Into, exp.Lock, exp.Set, exp.Pragma)
_FILE_READERS = ("read_", "glob", "pg_read", "pg_ls", "lo_", "dblink", "load_", "readfile")


class MariaDB(MySQL):
    """MySQL's SQL as MariaDB runs it too, which has no REGEXP_LIKE."""

    class Generator(MySQLGenerator):
        """Writes regular expressions as operators."""

        TRANSFORMS = {  # noqa: RUF012  # as sqlglot declares it
            **MySQLGenerator.TRANSFORMS,
            exp.RegexpLike: lambda self, node: self.binary(node, "RLIKE"),
        }


@dataclass(frozen=True)
class Select:
    """A SELECT that may be run: what was parsed, or built, and sqlglot's name of its dialect."""

    tree: exp.Query
    dialect: str
    own: str = ""  # the SQL of an output column that may hold what no table does

    @cached_property
    def text(self) -> str:
        """The statement, written anew."""
        return self.tree.sql(dialect=self.dialect, identify=False)

    def limited(self, most: int) -> str:
        """The statement with a limit of rows, where it has none of its own."""
        return self.text if self.tree.args.get("limit") else self.tree.limit(most).sql(dialect=self.dialect)

    def texts(self, schema: Schema) -> list[tuple[str, Column]]:
        """Return the texts that columns are exactly compared with, each with its column."""
        texts, tree = [], _qualified(self.tree, schema, self.dialect)
        tables = {table.alias_or_name: table.name for table in tree.find_all(exp.Table)}
        columns = {column.id.lower(): column for column in schema.columns}
        for node in tree.find_all(exp.EQ, exp.NEQ, exp.In):
            end = node.this
            name = f"{tables.get(end.table, '')}.{end.name}" if isinstance(end, exp.Column) else ""
            options = node.expressions if isinstance(node, exp.In) else [node.args.get("expression")]
            if column := columns.get(name.lower()):
                texts += [(t.name, column) for t in options if isinstance(t, exp.Literal) and t.is_string]
        return texts


def as_stored(tree: exp.Query, stored: Mapping[str, str]) -> exp.Query:
    """Return a query with the names that the database has: see `Schema.stored`."""
    if stored:
        tree = tree.copy()
        for name in list(tree.find_all(exp.Identifier)):
            if name.name in stored:
                name.replace(exp.to_identifier(stored[name.name], quoted=True))
    return tree


def read_select(text: str, schema: Schema, dialect: str) -> Select:
    """Return the statement that a model wrote.

    Raises `ActionError`: `bad_sql`, `several_statements`, `not_select`, `unknown_table`, `unknown_column`.
    """
    tree, names = _parsed(text, dialect), [t.name for t in schema.tables]
    known = {name.lower() for name in (*names, *(cte.alias_or_name for cte in tree.find_all(exp.CTE)))}
    if unknown := next((t.name for t in tree.find_all(exp.Table) if t.name.lower() not in known), None):
        near = [str(n) for n in nearest(unknown, names, NEAREST)] or names[:NEAREST]
        raise ActionError("unknown_table", f"there is no table {unknown}", given=unknown, nearest=near)
    try:
        own = own_value(_qualified(tree, schema, dialect))
    except (OptimizeError, ParseError) as error:
        known = {c.name.lower() for c in schema.columns} | {a.alias.lower() for a in tree.find_all(exp.Alias)}
        given = next((c.name for c in tree.find_all(exp.Column) if c.name.lower() not in known), "")
        ids = {c.name: c.id for c in schema.columns}
        near = [ids[str(n)] for n in nearest(given, list(ids), NEAREST)] if given else []
        message = f"there is no column {given}" if given else str(error).splitlines()[0]
        raise ActionError("unknown_column", message, given=given or message, nearest=near) from None
    return Select(tree, dialect, "" if own is None else own.sql(dialect=dialect))


def _parsed(text: str, dialect: str) -> exp.Query:
    """The one SELECT of a text, which reads tables alone. Raises `ActionError`."""
    try:
        trees = [t for t in sqlglot.parse(text.strip().rstrip(";"), dialect=dialect) if t is not None]
    except (ParseError, TokenError) as error:
        first = str(error).splitlines()[0]
        raise ActionError("bad_sql", f"this SQL cannot be read: {first}", given=text) from None
    if len(trees) != 1:
        raise ActionError("several_statements", f"{len(trees)} statements, exactly one is due", given=text)
    (tree,) = trees
    if not isinstance(tree, exp.Query) or any(tree.find(kind) for kind in _FORBIDDEN):
        raise ActionError("not_select", "only a SELECT is allowed: the database is only read", given=text)
    for function in tree.find_all(exp.Anonymous, exp.Func):
        name = str(function.name if isinstance(function, exp.Anonymous) else function.sql_name()).lower()
        if name.startswith(_FILE_READERS):
            raise ActionError("not_select", f"{name} reads files: only tables may be queried", given=name)
    return tree


def _qualified(tree: exp.Query, schema: Schema, dialect: str) -> exp.Query:
    """The statement with the table of every column. Raises `OptimizeError` for an unknown column."""
    columns: dict[str, object] = {t.name: {c.name: "text" for c in t.columns} for t in schema.tables}
    return qualify(tree.copy(), schema=columns, dialect=dialect, identify=False, quote_identifiers=False)
