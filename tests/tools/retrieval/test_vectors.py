"""The vector store: the encoder's own vectors, each made once, whatever happens to who writes them."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.support.opened import close_all
from triplewise.tools.kg import open_kg
from triplewise.tools.retrieval import encoder as encoder_module
from triplewise.tools.retrieval.encoder import Encoder, VectorStore, vectors_of

ROOT = Path(__file__).parents[3]


class Hashing(Encoder):
    """Unit vectors that depend on nothing but the text, and a count of the texts embedded."""

    def __init__(self, name: str = "hashing", dimension: int = 24) -> None:
        super().__init__(name, dimension)
        self.seen: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        self.seen += texts
        rows = [self.one(t) for t in texts]
        return np.stack(rows) if rows else np.empty((0, self.dimension), np.float32)

    def one(self, text: str) -> np.ndarray:
        seed = np.frombuffer(text.encode("utf-8", "surrogatepass") + b"seed", np.uint8)
        vector = np.random.default_rng(seed.tolist()).standard_normal(self.dimension)
        return np.asarray(vector / np.linalg.norm(vector), np.float32)


def right(encoder: Hashing, texts: Sequence[str], vectors: np.ndarray) -> bool:
    """Whether vectors are those of the texts."""
    expected = np.stack([encoder.one(t) for t in texts]) if texts else vectors
    return vectors.dtype == np.float32 and np.array_equal(vectors, expected)


TEXTS = st.lists(st.text(max_size=12), max_size=20)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_vectors_are_the_encoders_own_each_made_once(
    tmp_path_factory: pytest.TempPathFactory, asked: list[list[str]]
) -> None:
    encoder, folder = Hashing(), tmp_path_factory.mktemp("store")
    store = VectorStore(encoder, folder)
    for texts in asked:
        vectors = store.vectors(texts)
        assert vectors.shape == (len(texts), encoder.dimension)
        assert right(encoder, texts, vectors)
    distinct = {t for texts in asked for t in texts}
    assert sorted(encoder.seen) == sorted(distinct)
    other = Hashing()
    again = VectorStore(other, folder).vectors(sorted(distinct))
    assert np.array_equal(again, store.vectors(sorted(distinct)))
    assert not other.seen


def test_encoders_do_not_mix(tmp_path: Path) -> None:
    one, two, three = Hashing("one"), Hashing("two"), Hashing("one", 32)
    stores = [VectorStore(e, tmp_path) for e in (one, two, three)]
    assert [s.vectors(["a"]).shape[1] for s in stores] == [24, 24, 32]
    assert len({s.path for s in stores}) == 3
    assert all(e.seen == ["a"] for e in (one, two, three))


def test_many_threads_embed_rightly(tmp_path: Path) -> None:
    encoder = Hashing()
    store = VectorStore(encoder, tmp_path)
    portions = [[f"t{(i + j) % 60}" for j in range(9)] for i in range(120)]
    with ThreadPoolExecutor(8) as pool:
        for texts, vectors in zip(portions, pool.map(store.vectors, portions), strict=True):
            assert right(encoder, texts, vectors)
    assert store.find([f"t{i}" for i in range(60)])[0].all()


def test_a_locked_file_is_not_waited_for_long_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(encoder_module, "WAIT", 0.1)
    encoder = Hashing()
    before = VectorStore(encoder, tmp_path)
    before.vectors(["a"])
    with closing(sqlite3.connect(tmp_path / before.path.name, isolation_level=None)) as other:  # type: ignore[union-attr]
        other.execute("BEGIN IMMEDIATE")
        assert right(encoder, ["a", "b"], before.vectors(["a", "b"]))
        assert right(encoder, ["c"], VectorStore(encoder, tmp_path).vectors(["c"]))
    assert caplog.text.count("cannot be kept") == 2


def test_vectors_of_very_many_texts_are_announced(caplog: pytest.LogCaptureFixture) -> None:
    VectorStore(Hashing()).vectors([f"t{i}" for i in range(encoder_module.MANY + 1)])
    assert "making vectors of 5001 texts" in caplog.text


WRITER = """
import sys, numpy as np
from pathlib import Path
from tests.tools.retrieval.test_vectors import Hashing
from triplewise.tools.retrieval.encoder import VectorStore
folder, first, last = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
store = VectorStore(Hashing(), folder)
print("ready", flush=True)
for i in range(first, last):
    store.vectors([f"text {i}", f"text {i + 1}", f"own {first} {i}"])
"""


@pytest.fixture
def writers(tmp_path: Path) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that write to one store; killed at the end if they are still there."""
    started: list[subprocess.Popen[str]] = []
    yield started
    for process in started:
        process.kill()
        process.communicate()


def _start(folder: Path, first: int, last: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(folder), str(first), str(last)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def test_two_processes_write_at_once(tmp_path: Path, writers: list[subprocess.Popen[str]]) -> None:
    writers += [_start(tmp_path, 0, 150), _start(tmp_path, 50, 200)]
    assert [w.wait(60) for w in writers] == [0, 0]
    encoder = Hashing()
    texts = [f"text {i}" for i in range(201)] + [f"own {a} {i}" for a in (0, 50) for i in range(a, a + 150)]
    assert right(encoder, texts, VectorStore(encoder, tmp_path).vectors(texts))
    assert not encoder.seen


def test_a_kill_in_the_middle_of_writing_leaves_only_whole_rows(
    tmp_path: Path, writers: list[subprocess.Popen[str]]
) -> None:
    rng = np.random.default_rng(7)
    for round_ in range(4):
        process = _start(tmp_path, 1000 * round_, 10**9)
        writers.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(float(rng.uniform(0.02, 0.1)))
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        encoder = Hashing()
        texts = [f"text {i}" for i in range(1000 * round_, 1000 * round_ + 5)]
        assert right(encoder, texts, VectorStore(encoder, tmp_path).vectors(texts))


def test_files_that_cannot_be_written_are_still_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    VectorStore(Hashing(), tmp_path).vectors(["a", "b"])
    encoder = Hashing()
    store = VectorStore(encoder, tmp_path)
    assert store._database is not None
    store._database.execute("PRAGMA query_only = ON")
    for _ in range(2):
        assert right(encoder, ["c", "b", "a"], store.vectors(["c", "b", "a"]))
    assert encoder.seen == ["c", "c"]
    assert [r.levelname for r in caplog.records] == ["WARNING"]


def test_a_kg_keeps_its_vectors_in_its_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    file = tmp_path / "facts.txt"
    file.write_text("a|likes|b\n")
    encoder = Hashing()
    store = vectors_of(open_kg(file), encoder)
    store.vectors(["likes"])
    assert store.path is not None
    assert tmp_path in store.path.parents
    assert vectors_of(open_kg(file), encoder) is store
    close_all()
    assert vectors_of(open_kg(file), encoder) is not store
    vectors_of(open_kg(file), encoder).vectors(["likes"])
    assert encoder.seen == ["likes"]
