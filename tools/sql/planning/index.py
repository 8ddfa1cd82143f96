"""What a database holds, as far as the planner looks: for each column its values, and what they are like.

Built once a database with one query a column. Of a column with more than `KEPT` values only the most frequent
are kept; others are asked for by `Database.find`, as the question needs them.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from triplewise.tools.sql.base import Column, Database, Schema, Value
from triplewise.tools.sql.planning.words import (
    Key,
    has_digit,
    is_content,
    key_of,
    lexicon,
    name_words,
    number_in,
    stems,
)

KEPT = 2_000
"""Distinct values kept of a column."""
LONGEST = 60
"""Words of a value beyond which no question is expected to spell it out."""
_DATE = re.compile(r"\b([12]\d{3}|\d{1,2}\s*[-/.]\s*\d{1,2}\s*[-/.]\s*\d{2,4})\b")


@dataclass(frozen=True, slots=True)
class ColumnView:
    """A column as the planner sees it.

    Attributes:
        column: the column. words: those of its name.
        values: distinct values kept. complete: whether these are all.
        numeric, dated, digits: shares of values that read as numbers, hold a date or a year, hold a digit.
        low, high: range of its numbers.
        ordinal: its numbers say which one ("round"), not how much.
        length: words of a value, on average.
    """

    column: Column
    words: Key
    values: tuple[Value, ...]
    complete: bool
    numeric: float
    dated: float
    digits: float
    low: float
    high: float
    ordinal: bool
    length: float


@dataclass(frozen=True)
class TableGraph:
    """How tables hang together.

    Attributes:
        distances: (table, table) -> foreign keys between them; absent where they cannot be joined.
        keys: columns that join tables. labels: table -> number of the column that stands for its rows.
    """

    distances: Mapping[tuple[str, str], int]
    keys: frozenset[Column]
    labels: Mapping[str, int]

    def away(self, first: str, second: str) -> int | None:
        """Foreign keys between two tables; None if they cannot be joined."""
        return 0 if first == second else self.distances.get((first, second))


@dataclass(frozen=True)
class Index:
    """All columns of a database and the values that they hold, by their words.

    `exact`, `stemmed`: words -> (column number, value). `parts`: word -> values that it is one word of.
    """

    views: tuple[ColumnView, ...]
    exact: Mapping[Key, Sequence[tuple[int, Value]]] = field(repr=False)
    stemmed: Mapping[Key, Sequence[tuple[int, Value]]] = field(repr=False)
    parts: Mapping[str, Sequence[tuple[int, Value, Key]]] = field(repr=False)
    rarity: Mapping[str, float] = field(repr=False)
    longest: int = 1
    tables: TableGraph = field(default_factory=lambda: TableGraph({}, frozenset(), {}))

    def number_of(self, column: Column) -> int:
        """The number of a column of the schema."""
        return next(i for i, view in enumerate(self.views) if view.column == column)


_indexes: WeakKeyDictionary[Database, Index] = WeakKeyDictionary()


def index_of(database: Database) -> Index:
    """The index of a database, built when it is first asked for and kept while the database is open."""
    try:
        found = _indexes.get(database)
        if found is None:
            found = _indexes[database] = build_index(database)
        return found
    except TypeError:  # a database that can be no key: its index lives for one question
        return build_index(database)


def build_index(database: Database) -> Index:
    """Read the values of every column (one query each)."""
    views = tuple(_view(column, database) for table in database.schema.tables for column in table.columns)
    exact: dict[Key, list[tuple[int, Value]]] = defaultdict(list)
    stemmed: dict[Key, list[tuple[int, Value]]] = defaultdict(list)
    parts: dict[str, list[tuple[int, Value, Key]]] = defaultdict(list)
    for number, view in enumerate(views):
        for value in view.values:
            key = key_of(str(value))
            if not key or len(key) > LONGEST:
                continue
            exact[key].append((number, value))
            stemmed[stems(key)].append((number, value))
            if len(key) > 1:
                for word in {w for w in key if is_content(w)}:
                    parts[word].append((number, value, key))
    longest = max((len(key) for key in exact), default=1)
    tables = TableGraph(_distances(database.schema), _keys(database.schema), _labels(database.schema, views))
    return Index(views, exact, stemmed, parts, _rarity(views), longest, tables)


def _keys(schema: Schema) -> frozenset[Column]:
    return frozenset(c for key in schema.keys for c in (*key.columns, *key.references))


def _distances(schema: Schema) -> dict[tuple[str, str], int]:
    """Foreign keys between any two tables that can be joined, walked in either direction."""
    near: dict[str, set[str]] = defaultdict(set)
    for key in schema.keys:
        first, second = key.columns[0].table, key.references[0].table
        near[first].add(second)
        near[second].add(first)
    found: dict[tuple[str, str], int] = {}
    for table in near:
        ring, hops, seen = {table}, 0, {table}
        while ring:
            hops += 1
            ring = {other for t in ring for other in near[t]} - seen
            seen |= ring
            found |= {(table, other): hops for other in ring}
    return found


def _labels(schema: Schema, views: Sequence[ColumnView]) -> dict[str, int]:
    """For each table the column that people call its rows by: a name, else the first text that is no key."""
    keys, found = _keys(schema), dict[str, int]()
    for table in schema.tables:
        own = [n for n, view in enumerate(views) if view.column.table == table.name]
        named = [
            n
            for label in lexicon()["labels"]
            for n in own
            if label in views[n].words and views[n].numeric < 0.5
        ]
        texts = [n for n in own if views[n].column not in keys and views[n].numeric < 0.5]
        if own:
            found[table.name] = [*named, *texts, *own][0]
    return found


def _rarity(views: Sequence[ColumnView]) -> dict[str, float]:
    """How much a word of column names tells: 1 where one column has it, less where several do."""
    seen: dict[str, int] = defaultdict(int)
    for view in views:
        for word in set(stems(view.words)):
            seen[word] += 1
    return {word: 1 / count for word, count in seen.items()}


def _view(column: Column, database: Database) -> ColumnView:
    rows = database.values(column, KEPT)
    values = tuple(row[0] for row in rows.rows if row and row[0] is not None)
    texts = [str(value) for value in values]
    words = name_words(column.name)
    numbers = [n for text in texts if (n := number_in(text)) is not None]
    count = max(1, len(texts))
    return ColumnView(
        column,
        words,
        values,
        len(values) < KEPT and rows.outcome in (type(rows.outcome).ROWS, type(rows.outcome).EMPTY),
        len(numbers) / count,
        sum(map(_is_dated, texts)) / count,
        sum(map(has_digit, texts)) / count,
        min(numbers, default=0.0),
        max(numbers, default=0.0),
        bool(set(words) & set(lexicon()["ordinals"].split())),
        sum(len(key_of(text)) for text in texts) / count,
    )


def _is_dated(text: str) -> bool:
    """Whether a year, a date in numbers, or a month with a number is in a text."""
    if _DATE.search(text):
        return True
    return has_digit(text) and any(word in lexicon()["months"] for word in key_of(text))
