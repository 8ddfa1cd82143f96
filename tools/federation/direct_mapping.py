"""A relational database as a graph in memory, by the W3C's Direct Mapping: a row is a node, a column
a relation, a foreign key a relation between rows. Our ids are shorter: `crm:film-7`, `crm:film-title`.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyoxigraph as ox

from triplewise.tools.core.errors import ConfigurationError, KGUnavailableError
from triplewise.tools.core.terms import RDF, RDFS, XSD
from triplewise.tools.kg.infer import are_names, infer_profile, is_called_name
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.open import index_of
from triplewise.tools.kg.profile import load_profile, split_words
from triplewise.tools.kg.protocol import Outcome
from triplewise.tools.sql.database import ENDINGS, RelationalDatabase, open_database
from triplewise.tools.sql.engines import SERVERS
from triplewise.tools.sql.values import Rows, Value

ROWS, DISTINCT = 20_000, 0.9  # Most rows of a table that is read as a graph; share of names that differ
_TYPES = {int: "integer", float: "double", bool: "boolean"}
_DATE = re.compile(r"-?\d{4,}-\d\d-\d\d")


def is_database(address: str) -> bool:
    """Whether an address is that of a relational database."""
    kind, is_url, _ = address.partition("://")
    kinds = {"sqlite", "duckdb", "postgres", *SERVERS}
    return kind.partition("+")[0] in kinds if is_url else Path(address).suffix.lower() in ENDINGS


def open_database_graph(address: str, name: str, profile: Any = None) -> LocalKG:
    """A database as a graph of ids `name:...`, its profile inferred if not given; it must not be large."""
    return _graph_of(open_database(address, limit=ROWS), name, profile)


@lru_cache(8)
def _graph_of(database: RelationalDatabase, name: str, given: Any) -> LocalKG:
    store, base = ox.Store(), f"urn:{name}:"
    store.bulk_extend(_facts(database, base))
    profile = infer_profile(store, {name: base}) if given is None else load_profile(given)
    return LocalKG(store, profile, name, index=index_of(store, profile))


def _facts(database: RelationalDatabase, base: str) -> Iterator[ox.Quad]:
    def iri(*parts: object) -> ox.NamedNode:
        return ox.NamedNode(base + "-".join(quote(str(part), safe="").replace("-", "%2D") for part in parts))

    schema = database.schema
    primary = {t.name: t.primary or tuple(c.name for c in t.columns) for t in schema.tables}
    label, is_a = ox.NamedNode(RDFS + "label"), ox.NamedNode(RDF + "type")
    for name, own in primary.items():
        result = _rows_of(database, name)
        keys = [key for key in schema.keys if key.source == name]
        targets = {c: key.target for key in keys for c, their in key.pairs if primary[key.target] == (their,)}
        yield ox.Quad(iri(name), label, ox.Literal(split_words(name)))
        for column in result.columns:
            words = re.sub(r" ?\bid$", "", split_words(column)) if column in targets else split_words(column)
            yield ox.Quad(iri(name, column), label, ox.Literal(words or split_words(targets[column])))
        naming_column = _naming_column(result, targets)
        for row in result.rows:
            cells = dict(zip(result.columns, row, strict=True))
            node = iri(name, *map(cells.get, own))
            yield ox.Quad(node, is_a, iri(name))
            if (called := cells.get(naming_column)) is not None:
                yield ox.Quad(node, label, ox.Literal(str(called)))
            for column, value in cells.items():
                if value is not None and (column,) != own:
                    end = iri(targets[column], value) if column in targets else _literal(value)
                    yield ox.Quad(node, iri(name, column), end)


def _rows_of(database: RelationalDatabase, table: str) -> Rows:
    """All rows of a table. Raises `KGUnavailableError`, and `ConfigurationError` where they are too many."""
    result = database.select(database.query_of(table))
    if not result.outcome.ok:
        raise KGUnavailableError(f"table {table} cannot be read as a graph: {result.message}")
    if result.outcome is Outcome.TRUNCATED:
        fix = "ask the database alone (--db without --kg), or make a smaller one of what is needed"
        raise ConfigurationError(f"table {table} has over {ROWS:,} rows, too many with graphs: {fix}")
    return result


def _naming_column(table: Rows, keys: Container[str]) -> str:
    """The first column, no key, whose cells are names that tell rows apart; "" where one is called so."""
    columns = [c for c in table.columns if c not in keys]
    for column in () if any(is_called_name(split_words(c)) for c in columns) else columns:
        place = table.columns.index(column)
        texts = [str(row[place]) for row in table.rows if row[place] is not None]
        if len(set(texts)) >= DISTINCT * len(table.rows) and are_names(texts):
            return column
    return ""


def _literal(value: Value) -> ox.Literal:
    """A cell as a literal of its type; a text that reads as a date is one."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    kind = _TYPES.get(type(value), "date" if _DATE.fullmatch(text) else "string")
    return ox.Literal(text, datatype=ox.NamedNode(XSD + kind))
