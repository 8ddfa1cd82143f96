"""Seed questions mined once and kept for a KG, so that no later question mines them again.

One file of JSON lines for each graph, set of seed questions and caps: the questions by their masked text, and
what the seeds that were drawn gave. It lies where the graph's other derived things do (a folder made by
`triplewise kg load`, else the user's cache folder), never beside a user's own file. It is written under
another name and moved into place when it is complete: what is broken off goes on where it was, and no reader
sees half of it.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, astuple
from functools import lru_cache
from importlib import resources
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import Any, NamedTuple

from triplewise.tools.core.errors import ConfigurationError, DataError, KGUnavailableError, QueryFailedError
from triplewise.tools.core.files import exclusive, is_writable, writing
from triplewise.tools.core.rules import Atom
from triplewise.tools.core.taught import right_answers
from triplewise.tools.kg.open import DEMO, MANIFEST, graph_files, is_store
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, memory_of
from triplewise.tools.planning.mining import Miner
from triplewise.tools.planning.seeds import (
    FOLDER,
    Caps,
    Mined,
    Quality,
    Seed,
    SeedIndex,
    group_seeds,
    read_seeds,
    seed_files,
    with_names,
)  # fmt: skip

FORMAT = 6
Progress = Callable[[str, int, int | None], None]  # Called with stage, done, total
_lock = Lock()


class SeedFile(Mapping[str, Sequence[Seed]]):
    """A file of indexed seeds: seeds by masked text, parsed when needed. Raises `DataError` if damaged.

    One JSON value a line: an object with `caps` and the masked `texts`; the seeds of each text; then the
    digest and the paths of each seed that was mined. A last line that was broken off is left out: `size` is
    the bytes of whole lines.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            content = path.read_bytes()
            self.size = content.rfind(b"\n") + 1
            lines = content[: self.size].splitlines()
            header = json.loads(lines[0])
            self.caps, texts = Caps(**header["caps"]), header["texts"]
            self._lines = dict(zip(texts, lines[1 : len(texts) + 1], strict=True))
            self.mined: dict[str, Mined] = {
                digest: {tuple(Atom(*step) for step in path): Quality(*quality) for path, *quality in paths}
                for digest, paths in map(json.loads, lines[len(texts) + 1 :])
            }
        except (OSError, ValueError, LookupError, TypeError) as error:
            raise DataError(f"{error}; remove it and index the seeds again", path) from error

    def __getitem__(self, masked: str) -> Sequence[Seed]:
        try:
            return [Seed(q, *map(tuple, parts)) for q, *parts in json.loads(self._lines[masked])]
        except (ValueError, TypeError) as error:
            raise DataError(f"{error}; remove it and index the seeds again", self._path) from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)


@lru_cache(maxsize=8)
def open_index(path: Path) -> SeedIndex:
    """Return the index of a file, opened once per process."""
    file = SeedFile(path)
    return SeedIndex(file, file.mined, file.caps)


def seeds_for(source: str, kg: KnowledgeGraph, path: str | None, caps: Caps) -> SeedIndex | None:
    """Return the seed questions of a graph opened by `source`. Raises `DataError`: a file or line is broken.

    Args:
        path: seed files joined by commas; None for the latest that are kept for the graph, with the answers
            that people marked right.
        caps: how far mining goes; seeds kept under other caps are read, but mined anew.
    """
    if path is None:
        kept = kept_seeds(source, kg)
    else:
        name = _file_name(_kg_fingerprint(source, kg), path, caps)
        kept = [file for cache in kg.cache_dirs if (file := cache / FOLDER / name).is_file()]
    index = open_index(kept[0]) if kept else None
    if kept or path is None:
        return index if path is not None else _with_taught(index, source, kg)
    indexes, key = memory_of(kg, "seeds"), f"{path} {_seeds_version(path)}"
    with _lock:
        if key not in indexes:
            indexes[key] = SeedIndex(_grouped(path, kg))  # holds no graph
        found: SeedIndex = indexes[key]
        return found


