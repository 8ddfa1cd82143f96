"""Benchmark files: which there are, where they lie, whether they are unchanged; their records and graphs."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from platformdirs import user_cache_path

from triplewise.graphs.console import progress_bars
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import Record, json_lines, packaged
from triplewise.tools.kg.load import load_kg
from triplewise.tools.kg.open import FORMAT, open_kg, read_manifest, sha256
from triplewise.tools.kg.protocol import KnowledgeGraph

DATA_VARIABLE = "TRIPLEWISE_DATA"  # the environment variable that names the folder with the benchmarks


class DataFile(NamedTuple):
    """One file: its path under the data folder, the sha256 it should have, and where it is published."""

    name: str
    sha256: str
    published: str


class Graph(NamedTuple):
    """The files of a KG: parts of facts by name, and label tables; without `profile` it is inferred."""

    name: str
    title: str
    published: str
    licence: str
    partial: bool
    facts: Mapping[str, Sequence[DataFile]]
    labels: Sequence[DataFile] = ()
    profile: str = ""


class Benchmark(NamedTuple):
    """A set of questions, what a graph can answer of it, and its scores; `catalog.yaml` explains the keys."""

    name: str
    title: str
    graph: str
    licence: str
    citation: str
    published: str
    files: Mapping[str, DataFile]
    counts: Mapping[str, Mapping[str, int]]
    answerable_if: str
    seeds: Mapping[str, DataFile]
    version: int
    about: str
    parameters: Mapping[str, Any]
    scorers: Mapping[str, Mapping[str, Any]]
    questions: str | Mapping[str, str]
    keys: Sequence[str]
    note: str = ""
    seeds_answered: bool = False
    choices: Mapping[str, Sequence[Any]] = {}
    preset: str = "agent"
    settings: Mapping[str, Any] = {}
    needs_model: bool = False
    more_files: Sequence[str] = ()
    text: str = "question"
    gold: Sequence[str] = ("answers",)
    any_gold: bool = False
    linked: str = ""
    id_form: str = ".*"
    metadata: Mapping[str, str] = {}
    needs: str = ""
    flag: str = ""
    flag_observed: str = ""
    link_known: bool = True

    @property
    def defaults(self) -> dict[str, Any]:
        """All parameters of the task with their defaults, its own first."""
        system = {"preset": self.preset, "model": "embedded", "settings": None, "phases": None}
        return {**self.parameters, "n": 1_000, "sample_seed": 0, **system}


class Catalog(NamedTuple):
    """The catalog: what tasks' parameters mean, graphs and benchmarks, each by name."""

    parameters: Mapping[str, str]
    graphs: Mapping[str, Graph]
    benchmarks: Mapping[str, Benchmark]


@cache
def catalog() -> Catalog:
    """Return the catalog, read from `catalog.yaml`."""
    entries = packaged("triplewise.evals", "catalog.yaml")

    def data_files(sums: Mapping[str, str], entry: Mapping[str, Any]) -> dict[str, DataFile]:
        return {name: DataFile(name, sum_, entry["published"]) for name, sum_ in sums.items()}

    graphs, benchmarks = {}, {}
    for name, entry in entries["graphs"].items():
        facts = {part: list(data_files(sums, entry).values()) for part, sums in entry["facts"].items()}
        labels = list(data_files(entry.get("labels", {}), entry).values())
        graphs[name] = Graph(**{**entry, "name": name, "facts": facts, "labels": labels})
    for name, entry in sorted(entries["benchmarks"].items()):
        own = {key: data_files(entry.get(key, {}), entry) for key in ("files", "seeds")}
        benchmarks[name] = Benchmark(**entry.pop("task"), **{**entry, "name": name, **own})
    return Catalog(entries["parameters"], graphs, benchmarks)


def data_folder() -> Path:
    """The folder with the benchmarks. Raises `DataError` where the variable names none."""
    value = os.environ.get(DATA_VARIABLE, "").strip()
    folder = Path(value).expanduser()
    if not value:
        raise DataError(f"set {DATA_VARIABLE} to the folder with the benchmarks (metaqa/, qald10/, ...)")
    if not folder.is_dir():
        raise DataError(f"no such folder; {DATA_VARIABLE} names it", folder)
    return folder


def locate(file: DataFile) -> Path:
    """Where a file lies. Raises `DataError` where it is missing: where it is published, where to put it."""
    path = data_folder() / file.name
    if not path.is_file():
        raise DataError(f"missing; get it ({file.published}) and put it at this path", path)
    return path


def checksum(path: Path) -> str:
    """The sha256 of a file, as hexadecimal digits; read once for each state of the file."""
    state = path.stat()
    return _checksum(path, state.st_size, state.st_mtime_ns)


_checksum = lru_cache(maxsize=256)(lambda path, *state: sha256(path))


def read_records(path: Path, *required: str) -> list[Record]:
    """The records of a JSON-lines file. Raises `DataError` where a line is none or lacks a required key."""
    records = []
    for number, record in json_lines(path):
        if missing := [key for key in required if key not in record]:
            raise DataError(f"a question without {', '.join(missing)}", path, number)
        records.append(record)
    return records


class LoadedKG(NamedTuple):
    """A graph that is ready to be queried."""

    path: str  # or URL
    profile: str  # "" where it was inferred
    title: str
    partial: bool
    parts: Sequence[str] = ()
    triples: int = 0  # distinct facts, labels included
    checksum: str = ""  # "" for the user's own graph

    @property
    def gold_derived(self) -> bool:
        """Whether some of its facts were made from gold answers."""
        return "gold_derived" in self.parts

    def open(self) -> KnowledgeGraph:
        """The graph, opened. Raises what `open_kg` raises."""
        return open_kg(self.path, profile=self.profile or None if self.checksum else None)


def prepared(graph: Graph, parts: Sequence[str] | None = None) -> LoadedKG:
    """The store of some parts of a graph (all by default), loaded unless it is in the cache unchanged.

    Raises `ConfigurationError` where another process loads it, `DataError` on a broken file.
    """
    chosen = tuple(parts if parts is not None else graph.facts)
    facts = [locate(file) for part in chosen for file in graph.facts[part]]
    labels = [locate(file) for file in graph.labels]
    sums = "".join(f"\0{path.name}\0{checksum(path)}" for path in (*facts, *labels))
    made_from = hashlib.sha256(f"{FORMAT}\0{graph.profile}{sums}".encode()).hexdigest()
    folder = user_cache_path("triplewise") / "evals" / f"{graph.name}-{made_from[:16]}"
    try:
        triples = read_manifest(folder).triples
    except DataError:  # not there, damaged, or written by another version: it is ours, and made again
        with progress_bars() if sys.stderr.isatty() else nullcontext() as progress:
            shape = graph.profile or None
            report = load_kg([*facts, *labels], folder, profile=shape, progress=progress, replace=True)
        triples = report.triples
    return LoadedKG(str(folder), graph.profile, graph.title, graph.partial, chosen, triples, made_from)
