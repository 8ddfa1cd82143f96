"""What a relational database holds, and a query over it as a value (QueryAgent, section 5.3 and appendix E).

The schema is reflected once: tables, columns with the kind of their cells, and foreign keys, along which the
tables of a query are joined. A query is built part by part, like a PyQL program; only
`tools/sql/statements.py` turns it into SQL, with every value bound and never pasted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql.elements import quoted_name

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.protocol import Deadline, Outcome
from triplewise.tools.sql.engines import DeclaredColumn, DeclaredTable, Engine, QueryError
from triplewise.tools.sql.values import ColumnKind, Value, kind_of, read_number

Aggregation = Literal["", "MAX", "MIN", "COUNT", "SUM", "AVG"]
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


SAMPLE = 1_000
"""Rows of each table that are read to see what its texts are."""


class Reflected(NamedTuple):
    """A schema, and the columns whose cells are what their type says."""

    schema: Schema
    native: frozenset[Column]


def reflect_schema(engine: Engine, tables: Sequence[str] | None, timeout: float) -> Reflected:
    """Tables, columns, keys; one query a table for a sample, as long as there is time.

    Args:
        engine: the database.
        tables: names of the tables that may be asked; None: all.
        timeout: seconds for all samples together; tables beyond that keep the kinds of their types.

    Raises:
        ConfigurationError: a table that there is not, or a database without tables.
        QueryError: the database does not answer.
    """
    raw = engine.tables()
    names = [t.name for t in raw]
    if not raw:
        raise ConfigurationError("the database holds no table that can be read")
    for name in tables or ():
        if name not in names:
            raise ConfigurationError.unknown("table", name, names)
    raw = [t for t in raw if tables is None or t.name in tables]
    deadline = Deadline(timeout)
    native: set[Column] = set()
    found = []
    for table in raw:
        cells = _sample(engine, table, deadline.left) if not deadline.passed else {}
        columns = tuple(_column(engine, table.name, c, cells.get(c.name, ())) for c in table.columns)
        native |= {
            column
            for column, declared in zip(columns, table.columns, strict=True)
            if _is_native(column, declared, cells.get(column.name, ()))
        }
        found.append(Table(table.name, columns, table.doc))
    return Reflected(Schema(tuple(found), tuple(_keys(raw, found))), frozenset(native))


def _sample(engine: Engine, table: DeclaredTable, timeout: float) -> Mapping[str, Sequence[Value]]:
    """Cells of the columns that need a look; none if the table cannot be read."""
    looked = [c.name for c in table.columns if c.kind is None or engine.name == "sqlite"]
    if not looked:
        return {}
    quoted = {n: quoted_name(n, True) if n.lower() in engine.reserved else n for n in looked}
    name = quoted_name(table.name, True) if table.name.lower() in engine.reserved else table.name
    source = sa.table(name, *(sa.column(n) for n in quoted.values()))
    try:
        rows = engine.fetch(sa.select(*(source.c[n] for n in looked)).limit(SAMPLE), timeout)
    except QueryError:
        return {}
    return {n: [row[i] for row in rows if row[i] is not None] for i, n in enumerate(looked)}


def _column(engine: Engine, table: str, declared: DeclaredColumn, cells: Sequence[Any]) -> Column:
    """A column with the kind of its cells where they tell more than its type."""
    kind = declared.kind or "text"
    if any(isinstance(c, bytes | bytearray) for c in cells):
        kind = "other"
    elif declared.kind is None:
        kind = kind_of(cells) or "text"
    elif engine.name == "sqlite" and cells:
        kind = _seen(declared.kind, cells)
    return Column(table, declared.name, kind, declared.doc)


def _seen(declared: ColumnKind, cells: Sequence[Any]) -> ColumnKind:
    """SQLite holds any cell in any column, so that the declared kind has to be borne out."""
    numbers = sum(read_number(c) is not None for c in cells)
    if declared == "number":
        return "number" if 2 * numbers >= len(cells) else kind_of(cells) or "number"
    if declared == "date":
        return kind_of(cells) or "date"
    if declared == "boolean":
        return "boolean" if set(cells) <= {0, 1} else kind_of(cells) or "boolean"
    return kind_of(cells) or "text"


def _is_native(column: Column, declared: DeclaredColumn, cells: Sequence[Any]) -> bool:
    """Whether cells need not be read one by one before they compare."""
    if column.kind == "text":
        return declared.kind in (None, "text") and all(isinstance(c, str) for c in cells)
    return column.kind == declared.kind


def _keys(raw: Sequence[DeclaredTable], tables: Sequence[Table]) -> Iterator[ForeignKey]:
    """Declared foreign keys, then those that the names of columns imply where none is declared."""
    columns = {(t.name, c.name): c for t in tables for c in t.columns}
    for table in raw:
        declared = {name for key in table.keys for name in key.columns}
        for own, other, theirs in [(k.columns, k.table, k.references) for k in table.keys] + [
            ((name,), other, theirs) for name, other, theirs in _implied(table, raw) if name not in declared
        ]:
            ends = [columns.get((table.name, c)) for c in own], [columns.get((other, c)) for c in theirs]
            if own and len(own) == len(theirs) and all(c is not None for side in ends for c in side):
                yield ForeignKey(*(tuple(c for c in side if c is not None) for side in ends))


def _implied(
    table: DeclaredTable, raw: Iterable[DeclaredTable]
) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """`director_id` refers to table `director`, and `film_code` to a table with that primary key."""
    for column in table.columns:
        if column.name in table.primary and len(table.primary) == 1:
            continue
        name = column.name.lower()
        for other in raw:
            if other.name == table.name or len(other.primary) != 1:
                continue
            key, stem = other.primary[0].lower(), other.name.lower()
            stems = {stem, stem.removesuffix("s")}
            if name in {f"{s}{glue}{key}" for s in stems for glue in ("", "_")} or (
                name == key and len(key) > 3
            ):
                yield column.name, other.name, other.primary
                break


@dataclass(frozen=True, slots=True)
class Edge:
    """One join of a tree: from a table that is already joined to a new one.

    `to_one`: each row of `source` has at most one partner, so that joining multiplies nothing.
    """

    source: str
    target: str
    pairs: tuple[tuple[str, str], ...]
    to_one: bool

    def text(self) -> str:
        """E.g. `film.director_id = person.id`."""
        return " and ".join(f"{self.source}.{a} = {self.target}.{b}" for a, b in self.pairs)


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Joined tables: the root, and edges in an order in which each source is joined before.

    `note` says which of several equally short ways was taken. `lost` names tables that no key reaches.
    """

    root: str
    edges: tuple[Edge, ...] = ()
    note: str = ""
    lost: tuple[str, ...] = ()

    def below(self, edge: Edge) -> tuple[Edge, ...]:
        """The edges of the subtree that begins with an edge, that edge first."""
        kept = [edge]
        for other in self.edges:
            if other not in kept and other.source in {e.target for e in kept}:
                kept.append(other)
        return tuple(kept)


