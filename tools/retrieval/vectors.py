"""One vector per text, kept beside the KG, so that nothing is embedded twice across questions and processes.

Vectors are found by a digest of their text, in two files that any number of processes share: `.rows` has the
vectors, `.digests` the digest of each row's text. Both only ever grow, a row is written before its digest,
and a row that is no unit vector is made again: so a kill or a power cut costs an embedding, never a wrong
vector. The files are named by the encoder, so that those of two encoders never mix. Only texts of a KG or of
documents belong here: those of people are embedded by the encoder itself and leave no trace on disk.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from threading import Lock, RLock
from weakref import WeakKeyDictionary

import numpy as np
from filelock import FileLock

from triplewise.tools.core.files import is_writable
from triplewise.tools.kg.protocol import KnowledgeGraph, batches, origin_of
from triplewise.tools.retrieval.encoder import EMBEDDED, WEIGHTS_SHA256, Encoder

FOLDER = "vectors"
"""Where a KG's folder keeps them."""
CHUNK = 4096
"""Texts embedded between two writes of `add`: what a kill can cost."""
FORMAT = 2
"""Of the files; part of their name."""

_DIGEST, _NUMBER = np.dtype("<u8"), np.dtype("<f4")
_UNIT = 0.01
"""Largest distance of a sound vector's squared length from 1."""
_log = logging.getLogger(__name__)


class VectorStore:
    """Unit vectors of texts by one encoder, each embedded once. Safe to use from many threads.

    Without a folder, or where it cannot be written, new vectors are only what the encoder itself remembers.

    Attributes:
        encoder: makes the vectors. path: the file with the rows; None for a store without a folder.
    """

    def __init__(self, encoder: Encoder, folder: Path | None = None) -> None:
        self.encoder, self.dimension = encoder, encoder.dimension
        self.path = None if folder is None else folder / f"{_file_stem(encoder)}.rows"
        self._is_writable = folder is not None
        self._lock = RLock()
        self._digests = np.empty(0, _DIGEST)
        self._order = np.empty(0, np.int64)
        self._rows: np.ndarray = np.empty((0, self.dimension), _NUMBER)
        self._refresh()

    def __len__(self) -> int:
        """Rows known to this process."""
        return len(self._digests)

    def vectors(self, texts: Sequence[str], encoder: Encoder | None = None) -> np.ndarray:
        """Return vectors of texts, float32 of shape (n, dimension), in the order given; embeds the new ones.

        `encoder`: a session of the store's own encoder, where one run counts what embedding costs.
        """
        if isinstance(texts, str):
            raise TypeError("vectors takes a list of texts, not one text")
        rows = self.find(texts)
        vectors = np.empty((len(texts), self.dimension), _NUMBER)
        vectors[rows >= 0] = self.at(rows[rows >= 0])
        missing = [text for text, row in zip(texts, rows.tolist(), strict=True) if row < 0]
        if missing:
            # Texts of like length share a batch, so that little is computed on padding.
            distinct = sorted(set(missing), key=len)
            encoded = np.asarray((encoder or self.encoder).encode(distinct), _NUMBER)
            self._append(_digests(distinct), encoded)
            of_text = dict(zip(distinct, encoded, strict=True))
            vectors[rows < 0] = [of_text[text] for text in missing]
        return vectors

    def find(self, texts: Sequence[str]) -> np.ndarray:
        """Return row numbers of the texts that are kept, -1 for the others, int64 of shape (n,)."""
        digests = _digests(texts)
        with self._lock:
            rows = self._look_up(digests)
            return self._look_up(digests) if (rows < 0).any() and self._refresh() else rows

    def at(self, rows: np.ndarray) -> np.ndarray:
        """Return the vectors of rows, float32 of shape (n, dimension)."""
        return np.asarray(self._rows[rows])

    def add(self, texts: Iterable[str], progress: Callable[[int], None] | None = None) -> int:
        """Embed the new ones of many texts, some thousand at a time; returns how many were new.

        Each portion is written before the next begins: what is killed goes on where it was.

        Args:
            texts: any number of them, read as they are needed.
            progress: called with the number of texts done so far.
        """
        before, done = len(self), 0
        for portion in batches(texts, CHUNK):
            self.vectors(portion)
            done += len(portion)
            if progress is not None:
                progress(done)
        return len(self) - before

    def _look_up(self, digests: np.ndarray) -> np.ndarray:
        """Return the row of each digest, -1 for those without a sound one."""
        if not len(self._digests):
            return np.full(len(digests), -1, np.int64)
        # The last one of equal digests is the newest: it replaced a row that was damaged.
        nearest = self._order[np.searchsorted(self._digests, digests, "right", sorter=self._order) - 1]
        places = np.flatnonzero(self._digests[nearest] == digests)
        vectors = self._rows[nearest[places]]
        places = places[np.abs(np.einsum("ij,ij->i", vectors, vectors) - 1) < _UNIT]
        rows = np.full(len(digests), -1, np.int64)
        rows[places] = nearest[places]
        return rows

    def _refresh(self) -> bool:
        """Take in what has been appended to the files; return whether there was anything."""
        if self.path is None:
            return False
        with self._lock:
            try:
                count = min(self._counts(self.path))
                if count <= len(self._digests):
                    return False
                self._digests = np.fromfile(self.path.with_suffix(".digests"), _DIGEST, count)
                self._rows = np.memmap(self.path, _NUMBER, "r", shape=(count, self.dimension))
            except OSError:  # not there yet
                return False
            self._order = np.argsort(self._digests, kind="stable")
            return True

    def _counts(self, path: Path) -> tuple[int, int]:
        """Return how many whole rows and digests the files have."""
        digests = path.with_suffix(".digests").stat().st_size // _DIGEST.itemsize
        return path.stat().st_size // (self.dimension * _NUMBER.itemsize), digests

    def _append(self, digests: np.ndarray, vectors: np.ndarray) -> None:
        """Append new vectors to the files, while no other process does."""
        if self.path is None or not self._is_writable:
            return
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with (
                self._lock,
                FileLock(self.path.with_suffix(".lock")),
                self.path.open("ab") as row_file,
                self.path.with_suffix(".digests").open("ab") as digest_file,
            ):
                # What a dead writer left behind the last whole row and digest goes first.
                count = min(self._counts(self.path))
                row_file.truncate(count * self.dimension * _NUMBER.itemsize)
                digest_file.truncate(count * _DIGEST.itemsize)
                self._refresh()
                new = self._look_up(digests) < 0  # others may have embedded the same texts meanwhile
                row_file.write(np.ascontiguousarray(vectors[new]).tobytes())
                row_file.flush()
                digest_file.write(digests[new].tobytes())
            self._refresh()
        except OSError as error:
            self._is_writable = False
            reason = error.strerror or error
            _log.warning("vectors cannot be kept in %s (%s): they are made again", self.path.parent, reason)


