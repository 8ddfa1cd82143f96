"""The schema of a database, reflected once: tables, the kinds of their cells, and foreign keys for joins."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import types
from sqlalchemy.dialects import mysql

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.protocol import Deadline, Outcome
from triplewise.tools.sql.duckdb_dialect import reflect_duckdb
from triplewise.tools.sql.engines import QueryError, fetch, first_line, ignores_case
from triplewise.tools.sql.query import Column, Join, Schema, Table
from triplewise.tools.sql.values import ColumnKind, Value, kind_of, read_number

SAMPLE = 1_000
"""Rows of each table that are read to see what its texts are."""


Reflected = tuple[Schema, Mapping[str, sa.TableClause], frozenset[Column]]
"""A schema; its tables as statements name them; and the columns whose cells are what their type says."""


def reflect_schema(engine: sa.Engine, timeout: float) -> Reflected:
    """Return tables and views with columns and keys; a query a table for a sample, while there is time.

    Args:
        engine: the database.
        timeout: seconds for all samples together; tables beyond that keep the kinds of their types.

    Raises:
        ConfigurationError: a database without tables.
        QueryError: the database does not answer.
    """
    metadata = _reflected(engine)
    declared = {str(t.name): t for t in metadata.tables.values() if len(t.columns)}
    if not declared:
        raise ConfigurationError("the database holds no table that can be read")
    deadline = Deadline(timeout)
    tables, clauses, native = list[Table](), dict[str, sa.TableClause](), set[Column]()
    for name, table in declared.items():
        # Without their types, SQLAlchemy leaves cells as they come: SQLite holds any cell in any column.
        clauses[name] = sa.table(table.name, *(sa.column(c.name) for c in table.columns))
        cells = _sample(engine, table, clauses[name], deadline.left) if not deadline.passed else {}
        columns = []
        for c in table.columns:
            kind, sample = _declared_kind(c.type), cells.get(str(c.name), ())
            is_loose = _is_loose(engine, c.type)
            of_cells = _kind(kind, sample, is_loose)
            example = str(sample[0]) if of_cells == "date" and sample else ""
            column = Column(name, str(c.name), of_cells, example)
            columns.append(column)
            if column.kind == "text":
                is_native = kind in (None, "text") and all(isinstance(cell, str) for cell in sample)
                is_native = is_native and not ignores_case(engine)
            else:
                is_native = column.kind == kind and not (is_loose and any(isinstance(s, str) for s in sample))
            native |= {column} if is_native else set()
        tables.append(Table(name, tuple(columns), table.comment or ""))
    keys = tuple(_keys(list(declared.values()), tables))
    return Schema(tuple(tables), keys), clauses, frozenset(native)


def _reflected(engine: sa.Engine) -> sa.MetaData:
    """Tables, views and keys as the database declares them. Raises `QueryError`."""
    try:
        if engine.name == "duckdb":
            return reflect_duckdb(engine)
        metadata = sa.MetaData()
        with warnings.catch_warnings():
            # Types that SQLAlchemy does not know are no fault: their cells tell how they compare.
            warnings.simplefilter("ignore", sa.exc.SAWarning)
            metadata.reflect(engine, views=True, resolve_fks=False)
        return metadata
    except sa.exc.SQLAlchemyError as error:
        raise QueryError(Outcome.UNAVAILABLE, first_line(error)) from None


_KINDS: tuple[tuple[tuple[type[types.TypeEngine[Any]], ...], ColumnKind | None], ...] = (
    ((types.Enum,), "text"),
    ((types.String, types.NullType), None),
    ((types.Boolean,), "boolean"),
    ((types.Numeric, types.Float, types.Integer, mysql.YEAR), "number"),
    ((types.DateTime, types.Date), "date"),
)


def _declared_kind(declared: types.TypeEngine[Any]) -> ColumnKind | None:
    """Return how cells of a declared type compare; None where that has to be seen from the cells."""
    if isinstance(declared, mysql.TINYINT) and declared.display_width == 1:
        return "boolean"
    return next((kind for classes, kind in _KINDS if isinstance(declared, classes)), "other")


def _is_loose(engine: sa.Engine, declared: types.TypeEngine[Any]) -> bool:
    """Whether cells may be of another kind than their type; MySQL's truth values are small numbers."""
    is_flag = _declared_kind(declared) == "boolean" and not isinstance(declared, types.Boolean)
    return engine.name == "sqlite" or is_flag


def _sample(
    engine: sa.Engine, table: sa.Table, clause: sa.TableClause, timeout: float
) -> Mapping[str, Sequence[Value]]:
    """Return cells of the columns that need a look; none if the table cannot be read."""
    looked = [c.name for c in table.columns if _is_loose(engine, c.type) or _declared_kind(c.type) is None]
    try:
        sampled = sa.select(*(clause.c[n] for n in looked)).limit(SAMPLE)
        rows = fetch(engine, sampled, timeout)[1] if looked else []
    except QueryError:
        return {}
    return {str(n): [row[i] for row in rows if row[i] is not None] for i, n in enumerate(looked)}


def _kind(declared: ColumnKind | None, cells: Sequence[Any], is_loose: bool) -> ColumnKind:
    """Return the kind of a column's cells where they tell more than its type.

    is_loose: any column may hold any cell, so that the declared kind has to be borne out.
    """
    if any(isinstance(c, bytes | bytearray) for c in cells):
        return "other"
    if declared is None or (is_loose and cells and declared == "text"):
        return kind_of(cells) or "text"
    if not (is_loose and cells):
        return declared
    mostly_numbers = 2 * sum(read_number(c) is not None for c in cells) >= len(cells)
    if (declared == "number" and mostly_numbers) or (declared == "boolean" and set(cells) <= {0, 1}):
        return declared
    return kind_of(cells) or ("text" if declared == "other" else declared)


def _keys(declared: Sequence[sa.Table], tables: Sequence[Table]) -> Iterator[Join]:
    """Return declared foreign keys, then those that the names of columns imply where none is declared."""
    ids = {c.id for t in tables for c in t.columns}
    for table in declared:
        name, keys = str(table.name), list[Join]()
        for constraint in table.foreign_key_constraints:
            # Text, since the table referred to may be one that cannot be asked.
            targets = [e.target_fullname.rpartition(".") for e in constraint.elements]
            pairs = zip(constraint.column_keys, (column for _, _, column in targets), strict=True)
            keys.append(Join(name, targets[0][0], tuple(pairs)))
        keys.sort(key=lambda key: [table.columns.keys().index(own) for own, _ in key.pairs])
        referring = {own for key in keys for own, _ in key.pairs}
        keys += [key for key in _implied(table, declared) if key.pairs[0][0] not in referring]
        for key in keys:
            if all(f"{name}.{a}" in ids and f"{key.target}.{b}" in ids for a, b in key.pairs):
                yield key


def _implied(table: sa.Table, declared: Iterable[sa.Table]) -> Iterator[Join]:
    """Return what names imply: `director_id` refers to `director`, `film_code` to a key of that name."""
    own_key = table.primary_key.columns.keys()
    for column in table.columns.keys():  # noqa: SIM118 - iterating over columns gives columns
        for other in declared:
            primary = other.primary_key.columns.keys()
            if own_key == [column] or other is table or len(primary) != 1:
                continue
            name, key, stem = column.lower(), primary[0].lower(), other.name.lower()
            names = {f"{s}{glue}{key}" for s in (stem, stem.removesuffix("s")) for glue in ("", "_")}
            if name in names or (name == key and len(key) > 3):
                yield Join(str(table.name), str(other.name), ((column, primary[0]),))
                break
