"""Any SQLite, DuckDB, PostgreSQL or MySQL database, read-only twice over.

The connection cannot write, and nothing but a SELECT that is built here or checked reaches it.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Self, cast

import sqlalchemy as sa
from sqlalchemy.engine import URL
from sqlglot import exp

from triplewise.tools.core.errors import ConfigurationError, DataError, KGUnavailableError
from triplewise.tools.core.terms import one_line
from triplewise.tools.kg.protocol import Deadline, Meter, Outcome
from triplewise.tools.sql.engines import EVER, SERVERS, Engine, Fetched, QueryError, open_engine
from triplewise.tools.sql.schema import Column, reflect_schema
from triplewise.tools.sql.select import Select, as_stored, read_select
from triplewise.tools.sql.table_query import TableQuery
from triplewise.tools.sql.values import Rows, Value, nearest, plain, read_number

DISTINCT = 20_000  # most distinct values of a column that are compared with a text one by one
ENDINGS = {
    **dict.fromkeys((".sqlite", ".sqlite3", ".db", ".db3"), "sqlite"),
    **dict.fromkeys((".duckdb", ".ddb", ".csv", ".tsv"), "duckdb"),
}
FORMS = "sqlite:///FILE, duckdb:///FILE, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://... likewise, "
FORMS += f"or the path of a file that ends in {', '.join(ENDINGS)}"


def open_database(url: str, *, timeout: float = 30.0, limit: int = 10_000) -> RelationalDatabase:
    """A database, opened and reflected once per process, and anew when its file changed.

    `url`: of SQLAlchemy, or the path of a SQLite, DuckDB or CSV file. `timeout`: seconds of a query, `limit`:
    its rows. Raises `ConfigurationError`, `DataError` (no such file) or `KGUnavailableError`.
    """
    read = _read_url(url)
    if read.get_backend_name() in SERVERS:
        return _open(read, timeout, limit, None)
    if not (file := Path(read.database or "")).is_file():
        raise DataError("there is no such file; check the path", file)
    return _open(read, timeout, limit, (file.stat().st_mtime_ns, file.stat().st_size))


@lru_cache(maxsize=16)
def _open(url: URL, timeout: float, limit: int, _stamp: tuple[int, int] | None) -> RelationalDatabase:
    try:
        return RelationalDatabase(open_engine(url, timeout), timeout=timeout, limit=limit)
    except QueryError as error:
        where = url.set(query={}).render_as_string(hide_password=True)  # a query may hold passwords too
        is_server = url.get_backend_name() in SERVERS
        fix = "check host, database, user and password" if is_server else "check the file"
        raise KGUnavailableError(f"{where} cannot be read: {error.message}; {fix}") from None


def _read_url(text: str) -> URL:
    """The URL of a database, its driver known to be installed. No message holds a password."""
    text = text.strip()
    ending = Path(text).suffix.lower()
    if "://" not in text and ending not in ENDINGS:
        raise ConfigurationError(f"{text!r} names no database; use {FORMS}")
    try:
        path = str(Path(text).expanduser())
        url = sa.make_url(text) if "://" in text else URL.create(ENDINGS[ending], database=path)
    except (sa.exc.ArgumentError, ValueError):
        raise ConfigurationError(f"the database URL cannot be read; use {FORMS}") from None
    kind = url.get_backend_name()
    kind = "postgresql" if kind == "postgres" else kind
    server = SERVERS.get(kind)
    if not server and kind not in ("sqlite", "duckdb"):
        reason = "since read-only access is not proven for them"
        raise ConfigurationError(f"databases of kind {kind!r} are not supported, {reason}; use {FORMS}")
    if kind != "postgresql" and url.database in (None, "", ":memory:"):
        raise ConfigurationError(f"a {kind} URL needs a {'database' if server else 'file'}; use {FORMS}")
    driver = server.driver if server else kind
    if kind != "sqlite" and find_spec(driver) is None:
        fix = "pip install 'triplewise[sql]'"
        raise ConfigurationError(f"{kind} needs the package {driver}, which is not installed: {fix}")
    return url.set(drivername=f"{kind}+{driver}" if server else kind)


class RelationalDatabase:
    """A read-only database. Raises `QueryError` where it cannot be reached."""

    def __init__(self, engine: Engine, *, timeout: float, limit: int) -> None:
        self.engine, self.timeout, self.limit = engine, timeout, limit
        self.schema, self.close = reflect_schema(engine, timeout), engine.close
        self._distinct: dict[Column, tuple[Value, ...]] = {}
        self._selected: dict[tuple[str, int | None], Rows] | None = None
        self.meter, self.deadline = Meter(), EVER

    def session(self, meter: Meter, timeout: float, limit: int, deadline: Deadline) -> Self:
        """The same database for one run, with its meter, limits and deadline: it asks no SELECT twice."""
        session = copy(self)
        session.meter, session.timeout, session.limit, session._selected = meter, timeout, limit, {}
        session.deadline = deadline
        return session

    def values(self, column: Column, limit: int = 20) -> Rows:
        """Distinct values of a column, most frequent first, one a row."""
        return self._rows(self._values_select(column), limit)

    def query(self, program: str) -> TableQuery | None:
        """The query that a run's state holds, checked; None where it holds none yet."""
        select = self.read_select(program) if program else None
        return TableQuery(cast(exp.Select, select.tree), self.engine.dialect) if select else None

    def query_of(self, table: str) -> TableQuery:
        """All rows of a table, to which conditions and the answer are added."""
        return TableQuery(exp.select("*").from_(exp.table_(table, quoted=True)), self.engine.dialect)

    def read_select(self, text: str) -> Select:
        """The SELECT that a model wrote, checked. Raises `ActionError`, see `triplewise.tools.sql.select`."""
        return read_select(text, self.schema, self.engine.dialect)

    def select(self, select: Select, limit: int | None = None) -> Rows:
        """The rows of a checked SELECT, cut at the limit."""
        if self._selected is not None and (select.text, limit) in self._selected:
            return self._selected[select.text, limit]
        rows = self._rows(select, limit)
        if rows.outcome is Outcome.UNAVAILABLE:
            # Drivers report unknown functions like a lost connection: is the database there?
            there = self._rows(TableQuery(exp.select("1"), self.engine.dialect), 1)
            rows = replace(rows, outcome=Outcome.SYNTAX) if there.rows else rows
        if self._selected is not None and rows.outcome.ok:
            self._selected[select.text, limit] = rows
        return rows

    def find(self, column: Column, text: str, limit: int = 5) -> Sequence[Value]:
        """Values of a column nearest to a text: same but for case and accents first, then by similarity."""
        number = read_number(text)
        try:
            if column.kind == "number" and number is not None:
                numbers = ((read_number(v), v) for v in self._values_of(column))
                distances = [(abs(n - number), v) for n, v in numbers if n is not None]
                return [v for _, v in sorted(distances, key=lambda pair: pair[0])[:limit]]
            values = self._values_of(column)
            if len(values) >= DISTINCT:  # those that hold one of the longest words of the text
                words = sorted((w for w in text.split() if len(w) > 2), key=len, reverse=True)[:2]
                selects = (self._values_select(column, word) for word in words or [text])
                cells = (row[0] for select in selects for row in self._fetch(select, 200).rows)
                values = tuple(dict.fromkeys(map(plain, cells)))
            return nearest(text, values, limit)
        except QueryError:
            return []

    def _values_of(self, column: Column) -> tuple[Value, ...]:
        """The distinct values of a column, at most `DISTINCT`; queried once."""
        if column not in self._distinct:
            cells = self._fetch(self._values_select(column), DISTINCT).rows
            self._distinct[column] = tuple(dict.fromkeys(plain(cell) for (cell,) in cells))
        return self._distinct[column]

    def _values_select(self, column: Column, word: str = "") -> TableQuery:
        """Distinct values of a column, most frequent first; with a word, those that hold it."""
        dialect, is_text = self.engine.dialect, column.kind in ("text", "other")
        cell, table = exp.column(column.name, quoted=True), exp.table_(column.table, quoted=True)
        is_plain = not is_text or (column.kind == "text" and column.is_native)
        select = exp.select(cell if is_plain else exp.cast(cell, "text")).from_(table)
        select = select.where(cell.is_(exp.null()).not_())
        if word:
            lowered, part = exp.Lower(this=exp.cast(cell, "text")), exp.Literal.string(word.lower())
            select = select.where(exp.StrPosition(this=lowered, substr=part) > 0)
        return TableQuery(select.group_by("1").order_by("COUNT(*) DESC", "1", dialect=dialect), dialect)

    def _rows(self, select: Select, limit: int | None) -> Rows:
        """What a statement gives, cut at the limit; why not, where it cannot be run."""
        most = max(1, min(limit, self.limit) if limit is not None else self.limit)
        try:
            names, cells = self._fetch(select, most + 1)
        except QueryError as error:
            return Rows(error.outcome, message=error.message)
        rows = tuple(tuple(plain(cell) for cell in row) for row in cells[:most])
        outcome = Outcome.TRUNCATED if len(cells) > most else Outcome.ROWS if rows else Outcome.EMPTY
        return Rows(outcome, rows, tuple(map(one_line, names)))

    def as_stored(self, select: Select) -> Select:
        """The statement with the names that the database has."""
        return replace(select, tree=as_stored(select.tree, self.schema.stored))

    def _fetch(self, select: Select, most: int) -> Fetched:
        """Ask the engine for `most` rows, counted by the meter. Raises `QueryError`."""
        self.meter.add()
        is_ours = isinstance(select, TableQuery)
        engine = self.engine if is_ours else self.engine.apart or self.engine
        return engine.fetch(self.as_stored(select).limited(most), self.timeout, most, self.deadline)
