"""Benchmark files: which there are, where they lie, whether they are unchanged, and their records."""

from __future__ import annotations

import gzip
import hashlib
import json
import logging
import os
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

import yaml

from triplewise.evals.formats.places import find_published
from triplewise.tools.core.errors import ConfigurationError, DataError

DATA_VARIABLE = "TRIPLEWISE_DATA"
"""The environment variable that names the folder with the benchmarks."""

Record = dict[str, Any]

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class DataFile:
    """One file: its path under the data folder, the sha256 it should have, and where it is published."""

    name: str
    sha256: str
    published: str


@dataclass(frozen=True, slots=True)
class Graph:
    """The files of a KG: parts of facts by name (`observed`, `gold_derived`, ...), and label tables.

    `partial` says that the absence of a fact means nothing. A graph without `profile` has it inferred.
    """

    name: str
    title: str
    profile: str
    licence: str
    partial: bool
    facts: Mapping[str, tuple[DataFile, ...]]
    labels: tuple[DataFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Asked:
    """How many questions a task has, and how many of them its graph can answer.

    `observed` counts those that it can answer without the facts made from gold answers (None: there are no
    such facts, or the same holds).
    """

    questions: int
    answerable: int
    observed: int | None = None


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A set of questions: its files by path, the graph it is asked of, licence and citation.

    Attributes:
        seeds: files of training questions, which may be shown to the agent.
        asked: how many questions by the task's parameters ("hops=2"; "" where there is one set only).
        judged: what it takes for a question to count as answerable.
    """

    name: str
    title: str
    graph: str
    licence: str
    citation: str
    published: str
    files: Mapping[str, DataFile] = field(default_factory=dict)
    seeds: Mapping[str, DataFile] = field(default_factory=dict)
    asked: Mapping[str, Asked] = field(default_factory=dict)
    judged: str = ""


@dataclass(frozen=True, slots=True)
class _Catalog:
    graphs: Mapping[str, Graph]
    benchmarks: Mapping[str, Benchmark]


def benchmarks() -> tuple[str, ...]:
    """Names of the benchmarks in the catalog."""
    return tuple(_catalog().benchmarks)


def graph(name: str) -> Graph:
    """The files of a KG by its name in the catalog. Raises `ConfigurationError` on an unknown one."""
    if name not in _catalog().graphs:
        raise ConfigurationError.unknown("graph", name, _catalog().graphs)
    return _catalog().graphs[name]


def benchmark(name: str) -> Benchmark:
    """A benchmark by its name in the catalog. Raises `ConfigurationError` on an unknown one."""
    if name not in _catalog().benchmarks:
        raise ConfigurationError.unknown("benchmark", name, _catalog().benchmarks)
    return _catalog().benchmarks[name]


def data_folder() -> Path:
    """The folder with the benchmarks.

    Raises:
        DataError: the variable is not set, or names no folder.
    """
    value = os.environ.get(DATA_VARIABLE, "").strip()
    if not value:
        raise DataError(
            f"set {DATA_VARIABLE} to the folder that holds the benchmarks (metaqa/, qald10/, ...)"
        )
    folder = Path(value).expanduser()
    if not folder.is_dir():
        raise DataError(f"no such folder; {DATA_VARIABLE} names it", folder)
    return folder


def locate(file: DataFile) -> Path:
    """Where a file lies; or what its authors publish in its place, under the name that they gave it.

    Raises:
        DataError: neither is there; says where it is published and where to put it.
    """
    folder = data_folder()
    path = folder / file.name
    if path.is_file():
        return path
    if (published := find_published(folder, file.name)) is not None:
        return published
    raise DataError(f"missing; get it ({file.published}) and put it at this path", path)


def changed(files: list[DataFile]) -> list[str]:
    """Names of the files whose checksum is not the catalog's; each is also logged as a warning.

    Their results are no results of the benchmark as published.
    """
    names = []
    for file in files:
        found = checksum(locate(file))
        if found != file.sha256:
            names.append(file.name)
            _log.warning(
                "%s is not the file of the catalog: sha256 %s, expected %s", file.name, found, file.sha256
            )
    return names


def own_file(path: str | Path, published: str) -> DataFile:
    """A file of the user's own in the place of a catalog's: no checksum is expected of it.

    Raises:
        DataError: there is no such file.
    """
    found = Path(path).expanduser().absolute()
    if not found.is_file():
        raise DataError(f"no such file; questions in this form are published at {published}", found)
    return DataFile(str(found), "", published)


def checksum(path: Path) -> str:
    """The sha256 of a file, as hexadecimal digits; read once for each state of the file."""
    state = path.stat()
    return _checksum(path, state.st_size, state.st_mtime_ns)


@lru_cache(maxsize=256)
def _checksum(path: Path, size: int, changed_at: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def read_records(path: Path, *required: str) -> list[Record]:
    """The records of a JSON-lines file (plain or .gz).

    Args:
        path: the file.
        *required: keys that every record must have.

    Raises:
        DataError: naming file and line, if a line is no JSON object or lacks a key.
    """
    opener = gzip.open if path.suffix == ".gz" else open
    records = []
    try:
        with opener(path, "rt", encoding="utf-8") as lines:
            for number, line in enumerate(lines, 1):
                if line.strip():
                    records.append(_record(line, required, path, number))
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise DataError(f"cannot be read to its end: {error}", path) from error
    return records


def _record(line: str, required: tuple[str, ...], path: Path, number: int) -> Record:
    try:
        record = json.loads(line)
    except json.JSONDecodeError as error:
        raise DataError(f"not JSON: {error}", path, number) from error
    if not isinstance(record, dict):
        raise DataError(f"expected a JSON object, got {line.strip()[:80]!r}", path, number)
    if missing := [key for key in required if key not in record]:
        raise DataError(f"a question without {', '.join(missing)}", path, number)
    return record


@cache
def _catalog() -> _Catalog:
    text = (resources.files("triplewise.evals") / "catalog.yaml").read_text(encoding="utf-8")
    entries = yaml.safe_load(text)
    return _Catalog(
        {name: _graph(name, entry) for name, entry in entries["graphs"].items()},
        {name: _benchmark(name, entry) for name, entry in entries["benchmarks"].items()},
    )


def _graph(name: str, entry: Mapping[str, Any]) -> Graph:
    where = entry["published"]
    return Graph(
        name=name,
        title=entry["title"],
        profile=entry.get("profile", ""),
        licence=entry["licence"],
        partial=entry["partial"],
        facts={part: _files(files, where) for part, files in entry["facts"].items()},
        labels=_files(entry.get("labels", {}), where),
    )


def _benchmark(name: str, entry: Mapping[str, Any]) -> Benchmark:
    files, seeds = (_files(entry.get(key, {}), entry["published"]) for key in ("files", "seeds"))
    return Benchmark(
        name=name,
        title=entry["title"],
        graph=entry["graph"],
        licence=entry["licence"],
        citation=entry["citation"],
        published=entry["published"],
        files={file.name: file for file in files},
        seeds={file.name: file for file in seeds},
        asked={which: Asked(**numbers) for which, numbers in entry.get("asked", {}).items()},
        judged=entry.get("judged", ""),
    )


def _files(files: Mapping[str, str], published: str) -> tuple[DataFile, ...]:
    return tuple(DataFile(name, sha256, published) for name, sha256 in files.items())
