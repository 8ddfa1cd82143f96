"""WikiSQL: questions over one table each; every table becomes a SQLite file in the user's cache folder.

The questions are from WikiSQL's train split (tables of the others were not to be had), so scores are not
those of its test split. Tables are split by a hash of their id into `dev` and `test`.
"""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import statistics
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from inspect_ai import Task, task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, Value, mean, metric, scorer, stderr
from inspect_ai.solver import Generate, Solver, TaskState, solver
from platformdirs import user_cache_path

from triplewise.evals.data import Benchmark, Record, benchmark, changed, checksum, locate, read_records
from triplewise.evals.formats import read_public, read_tables, sniff
from triplewise.evals.provenance import of_system
from triplewise.evals.record import Run
from triplewise.evals.scorers import count, denotation_of, effort, strict
from triplewise.evals.solver import agent, context_of
from triplewise.evals.tasks.common import DEFAULT_N, draw, tags
from triplewise.graphs.presets import PRESETS
from triplewise.nodes.database import require_model
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.tools.sql.database import RelationalDatabase

VERSION = 2
QUESTIONS = "wikisql/questions_with_tables.jsonl.gz"
TABLES = "wikisql/tables.jsonl.gz"
DEV_PERCENT = 40
"""Share of the tables that are `dev`."""
NOTE = (
    "questions are from WikiSQL's train split, gold answers are computed from its gold SQL: not comparable "
    "with published test figures"
)
NOTE_PUBLISHED = "questions and tables as published; gold answers are computed from the gold SQL"
Split = Literal["dev", "test"]


def split_of(table_id: str) -> Split:
    """Which split a table is in: by a hash of its id, so that no table is in both."""
    digest = hashlib.sha256(f"triplewise 0 {table_id}".encode()).hexdigest()
    return "dev" if int(digest[:8], 16) % 100 < DEV_PERCENT else "test"


@task
def wikisql(
    split: Split = "test",
    n: int | None = DEFAULT_N,
    sample_seed: int = 0,
    preset: str = "sql",
    model: str = "embedded",
    settings: Mapping[str, Any] | None = None,
    phases: Mapping[str, str] | None = None,
) -> Task:
    """WikiSQL questions, each asked of a database that holds its table alone.

    Args:
        split: `test`, or `dev`.
        n, sample_seed: how many questions are drawn (0 for all), and with which seed.
        preset, settings, phases: the agent under test, by a preset that asks databases.
        model: the language model it needs.

    Raises:
        ConfigurationError: a value outside these. DataError: a missing or broken file.
    """
    if split not in ("dev", "test"):
        raise ConfigurationError.unknown("split", split, ("dev", "test"))
    context = context_of({**(settings or {}), "model": model})
    if preset in PRESETS:
        require_model(context)
    own = benchmark("wikisql")
    folder = databases(own)
    records = questions(own, split)
    drawn = draw([_sample(record, folder) for record in records], n, sample_seed)
    return Task(
        dataset=MemoryDataset(drawn, name=own.name, location=own.published),
        solver=on_its_table(preset, dict(settings or {}), model, dict(phases or {})),
        scorer=[denotation(), strict(), effort()],
        fail_on_error=False,
        score_on_error=True,
        version=VERSION,
        metadata=_provenance(own, len(drawn), len(records))
        | of_system(preset, context, phases or {})
        | {"sample_seed": sample_seed, "split": split},
    )


def questions(of: Benchmark, split: Split) -> list[Record]:
    """The questions of a split, as WikiSQL's records; all of a published file are `test`.

    Raises:
        ConfigurationError: another split of a published file. DataError: a missing or broken file.
    """
    path = locate(of.files[QUESTIONS])
    if sniff(path):
        if split != "test":
            raise ConfigurationError(f"{path} is all test questions, as published: leave split={split} out")
        return read_public("wikisql", path)
    records = read_records(path, "id", "table_id", "question", "sql", "answers")
    return [record for record in records if split_of(record["table_id"]) == split]