def _with_taught(index: SeedIndex | None, source: str, kg: KnowledgeGraph) -> SeedIndex | None:
    """Return an index with the answers to questions of the graph that people marked right."""
    right, indexes = right_answers(source), memory_of(kg, "seeds")
    if not right:
        return index
    seeds = [Seed(r["question"], (*(e := r["entities"]),), (*r["answer"],), (*e.values(),)) for r in right]
    if not any(seed.spans and seed.answers for seed in seeds):
        return index
    with _lock:
        if (key := ("taught", index, tuple(seeds))) not in indexes:
            kept: Any = index.groups if index is not None else {}
            groups: Any = {text: [*kept.get(text, ()), *more] for text, more in group_seeds(seeds).items()}
            mined = (index.stored, index.caps) if index is not None else ()
            indexes[key] = SeedIndex(ChainMap(groups, kept), *mined)
        found: SeedIndex = indexes[key]
        return found


def kept_seeds(source: str, kg: KnowledgeGraph) -> list[Path]:
    """Return the files of indexed seeds that are kept for a graph, the latest first: that one is used."""
    folders = [folder / FOLDER for folder in kg.cache_dirs if (folder / FOLDER).is_dir()]
    prefix = _file_prefix(_kg_fingerprint(source, kg)) if folders else ""
    files = {f for folder in folders for f in folder.glob(f"{prefix}*.jsonl")}
    return sorted(files, key=lambda f: (f.stat().st_mtime_ns, f.name), reverse=True)


def _grouped(path: str, kg: KnowledgeGraph) -> dict[str, list[Seed]]:
    """Return the seeds of files by masked text, topics by the names that the questions have."""
    return group_seeds(with_names(chain.from_iterable(map(read_seeds, seed_files(path))), kg), path)


def _file_name(kg: str, path: str, caps: Caps) -> str:
    """Return the name of the file for a graph of this fingerprint, seeds and caps."""
    key = f"{FORMAT}\0{kg}\0{_seeds_version(path)}\0{json.dumps(asdict(caps))}"
    return f"{_file_prefix(kg)}{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsonl"


def _file_prefix(kg: str) -> str:
    """Return how the names of all files for a graph begin."""
    return f"{kg[:16]}-v{FORMAT}-"


def _kg_fingerprint(source: str, kg: KnowledgeGraph) -> str:
    """Return a checksum that changes when a graph does: of its manifest, or of what its files are.

    Of an endpoint only the address is known: after it has changed, index the seeds again.
    """
    path = Path(source).expanduser()
    if source == DEMO:
        path = Path(str(resources.files("triplewise.tools.kg"))) / "demo" / "demo.nt.gz"
    if path.is_dir() and is_store(path):
        content = (path / MANIFEST).read_text("utf-8")
    elif path.exists() and (files := graph_files(path)):
        content = _versions(files)
    else:
        content = kg.name
    return hashlib.sha256(f"{content}\0{kg.profile.name}".encode()).hexdigest()


def _versions(files: Iterable[Path]) -> str:
    """Return what tells one version of files from another."""
    return " ".join(f"{f.resolve()} {f.stat().st_size} {f.stat().st_mtime_ns}" for f in files)


def _seeds_version(path: str) -> str:
    """Return the same of seed files. Raises `DataError` if one is missing."""
    try:
        return _versions(seed_files(path))
    except OSError as error:
        raise DataError(f"cannot read seed questions: {error.strerror or error}", path) from error


class IndexReport(NamedTuple):
    """What indexing did.

    Attributes:
        path: the file. seeds: usable seed questions. groups: different structures among them.
        mined: seeds mined, of which `before` were there already. empty: mined seeds without any path: their
            entities are not in the graph, or nothing leads to their answers. paths: different paths.
        timeouts: queries that the graph did not answer in time. seconds: how long it took.
    """

    path: Path
    seeds: int
    groups: int
    mined: int
    before: int
    empty: int
    paths: int
    timeouts: int
    seconds: float


