"""The store of facts: provenance, statuses, several processes, and a killed one."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from dataclasses import replace
from pathlib import Path

import pytest

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.terms import IRI, XSD, Literal, Triple, text
from triplewise.tools.overlay.store import FactStore, default_path

EX = "http://example.org/"
FACT = ExtractedFact(
    triple=Triple(IRI(EX + "viggo"), IRI(EX + "film"), IRI(EX + "return")),
    labels={EX + "return": "The Return of the King"},
    question="who did viggo play?",
    document="Viggo Mortensen",
    source="viggo.txt",
    sentence="He starred in The Return of the King.",
    time="2026-01-02T03:04:05Z",
    reader="embedded",
    confidence=0.5,
)
YEAR = replace(
    FACT,
    triple=Triple(IRI(EX + "viggo"), IRI(EX + "born"), Literal("1958", XSD + "gYear")),
    labels={},
    sentence='Born "1958"\nin Manhattan.',
    conflicts=("born in 1959",),
    confidence=0.9,
)


@pytest.fixture
def store(tmp_path: Path) -> FactStore:
    return FactStore(tmp_path / "deep" / "facts.sqlite")


def test_facts_come_back_as_they_were(store: FactStore) -> None:
    odd = replace(FACT, triple=Triple(IRI(EX + "a"), IRI(EX + "b"), text('a "q" \\ \n\tü', "en-GB")))
    store.add([FACT, YEAR, odd])
    assert [k.fact for k in store.facts()] == [FACT, YEAR, odd]


def test_read_again_is_one_more_reading_and_keeps_the_status(store: FactStore) -> None:
    store.add([FACT])
    store.decide([FACT.id], "rejected")
    again = replace(FACT, source="other.txt", confidence=0.8)
    assert [f.status for f in store.add([again, FACT])] == ["rejected", "rejected"]
    (kept,) = store.facts()
    assert [r["source"] for r in kept.readings] == ["viggo.txt", "other.txt"]
    assert kept.fact == replace(again, status="rejected")
    assert kept.decided


def test_facts_by_status(store: FactStore) -> None:
    store.add([FACT, YEAR])
    store.decide([YEAR.id], "accepted")
    assert [k.fact.id for k in store.facts("accepted")] == [YEAR.id]
    assert [k.fact.id for k in store.facts()] == [FACT.id, YEAR.id]


def test_by_prefix_of_the_id(store: FactStore) -> None:
    store.add([FACT, YEAR])
    assert store.get(FACT.id[:5].upper()).fact == FACT
    with pytest.raises(ConfigurationError, match="no fact has an id that begins with 'zz'"):
        store.get("zz")
    with pytest.raises(ConfigurationError, match="no fact"):
        store.get("")


WRITER = """
import sys
from pathlib import Path
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.overlay.store import FactStore
from triplewise.tools.core.terms import IRI, Triple
store, name = FactStore(Path(sys.argv[1])), sys.argv[2]
print("ready", flush=True)
for n in range(int(sys.argv[3])):
    facts = [
        ExtractedFact(
            Triple(IRI(f"urn:{n}"), IRI("urn:r"), IRI(f"urn:{i}")), {}, name, "d", "s", "x", "t", "r", 1.0
        )
        for i in range(3)
    ]
    store.add(facts)
    print(n, flush=True)
"""


def _writer(path: Path, name: str, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", textwrap.dedent(WRITER), str(path), name, str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_several_processes_write_at_once(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite"
    writers = [_writer(path, f"w{i}", 20) for i in range(4)]
    for writer in writers:
        writer.communicate(timeout=60)
        assert writer.returncode == 0
    kept = FactStore(path).facts()
    assert len(kept) == 60
    assert all(len(k.readings) == 4 for k in kept)


def test_a_killed_writer_leaves_whole_transactions(tmp_path: Path) -> None:
    path = tmp_path / "facts.sqlite"
    writer = _writer(path, "killed", 100_000)
    assert writer.stdout is not None
    said = [writer.stdout.readline() for _ in range(8)]
    time.sleep(0.05)
    os.kill(writer.pid, signal.SIGKILL)
    writer.communicate(timeout=60)
    store = FactStore(path)
    kept = store.facts()
    assert len(kept) >= 3 * (len(said) - 1)
    assert len(kept) % 3 == 0
    assert all(k.readings for k in kept)
    store.add([FACT])
    assert len(store.facts()) == len(kept) + 1


def test_a_kg_has_one_file_however_its_path_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "films.ttl").write_text("")
    assert default_path("films.ttl") == default_path(str(tmp_path / "." / "films.ttl"))
    assert default_path("http://me:secret@host/sparql") == default_path("http://host/sparql")
    assert "secret" not in str(default_path("http://me:secret@host/sparql"))
    assert len({default_path(k) for k in ("demo", "films.ttl", "http://host/sparql", "http://host/2")}) == 4


@pytest.mark.parametrize("value", ["X'ff'", "'[[['", "''", "5"])
@pytest.mark.parametrize(
    "column", ["facts.id", "facts.triple", "facts.labels", "facts.status", "readings.confidence"]
)
def test_a_file_that_was_changed_by_others_is_named(store: FactStore, column: str, value: str) -> None:
    store.add([FACT])
    table, _, name = column.partition(".")
    with sqlite3.connect(store.path) as connection:
        connection.execute(f"UPDATE {table} SET {name} = {value}")
    connection.close()
    if (column, value) == ("readings.confidence", "5"):  # a number like others
        assert store.facts()[0].fact.confidence == 5
        return
    with pytest.raises(DataError, match="the facts cannot be read or written") as error:
        store.facts()
    assert str(store.path) in str(error.value)