def join_tree(schema: Schema, tables: Sequence[str]) -> JoinTree:
    """The tables, first one as root, joined along shortest paths of foreign keys.

    Among equally short paths the one whose keys the schema names first is taken, and said so.
    """
    root, edges, notes = tables[0], list[Edge](), list[str]()
    lost = []
    for table in dict.fromkeys(tables[1:]):
        joined = [root, *(e.target for e in edges)]
        if table in joined:
            continue
        paths = _shortest(schema, joined, table)
        if not paths:
            lost.append(table)
            continue
        edges += paths[0]
        if len(paths) > 1:
            taken, other = (", ".join(e.text() for e in path) for path in paths[:2])
            notes.append(f"{table} is joined by {taken}; an equally short way is {other}.")
    return JoinTree(root, tuple(edges), " ".join(notes), tuple(lost))


def _shortest(schema: Schema, joined: Sequence[str], goal: str) -> list[tuple[Edge, ...]]:
    """All shortest paths from any joined table to a new one, breadth first."""
    seen = set(joined)
    ends: list[tuple[str, tuple[Edge, ...]]] = [(start, ()) for start in joined]
    while ends:
        ends = [(e.target, (*path, e)) for end, path in ends for e in _edges(schema, end, seen)]
        paths = [path for end, path in ends if end == goal]
        if paths:
            return paths
        seen |= {end for end, _ in ends}
    return []


def _edges(schema: Schema, table: str, seen: Iterable[str]) -> list[Edge]:
    """Joins that lead on from a table, in the schema's order."""
    found = []
    for key in schema.keys:
        for edge in (_along(key, True), _along(key, False)):
            if edge.source == table and edge.target not in seen and edge not in found:
                found.append(edge)
    return found


def _along(key: ForeignKey, forward: bool) -> Edge:
    """A key as a join, from the table that refers (`forward`) or from the one referred to."""
    pairs = tuple((a.name, b.name) for a, b in zip(key.columns, key.references, strict=True))
    child, parent = key.columns[0].table, key.references[0].table
    if forward:
        return Edge(child, parent, pairs, True)
    return Edge(parent, child, tuple((b, a) for a, b in pairs), False)
