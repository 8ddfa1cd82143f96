"""The table of benchmarks: the catalog's entries, and the functions that say what is special about each."""

from __future__ import annotations

import hashlib
import inspect
import re
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import cache
from typing import Any, Literal

import pandas as pd
from inspect_ai import Task, task
from platformdirs import user_cache_path

from triplewise.evals.data import LoadedKG, benchmark, catalog, checksum, graph, locate, read_records
from triplewise.evals.scorers import GOLD_NAMES, GOLD_ROWS
from triplewise.evals.tasks.benchmark_task import AGENT, OWN_TABLES, BenchmarkTask, Question
from triplewise.evals.training import entities_of
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import Record
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.learning.questions import short_answers
from triplewise.tools.linking.linker import without_brackets

_BRACKETS = re.compile(r"\s*\([^()]*\)$")
WIKISQL_TABLES = "wikisql/tables.jsonl.gz"
DEV_PERCENT = 40
"""Share of WikiSQL's tables that are `dev`."""

cached_profile = cache(load_profile)


def metaqa(question: Question, record: Record) -> Question:
    """The topic entity is given by name, and in brackets."""
    topic, profile = record["topic_entity"], cached_profile("metaqa")
    linked = {topic: profile.short(profile.name_iri(topic))}
    return question._replace(text=without_brackets(question.text), entities=linked)


def graphq(question: Question, record: Record) -> Question:
    """The linking is id -> mention and what else is known."""
    pairs = ((entity["mention"], mid) for mid, entity in reversed(record["entity_linking"].items()))
    return question._replace(entities=dict(pairs))


def creak(question: Question, record: Record) -> Question:
    """Mentions are Wikipedia titles as a claim writes them: without what tells them from other titles."""
    linked = {_BRACKETS.sub("", name) or name: id_ for name, id_ in question.entities.items()}
    return question._replace(entities=linked)


def ck25(question: Question, record: Record) -> Question:
    """The gold answers are the rows in words, or true and false."""
    result, gold = record["result_rows"], record[GOLD_ROWS]
    functions = [str(f).lower() for f in record.get("features", ()) if f not in ("SELECT", "ASK")]
    is_wide = len(record["result_columns"] or []) > 1
    kind = "yes/no" if isinstance(result, bool) else "table" if is_wide else "column"
    return question._replace(
        gold=[str(result).lower()] if isinstance(result, bool) else [", ".join(row) for row in gold],
        tags={"type": kind, "function": " ".join(functions) or "none"},
    )


def wikisql(question: Question, record: Record) -> Question:
    """Questions are told apart by the gold query's function and number of conditions."""
    tags = {"function": record["sql"]["agg"] or "none", "conditions": len(record["sql"]["conds"])}
    return question._replace(tags=tags)


