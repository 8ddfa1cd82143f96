"""Seed questions mined once and kept for a KG, so that no later question mines them again.

One SQLite file for each graph: the questions with their masked text, and what those gave that were drawn. It
lies where the graph's other derived things do (a folder made by `triplewise kg load`, else the user's cache
folder), never beside a user's own file. Each seed is written when it is mined, so what is broken off goes on
where it was; until all are, the file is not used.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import astuple
from importlib import resources
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from triplewise.tools.core.errors import ConfigurationError, DataError, KGUnavailableError, QueryFailedError
from triplewise.tools.core.files import is_writable
from triplewise.tools.core.rules import Atom
from triplewise.tools.core.taught import right_answers
from triplewise.tools.kg.open import DEMO, MANIFEST, graph_files, is_store
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, memory_of
from triplewise.tools.planning import seeds as s
from triplewise.tools.planning.mining import Miner

FORMAT = 7
Progress = Callable[[str, int, int | None], None]  # Called with stage, done, total
_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (version TEXT, hops INTEGER, seed INTEGER, is_complete INTEGER);
CREATE TABLE IF NOT EXISTS seeds (masked TEXT, seed TEXT, paths TEXT);
CREATE INDEX IF NOT EXISTS by_text ON seeds (masked);
"""
_lock = Lock()


class SeedFile(Mapping[str, Sequence[s.Seed]]):
    """A file of indexed seeds: seeds by masked text, read when needed. Raises `DataError` if damaged.

    Attributes:
        version: of the seed files. caps: how far they were mined. is_complete: whether all are.
        mined: what the seeds gave that were read so far.
    """

    def __init__(self, path: Path) -> None:
        self._path, self.mined = path, dict[s.Seed, s.Mined]()
        self._connection = sqlite3.connect(path, check_same_thread=False)
        about = self._rows("SELECT * FROM about") or [("", 0, 0, 0)]
        self.version, self.caps, self.is_complete = about[0][0], s.Caps(*about[0][1:3]), bool(about[0][3])
        self._texts = dict.fromkeys(row[0] for row in self._rows("SELECT masked FROM seeds ORDER BY rowid"))

    def _rows(self, sql: str, *values: str) -> list[Any]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise _unusable(self._path, error) from error

    def __getitem__(self, masked: str) -> Sequence[s.Seed]:
        if masked not in self._texts:
            raise KeyError(masked)
        seeds = list[s.Seed]()
        for written, paths in self._rows("SELECT seed, paths FROM seeds WHERE masked = ?", masked):
            seeds.append(seed := _read_seed(written))
            if paths is not None:
                found = ((tuple(Atom(*a) for a in path), q) for path, *q in json.loads(paths))
                self.mined[seed] = {path: s.Quality(*quality) for path, quality in found}
        return seeds

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def _unusable(path: Path, error: Exception) -> DataError:
    return DataError(f"{error}; remove it and index the seeds again", path)


def _read_seed(written: str) -> s.Seed:
    question, *parts = json.loads(written)
    return s.Seed(question, *map(tuple, parts))


def seeds_for(source: str, kg: KnowledgeGraph, path: str | None, caps: s.Caps) -> s.SeedIndex | None:
    """Return the seed questions of a graph opened by `source`. Raises `DataError`: a file or line is broken.

    Args:
        path: seed files joined by commas; None for those that are kept for the graph, with the answers that
            people marked right.
        caps: how far mining goes; seeds kept under other caps are read, but mined anew.
    """
    version, right = path and _version(path), right_answers(source) if path is None else ()
    taught = [s.Seed(r["question"], (*(e := r["entities"]),), (*r["answer"],), (*e.values(),)) for r in right]
    taught = [seed for seed in taught if seed.spans and seed.answers]
    place = next((f for f in _places(source, kg) if f.is_file() and f.stat().st_size), None)
    key, indexes = (place, place and place.stat().st_mtime_ns, version, caps, *taught), memory_of(kg, "seeds")
    with _lock:
        if key not in indexes:
            kept = None if place is None else SeedFile(place)
            if kept is not None and not (kept.is_complete and version in (None, kept.version)):
                kept = None
            groups: Any = kept if kept is not None else {} if path is None else _grouped(path, kg)
            if taught:
                more = s.group_seeds(taught).items()
                groups = ChainMap({text: [*groups.get(text, ()), *of] for text, of in more}, groups)
            mined = kept.mined if kept is not None and kept.caps == caps else {}
            indexes[key] = s.SeedIndex(groups, caps, mined) if groups else None
        found: s.SeedIndex | None = indexes[key]
        return found


