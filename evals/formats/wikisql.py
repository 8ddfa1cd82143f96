"""WikiSQL in its published form: questions in test.jsonl, tables in test.tables.jsonl beside it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from triplewise.evals.formats.reading import Entry, entries_of_lines
from triplewise.tools.core.errors import DataError

Record = dict[str, Any]

AGGREGATIONS = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
OPERATORS = ("=", ">", "<", "OP")
"""What the numbers in a query of WikiSQL stand for (`Query.agg_ops` and `Query.cond_ops` of its code)."""

_NUMBER = re.compile(r"[-+]?\d*\.?\d+")


def tables_beside(path: Path) -> Path:
    """Where the tables of a file of questions lie: test.tables.jsonl beside test.jsonl.

    Raises:
        DataError: they are not there.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    for name in (f"{stem}.tables.jsonl", f"{stem}.tables.jsonl.gz"):
        if (path.parent / name).is_file():
            return path.parent / name
    raise DataError(f"its tables are missing: put {stem}.tables.jsonl of the same release beside it", path)


def read_tables(path: Path) -> list[Record]:
    """The tables: `id`, `header`, `types` ("text" or "real"), `rows` with cells as published."""
    return [_table(entry) for entry in entries_of_lines(path)]


def _table(entry: Entry) -> Record:
    header, rows = entry.texts("header"), entry.data.get("rows")
    if not header:
        raise entry.wrong("header", "a list of column names")
    if not isinstance(rows, list) or any(not isinstance(r, list) or len(r) != len(header) for r in rows):
        raise entry.wrong("rows", f"a list of rows of {len(header)} cells")
    types = entry.texts("types") or ["text"] * len(header)
    return {"id": entry.text("id"), "header": header, "types": types, "rows": rows}


def wikisql(path: Path) -> Iterator[Record]:
    """Questions with their gold answers: the results of their gold queries on their tables.

    Queries are asked as WikiSQL's own evaluation does it: texts without case, a column of type real compared
    as a number.
    """
    tables = {table["id"]: table for table in read_tables(tables_beside(path))}
    for entry in entries_of_lines(path):
        table = tables.get(entry.text("table_id"))
        if table is None:
            raise entry.wrong("table_id", "the id of a table in the file of tables beside it")
        query = _query(entry, table)
        yield {
            "id": f"wikisql-{path.name.partition('.')[0]}-{(entry.line or 1) - 1:05}",
            "table_id": table["id"],
            "question": entry.text("question"),
            "sql": query,
            "answers": execute(table, query),
        }


def _query(entry: Entry, table: Record) -> Record:
    """The gold query with names in the place of numbers, checked against its table."""
    sql, width = entry.part("sql"), len(table["header"])
    selected, conditions = sql.data.get("sel"), sql.data.get("conds")
    aggregation: Any = sql.data.get("agg")
    if not _is_index(selected, width):
        raise sql.wrong("sel", f"the index of a column, 0 to {width - 1}")
    if not _is_index(aggregation, len(AGGREGATIONS)):
        raise sql.wrong("agg", f"a number from 0 to {len(AGGREGATIONS) - 1}")
    if not isinstance(conditions, list) or not all(_is_condition(c, width) for c in conditions):
        raise sql.wrong("conds", "a list of [column, operator, value]")
    named = [[column, OPERATORS[operator], value] for column, operator, value in conditions]
    return {"sel": selected, "agg": AGGREGATIONS[aggregation], "conds": named}


def _is_index(value: Any, size: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size


def _is_condition(value: Any, width: int) -> bool:
    if not isinstance(value, list) or len(value) != 3:
        return False
    return _is_index(value[0], width) and _is_index(value[1], 3) and isinstance(value[2], str | int | float)


def execute(table: Mapping[str, Any], query: Mapping[str, Any]) -> list[Any]:
    """What a query gives on its table, row by row; without empty results."""
    columns = [f"c{n}" for n in range(len(table["header"]))]
    typed = (f"{c} {'REAL' if t == 'real' else 'TEXT'}" for c, t in zip(columns, table["types"], strict=True))
    where, values = _where(columns, table["types"], query["conds"])
    chosen = f"{query['agg']}({columns[query['sel']]})"
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE t ({', '.join(typed)})")
        marks = ", ".join("?" * len(columns))
        database.executemany(f"INSERT INTO t VALUES ({marks})", [list(map(_lower, r)) for r in table["rows"]])
        found = database.execute(f"SELECT {chosen} FROM t{where}", values).fetchall()
    return [row[0] for row in found if row[0] is not None]


def _where(
    columns: Sequence[str], types: Sequence[str], conditions: Sequence[Sequence[Any]]
) -> tuple[str, list[Any]]:
    """The WHERE clause, and the values for its marks."""
    if not conditions:
        return "", []
    clauses = [f"{columns[column]} {operator} ?" for column, operator, _ in conditions]
    values = [_value(value, types[column] == "real") for column, _, value in conditions]
    return f" WHERE {' AND '.join(clauses)}", values


def _value(value: Any, real: bool) -> Any:
    """The value of a condition, as a number for a column of numbers."""
    if real and isinstance(value, str):
        found = _NUMBER.search(value.replace(",", ""))
        return float(found[0]) if found else value.lower()
    return _lower(value)


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value