def link_by_gold_query(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """With gold linking, add `linked`: the entities of the gold query by what the graph calls them.

    By these names they are found in the words of the question.
    """
    if options["linking"] != "gold":
        return records
    linked = {record["id"]: entities_of(record["sparql"]) for record in records}
    opened = kg.open()
    qids = dict.fromkeys(qid for ids in linked.values() for qid in ids)
    nodes = {iri: qid for qid in qids if isinstance(iri := opened.profile.expand(qid), IRI)}
    names = {nodes[iri]: label for iri, label in opened.labels(nodes).items() if isinstance(iri, IRI)}
    return [{**r, "linked": {names.get(qid, qid): qid for qid in linked[r["id"]]}} for r in records]


def with_gold_rows(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """Add `gold_rows`: results as answers are written, short ids and values, "" for what is unbound."""
    short = kg.open().profile.short

    def cell(value: str | None) -> str:
        text = value or ""
        return short(IRI(text)) if text.startswith(("http://", "https://")) else text

    def cells(result: Any) -> list[list[str]]:
        return [] if isinstance(result, bool) else [[cell(value) for value in row] for row in result]

    return [{**record, GOLD_ROWS: cells(record["result_rows"])} for record in records]


def with_short_answers(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """Write gold answers that are full IRIs as answers are written, by their short ids, with their labels."""
    opened, completed = kg.open(), []
    for record in records:
        answers = short_answers(opened, [str(answer) for answer in record["answers"]])
        pairs = zip(answers, record.get("answer_labels", ()), strict=False)
        names = {answer: [label] for answer, label in pairs if answer != label}
        completed.append({**record, "answers": answers, GOLD_NAMES: names})
    return completed


# -- WikiSQL: questions over one table each; every table becomes a SQLite file in the user's cache folder. The
# questions are from its train split (tables of the others were not to be had), so scores are not those of its
# test split. Tables are parted by a hash of their id into `dev` and `test`.


def split_of(table_id: str) -> Literal["dev", "test"]:
    """Which split a table is in: by a hash of its id, so that no table is in both."""
    digest = hashlib.sha256(f"triplewise 0 {table_id}".encode()).hexdigest()
    return "dev" if int(digest[:8], 16) % 100 < DEV_PERCENT else "test"


def with_databases(records: list[Record], kg: LoadedKG, options: Mapping[str, Any]) -> list[Record]:
    """The records of the split, with the `db` of each: a file for each table, in the cache for these files.

    Every column is TEXT, as WikiSQL has them; no column name is empty or twice.
    """
    source = locate(benchmark("wikisql").files[WIKISQL_TABLES])
    folder = user_cache_path("triplewise") / "evals" / f"wikisql-{checksum(source)[:16]}"
    if not folder.is_dir():
        unfinished = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        for table in read_records(source, "id", "header", "rows"):
            names: list[str] = []
            for number, given in enumerate(table["header"], 1):
                plain = given.strip() or f"column {number}"
                is_taken = plain.casefold() in {other.casefold() for other in names}
                names.append(f"{plain} {number}" if is_taken else plain)
            rows = [["" if cell is None else str(cell) for cell in row] for row in table["rows"]]
            with closing(sqlite3.connect(unfinished / f"{table['id']}.sqlite")) as database, database:
                database.execute("PRAGMA synchronous = OFF")
                frame, types = pd.DataFrame(rows, columns=names), dict.fromkeys(names, "TEXT")
                frame.to_sql(f"table {table['id']}", database, index=False, dtype=types)
        unfinished.rename(folder)
    split = [record for record in records if split_of(record["table_id"]) == options["split"]]
    return [{**record, "db": str(folder / f"{record['table_id']}.sqlite")} for record in split]


# -- the table


FUNCTIONS: Mapping[str, Mapping[str, Any]] = {
    "ck25": {"amend": ck25, "complete": with_gold_rows},
    "creak": {"amend": creak},
    "geoquery": {"complete": with_short_answers},
    "graphq": {"amend": graphq},
    "metaqa": {"amend": metaqa},
    "overnight": {"complete": with_short_answers},
    "wikisql": {"amend": wikisql, "complete": with_databases},
    "wikiwebquestions": {"complete": link_by_gold_query},
}
"""Task -> the functions among the attributes of `BenchmarkTask`: what is special about a benchmark."""

BENCHMARK_TASKS: Mapping[str, BenchmarkTask] = {
    name: BenchmarkTask(benchmark=own, **own.task, **FUNCTIONS.get(name, {}))
    for name, own in sorted(catalog().benchmarks.items())
}
"""Name -> task."""


def task_function(name: str) -> Callable[..., Task]:
    """A benchmark as Inspect registers tasks: a function with its name, parameters, defaults and docs."""
    of = BENCHMARK_TASKS[name]

    def build(*args: Any, **given: Any) -> Task:
        return of.build(**signature.bind(*args, **given).arguments)

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    parameters = [inspect.Parameter(key, kind, default=value) for key, value in of.defaults.items()]
    signature = inspect.Signature(parameters, return_annotation=Task)
    arguments = "\n".join(f"    {key}: {catalog().parameters[key]}" for key in of.defaults)
    build.__name__ = build.__qualname__ = name
    build.__doc__ = f"{of.about}\n\nArgs:\n{arguments}\n\nRaises what `BenchmarkTask.build` raises."
    build.__signature__ = signature  # type: ignore[attr-defined]
    return task(build)


TASKS: Mapping[str, Callable[..., Task]] = {name: task_function(name) for name in BENCHMARK_TASKS}
"""Name of a benchmark -> the function that makes its task."""


def describe(name: str) -> dict[str, Any]:
    """Return all of one task, as plain JSON; it stands in the catalog, so that no data is read.

    `asked` has, by the task's parameters ("hops=2"; "" where there is one set only), the number of questions,
    how many the graph can answer, and how many without the facts made from gold answers. `files` is what has
    to lie in the data folder. Raises `ConfigurationError` on an unknown task.
    """
    if name not in BENCHMARK_TASKS:
        raise ConfigurationError.unknown("task", name, BENCHMARK_TASKS)
    of = BENCHMARK_TASKS[name]
    own = of.benchmark
    kg = graph(own.graph.format(**of.defaults)) if own.graph else None
    kg_files = [*(file for files in kg.facts.values() for file in files), *kg.labels] if kg else []
    return {
        "name": name,
        "title": own.title,
        **{key: getattr(of, key) for key in ("version", "about", "note", "needs_model")},
        "scores": [catalog().scorers[scorer] for scorer in of.scorers],
        "asked": {which: {"observed": None, **asked} for which, asked in own.counts.items()},
        "judged": own.answerable_if,
        "graph": kg.title if kg else OWN_TABLES,
        "partial": bool(kg and kg.partial),
        "gold_derived": bool(kg and "gold_derived" in kg.facts),
        "profile": (kg.profile or "inferred") if kg else "none",
        "seeds": list(own.seeds),
        "system": of.preset,
        "parameters": {key: value for key, value in of.defaults.items() if key not in AGENT},
        "files": [*own.files, *own.seeds, *(file.name for file in kg_files)],
        **{key: getattr(own, key) for key in ("licence", "published")},
        "citation": own.citation,
        "graph_licence": kg.licence if kg else own.licence,
    }
