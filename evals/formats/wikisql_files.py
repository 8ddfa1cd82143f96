"""WikiSQL in its published form: questions in test.jsonl, tables in test.tables.jsonl beside it."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from triplewise.evals.formats.json_questions import Entry, FieldError, Record, part, read_lines, text, texts
from triplewise.tools.core.errors import DataError

AGGREGATIONS = ("", "MAX", "MIN", "COUNT", "SUM", "AVG")
OPERATORS = ("=", ">", "<", "OP")
"""What the numbers in a query of WikiSQL stand for (`Query.agg_ops` and `Query.cond_ops` of its code)."""

_NUMBER = re.compile(r"[-+]?\d*\.?\d+")


def read_tables(path: Path) -> list[Record]:
    """The tables: `id`, `header`, `types` ("text" or "real"), `rows` with cells as published."""

    def table(entry: Entry) -> Record:
        header, rows = texts(entry, "header"), entry.get("rows")
        if not header:
            raise FieldError(entry, "header", "a list of column names")
        if not isinstance(rows, list) or any(not isinstance(r, list) or len(r) != len(header) for r in rows):
            raise FieldError(entry, "rows", f"a list of rows of {len(header)} cells")
        types = texts(entry, "types") or ["text"] * len(header)
        return {"id": text(entry, "id"), "header": header, "types": types, "rows": rows}

    return list(read_lines(path, table))


def read_wikisql(path: Path) -> Iterator[Record]:
    """Questions with their gold answers: the results of their gold queries on their tables.

    Queries are asked as WikiSQL's own evaluation does it: texts without case, a column of type real compared
    as a number.

    Raises:
        DataError: no file of tables, a broken entry, a query that does not fit its table.
    """
    stem = path.name.removesuffix(".gz").removesuffix(".jsonl")
    names = (f"{stem}.tables.jsonl", f"{stem}.tables.jsonl.gz")
    beside = [path.parent / name for name in names if (path.parent / name).is_file()]
    if not beside:
        raise DataError(f"its tables are missing: put {names[0]} of the same release beside it", path)
    tables = {table["id"]: table for table in read_tables(beside[0])}

    def question(entry: Entry) -> Record:
        table = tables.get(text(entry, "table_id"))
        if table is None:
            raise FieldError(entry, "table_id", "the id of a table in the file of tables beside it")
        query = _named_query(part(entry, "sql"), len(table["header"]))
        answers = execute(table, query)
        return {
            "table_id": table["id"],
            "question": text(entry, "question"),
            "sql": query,
            "answers": answers,
        }

    split = path.name.partition(".")[0]
    for number, record in enumerate(read_lines(path, question)):
        yield {"id": f"wikisql-{split}-{number:05}", **record}


def _named_query(sql: Entry, width: int) -> Record:
    """The gold query with names in the place of numbers, checked against the width of its table."""

    def is_index(value: Any, size: int) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < size

    def is_condition(value: Any) -> bool:
        if not isinstance(value, list) or len(value) != 3 or not isinstance(value[2], str | int | float):
            return False
        return is_index(value[0], width) and is_index(value[1], 3)

    if not is_index(sql.get("sel"), width):
        raise FieldError(sql, "sel", f"the index of a column, 0 to {width - 1}")
    if not is_index(sql.get("agg"), len(AGGREGATIONS)):
        raise FieldError(sql, "agg", f"a number from 0 to {len(AGGREGATIONS) - 1}")
    if not isinstance(sql.get("conds"), list) or not all(map(is_condition, sql["conds"])):
        raise FieldError(sql, "conds", "a list of [column, operator, value]")
    conditions = [[column, OPERATORS[operator], value] for column, operator, value in sql["conds"]]
    return {"sel": sql["sel"], "agg": AGGREGATIONS[sql["agg"]], "conds": conditions}


def execute(table: Mapping[str, Any], query: Mapping[str, Any]) -> list[Any]:
    """Run a query on its table and return the results row by row, without empty ones."""
    types: list[str] = table["types"]
    columns = [f"c{n} {'REAL' if type_ == 'real' else 'TEXT'}" for n, type_ in enumerate(types)]
    rows = [[_lower(cell) for cell in row] for row in table["rows"]]
    where = " AND ".join(f"c{column} {operator} ?" for column, operator, _ in query["conds"])
    values = []
    for column, _, value in query["conds"]:
        # In a column of numbers a text stands for the number in it.
        is_text = types[column] == "real" and isinstance(value, str)
        number = _NUMBER.search(value.replace(",", "")) if is_text else None
        values.append(float(number[0]) if number else _lower(value))
    select = f"SELECT {query['agg']}(c{query['sel']}) FROM t" + (f" WHERE {where}" if where else "")
    with closing(sqlite3.connect(":memory:")) as database:
        database.execute(f"CREATE TABLE t ({', '.join(columns)})")
        database.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(columns))})", rows)
        return [row[0] for row in database.execute(select, values) if row[0] is not None]


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value
