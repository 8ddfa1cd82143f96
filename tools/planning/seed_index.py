"""Seed questions mined once and kept for a KG, so that no later question mines them again.

One SQLite file for each graph, set of seed questions and caps: the questions by their masked text, and what
the seeds that were drawn gave. It lies where the graph's other derived things do (a folder made by
`triplewise kg load`, else the user's cache folder), never beside a user's own file. It is written under
another name and moved into place when it is complete: what is broken off goes on where it was, and no reader
sees half of it.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from importlib import resources
from itertools import chain
from pathlib import Path
from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg.load import MANIFEST, is_store
from triplewise.tools.kg.open import DEMO, MEMORY_BYTES
from triplewise.tools.kg.protocol import KnowledgeGraph, shared_of
from triplewise.tools.planning.mining import Caps
from triplewise.tools.planning.seed_terms import named_in_text
from triplewise.tools.planning.seeds import (
    Mined,
    Quality,
    Seed,
    SeedIndex,
    Signature,
    read_seeds,
    seed_files,
)

FORMAT = 2
FOLDER = "seeds"
"""Where a KG's folder keeps them."""
_indexes: WeakKeyDictionary[KnowledgeGraph, dict[str, SeedIndex]] = WeakKeyDictionary()
_lock = Lock()
Tell = Callable[[str, int, "int | None"], None]


