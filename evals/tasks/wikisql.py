"""WikiSQL: questions over one table each; every table becomes a SQLite file in the user's cache folder.

The questions are from WikiSQL's train split (tables of the others were not to be had), so scores are not
those of its test split. Tables are parted by a hash of their id into `dev` and `test`.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from inspect_ai.solver import Generate, Solver, TaskState, solver
from platformdirs import user_cache_path

from triplewise.evals.data import LoadedKG, benchmark, checksum, locate, read_records
from triplewise.evals.solver import agent
from triplewise.evals.tasks.benchmark_task import Question
from triplewise.tools.core.files import Record

TABLES = "wikisql/tables.jsonl.gz"
DEV_PERCENT = 40
"""Share of the tables that are `dev`."""


def split_of(table_id: str) -> Literal["dev", "test"]:
    """Which split a table is in: by a hash of its id, so that no table is in both."""
    digest = hashlib.sha256(f"triplewise 0 {table_id}".encode()).hexdigest()
    return "dev" if int(digest[:8], 16) % 100 < DEV_PERCENT else "test"


def with_databases(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """The records of the split, with the `db` of each."""
    folder = table_databases()
    return [
        {**record, "db": str(folder / f"{record['table_id']}.sqlite")}
        for record in records
        if split_of(record["table_id"]) == options["split"]
    ]


def table_databases() -> Path:
    """The folder with a SQLite file for each table, made now if it is not in the cache for these files."""
    source = locate(benchmark("wikisql").files[TABLES])
    folder = user_cache_path("triplewise") / "evals" / f"wikisql-{checksum(source)[:16]}"
    if folder.is_dir():
        return folder
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for table in read_records(source, "id", "header", "rows"):
        rows = [["" if cell is None else str(cell) for cell in row] for row in table["rows"]]
        write_table(unfinished / f"{table['id']}.sqlite", table["id"], table["header"], rows)
    unfinished.rename(folder)
    return folder


def write_table(path: Path, name: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One table as a SQLite file, every column TEXT as WikiSQL has them; no column name is empty or twice."""
    names: list[str] = []
    for number, given in enumerate(header, 1):
        plain = given.strip() or f"column {number}"
        taken = plain.casefold() in {other.casefold() for other in names}
        names.append(f"{plain} {number}" if taken else plain)
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA synchronous = OFF")
        frame = pd.DataFrame(rows, columns=names)
        frame.to_sql(f"table {name}", database, index=False, dtype=dict.fromkeys(names, "TEXT"))


def read_wikisql(record: Record) -> Question:
    """Return the question of a record of WikiSQL, with its database."""
    function, conditions = record["sql"]["agg"] or "none", str(len(record["sql"]["conds"]))
    return Question(
        record["question"],
        [str(answer) for answer in record["answers"]],
        tags={"function": function, "conditions": conditions},
        metadata={"db": record["db"], "aggregation": function, "conditions": conditions},
    )


@solver
def over_its_table(preset: str, settings: dict[str, Any], phases: Mapping[str, str]) -> Solver:
    """Answers each sample's question with the agent, over the sample's own database."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        ask = agent(preset, {**settings, "db": state.metadata["db"]}, phases)
        return await ask(state, generate)

    return solve