def _grouped(path: str, kg: KnowledgeGraph) -> dict[str, list[s.Seed]]:
    """Return the seeds of files by masked text, topics by the names that the questions have."""
    return s.group_seeds(s.with_names(chain.from_iterable(map(s.read_seeds, _files(path))), kg), path)


def _files(path: str) -> list[Path]:
    """Return the files that a setting names, joined by commas."""
    return [Path(p.strip()).expanduser() for p in path.split(",") if p.strip()]


def _version(path: str) -> str:
    """Return what tells one version of seed files from another. Raises `DataError` if one is missing."""
    try:
        return _versions(_files(path))
    except OSError as error:
        raise DataError(f"cannot read seed questions: {error.strerror or error}", path) from error


def _places(source: str, kg: KnowledgeGraph) -> list[Path]:
    """Return where the seeds of a graph may be kept: under another name when the graph has changed.

    Of an endpoint only the address is known: after it has changed, index the seeds again.
    """
    path = Path(source).expanduser()
    if source == DEMO:
        path = Path(str(resources.files("triplewise.tools.kg"))) / "demo" / "demo.nt.gz"
    if path.is_dir() and is_store(path):
        content = (path / MANIFEST).read_text("utf-8")
    else:
        content = _versions(graph_files(path)) if path.exists() else kg.name
    name = hashlib.sha256(f"{content} {kg.profile.name}".encode()).hexdigest()[:16]
    return [cache / s.FOLDER / f"{name}-v{FORMAT}.sqlite" for cache in kg.cache_dirs]


def _versions(files: Iterable[Path]) -> str:
    return " ".join(f"{f.resolve()} {f.stat().st_size} {f.stat().st_mtime_ns}" for f in files)


class IndexReport(NamedTuple):
    """What indexing did: the file, usable seed questions and their different structures, and those mined.

    `empty` are those without any path: their entities are not in the graph, or nothing leads to the answers.
    """

    path: Path
    seeds: int
    groups: int
    mined: int
    empty: int


def index_seeds(
    path: str,
    source: str,
    kg: KnowledgeGraph,
    caps: s.Caps,
    progress: Progress = lambda stage, done, total: None,
) -> IndexReport:
    """Mine seed questions and keep what they give for the graph, in place of what was kept before.

    What was broken off goes on.

    Args:
        path: seed files joined by commas. source: what the graph was opened by.

    Raises:
        ConfigurationError: nowhere to keep it.
        DataError: a seed file that cannot be used, a full disk. KGUnavailableError: nobody answers.
    """
    place = next((f for f in _places(source, kg) if is_writable(f.parent)), None)
    if place is None:
        raise ConfigurationError(f"there is no folder to keep the seeds of {kg.name} in")
    groups, about = _grouped(path, kg), (_version(path), *astuple(caps))
    miner = Miner(kg, s.SeedIndex({}, caps))
    chosen = {seed: text for text, seeds in groups.items() for seed in miner.choose(seeds)}
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(place, isolation_level=None)) as file:
            file.executescript(_SCHEMA)
            if file.execute("SELECT version, hops, seed FROM about").fetchone() != about:
                rows = ((text, json.dumps(astuple(seed))) for text, of in groups.items() for seed in of)
                file.execute("BEGIN IMMEDIATE")
                file.execute("DELETE FROM about")
                file.execute("DELETE FROM seeds")
                file.executemany("INSERT INTO seeds (masked, seed) VALUES (?, ?)", rows)
                file.execute("INSERT INTO about VALUES (?, ?, ?, 0)", about)
                file.execute("COMMIT")
            mined = "SELECT seed, paths FROM seeds WHERE paths IS NOT NULL"
            done = {_read_seed(row[0]) for row in file.execute(mined)}
            for number, (seed, text) in enumerate(chosen.items()):
                progress("mining seed questions", number, len(chosen))
                if seed not in done:  # each is kept at once
                    row = json.dumps(_paths_of(miner, seed)), text, json.dumps(astuple(seed))
                    file.execute("UPDATE seeds SET paths = ? WHERE masked = ? AND seed = ?", row)
            file.execute("UPDATE about SET is_complete = 1")
            gave = [row[1] for row in file.execute(mined)]
    except (sqlite3.Error, OSError) as error:
        raise _unusable(place, error) from error
    return IndexReport(place, sum(map(len, groups.values())), len(groups), len(gave), gave.count("[]"))


def _paths_of(miner: Miner, seed: s.Seed) -> list[Any]:
    """Return the paths of a seed as they are written; none where the graph does not answer in time."""
    try:
        mined = miner.of_seed(seed)
    except QueryFailedError as error:
        if error.outcome == Outcome.UNAVAILABLE:
            raise KGUnavailableError(f"{error}; run the same command again to go on") from error
        return []
    return [[[(a.relation, a.forward) for a in path], *astuple(q)] for path, q in mined.items()]
