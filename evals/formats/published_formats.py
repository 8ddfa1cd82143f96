"""The published formats of all benchmarks: how each is recognised, and what reads it."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from triplewise.evals.data import Record, benchmarks
from triplewise.evals.formats import json_questions
from triplewise.evals.formats.json_questions import Entry, read_lines, read_list
from triplewise.evals.formats.line_questions import read_metaqa, read_simplequestions
from triplewise.evals.formats.wikisql_files import read_wikisql
from triplewise.evals.text_files import UNREADABLE, json_list, open_text
from triplewise.tools.core.errors import ConfigurationError, DataError

_HEAD = 200_000
"""Characters of a file that are looked at."""

READERS: Mapping[str, Callable[[Path], Iterator[Record]]] = {
    "metaqa": read_metaqa,
    "simplequestions": read_simplequestions,
    "wikisql": read_wikisql,
}
"""Format -> what reads it, of those that are more than one JSON object an entry."""

ENTRIES: Mapping[str, Callable[[Entry], Record]] = {
    "agentbench_kg": json_questions.agentbench_kg,
    "ck25": json_questions.ck25,
    "creak": json_questions.creak,
    "cwq": json_questions.cwq,
    "grailqa": json_questions.grailqa,
    "graphq": json_questions.graphq,
    "kilt": json_questions.kilt,
    "qald10": json_questions.qald10,
    "webqsp": json_questions.webqsp,
    "wikiwebquestions": json_questions.wikiwebquestions,
}
"""Format -> what makes a record of an entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedFormat:
    """The published form of a benchmark, as the catalog describes it.

    Attributes:
        name: of the format, mostly its task's.
        shape: what the file is: a JSON list, an object with the list `under` a key, JSON lines, or lines with
            tabs. keys: of the first entry. absent: keys that it has not, which our own records have.
        line: what the first line of a file with tabs matches.
    """

    name: str
    shape: Literal["list", "object", "json lines", "tabs"]
    under: str = ""
    keys: Sequence[str] = ()
    absent: Sequence[str] = ()
    line: str = ""

    def read(self, path: Path) -> Iterator[Record]:
        """The records of a file. Raises `DataError`."""
        if self.name in READERS:
            return READERS[self.name](path)
        record = ENTRIES[self.name]
        return read_lines(path, record) if self.shape == "json lines" else read_list(path, record, self.under)


FORMATS: Mapping[str, PublishedFormat] = {
    name: PublishedFormat(**{"name": name, **own.format}) for name, own in sorted(benchmarks().items())
}
"""Task -> its published format."""


def read_published(task: str, path: Path) -> list[Record]:
    """The records of a published file, with the fields that the task reads as far as it has them.

    What only our copies tell (whether the graph can answer a question) is not in them. Where the file has
    names of gold ids, they are in `gold_names`: id -> names.

    Args:
        task: name of the task. path: the file as published (plain or .gz).

    Raises:
        ConfigurationError: unknown task.
        DataError: a file of another form, one without questions, a broken entry, an id twice.
    """
    if task not in FORMATS:
        raise ConfigurationError.unknown("task", task, FORMATS)
    if (form := sniff(path)) != FORMATS[task].name:
        if not form and path.name.removesuffix(".gz").endswith(".json"):
            json_list(path)  # says where one is cut short, by line
        what = f"has the published form of {form}" if form else "has no published form that is known"
        raise DataError(f"{what}, not that of {task}; see the task's `published` for the file to take", path)
    records = list(FORMATS[task].read(path))
    if not records:
        raise DataError("holds no questions", path)
    ids: set[str] = set()
    for record in records:
        if record["id"] in ids:
            raise DataError(f"the id {record['id']!r} stands for two questions; fix one of them", path)
        ids.add(record["id"])
    return records


def sniff(path: Path) -> str:
    """The published form of a file by the name of its format (`kilt` for T-REx and Zero-Shot RE alike).

    "" for any other file, such as one with records in our own form.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        with open_text(path) as file:
            head = file.read(_HEAD).lstrip()
    except UNREADABLE as error:
        raise DataError(f"cannot be read: {error}", path) from error
    if path.name.removesuffix(".gz").endswith((".yml", ".yaml")):
        return "ck25" if re.search(r"^questions:\s*$", head, re.MULTILINE) else ""
    first_line = head.partition("\n")[0].rstrip()
    questions = re.search(r'"[Qq]uestions"\s*:\s*\[\s*', head) if head.startswith("{") else None
    firsts = {
        "list": _first_object(head[1:].lstrip()) if head.startswith("[") else None,
        "object": _first_object(head[questions.end() :]) if questions else None,
        "json lines": _first_object(first_line),
    }
    for form in FORMATS.values():
        first = firsts.get(form.shape)
        if form.line:
            if re.match(form.line, first_line):
                return form.name
        elif first and set(form.keys) <= first.keys() and not set(form.absent) & first.keys():
            return form.name
    return ""


def _first_object(text: str) -> Mapping[str, Any] | None:
    """The JSON object that a text begins with."""
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except json.JSONDecodeError:
        return None
    return value if isinstance(value, dict) else None
