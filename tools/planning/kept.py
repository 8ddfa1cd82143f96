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
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import lru_cache
from importlib import resources
from itertools import chain
from pathlib import Path
from threading import Lock

from triplewise.tools.encoder import Encoder, open_encoder
from triplewise.tools.errors import ConfigurationError, DataError, KGUnavailableError
from triplewise.tools.kg.base import KnowledgeGraph, Outcome, metered
from triplewise.tools.kg.load import MANIFEST, is_store
from triplewise.tools.kg.open import DEMO, MEMORY_BYTES
from triplewise.tools.planning.mining import Caps, Miner
from triplewise.tools.planning.seeds import (
    Mined,
    Quality,
    Seed,
    SeedIndex,
    Signature,
    grouped,
    open_seeds,
    read_seeds,
    seed_files,
)

FORMAT = 2
FOLDER = "seeds"
"""Where a KG's folder keeps them."""
COMMIT_SECONDS = 1.0
"""What a kill can cost."""

Tell = Callable[[str, int, "int | None"], None]

_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS seeds (text TEXT, question TEXT, topics TEXT, answers TEXT);
CREATE TABLE IF NOT EXISTS mined (digest BLOB PRIMARY KEY, found TEXT);
"""


@dataclass(frozen=True, slots=True)
class IndexReport:
    """What indexing did.

    Attributes:
        path: the file. seeds: usable seed questions. groups: different structures among them.
        mined: seeds mined, of which `before` were there already. empty: mined seeds without any body: their
            entities are not in the graph, or nothing leads to their answers. bodies: different rule bodies.
        timeouts: queries that the graph did not answer in time. seconds: how long it took.
    """

    path: Path
    seeds: int
    groups: int
    mined: int
    before: int
    empty: int
    bodies: int
    timeouts: int
    seconds: float


class KeptSeeds:
    """The file, opened to read. Safe to use from many threads."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._db = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True, check_same_thread=False)
        self._lock = Lock()

    def find(self, seed: Seed) -> Mined | None:
        """What a seed gave, None if it was not mined."""
        rows = self._rows("SELECT found FROM mined WHERE digest = ?", (_digest(seed),))
        return _read_mined(rows[0][0]) if rows else None

    def about(self) -> dict[str, str]:
        """What the file is about: graph, seeds, caps, when it was finished."""
        return {str(name): str(value) for name, value in self._rows("SELECT name, value FROM about")}

    def texts(self) -> list[str]:
        """The masked texts, in the order of the seed file."""
        return [r[0] for r in self._rows("SELECT text FROM seeds GROUP BY text ORDER BY MIN(rowid)")]

    def of_text(self, text: str) -> list[Seed]:
        """The seeds of one masked text."""
        found = self._rows(
            "SELECT question, topics, answers FROM seeds WHERE text = ? ORDER BY rowid", (text,)
        )
        return [Seed(q, tuple(json.loads(t)), tuple(json.loads(a))) for q, t, a in found]

    def close(self) -> None:
        """Close the file."""
        self._db.close()

    def _rows(self, sql: str, values: Sequence[object] = ()) -> list[tuple[str, ...]]:
        with self._lock:
            return self._db.execute(sql, values).fetchall()


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
        latest = _latest(_places(kg), mark)
        return None if latest is None else _opened(latest, json.dumps(asdict(caps)))
    file = _place_of(_places(kg), mark, seeds_mark(path), caps)
    return open_seeds(path) if file is None else _opened(file, json.dumps(asdict(caps)))


@lru_cache(maxsize=8)
def _opened(path: Path, caps: str) -> SeedIndex:
    """The index of a file, opened once per process."""
    kept = KeptSeeds(path)
    about = kept.about()
    index = SeedIndex.of_groups(_Groups(kept), str(path), kept)
    if about.get("caps") != caps:
        index.kept = None
    return index


def _places(kg: KnowledgeGraph) -> list[Path]:
    """Folders that may hold what is kept for a graph."""
    homes: Sequence[Path] = getattr(kg, "homes", ())
    return [home / FOLDER for home in homes]


