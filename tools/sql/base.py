"""What the SQL toolset and its planner need of a database (QueryAgent, section 5.3 and appendix E).

A query is an immutable value that is built part by part, like a PyQL program; only a `Database` turns it into
SQL, with every value bound and never pasted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from triplewise.tools.kg.protocol import Outcome

ColumnKind = Literal["text", "number", "date", "boolean", "other"]
Aggregation = Literal["", "MAX", "MIN", "COUNT", "SUM", "AVG"]
Value = str | int | float | bool | None
OPERATORS = ("=", "!=", ">", "<", ">=", "<=")


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    `kind` says how its values compare: a TEXT column whose values all read as numbers is a `number`.
    """

    table: str
    name: str
    kind: ColumnKind = "text"
    doc: str = ""

    @property
    def id(self) -> str:
        """How actions name it where several tables have a column of this name: `table.column`."""
        return f"{self.table}.{self.name}"


@dataclass(frozen=True, slots=True)
class Table:
    """One table or view."""

    name: str
    columns: tuple[Column, ...]
    doc: str = ""


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Columns along which two tables are joined, pairwise equal."""

    columns: tuple[Column, ...]
    references: tuple[Column, ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """All tables that may be asked, and how they hang together."""

    tables: tuple[Table, ...]
    keys: tuple[ForeignKey, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """`column operator value`. `folded`: text is compared without case, accents and outer spaces."""

    column: Column
    operator: str
    value: Value
    folded: bool = False


@dataclass(frozen=True, slots=True)
class SqlQuery:
    """A query so far: conditions (all must hold), and what is returned.

    The tables are those of the columns; a database joins them along foreign keys.
    """

    conditions: tuple[Condition, ...] = ()
    answer: Column | None = None
    aggregation: Aggregation = ""


@dataclass(frozen=True, slots=True)
class Rows:
    """What a query gave: `outcome` as for KGs (rows, empty, truncated, timeout, syntax, unavailable)."""

    outcome: Outcome
    rows: tuple[tuple[Value, ...], ...] = ()
    columns: tuple[str, ...] = ()
    message: str = ""


class Database(Protocol):
    """A read-only database."""

    @property
    def schema(self) -> Schema:
        """Its tables, reflected once."""
        ...

    def run(self, query: SqlQuery, limit: int | None = None) -> Rows:
        """The answer of a query; without `answer`, the matching rows. Never raises for what a model wrote."""
        ...

    def sql(self, query: SqlQuery) -> str:
        """The query for people, values written out as literals."""
        ...

    def values(self, column: Column, limit: int = 20) -> Rows:
        """Distinct values of a column, most frequent first."""
        ...

    def find(self, column: Column, text: str, limit: int = 5) -> Sequence[Value]:
        """Values of a column nearest to a text: same but for case and accents first, then by likeness."""
        ...
