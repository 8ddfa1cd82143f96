"""The files of a vector store: rows of half-precision floats, and a key for each row.

Both files only ever grow. A row is written before its key, so that a reader, who believes the keys, never
sees a row that is not there; and a key carries a checksum of its row, so that whatever else happens to the
files (a kill, a power cut, a system without locks) costs an embedding, never a wrong vector.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

import numpy as np

FORMAT = 1
KEY = np.dtype([("high", "<u8"), ("low", "<u8"), ("check", "<u8")])
"""A text's 128-bit digest in two halves, and the checksum of its row."""
ROW = np.dtype("<f2")
"""What a component is kept as: half precision moves a cosine by less than 0.0005."""


def checksums(rows: np.ndarray) -> np.ndarray:
    """One number per row, uint64 of shape (n,), from its bits and where they stand."""
    word = "<u8" if rows.shape[1] * ROW.itemsize % 8 == 0 else "<u2"
    bits = np.ascontiguousarray(rows, ROW).view(word).astype(np.uint64, copy=False)
    weights = np.arange(1, 2 * bits.shape[1], 2, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(bits @ weights, np.uint64)


def widened(rows: np.ndarray) -> np.ndarray:
    """Rows of finite half-precision numbers as float32 of the same shape, exactly.

    By their bits: NumPy's own conversion goes number by number, at a quarter of the speed.
    """
    bits = np.ascontiguousarray(rows, ROW).view("<u2").astype(np.uint32)
    signs = bits & 0x8000
    bits &= 0x7FFF
    bits <<= 13
    bits |= signs << 16
    # The exponent still counts from half precision's 15 instead of single precision's 127.
    numbers = bits.view(np.float32)
    numbers *= np.float32(2.0**112)
    return numbers


class VectorFiles:
    """Two files in a folder, safe for several processes: any may append, one at a time.

    Args:
        stem: path of the files without their suffix. The folder is made when something is first written.
        dimension: numbers in a row.
        about: what the vectors are, written beside them for people.
    """

    def __init__(self, stem: Path, dimension: int, about: dict[str, object]) -> None:
        self.keys_path = stem.with_name(f"{stem.name}.keys")
        self.rows_path = stem.with_name(f"{stem.name}.rows")
        self._about_path = stem.with_name(f"{stem.name}.json")
        self._about = {"format": FORMAT, "dimension": dimension, "type": ROW.name, **about}
        self.dimension = dimension
        self._row_bytes = ROW.itemsize * dimension

    def count(self) -> int:
        """Rows that can be read now."""
        return min(_size(self.keys_path) // KEY.itemsize, _size(self.rows_path) // self._row_bytes)

    def keys(self, start: int, end: int) -> np.ndarray:
        """The keys of rows `start` to `end`, structured array."""
        with self.keys_path.open("rb") as file:
            file.seek(start * KEY.itemsize)
            return np.frombuffer(file.read((end - start) * KEY.itemsize), KEY)

    def rows(self, count: int) -> np.ndarray:
        """The first `count` rows, mapped: float16 of shape (count, dimension)."""
        if not count:
            return np.empty((0, self.dimension), ROW)
        return np.memmap(self.rows_path, ROW, "r", shape=(count, self.dimension))

    def append(self, choose: Callable[[int], tuple[np.ndarray, np.ndarray]]) -> int:
        """Append rows while no other process does; returns how many rows there are then.

        Args:
            choose: called with the count of rows once nobody else can add any; gives the digests, uint64 of
                shape (n, 2), and the rows, float16 of shape (n, dimension), that are still to be added.

        Raises:
            OSError: the files cannot be written.
        """
        self.keys_path.parent.mkdir(parents=True, exist_ok=True)
        with self._alone() as (keys, rows):
            # What a dead writer left behind the last whole row and key goes first.
            count = min(_end(keys) // KEY.itemsize, _end(rows) // self._row_bytes)
            keys.truncate(count * KEY.itemsize)
            rows.truncate(count * self._row_bytes)
            digests, fresh = choose(count)
            if len(fresh):
                fresh = np.ascontiguousarray(fresh, ROW)
                records = np.empty(len(fresh), KEY)
                records["high"], records["low"] = digests[:, 0], digests[:, 1]
                records["check"] = checksums(fresh)
                _write(rows, count * self._row_bytes, fresh.tobytes())
                _write(keys, count * KEY.itemsize, records.tobytes())
            return count + len(fresh)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[tuple[IO[bytes], IO[bytes]]]:
        """Both files, open to write, while no other process holds them; the lock ends with the process."""
        with _opened(self.keys_path) as keys, _opened(self.rows_path) as rows:
            _lock(keys.fileno())
            if not self._about_path.exists():
                self._about_path.write_text(json.dumps(self._about, indent=2) + "\n", encoding="utf-8")
            yield keys, rows


def _opened(path: Path) -> IO[bytes]:
    """A file to read and write, made if it is not there; never emptied, and without a buffer of ours."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b", buffering=0)


def _write(file: IO[bytes], at: int, data: bytes) -> None:
    """Write all of the data: a single write may take less."""
    file.seek(at)
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _end(file: IO[bytes]) -> int:
    return os.fstat(file.fileno()).st_size


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _lock(descriptor: int) -> None:
    """Wait for the lock of an open file. Where there are no locks, checksums find what collided."""
    try:
        import fcntl
    except ImportError:
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
