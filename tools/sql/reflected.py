"""Tables as SQLAlchemy's inspector finds them, in a few queries for all of them."""

from __future__ import annotations

import warnings
from typing import Any

import sqlalchemy as sa
from sqlalchemy import types
from sqlalchemy.engine.reflection import ObjectKind

from triplewise.tools.sql.base import ColumnKind
from triplewise.tools.sql.engine import RawColumn, RawKey, RawTable

_KINDS: tuple[tuple[type[Any], ColumnKind], ...] = (
    (types.Boolean, "boolean"),
    (types.Numeric, "number"),
    (types.Integer, "number"),
    (types.DateTime, "date"),
    (types.Date, "date"),
    (types.Enum, "text"),
)


def kind_of_type(declared: Any) -> ColumnKind | None:
    """How cells of a declared type compare; None where that has to be seen from the cells."""
    if isinstance(declared, types.String | types.NullType) and not isinstance(declared, types.Enum):
        return None
    return next((kind for type_, kind in _KINDS if isinstance(declared, type_)), "other")


def reflect(engine: sa.Engine) -> list[RawTable]:
    """All tables and views of the default schema. Raises what SQLAlchemy raises."""
    with warnings.catch_warnings(), engine.connect() as connection:
        # Types that SQLAlchemy does not know are no fault of the user: their cells tell how they compare.
        warnings.simplefilter("ignore", sa.exc.SAWarning)
        inspector = sa.inspect(connection)
        found = inspector.get_multi_columns(kind=ObjectKind.ANY)
        primary: dict[Any, Any] = dict(inspector.get_multi_pk_constraint(kind=ObjectKind.TABLE))
        keys: dict[Any, Any] = dict(inspector.get_multi_foreign_keys(kind=ObjectKind.TABLE))
        docs = _comments(inspector)
    return [
        RawTable(
            name,
            tuple(
                RawColumn(c["name"], kind_of_type(c["type"]), str(c.get("comment") or "")) for c in columns
            ),
            tuple(primary.get((schema, name), {}).get("constrained_columns") or ()),
            tuple(_key(k, primary) for k in keys.get((schema, name), ())),
            docs.get(name, ""),
        )
        for (schema, name), columns in found.items()
        if columns
    ]


def _key(key: Any, primary: Any) -> RawKey:
    """A foreign key; one that names no columns means the primary key of the table it refers to."""
    table = str(key["referred_table"])
    implied = primary.get((key.get("referred_schema"), table), {}).get("constrained_columns") or ()
    return RawKey(tuple(key["constrained_columns"]), table, tuple(key["referred_columns"] or implied))


def _comments(inspector: sa.Inspector) -> dict[str, str]:
    """Comments of tables, where the engine has such."""
    try:
        found = inspector.get_multi_table_comment(kind=ObjectKind.ANY)
    except NotImplementedError:
        return {}
    return {name: str(c["text"]) for (_, name), c in found.items() if c.get("text")}
