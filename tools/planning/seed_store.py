"""Seed questions mined once and kept for a KG, so that no later question mines them again.

One JSON-lines file a graph: what it was made of, then each seed with its masked text and its paths. It is
complete; what was broken off lies next to it, to be gone on with.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from functools import partial
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from triplewise.tools.core.errors import ConfigurationError, DataError, KGUnavailableError, QueryFailedError
from triplewise.tools.core.files import exclusive, is_writable, json_lines, make_folder, write_text, writing
from triplewise.tools.core.rules import Atom
from triplewise.tools.core.taught import graph_key, right_answers
from triplewise.tools.kg.open import MANIFEST, graph_files, is_store
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, memory_of
from triplewise.tools.kg.rdf import Progress
from triplewise.tools.planning import seeds as s
from triplewise.tools.planning.mining import Miner

FORMAT = 8
_lock = Lock()


def _read(path: Path, whole: bool = True) -> tuple[dict[str, Any], dict[s.Seed, s.Mined]]:
    """Read a file: what it was made of, and its seeds; all or (not `whole`) as far as it was written."""
    about, mined = dict[str, Any](), dict[s.Seed, s.Mined]()
    try:
        for _, row in json_lines(path):
            if not about:
                about = row
                continue
            question, *parts = row["seed"]
            steps = ((tuple(Atom(*atom) for atom in atoms), q) for atoms, *q in row["paths"])
            found = {path: s.Quality(*quality) for path, quality in steps}
            mined[s.Seed(question, *map(tuple, parts))] = found
    except (DataError, LookupError, TypeError, ValueError) as error:
        if whole:
            raise DataError(f"{error}; remove it and index the seeds again", path) from error
    return about, mined


def seeds_for(source: str, kg: KnowledgeGraph, path: str | None, hops: int) -> s.SeedIndex | None:
    """Return the seed questions of a graph opened by `source`. Raises `DataError`: a file or line is broken.

    `path`: seed files joined by commas; None for those kept for the graph and the answers that people marked
    right. Seeds that were mined to other `hops` are mined anew.
    """
    files, version = _files(path)
    right = () if path else right_answers(source)
    taught = [s.Seed(r["question"], (*(e := r["entities"]),), (*r["answer"],), (*e.values(),)) for r in right]
    taught = [seed for seed in taught if seed.spans and seed.answers]
    place = next((f for f in _places(source, kg) if f.is_file()), None)
    key, indexes = (place, place and place.stat().st_mtime_ns, version, hops, *taught), memory_of(kg, "seeds")
    with _lock:
        if key not in indexes:
            about, mined = _read(place) if place is not None else ({}, {})
            if path and version != about.get("version"):
                groups, mined = _grouped(files, kg, path), {}
            else:
                groups = s.group_seeds([*mined, *taught]) if mined or taught else {}
            mined = mined if about.get("hops") == hops else {}
            indexes[key] = s.SeedIndex(groups, hops, mined) if groups else None
        found: s.SeedIndex | None = indexes[key]
        return found


def _files(path: str | None) -> tuple[list[Path], str]:
    """Return the files that a setting names, and what tells them from others. Raises `DataError`."""
    files = [Path(p.strip()).expanduser() for p in (path or "").split(",") if p.strip()]
    try:
        return files, _versions(files)
    except OSError as error:
        raise DataError(f"cannot read seed questions: {error.strerror or error}", path) from error


def _versions(files: Iterable[Path]) -> str:
    return " ".join(f"{f.resolve()} {f.stat().st_size} {f.stat().st_mtime_ns}" for f in files)


def _grouped(files: Iterable[Path], kg: KnowledgeGraph, name: str) -> dict[str, list[s.Seed]]:
    """Return the seeds of files by masked text, topics by the names that the questions have."""
    return s.group_seeds(s.with_names(chain.from_iterable(map(s.read_seeds, files)), kg), name)


def _places(source: str, kg: KnowledgeGraph) -> list[Path]:
    """Return where the seeds of a graph may be kept: under another name when its files have changed."""
    path = Path(source).expanduser()
    files = [path / MANIFEST] if is_store(path) else graph_files(path) if path.exists() else []
    identity = f"{graph_key(source)} {kg.profile.name} {_versions(files)}"
    name = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:16]
    return [cache / s.FOLDER / f"{name}-v{FORMAT}.jsonl" for cache in kg.cache_dirs]


class IndexReport(NamedTuple):
    """The file; usable seed questions, their different structures, those mined, and those without a path."""

    path: Path
    seeds: int
    groups: int
    mined: int
    empty: int


def index_seeds(
    path: str, source: str, kg: KnowledgeGraph, hops: int, progress: Progress = lambda *_: None
) -> IndexReport:
    """Mine the seed questions of files (`path`, joined by commas) for a graph, and keep what they give.

    Raises `ConfigurationError` (nowhere to keep it), `KGUnavailableError` and `DataError`.
    """
    place = next((f for f in _places(source, kg) if is_writable(f.parent)), None)
    if place is None:
        raise ConfigurationError(f"there is no folder to keep the seeds of {kg.name} in")
    files, version = _files(path)
    groups, about = _grouped(files, kg, path), {"version": version, "hops": hops}
    part, lock = Path(f"{place}.part"), Path(f"{place}.lock")
    miner = Miner(kg, s.SeedIndex({}, hops))
    chosen = [seed for seeds in groups.values() for seed in miner.choose(seeds)]
    waiting = partial(progress, "waiting for another process that mines them", 0, len(chosen))
    with writing(place):
        make_folder(place.parent)
        with exclusive(lock, waiting):
            earlier = (_read(file, whole=False) for file in (part, place) if file.exists())
            done = next((mined for of, mined in earlier if of == about), {})
            write_text(part, "".join([json.dumps(about) + "\n", *map(_line, done, done.values())]))
            with part.open("a", encoding="utf-8") as file:
                for number, seed in enumerate(chosen):
                    progress("mining seed questions", number, len(chosen))
                    if seed not in done:
                        done[seed] = _mined(miner, seed)
                        file.write(_line(seed, done[seed]))
                        file.flush()
            part.replace(place)
    empty = sum(not found for found in done.values())
    return IndexReport(place, sum(map(len, groups.values())), len(groups), len(done), empty)


def _mined(miner: Miner, seed: s.Seed) -> s.Mined:
    """Return the paths of a seed; none where the graph does not answer in time."""
    try:
        return miner.of_seed(seed)
    except QueryFailedError as error:
        if error.outcome == Outcome.UNAVAILABLE:
            raise KGUnavailableError(f"{error}; run the same command again to go on") from error
        return {}


def _line(seed: s.Seed, mined: s.Mined) -> str:
    paths = [[[(atom.relation, atom.forward) for atom in path], *q] for path, q in mined.items()]
    return json.dumps({"seed": seed, "paths": paths}) + "\n"