def databases(of: Benchmark) -> Path:
    """The folder with a SQLite file for each table, made now if it is not in the cache for these files."""
    source = locate(of.files[TABLES])
    folder = user_cache_path("triplewise") / "evals" / f"wikisql-{checksum(source)[:16]}"
    if folder.is_dir():
        return folder
    unfinished = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    for table in read_tables(source):
        rows = [["" if cell is None else str(cell) for cell in row] for row in table["rows"]]
        write_table(unfinished / _file(table["id"]), table["id"], table["header"], rows)
    unfinished.rename(folder)
    return folder


def write_table(path: Path, name: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """One table as a SQLite file, every column TEXT as WikiSQL has them."""
    columns = [_quoted(column) for column in _names(header)]
    with closing(sqlite3.connect(path)) as database, database:
        database.execute("PRAGMA synchronous = OFF")
        database.execute(
            f"CREATE TABLE {_quoted(f'table {name}')} ({', '.join(f'{c} TEXT' for c in columns)})"
        )
        marks = ", ".join("?" * len(columns))
        database.executemany(f"INSERT INTO {_quoted(f'table {name}')} VALUES ({marks})", rows)


def _names(header: Sequence[str]) -> list[str]:
    """Names of columns that a database takes: none empty, none twice."""
    names: list[str] = []
    for number, name in enumerate(header, 1):
        taken = {known.casefold() for known in names}
        plain = name.strip() or f"column {number}"
        names.append(f"{plain} {number}" if plain.casefold() in taken else plain)
    return names


def _quoted(name: str) -> str:
    doubled = name.replace('"', '""')
    return f'"{doubled}"'


def _file(table_id: str) -> str:
    return f"{table_id}.sqlite"


def open_table(folder: Path, table_id: str) -> RelationalDatabase:
    """The database of one table."""
    from triplewise.tools.sql.database import open_database

    return open_database(str(folder / _file(table_id)))


def _sample(record: Record, folder: Path) -> Sample:
    return Sample(
        id=record["id"],
        input=record["question"],
        target=[str(answer) for answer in record["answers"]],
        metadata={
            "db": str(folder / _file(record["table_id"])),
            "aggregation": record["sql"]["agg"] or "none",
            "conditions": str(len(record["sql"]["conds"])),
            "tags": tags(function=record["sql"]["agg"] or "none", conditions=len(record["sql"]["conds"])),
        },
    )


@solver
def on_its_table(preset: str, settings: dict[str, Any], model: str, phases: Mapping[str, str]) -> Solver:
    """Answers each sample's question with the agent, over the sample's own database."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        ask = agent(preset, {"model": model, **settings, "db": state.metadata["db"]}, phases)
        return await ask(state, generate)

    return solve


@metric
def by_aggregation() -> Metric:
    """The mean for each function of the gold query."""

    def means(scores: list[SampleScore]) -> Value:
        return _means(scores, "aggregation")

    return means


@metric
def by_conditions() -> Metric:
    """The mean for each number of conditions of the gold query."""

    def means(scores: list[SampleScore]) -> Value:
        return _means(scores, "conditions")

    return means


def _means(scores: list[SampleScore], key: str) -> Value:
    groups: dict[str, list[float]] = defaultdict(list)
    for score in scores:
        groups[str((score.sample_metadata or {}).get(key))].append(score.score.as_float())
    return {name: statistics.fmean(found) for name, found in sorted(groups.items())}


@scorer(
    metrics={
        "denotation": [
            mean(),
            stderr(),
            count(),
            by_aggregation(),
            by_conditions(),
        ],
        "multiset": [mean()],
    }
)
def denotation() -> Scorer:
    """Denotation accuracy: the answers are the gold answers, as sets, and as multisets.

    Numbers are compared with a tolerance, texts without case and spacing.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        return Score(value=denotation_of(run, list(target)), explanation=run.sparql)

    return score


def _provenance(of: Benchmark, drawn: int, asked: int) -> dict[str, Any]:
    """Where questions and tables come from: part of every result."""
    return {
        "benchmark": of.title,
        "licence": of.licence,
        "citation": of.citation,
        "published": of.published,
        "data_files": {file.name: checksum(locate(file)) for file in of.files.values()},
        "changed_files": changed(list(of.files.values())),
        "drawn": drawn,
        "drawn_from": asked,
        "answerable": asked,
        "asked": asked,
        "note": NOTE_PUBLISHED if sniff(locate(of.files[QUESTIONS])) else NOTE,
        "kg": "each question's own table, as a SQLite file",
    }
