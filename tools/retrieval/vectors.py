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
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from threading import Lock, RLock
from typing import IO
from weakref import WeakKeyDictionary

import numpy as np

from triplewise.tools.kg.protocol import KnowledgeGraph, origin_of
from triplewise.tools.retrieval.encoder import EMBEDDED, WEIGHTS_SHA256, Encoder

FOLDER = "vectors"
"""Where a KG's folder keeps them."""
CHUNK = 4096
"""Texts embedded between two writes of `add`: what a kill can cost."""
FORMAT = 2
"""Of the files; part of their name."""

_DIGEST, _NUMBER = np.dtype("<u8"), np.dtype("<f4")
_UNIT = 0.01
"""Largest distance of a sound vector's length from 1."""
_log = logging.getLogger(__name__)


class VectorStore:
    """Unit vectors of texts by one encoder, each embedded once. Safe to use from many threads.

    Where the files cannot be written, new vectors last as long as the process.

    Args:
        encoder: makes the vectors.
        folder: where they are kept, made when first written; None for memory alone.
    """

    def __init__(self, encoder: Encoder, folder: Path | None = None) -> None:
        self.encoder, self.dimension = encoder, encoder.dimension
        self._files = None if folder is None else _Files(folder, encoder)
        self._lock = RLock()
        self._digests = np.empty(0, _DIGEST)
        self._sound = np.empty(0, bool)
        self._order = np.empty(0, np.int64)
        self._mapped = np.empty((0, self.dimension), _NUMBER)
        self._own = np.empty((0, self.dimension), _NUMBER)
        self._read()

    @property
    def path(self) -> Path | None:
        """The file with the vectors; None while they are in memory alone."""
        return self._files.rows if self._files is not None else None

    def __len__(self) -> int:
        """Rows known to this process."""
        return len(self._digests)

    def vectors(self, texts: Sequence[str], encoder: Encoder | None = None) -> np.ndarray:
        """Vectors of the texts, float32 of shape (n, dimension), in the order given; embeds the new ones.

        `encoder`: a session of the store's own encoder, where one run counts what embedding costs.
        """
        if isinstance(texts, str):
            raise TypeError("vectors takes a list of texts, not one text")
        rows = self.find(texts)
        if (rows >= 0).all():
            return self.at(rows)
        missing = [text for text, row in zip(texts, rows.tolist(), strict=True) if row < 0]
        # Texts of like length share a batch, so that little is computed on padding.
        fresh = sorted(set(missing), key=len)
        encoded = np.asarray((encoder or self.encoder).encode(fresh), _NUMBER)
        self._keep(_digests(fresh), encoded)
        of_text = dict(zip(fresh, encoded, strict=True))
        vectors = np.empty((len(texts), self.dimension), _NUMBER)
        vectors[rows >= 0] = self.at(rows[rows >= 0])
        vectors[rows < 0] = [of_text[text] for text in missing]
        return vectors

    def find(self, texts: Sequence[str]) -> np.ndarray:
        """Row numbers of the texts that are kept, -1 for the others, int64 of shape (n,); embeds nothing."""
        digests = _digests(texts)
        with self._lock:
            rows = self._known(digests)
            if (rows < 0).any() and self._read():
                rows = self._known(digests)
            return rows

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of rows, float32 of shape (n, dimension)."""
        with self._lock:
            mapped, own = self._mapped, self._own
        vectors = np.empty((len(rows), self.dimension), _NUMBER)
        inside = rows < len(mapped)
        vectors[inside], vectors[~inside] = mapped[rows[inside]], own[rows[~inside] - len(mapped)]
        return vectors

    def add(self, texts: Iterable[str], progress: Callable[[int], None] | None = None) -> int:
        """Embed the new ones of many texts, some thousand at a time; returns how many were new.

        Each portion is written before the next begins: what is killed goes on where it was.

        Args:
            texts: any number of them, read as they are needed.
            progress: called with the number of texts done so far.
        """
        before, done, source = len(self), 0, iter(texts)
        while portion := list(islice(source, CHUNK)):
            self.vectors(portion)
            done += len(portion)
            if progress is not None:
                progress(done)
        return len(self) - before

    def _known(self, digests: np.ndarray) -> np.ndarray:
        """Row of each digest, -1 for those without a sound one."""
        rows = np.full(len(digests), -1, np.int64)
        if not len(self._digests):
            return rows
        if len(self._order) != len(self._digests):
            self._order = np.argsort(self._digests, kind="stable")
        # The last one of equal digests is the newest: it replaced a row that was found damaged.
        last = np.searchsorted(self._digests, digests, "right", sorter=self._order) - 1
        nearest = self._order[last]
        hit = self._digests[nearest] == digests
        unchecked = np.unique(nearest[hit & ~self._sound[nearest]])
        if len(unchecked):
            vectors = self.at(unchecked)
            lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors))
            self._sound[unchecked] = np.abs(lengths - 1) < _UNIT
        hit &= self._sound[nearest]
        rows[hit] = nearest[hit]
        return rows

    def _take(self, digests: np.ndarray) -> None:
        self._digests = np.concatenate([self._digests, digests])
        self._sound = np.concatenate([self._sound, np.zeros(len(digests), bool)])

    def _read(self) -> bool:
        """Take in what has been appended to the files; whether there was anything."""
        if self._files is None or len(self._own):
            return False
        count, known = self._files.count(), len(self._digests)
        if count <= known:
            return False
        try:
            digests, self._mapped = self._files.read(known, count)
        except OSError as error:
            self._detach(error)
            return False
        self._take(digests)
        return True

    def _keep(self, digests: np.ndarray, vectors: np.ndarray) -> None:
        """Keep new vectors, in the files where these can be written."""
        with self._lock:
            if self._files is not None and not len(self._own):
                try:
                    with self._files.alone() as append:
                        # Other processes may have embedded the same texts meanwhile.
                        self._read()
                        new = self._known(digests) < 0
                        append(digests[new], vectors[new])
                    self._read()
                    return
                except OSError as error:
                    self._detach(error)
            new = self._known(digests) < 0
            self._own = np.concatenate([self._own, vectors[new]])
            self._take(digests[new])

    def _detach(self, error: OSError) -> None:
        """From now on new vectors stay in memory."""
        if self._files is not None:
            _log.warning("vectors cannot be kept in %s (%s): the next process makes them again",
                         self._files.rows.parent, error.strerror or error)  # fmt: skip
        self._files = None


class _Files:
    """The two files of an encoder's vectors in a folder: any process may append, one at a time."""

    def __init__(self, folder: Path, encoder: Encoder) -> None:
        self._about = {"encoder": encoder.name, "version": _version(encoder), "dimension": encoder.dimension}
        fingerprint = hashlib.sha256(json.dumps([FORMAT, self._about]).encode()).hexdigest()[:12]
        name = re.sub(r"[^A-Za-z0-9]+", "-", Path(encoder.name).name).strip("-")[:40] or "encoder"
        stem = f"{name}-{encoder.dimension}-{fingerprint}"
        self.rows, self.digests = folder / f"{stem}.rows", folder / f"{stem}.digests"
        self._width = encoder.dimension

    def count(self) -> int:
        """Rows that can be read now."""
        sizes = [path.stat().st_size if path.exists() else 0 for path in (self.rows, self.digests)]
        return self._whole(*sizes)

    def read(self, start: int, end: int) -> tuple[np.ndarray, np.ndarray]:
        """The digests of rows `start` to `end`, and all rows before `end`, mapped. Raises `OSError`."""
        count, offset = end - start, start * _DIGEST.itemsize
        digests = np.fromfile(self.digests, _DIGEST, count, offset=offset)
        return digests, np.memmap(self.rows, _NUMBER, "r", shape=(end, self._width))

    @contextmanager
    def alone(self) -> Iterator[Callable[[np.ndarray, np.ndarray], None]]:
        """Yield a function that appends digests and rows, while no other process can. Raises `OSError`."""
        self.rows.parent.mkdir(parents=True, exist_ok=True)
        with _opened(self.rows) as rows, _opened(self.digests) as digests:
            with suppress(ImportError):  # where there are no such locks, a collision costs an embedding
                import fcntl

                fcntl.flock(digests.fileno(), fcntl.LOCK_EX)  # ends with the process
            about = self.rows.with_suffix(".json")
            if not about.exists():
                about.write_text(json.dumps(self._about, indent=2) + "\n", encoding="utf-8")
            # What a dead writer left behind the last whole row and digest goes first.
            count = self._whole(*(os.fstat(file.fileno()).st_size for file in (rows, digests)))
            rows.truncate(count * self._width * _NUMBER.itemsize)
            digests.truncate(count * _DIGEST.itemsize)

            def append(new: np.ndarray, vectors: np.ndarray) -> None:
                for file, data in ((rows, vectors), (digests, new)):
                    file.seek(0, os.SEEK_END)
                    file.write(np.ascontiguousarray(data).tobytes())
                    file.flush()

            yield append

    def _whole(self, row_bytes: int, digest_bytes: int) -> int:
        return min(row_bytes // (self._width * _NUMBER.itemsize), digest_bytes // _DIGEST.itemsize)


def _opened(path: Path) -> IO[bytes]:
    """A file to read and write, made if it is not there; never emptied."""
    return os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+b")


def _version(encoder: Encoder) -> str:
    """Return what identifies the encoder's vectors: its weights, where they are known."""
    if encoder.name == EMBEDDED:
        return WEIGHTS_SHA256
    folder = Path(encoder.name)
    if not folder.is_dir():
        return encoder.name
    facts = ((f.name, f.stat()) for f in sorted(folder.iterdir()) if f.is_file())
    return "\n".join([str(folder.resolve()), *(f"{n} {s.st_size} {s.st_mtime_ns}" for n, s in facts)])


def _digests(texts: Sequence[str]) -> np.ndarray:
    """64-bit digests, uint64 of shape (n,)."""
    digest = hashlib.blake2b
    parts = [digest(t.encode("utf-8", "surrogatepass"), digest_size=8).digest() for t in texts]
    return np.frombuffer(b"".join(parts), _DIGEST)


_stores: WeakKeyDictionary[KnowledgeGraph, dict[int, VectorStore]] = WeakKeyDictionary()
_opening = Lock()


def vectors_of(kg: KnowledgeGraph, encoder: Encoder) -> VectorStore:
    """Return the vectors of a KG's texts by an encoder: opened once per process, shared by all questions.

    They lie in the first of the KG's cache folders that can be written, or in memory where it has none.
    """
    kg, encoder = origin_of(kg), getattr(encoder, "shared", encoder)
    with _opening:
        stores = _stores.setdefault(kg, {})
        if id(encoder) not in stores:  # the store holds its encoder, so the id stays its own
            folder = None
            for cache in getattr(kg, "cache_dirs", ()):
                path: Path = cache / FOLDER  # need not be there yet
                existing = next((f for f in (path, *path.parents) if f.exists()), path)
                if existing.is_dir() and os.access(existing, os.W_OK):
                    folder = path
                    break
            stores[id(encoder)] = VectorStore(encoder, folder)
        return stores[id(encoder)]
