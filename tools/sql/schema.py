"""The schema of a database, reflected once: tables, columns with the kind of their cells, foreign keys."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.sql.elements import quoted_name

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.protocol import Deadline
from triplewise.tools.sql.base import Column, ColumnKind, ForeignKey, Schema, Table, Value
from triplewise.tools.sql.engine import Engine, QueryError, RawColumn, RawTable
from triplewise.tools.sql.reading import kind_of, read_number

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
    raw = _chosen(engine.tables(), tables)
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


def _chosen(raw: list[RawTable], wanted: Sequence[str] | None) -> list[RawTable]:
    names = [t.name for t in raw]
    if not raw:
        raise ConfigurationError("the database holds no table that can be read")
    for name in wanted or ():
        if name not in names:
            raise ConfigurationError.unknown("table", name, names)
    return [t for t in raw if wanted is None or t.name in wanted]


def _sample(engine: Engine, table: RawTable, timeout: float) -> Mapping[str, Sequence[Value]]:
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


def _column(engine: Engine, table: str, declared: RawColumn, cells: Sequence[Any]) -> Column:
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


def _is_native(column: Column, declared: RawColumn, cells: Sequence[Any]) -> bool:
    """Whether cells need not be read one by one before they compare."""
    if column.kind == "text":
        return declared.kind in (None, "text") and all(isinstance(c, str) for c in cells)
    return column.kind == declared.kind


def _keys(raw: Sequence[RawTable], tables: Sequence[Table]) -> Iterator[ForeignKey]:
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


def _implied(table: RawTable, raw: Iterable[RawTable]) -> Iterator[tuple[str, str, tuple[str, ...]]]:
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