def _place_of(places: Sequence[Path], mark: str, seeds: str, caps: Caps) -> Path | None:
    """The finished file for a graph, seeds and caps, None if there is none."""
    name = _name(mark, seeds, caps)
    return next((place / name for place in places if (place / name).is_file()), None)


def _latest(places: Sequence[Path], mark: str) -> Path | None:
    """The file finished last for a graph, None if there is none."""
    files = [f for place in places if place.is_dir() for f in place.glob(f"{mark[:16]}-*.sqlite")]
    return max(files, key=lambda f: (f.stat().st_mtime_ns, f.name), default=None)


def _name(mark: str, seeds: str, caps: Caps) -> str:
    """The name of the file for a graph, seeds and caps."""
    told = hashlib.sha256(f"{FORMAT}\0{mark}\0{seeds}\0{json.dumps(asdict(caps))}".encode()).hexdigest()
    return f"{mark[:16]}-{told[:16]}.sqlite"


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


def index_seeds(
    path: str,
    source: str,
    kg: KnowledgeGraph,
    caps: Caps | None = None,
    tell: Tell | None = None,
    encoder: Encoder | None = None,
    again: bool = False,
) -> IndexReport:
    """Mine seed questions and keep what they give for the graph.

    What was broken off goes on; what is there already is only counted.

    Args:
        path: seed files joined by commas. source: what the graph was opened by. kg: the graph.
        caps: how far mining goes. tell: called with stage, done, total. again: mine all anew.
        encoder: compares words with relations for conditions beyond chains; None for the embedded one.

    Raises:
        ConfigurationError: nowhere to keep it, or another process is at it.
        DataError: a seed file that cannot be used, a full disk. KGUnavailableError: nobody answers.
    """
    start, caps, encoder = time.perf_counter(), caps or Caps(), encoder or open_encoder()
    place = next((p for p in _places(kg) if _is_writable(p)), None)
    if place is None:
        raise ConfigurationError(f"there is no folder to keep the seeds of {kg.name} in")
    groups = grouped(chain.from_iterable(read_seeds(f) for f in seed_files(path)), path)
    mark = kg_mark(source, kg)
    final = place / _name(mark, seeds_mark(path), caps)
    if final.is_file() and not again:
        with closing(KeptSeeds(final)) as kept:
            return _report(final, groups, kept, _mined_count(kept), 0, start)
    partial = final.with_suffix(".partial")
    if again:
        partial.unlink(missing_ok=True)
    about = {"kg": mark, "source": source, "seeds": path, "caps": json.dumps(asdict(caps))}
    with _writing(partial) as writer:
        writer.begin(groups, about)
        before, timeouts = writer.mine(Miner(kg, caps, writer, encoder), groups, tell)
        writer.finish()
    with closing(KeptSeeds(partial)) as kept:
        report = _report(final, groups, kept, before, timeouts, start)
    os.replace(partial, final)
    _forget(place, mark, kg)
    return report


def _is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which need not be there yet."""
    there = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    return there.is_dir() and os.access(there, os.W_OK)


def _forget(place: Path, mark: str, kg: KnowledgeGraph) -> None:
    """Remove what was kept for an earlier state of a graph, in a folder that is this graph's alone."""
    homes: Sequence[Path] = getattr(kg, "homes", ())
    if not any(place.parent == home and is_store(home) for home in homes):
        return
    for old in [*place.glob("*.sqlite"), *place.glob("*.partial")]:
        if not old.name.startswith(mark[:16]):
            old.unlink(missing_ok=True)


