"""Benchmarks in the form in which they are published: files as they are downloaded become our records.

A reader takes nothing for granted: an entry that is not what the benchmark's description says ends in a
`DataError` that names file, line or entry, field, and the mend.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from triplewise.evals.formats import freebase, wikidata
from triplewise.evals.formats.ck25 import ck25, with_results
from triplewise.evals.formats.metaqa import metaqa
from triplewise.evals.formats.places import find_published
from triplewise.evals.formats.reading import read_whole
from triplewise.evals.formats.sniffing import sniff
from triplewise.evals.formats.wikisql import read_tables, tables_beside, wikisql
from triplewise.tools.core.errors import ConfigurationError, DataError

Record = dict[str, Any]

READERS: Mapping[str, tuple[str, Callable[[Path], Iterator[Record]]]] = {
    "agentbench_kg": ("agentbench_kg", freebase.agentbench_kg),
    "ck25": ("ck25", ck25),
    "creak": ("creak", wikidata.creak),
    "cwq": ("cwq", freebase.cwq),
    "grailqa": ("grailqa", freebase.grailqa),
    "graphq": ("graphq", freebase.graphq),
    "metaqa": ("metaqa", metaqa),
    "qald10": ("qald10", wikidata.qald10),
    "simplequestions": ("simplequestions", freebase.simplequestions),
    "trex": ("kilt", wikidata.kilt),
    "webqsp": ("webqsp", freebase.webqsp),
    "wikisql": ("wikisql", wikisql),
    "wikiwebquestions": ("wikiwebquestions", wikidata.wikiwebquestions),
    "zeroshot_re": ("kilt", wikidata.kilt),
}
"""Task -> name of its published form, and the reader."""


def read_public(task: str, path: Path) -> list[Record]:
    """The records of a published file, with the fields of the task's own records as far as it has them.

    What only our copies tell (whether the graph can answer a question) is not in them. Where the file has
    names of gold ids, they are in `gold_names`: id -> names.

    Args:
        task: name of the task. path: the file as published (plain or .gz).

    Raises:
        ConfigurationError: unknown task.
        DataError: a file of another form, one without questions, a broken entry, an id twice.
    """
    if task not in READERS:
        raise ConfigurationError.unknown("task", task, READERS)
    form, read = READERS[task]
    if (found := sniff(path)) != form:
        if not found and path.name.removesuffix(".gz").endswith(".json"):
            read_whole(path)  # one that is cut short is told so, by line
        what = f"has the published form of {found}" if found else "has no published form that is known"
        raise DataError(f"{what}, not that of {task}; see the task's `published` for the file to take", path)
    records = list(read(path))
    if not records:
        raise DataError("holds no questions", path)
    _check_ids(records, path)
    return records


def _check_ids(records: list[Record], path: Path) -> None:
    seen: set[str] = set()
    for record in records:
        if record["id"] in seen:
            raise DataError(f"the id {record['id']!r} stands for two questions; mend one of them", path)
        seen.add(record["id"])


__all__ = [
    "READERS",
    "find_published",
    "read_public",
    "read_tables",
    "sniff",
    "tables_beside",
    "with_results",
]
