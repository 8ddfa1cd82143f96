"""Facts read from documents, in one SQLite file per KG, with where each was read (SymAgent 4.2.1).

Several processes may use a file at once, and one that is killed leaves it whole: a change is a transaction.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from pydantic import Json, TypeAdapter, ValidationError

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.facts import ExtractedFact, FactStatus
from triplewise.tools.core.files import make_folder, packaged
from triplewise.tools.core.taught import graph_key
from triplewise.tools.kg.rdf import read_triple

WAIT = 15.0  # seconds to wait while another process writes
_VERSION = 1
_Row = tuple[str, str, Json[dict[str, str]], Json[tuple[str, ...]], FactStatus, str, str]
_Read = tuple[str, str, str, str, str, str, str, float]
_READING = ("question", "document", "source", "sentence", "time", "reader", "confidence")


@dataclass(frozen=True, slots=True)
class StoredFact:
    """A fact of the store, as its surest reading has it; times are ISO 8601 in UTC."""

    fact: ExtractedFact
    readings: tuple[dict[str, Any], ...]  # for what, where, when, by whom, and how sure, oldest first
    added: str
    decided: str = ""  # when a person accepted or rejected it


class FactStore:
    """The facts of one KG, in a file that the first fact makes. `DataError` where it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def add(self, facts: Iterable[ExtractedFact]) -> tuple[ExtractedFact, ...]:
        """Keep facts, known ones as read once more; return them with the status that the store has."""
        if not (given := list(facts)):
            return ()
        rows, readings = [], []
        for fact in given:
            labels, conflicts = (json.dumps(v, ensure_ascii=False) for v in (fact.labels, fact.conflicts))
            rows.append((fact.id, fact.triple.n3(), labels, conflicts, fact.status, _now()))
            readings.append((fact.id, *(getattr(fact, key) for key in _READING)))
        with self._connected("IMMEDIATE") as connection:
            connection.executemany("INSERT OR IGNORE INTO facts VALUES (?, ?, ?, ?, ?, ?, '')", rows)
            connection.executemany("INSERT OR IGNORE INTO readings VALUES (?, ?, ?, ?, ?, ?, ?, ?)", readings)
            status = dict(connection.execute("SELECT id, status FROM facts"))
        return tuple(replace(fact, status=status[fact.id]) for fact in given)

    def facts(self, *wanted: FactStatus) -> list[StoredFact]:
        """Return the facts, oldest first: all, or those of some status."""
        if not self.path.exists():
            return []
        readings, stored = defaultdict[str, list[dict[str, Any]]](list), []
        with self._connected() as connection:
            rows = connection.execute("SELECT * FROM facts ORDER BY added, rowid").fetchall()
            read = connection.execute("SELECT * FROM readings ORDER BY time, rowid").fetchall()
            for fact_id, *rest in TypeAdapter(list[_Read]).validate_python(read):
                readings[fact_id].append(dict(zip(_READING, rest, strict=True)))
            for row in TypeAdapter(list[_Row]).validate_python(rows):
                fact_id, triple, labels, conflicts, status, added, decided = row
                fact = ExtractedFact(
                    triple=read_triple(triple),
                    labels=labels,
                    conflicts=conflicts,
                    status=status,
                    **max(readings[fact_id], key=lambda reading: reading["confidence"]),
                )
                stored.append(StoredFact(fact, tuple(readings[fact_id]), added, decided))
        return [known for known in stored if not wanted or known.fact.status in wanted]

    def get(self, prefix: str) -> StoredFact:
        """The fact whose id begins so. Raises `ConfigurationError` where there is none, or several."""
        prefix, facts = prefix.strip().lower(), self.facts()
        matches = [k for k in facts if prefix and k.fact.id.startswith(prefix)]
        if len(matches) == 1:
            return matches[0]
        shown = ", ".join(k.fact.id for k in (matches or facts)[:6]) or "none"
        found = f"{len(matches)} facts have" if matches else "no fact has"
        found = f"{found} an id that begins with {prefix!r} in {self.path}"
        raise ConfigurationError(f"{found}; there are: {shown}")

    def decide(self, ids: Iterable[str], status: FactStatus) -> int:
        """Accept or reject facts by full id; how many changed. Rejected ones are never proposed again."""
        update = "UPDATE facts SET status = ?1, decided = ?2 WHERE id = ?3 AND status != ?1"
        with self._connected("IMMEDIATE") as connection:
            return connection.executemany(update, [(status, _now(), fact_id) for fact_id in ids]).rowcount

    @contextmanager
    def _connected(self, kind: str = "") -> Iterator[sqlite3.Connection]:
        """A connection in a transaction. Raises `DataError` where the file cannot be used."""
        try:
            make_folder(self.path.parent)
            with closing(sqlite3.connect(self.path, timeout=WAIT, isolation_level=None)) as connection:
                if connection.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                    if {name for (name,) in tables} - {"facts", "readings"}:
                        raise sqlite3.DatabaseError("it is some other program's database")
                    schema = packaged("triplewise.tools.overlay", "store.yaml")["schema"]
                    made = f"BEGIN IMMEDIATE;{schema}PRAGMA user_version = {_VERSION};COMMIT;"
                    connection.executescript(made)
                with connection:
                    connection.execute(f"BEGIN {kind}")
                    yield connection
        except (OSError, sqlite3.Error, ValueError) as error:
            reason = error.errors()[0]["msg"] if isinstance(error, ValidationError) else error
            remedy = "name another file with --facts (setting facts)"
            raise DataError(f"the facts cannot be read or written ({reason}); {remedy}", self.path) from error


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def default_path(kg: str) -> Path:
    """The file of a KG's facts in the user's data folder: by its whole path, or its URL without a login."""
    from platformdirs import user_data_path

    identity, path = graph_key(kg), Path(kg).expanduser()
    name = path.name if path.exists() else identity
    words = re.sub(r"[^A-Za-z0-9]+", "-", name).strip("-")[:40] or "kg"
    mark = hashlib.sha256(identity.encode(errors="surrogateescape")).hexdigest()[:12]
    return user_data_path("triplewise") / "facts" / f"{words}-{mark}.sqlite"


def open_facts(kg: str, path: str | Path | None = None) -> FactStore:
    """The store of a KG's facts: a file of one's own, or the KG's in the user's data folder."""
    return FactStore(Path(path).expanduser() if path is not None else default_path(kg))


def as_json(stored: StoredFact) -> dict[str, object]:
    """A fact as plain JSON; terms as N-Triples writes them."""
    fact, dates = stored.fact, {"added": stored.added, "decided": stored.decided}
    terms = {key: getattr(fact.triple, key).n3() for key in ("subject", "relation", "object")}
    known = {key: getattr(fact, key) for key in ("labels", "status", "confidence", "conflicts")}
    return {"id": fact.id, **terms, **known, **dates, "readings": stored.readings}
