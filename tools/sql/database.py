"""Any SQLite, DuckDB, PostgreSQL or MySQL database, asked read-only.

```python
database = open_database("sqlite:///films.db", timeout=30, limit=1000)
database.run(SqlQuery((Condition(column, "=", "Alien"),), answer=other))
```
It is read-only twice: the connection cannot write, and nothing but a SELECT built here reaches it.
"""

from __future__ import annotations

import re
import time
import weakref
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import replace
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy.engine import URL

from triplewise.tools.core.errors import ConfigurationError, KGUnavailableError
from triplewise.tools.kg.protocol import Meter, Outcome
from triplewise.tools.sql.engines import SERVERS, QueryError, fetch, ignores_case, open_engine, statement_text
from triplewise.tools.sql.query import Column, Rows, SqlQuery
from triplewise.tools.sql.schema import reflect_schema
from triplewise.tools.sql.select import Select, read_select
from triplewise.tools.sql.statements import Statement, Writer
from triplewise.tools.sql.values import Value, fold, nearest, plain, read_number

DISTINCT = 20_000
"""Most distinct values of a column that are compared with a text one by one."""
ENDINGS = {
    **dict.fromkeys((".sqlite", ".sqlite3", ".db", ".db3"), "sqlite"),
    **dict.fromkeys((".duckdb", ".ddb", ".csv", ".tsv"), "duckdb"),
}
FORMS = "sqlite:///FILE, duckdb:///FILE, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://... likewise, " + (
    f"or the path of a file that ends in {', '.join(ENDINGS)}"
)


def open_database(url: str, *, timeout: float = 30.0, limit: int = 10_000) -> RelationalDatabase:
    """A database, opened and reflected once per process.

    Args:
        url: an SQLAlchemy URL, or the path of a SQLite, DuckDB or CSV file.
        timeout: seconds a query may take. limit: rows it may return.

    Raises:
        ConfigurationError: bad URL, missing driver, no table at all.
        DataError: no such file, or not a database.
        KGUnavailableError: the server cannot be reached, or refuses user or password.
    """
    read = _read_url(url)
    file = Path(read.database or "") if read.get_backend_name() not in SERVERS else None
    stamp = (file.stat().st_mtime_ns, file.stat().st_size) if file and file.is_file() else None
    return _open(read, timeout, limit, stamp)


@lru_cache(maxsize=16)
def _open(url: URL, timeout: float, limit: int, _stamp: tuple[int, int] | None) -> RelationalDatabase:
    """The database of a URL, opened anew when its file changed."""
    engine = open_engine(url, timeout)
    try:
        database = RelationalDatabase(engine, timeout=timeout, limit=limit)
    except QueryError as error:
        engine.dispose()
        where = url.set(query={}).render_as_string(hide_password=True)  # a query may hold passwords too
        fix = "check host, database, user and password" if engine.name in SERVERS else "check the file"
        raise KGUnavailableError(f"{where} cannot be read: {error.message}; {fix}") from None
    except ConfigurationError:
        engine.dispose()
        raise
    # Evicted or at the end of the process, its connections are closed.
    weakref.finalize(database, engine.dispose)
    return database


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
        raise ConfigurationError(
            f"databases of kind {kind!r} cannot be asked, since it is not proven that they are only read; "
            f"use {FORMS}"
        )
    if kind != "postgresql" and url.database in (None, "", ":memory:"):
        raise ConfigurationError(f"a {kind} URL needs a {'database' if server else 'file'}; use {FORMS}")
    driver = server.driver if server else kind
    if kind != "sqlite" and find_spec(driver) is None:
        fix = "pip install 'triplewise[sql]'"
        raise ConfigurationError(f"{kind} needs the package {driver}, which is not installed: {fix}")
    return url.set(drivername=f"{kind}+{driver}" if server else kind)