class _Writer:
    """The file while it is made."""

    def __init__(self, db: sqlite3.Connection) -> None:
        self._db = db
        self._saved = time.monotonic()

    def begin(self, groups: Mapping[str, Sequence[Seed]], about: Mapping[str, str]) -> None:
        """Write the seeds, all or none."""
        if self._db.execute("SELECT COUNT(*) FROM about").fetchone()[0]:
            return
        rows = (
            (text, s.question, json.dumps(s.topics), json.dumps(s.answers))
            for text, seeds in groups.items()
            for s in seeds
        )
        self._db.executemany("INSERT INTO seeds VALUES (?, ?, ?, ?)", rows)
        self._db.execute("CREATE INDEX IF NOT EXISTS by_text ON seeds (text)")
        self._db.executemany("INSERT INTO about VALUES (?, ?)", about.items())
        self._db.commit()

    def mine(self, miner: Miner, groups: Mapping[str, Sequence[Seed]], tell: Tell | None) -> tuple[int, int]:
        """Mine what is not there; how many seeds were, and how many queries were not answered in time."""
        chosen = [s for seeds in groups.values() for s in miner.choose(seeds)]
        before = timeouts = 0
        for number, seed in enumerate(chosen):
            if tell is not None:
                tell("mining seed questions", number, len(chosen))
            if self.find(seed) is not None:
                before += 1
                continue
            with metered() as meter:
                found = miner.of_seed(seed)
            if meter.outcomes.get(Outcome.UNAVAILABLE):
                raise KGUnavailableError("the graph does not answer; run the same command again to go on")
            timeouts += meter.outcomes.get(Outcome.TIMEOUT, 0)
            self._keep(seed, found)
        return before, timeouts

    def find(self, seed: Seed) -> Mined | None:
        """What a seed gave, None if it was not mined yet."""
        row = self._db.execute("SELECT found FROM mined WHERE digest = ?", (_digest(seed),)).fetchone()
        return None if row is None else _read_mined(row[0])

    def finish(self) -> None:
        """Say that all is there."""
        self._db.execute("INSERT OR REPLACE INTO about VALUES ('finished', ?)", (time.strftime("%FT%TZ"),))

    def _keep(self, seed: Seed, found: Mined) -> None:
        self._db.execute("INSERT OR REPLACE INTO mined VALUES (?, ?)", (_digest(seed), _write_mined(found)))
        if time.monotonic() - self._saved > COMMIT_SECONDS:
            self._db.commit()
            self._saved = time.monotonic()


@contextmanager
def _writing(path: Path) -> Iterator[_Writer]:
    """The file, for this process alone; what is done is kept however it ends."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(path, timeout=0.0)) as db:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
            db.executescript(_TABLES)
            try:
                yield _Writer(db)
            finally:
                with suppress(sqlite3.Error):
                    db.commit()
    except sqlite3.OperationalError as error:
        if "locked" in str(error):
            raise ConfigurationError(f"another process indexes these seeds now ({path})") from error
        raise DataError(f"cannot be written: {error}", path) from error
    except (sqlite3.DatabaseError, OSError) as error:
        raise DataError(f"cannot be used: {error}; remove it and index the seeds again", path) from error


def _report(
    path: Path,
    groups: Mapping[str, Sequence[Seed]],
    kept: KeptSeeds,
    before: int,
    timeouts: int,
    start: float,
) -> IndexReport:
    """What is in the file now."""
    found = [_read_mined(row[0]) for row in kept._rows("SELECT found FROM mined")]
    return IndexReport(
        path,
        seeds=sum(map(len, groups.values())),
        groups=len(groups),
        mined=len(found),
        before=before,
        empty=sum(not f for f in found),
        bodies=len({body for f in found for body in f}),
        timeouts=timeouts,
        seconds=time.perf_counter() - start,
    )


def _mined_count(kept: KeptSeeds) -> int:
    """Seeds that were mined."""
    return int(kept._rows("SELECT COUNT(*) FROM mined")[0][0])


def _digest(seed: Seed) -> bytes:
    """What a seed is found by."""
    return hashlib.sha256(json.dumps([seed.question, seed.topics, seed.answers]).encode()).digest()[:16]


def _write_mined(found: Mined) -> str:
    """What a seed gave, as JSON."""
    rows = [[b, q.precision, q.recall, q.returns, q.condition, q.other] for b, q in found.items()]
    return json.dumps(rows)


def _read_mined(text: str) -> Mined:
    """What a seed gave, out of JSON."""
    return {
        _signature(body): Quality(precision, recall, returns, condition, _signature(other))
        for body, precision, recall, returns, condition, other in json.loads(text)
    }


def _signature(body: Sequence[Sequence[object]]) -> Signature:
    """A body out of JSON."""
    return tuple((str(relation), bool(forward)) for relation, forward in body)