class KeptSeeds:
    """The file, opened to read. Safe to use from many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        self._lock = Lock()

    def find(self, seed: Seed) -> Mined | None:
        """What a seed gave, None if it was not mined."""
        rows = self.rows("SELECT found FROM mined WHERE digest = ?", (digest(seed),))
        return read_mined(rows[0][0]) if rows else None

    def about(self) -> dict[str, str]:
        """What the file is about: graph, seeds, caps, when it was finished."""
        return {str(name): str(value) for name, value in self.rows("SELECT name, value FROM about")}

    def texts(self) -> list[str]:
        """The masked texts, in the order of the seed file."""
        return [r[0] for r in self.rows("SELECT text FROM seeds GROUP BY text ORDER BY MIN(rowid)")]

    def of_text(self, text: str) -> list[Seed]:
        """The seeds of one masked text."""
        found = self.rows(
            "SELECT question, topics, answers, ids FROM seeds WHERE text = ? ORDER BY rowid", (text,)
        )
        return [Seed(q, *(tuple(json.loads(part)) for part in parts)) for q, *parts in found]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[str, ...]]:
        """Rows of a query. Raises `DataError` if the file is damaged."""
        try:
            with self._lock:
                return self._db.execute(sql, values).fetchall()
        except sqlite3.DatabaseError as error:
            raise DataError(f"{error}; remove it and index the seeds again", self.path) from error


class _Groups(Mapping[str, Sequence[Seed]]):
    """Seeds by masked text, read when they are needed."""

    def __init__(self, kept: KeptSeeds) -> None:
        self._kept = kept
        self._texts = dict.fromkeys(kept.texts())

    def __getitem__(self, text: str) -> Sequence[Seed]:
        if text not in self._texts:
            raise KeyError(text)
        return self._kept.of_text(text)

    def __contains__(self, text: object) -> bool:
        return text in self._texts

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def seeds_for(source: str, kg: KnowledgeGraph, path: str | None, caps: Caps) -> SeedIndex | None:
    """The seed questions of a run.

    Args:
        source: what the graph was opened by. kg: the graph.
        path: seed files joined by commas; None for those kept for the graph, the latest finished ones where
            there are several.
        caps: how far mining goes; seeds kept under other caps are read, but mined anew.

    Raises:
        DataError: a file is missing or a line is broken.
    """
    mark = kg_mark(source, kg)
    if path is None:
        latest = _latest(places(kg), mark)
        return None if latest is None else _opened(latest, json.dumps(asdict(caps)))
    file = _place_of(places(kg), mark, seeds_mark(path), caps)
    return _open(path, kg) if file is None else _opened(file, json.dumps(asdict(caps)))


def read_all(path: str, kg: KnowledgeGraph) -> Iterator[Seed]:
    """The seeds of the files, their topics by the names that the questions have for them."""
    return named_in_text(chain.from_iterable(read_seeds(f) for f in seed_files(path)), kg)


def _open(path: str, kg: KnowledgeGraph) -> SeedIndex:
    """The index of files that were not mined ahead, built once per process and state of the files."""
    key = f"{path} {seeds_mark(path)}"
    with _lock:
        known = _indexes.setdefault(shared_of(kg), {})
    if key not in known:
        known[key] = SeedIndex(read_all(path, kg), path)
    return known[key]


@lru_cache(maxsize=8)
def _opened(path: Path, caps: str) -> SeedIndex:
    """The index of a file, opened once per process."""
    kept = KeptSeeds(path)
    about = kept.about()
    index = SeedIndex.of_groups(_Groups(kept), str(path), kept)
    if about.get("caps") != caps:
        index.kept = None
    return index


def places(kg: KnowledgeGraph) -> list[Path]:
    """Folders that may hold what is kept for a graph."""
    homes: Sequence[Path] = getattr(kg, "homes", ())
    return [home / FOLDER for home in homes]


def _place_of(places: Sequence[Path], mark: str, seeds: str, caps: Caps) -> Path | None:
    """The finished file for a graph, seeds and caps, None if there is none."""
    name = name_of(mark, seeds, caps)
    return next((place / name for place in places if (place / name).is_file()), None)


def _latest(places: Sequence[Path], mark: str) -> Path | None:
    """The file finished last for a graph, None if there is none."""
    files = [f for place in places if place.is_dir() for f in place.glob(f"{prefix_of(mark)}*.sqlite")]
    return max(files, key=lambda f: (f.stat().st_mtime_ns, f.name), default=None)


def name_of(mark: str, seeds: str, caps: Caps) -> str:
    """The name of the file for a graph, seeds and caps."""
    told = hashlib.sha256(f"{FORMAT}\0{mark}\0{seeds}\0{json.dumps(asdict(caps))}".encode()).hexdigest()
    return f"{prefix_of(mark)}{told[:16]}.sqlite"


def prefix_of(mark: str) -> str:
    """How the names of all files for a graph begin."""
    return f"{mark[:16]}-v{FORMAT}-"


def kg_mark(source: str, kg: KnowledgeGraph) -> str:
    """A checksum that changes when a graph does: of its manifest, or of its file (large ones: size and time).

    Of an endpoint only the address is known: after it has changed, index the seeds again.
    """
    path = Path(source).expanduser()
    if source == DEMO:
        told = _demo()
    elif path.is_dir() and is_store(path):
        told = (path / MANIFEST).read_bytes()
    elif path.is_file():
        told = _file_mark(path, path.stat().st_mtime_ns)
    else:
        told = kg.name.encode()
    return hashlib.sha256(told + b"\0" + kg.profile.name.encode()).hexdigest()


@lru_cache(maxsize=1)
def _demo() -> bytes:
    """The facts of the demo graph."""
    return (resources.files("triplewise.tools.kg.demo") / "demo.nt.gz").read_bytes()


@lru_cache(maxsize=32)
def _file_mark(path: Path, changed: int) -> bytes:
    """What tells one version of a file from another."""
    if path.stat().st_size > MEMORY_BYTES:
        return f"{path.resolve()} {path.stat().st_size} {changed}".encode()
    return hashlib.sha256(path.read_bytes()).digest()


def seeds_mark(path: str) -> str:
    """A checksum of the seed files. Raises `DataError` if one is missing."""
    try:
        return hashlib.sha256(
            b"".join(_file_mark(f, f.stat().st_mtime_ns) for f in seed_files(path))
        ).hexdigest()
    except OSError as error:
        raise DataError(f"cannot read seed questions: {error.strerror or error}", path) from error


def digest(seed: Seed) -> bytes:
    """What a seed is found by."""
    return hashlib.sha256(json.dumps([seed.question, seed.topics, seed.answers, seed.ids]).encode()).digest()[
        :16
    ]


def write_mined(found: Mined) -> str:
    """What a seed gave, as JSON."""
    rows = [[b, q.precision, q.recall, q.returns, q.condition, q.other] for b, q in found.items()]
    return json.dumps(rows)


def read_mined(text: str) -> Mined:
    """What a seed gave, out of JSON."""
    return {
        _signature(body): Quality(precision, recall, returns, condition, _signature(other))
        for body, precision, recall, returns, condition, other in json.loads(text)
    }


def _signature(body: Sequence[Sequence[object]]) -> Signature:
    """A body out of JSON."""
    return tuple((str(relation), bool(forward)) for relation, forward in body)