def _file_stem(encoder: Encoder) -> str:
    """Return how the names of an encoder's files begin; they change with its weights."""
    folder = Path(encoder.name)
    version = encoder.name
    if encoder.name == EMBEDDED:
        version = WEIGHTS_SHA256
    elif folder.is_dir():
        facts = ((f.name, f.stat()) for f in sorted(folder.iterdir()) if f.is_file())
        lines = [str(folder.resolve()), *(f"{n} {s.st_size} {s.st_mtime_ns}" for n, s in facts)]
        version = "\n".join(lines)
    about = {"encoder": encoder.name, "version": version, "dimension": encoder.dimension}
    fingerprint = hashlib.sha256(json.dumps([FORMAT, about]).encode()).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9]+", "-", folder.name).strip("-")[:40] or "encoder"
    return f"{name}-{encoder.dimension}-{fingerprint}"


def _digests(texts: Sequence[str]) -> np.ndarray:
    """Return 64-bit digests, uint64 of shape (n,)."""
    digest = hashlib.blake2b
    parts = [digest(t.encode("utf-8", "surrogatepass"), digest_size=8).digest() for t in texts]
    return np.frombuffer(b"".join(parts), _DIGEST)


_stores: WeakKeyDictionary[KnowledgeGraph, dict[int, VectorStore]] = WeakKeyDictionary()
_opening = Lock()


def vectors_of(kg: KnowledgeGraph, encoder: Encoder) -> VectorStore:
    """Return the vectors of a KG's texts by an encoder: opened once per process, shared by all questions.

    They lie in the first of the KG's cache folders that can be written.
    """
    kg, encoder = origin_of(kg), getattr(encoder, "shared", encoder)
    with _opening:
        stores = _stores.setdefault(kg, {})
        if id(encoder) not in stores:  # the store holds its encoder, so the id stays its own
            folders = (cache / FOLDER for cache in kg.cache_dirs)
            stores[id(encoder)] = VectorStore(encoder, next(filter(is_writable, folders), None))
        return stores[id(encoder)]
