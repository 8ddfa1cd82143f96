"""Seed questions mined ahead, and written so that a kill costs a second and no reader sees half of it."""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from triplewise.tools.core.errors import ConfigurationError, DataError, KGUnavailableError
from triplewise.tools.kg.load import is_store
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, metered
from triplewise.tools.planning.mining import Caps, Miner
from triplewise.tools.planning.seed_index import (
    KeptSeeds,
    Tell,
    digest,
    kg_mark,
    name_of,
    places,
    prefix_of,
    read_all,
    read_mined,
    seeds_mark,
    write_mined,
)
from triplewise.tools.planning.seeds import Mined, Seed, grouped
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

COMMIT_SECONDS = 1.0
"""What a kill can cost."""

_TABLES = """
CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE IF NOT EXISTS seeds (text TEXT, question TEXT, topics TEXT, answers TEXT, ids TEXT);
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
    place = next((p for p in places(kg) if _is_writable(p)), None)
    if place is None:
        raise ConfigurationError(f"there is no folder to keep the seeds of {kg.name} in")
    groups = grouped(read_all(path, kg), path)
    mark = kg_mark(source, kg)
    final = place / name_of(mark, seeds_mark(path), caps)
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
        if not old.name.startswith(prefix_of(mark)):
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
            (text, s.question, *(json.dumps(part) for part in (s.topics, s.answers, s.ids)))
            for text, seeds in groups.items()
            for s in seeds
        )
        self._db.executemany("INSERT INTO seeds VALUES (?, ?, ?, ?, ?)", rows)
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
            with metered(miner.kg) as meter:
                found = miner.of_seed(seed)
            if meter.outcomes.get(Outcome.UNAVAILABLE):
                raise KGUnavailableError("the graph does not answer; run the same command again to go on")
            timeouts += meter.outcomes.get(Outcome.TIMEOUT, 0)
            self._keep(seed, found)
        return before, timeouts

    def find(self, seed: Seed) -> Mined | None:
        """What a seed gave, None if it was not mined yet."""
        row = self._db.execute("SELECT found FROM mined WHERE digest = ?", (digest(seed),)).fetchone()
        return None if row is None else read_mined(row[0])

    def finish(self) -> None:
        """Say that all is there."""
        self._db.execute("INSERT OR REPLACE INTO about VALUES ('finished', ?)", (time.strftime("%FT%TZ"),))

    def _keep(self, seed: Seed, found: Mined) -> None:
        self._db.execute("INSERT OR REPLACE INTO mined VALUES (?, ?)", (digest(seed), write_mined(found)))
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
    found = [read_mined(row[0]) for row in kept.rows("SELECT found FROM mined")]
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
    return int(kept.rows("SELECT COUNT(*) FROM mined")[0][0])