class RelationalDatabase:
    """A read-only database. Making one raises `QueryError` where it is lost."""

    def __init__(self, engine: sa.Engine, *, timeout: float, limit: int) -> None:
        self.engine, self.timeout, self.limit = engine, timeout, limit
        self.schema, clauses, native = reflect_schema(engine, timeout)
        self._writer = Writer(self.schema, clauses, native, self._spellings)
        self._distinct: dict[Column, tuple[Value, ...]] = {}
        self._selected: dict[str, Rows] | None = None
        self.meter = Meter()

    def session(self, meter: Meter, timeout: float, limit: int) -> Self:
        """The same database for one run, with its meter, time-out and row limit: it asks no SELECT twice."""
        session = copy(self)
        session.meter, session.timeout, session.limit, session._selected = meter, timeout, limit, {}
        session._writer = replace(self._writer, spellings=session._spellings)
        return session

    def run(self, query: SqlQuery, limit: int | None = None) -> Rows:
        """The answer of a query; without `answer`, the matching rows. Never raises for what a model wrote.

        One value that is NULL, as the maximum of nothing, is `empty`. Where foreign keys left a choice, the
        message says which was taken.
        """
        if query.answer is None:
            return self.rows(query, limit)
        name = f"{query.aggregation}({query.answer.name})" if query.aggregation else query.answer.name
        result = self._rows(lambda: (self._writer.answer(query), (name,)), limit, query)
        is_null = query.aggregation and result.rows == ((None,),)
        return replace(result, outcome=Outcome.EMPTY, rows=()) if is_null else result

    def rows(self, query: SqlQuery, limit: int | None = None) -> Rows:
        """The rows that a query's answer is taken from, with the conditions' columns of other tables.

        For a largest or smallest value, the row that has it comes first.
        """
        return self._rows(lambda: self._writer.rows(query), limit, query)

    def sql(self, query: SqlQuery) -> str:
        """The query as it is run, with its values written out, for people; "" where there is none yet."""
        try:
            statement = self._writer.answer(query) if query.answer else self._writer.rows(query)[0]
            return statement_text(self.engine, statement)
        except QueryError:
            return ""

    def values(self, column: Column, limit: int = 20) -> Rows:
        """Distinct values of a column, most frequent first, one a row."""
        return self._rows(lambda: (self._writer.values(column), (column.name,)), limit)

    def find(self, column: Column, text: str, limit: int = 5) -> Sequence[Value]:
        """Values of a column nearest to a text: same but for case and accents first, then by similarity."""
        number = read_number(text)
        try:
            if column.kind == "number" and number is not None:
                numbers = ((read_number(v), v) for v in self._values_of(column))
                distances = [(abs(n - number), v) for n, v in numbers if n is not None]
                return [v for _, v in sorted(distances, key=lambda pair: pair[0])[:limit]]
            return nearest(text, self._values_like(column, text), limit)
        except QueryError:
            return []

    @property
    def ignores_case(self) -> bool:
        """Whether a SELECT takes texts that differ in case or accents as equal."""
        return ignores_case(self.engine)

    def holds_like(self, column: Column, pattern: str) -> bool:
        """Whether a value of a column is like a pattern with % and _, or a text in other capitals."""
        parts = re.split("([%_])", fold(pattern))
        regex = "".join({"%": ".*", "_": "."}.get(part, re.escape(part)) for part in parts)
        try:
            return any(re.fullmatch(regex, fold(str(v)), re.DOTALL) for v in self._values_of(column))
        except QueryError:
            return True

    def keeps_as_text(self, column: Column) -> bool:
        """Whether a column holds numbers as texts of several lengths: "9" comes after "10"."""
        if column.kind != "number" or column in self._writer.native:
            return False
        try:
            return len({len(str(v)) for v in self._values_of(column) if isinstance(v, str)}) > 1
        except QueryError:
            return False

    def read_select(self, text: str) -> Select:
        """The SELECT that a model wrote, checked. Raises `ActionError`, see `triplewise.tools.sql.select`."""
        return read_select(text, self.schema, self.engine.name)

    def select(self, select: Select) -> Rows:
        """The rows of a checked SELECT, cut at the limit."""
        text = select.limited(self.limit + 1)
        if self._selected is not None and text in self._selected:
            return self._selected[text]
        rows = self._rows(lambda: (text, ()), None)
        if rows.outcome is Outcome.UNAVAILABLE:
            # Drivers report unknown functions like a lost connection: is the database there?
            there = self._rows(lambda: (sa.select(sa.literal(1)), ()), 1)
            rows = replace(rows, outcome=Outcome.SYNTAX) if there.rows else rows
        if self._selected is not None and rows.outcome.ok:
            self._selected[text] = rows
        return rows

    def close(self) -> None:
        """Free what is held. Safe to call twice."""
        self.engine.dispose()

    def _spellings(self, column: Column, text: str) -> list[Value]:
        """How a column writes a text, case, accents and spaces aside."""
        return [v for v in self._values_like(column, text) if fold(str(v)) == fold(text)]

    def _values_like(self, column: Column, text: str) -> tuple[Value, ...]:
        """The values of a column; of very many, those that hold one of the longest words of a text."""
        values = self._values_of(column)
        if len(values) < DISTINCT:
            return values
        words = sorted((w for w in text.split() if len(w) > 2), key=len, reverse=True)[:2]
        likely: dict[Value, None] = {}
        for word in words or [text]:
            cells = self._fetch(self._writer.like(column, word).limit(200))[1]
            likely |= dict.fromkeys(plain(cell) for (cell,) in cells)
        return tuple(likely)

    def _values_of(self, column: Column) -> tuple[Value, ...]:
        """The distinct values of a column, at most `DISTINCT`; asked once."""
        if column not in self._distinct:
            cells = self._fetch(self._writer.values(column).limit(DISTINCT))[1]
            self._distinct[column] = tuple(dict.fromkeys(plain(cell) for (cell,) in cells))
        return self._distinct[column]

    def _rows(
        self,
        statement: Callable[[], tuple[Statement | str, tuple[str, ...]]],
        limit: int | None,
        query: SqlQuery | None = None,
    ) -> Rows:
        """What a statement gives, cut at the limit; under the engine's names of columns where it has none.

        With the query that it was made of, the message says which of several ways tables were joined by.
        """
        most = max(1, min(limit, self.limit) if limit is not None else self.limit)
        try:
            select, columns = statement()
            select = select if isinstance(select, str) else select.limit(most + 1)
            names, cells = self._fetch(select, most + 1)
            note = self._writer.tree(query).note if query else ""
        except QueryError as error:
            return Rows(error.outcome, message=error.message)
        rows = tuple(tuple(plain(cell) for cell in row) for row in cells[:most])
        outcome = Outcome.TRUNCATED if len(cells) > most else Outcome.ROWS if rows else Outcome.EMPTY
        return Rows(outcome, rows, columns or names, note)

    def _fetch(
        self, statement: Statement | str, most: int | None = None
    ) -> tuple[tuple[str, ...], list[tuple[Any, ...]]]:
        """Names of columns and rows of a statement, counted by the meter."""
        started, outcome = time.perf_counter(), Outcome.ROWS
        try:
            return fetch(self.engine, statement, self.timeout, most)
        except QueryError as error:
            outcome = error.outcome
            raise
        finally:
            self.meter.add(outcome, time.perf_counter() - started)