def index_seeds(
    path: str,
    source: str,
    kg: KnowledgeGraph,
    caps: Caps | None = None,
    progress: Progress = lambda stage, done, total: None,
    again: bool = False,
) -> IndexReport:
    """Mine seed questions and keep what they give for the graph; what was broken off goes on.

    Args:
        path: seed files joined by commas. source: what the graph was opened by. again: mine all anew.

    Raises:
        ConfigurationError: nowhere to keep it, or another process is at it.
        DataError: a seed file that cannot be used, a full disk. KGUnavailableError: nobody answers.
    """
    start, caps = time.perf_counter(), caps or Caps()
    folder = next(filter(is_writable, (cache / FOLDER for cache in kg.cache_dirs)), None)
    if folder is None:
        raise ConfigurationError(f"there is no folder to keep the seeds of {kg.name} in")
    groups, fingerprint = _grouped(path, kg), _kg_fingerprint(source, kg)
    final = folder / _file_name(fingerprint, path, caps)
    finished, before, timeouts = final.is_file() and not again, 0, 0
    if not finished:
        partial = final.with_suffix(".partial")
        busy = ConfigurationError(f"another process indexes these seeds now ({partial})")
        with writing(partial):
            folder.mkdir(parents=True, exist_ok=True)
            with exclusive(final.with_suffix(".lock"), busy):
                if again:
                    partial.unlink(missing_ok=True)
                miner = Miner(kg, caps)
                before, timeouts = _mine(partial, miner, groups, progress)
                os.replace(partial, final)
        if is_store(folder.parent):
            # A folder that is this graph's alone: what was kept for an earlier state of it goes.
            for old in folder.iterdir():
                if not old.name.startswith(_file_prefix(fingerprint)):
                    old.unlink(missing_ok=True)
    mined = list(SeedFile(final).mined.values())
    return IndexReport(
        final,
        seeds=sum(map(len, groups.values())),
        groups=len(groups),
        mined=len(mined),
        before=len(mined) if finished else before,
        empty=sum(not m for m in mined),
        paths=len({path for m in mined for path in m}),
        timeouts=timeouts,
        seconds=time.perf_counter() - start,
    )


def _mine(
    path: Path, miner: Miner, groups: Mapping[str, Sequence[Seed]], progress: Progress
) -> tuple[int, int]:
    """Write the seeds, and mine those the file lacks; how many it had, and how many timed out."""
    try:
        file = SeedFile(path)
        os.truncate(path, file.size)
        done = set(file.mined)
    except DataError:
        done = set()
        header = {"caps": asdict(miner.caps), "texts": list(groups)}
        seeds = ([astuple(seed) for seed in group] for group in groups.values())
        path.write_text("".join(json.dumps(line) + "\n" for line in chain([header], seeds)), "utf-8")
    chosen = [s for seeds in groups.values() for s in miner.choose(seeds)]
    before, timeouts = 0, 0
    # Each line is handed to the system when it is complete, so that a kill costs the seed in hand.
    with path.open("a", encoding="utf-8", buffering=1) as lines:
        for number, seed in enumerate(chosen):
            progress("mining seed questions", number, len(chosen))
            digest = seed.digest
            if digest in done:
                before += 1
                continue
            mined: Mined = {}
            try:
                mined = miner.of_seed(seed)
            except QueryFailedError as error:
                if error.outcome == Outcome.UNAVAILABLE:
                    raise KGUnavailableError(f"{error}; run the same command again to go on") from error
                timeouts += 1
            paths = [
                [[(atom.relation, atom.forward) for atom in path], *astuple(quality)]
                for path, quality in mined.items()
            ]
            lines.write(json.dumps([digest, paths]) + "\n")
            done.add(digest)
    return before, timeouts
