"""One vector per text, kept beside the KG, so that nothing is embedded twice across questions and processes.

Vectors are found by a digest of their text, in files that any number of processes share (see
`retrieval.vector_files`); the files are named by the encoder, so that those of two encoders never mix.
The text is all there is to the recipe: other words of a relation are another text. Only texts of a KG belong
here: those of people are embedded by the encoder itself and leave no trace on disk.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock, RLock
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import numpy as np

from triplewise.tools.kg.protocol import origin_of
from triplewise.tools.retrieval.encoder import EMBEDDED, Encoder
from triplewise.tools.retrieval.vector_files import KEY, ROW, VectorFiles, checksums, widened

if TYPE_CHECKING:
    from triplewise.tools.kg.protocol import KnowledgeGraph

FOLDER = "vectors"
"""Where a KG's folder keeps them."""
CHUNK = 4096
"""Texts embedded between two writes of `add`: what a kill can cost."""

_BLOCK = 512
"""Rows looked at together: as many as fit into a core's own memory."""
_PAIR = np.array([0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F], np.uint64)
_UNSORTED = 20_000
"""New keys kept in a dictionary before all keys are sorted anew."""
_log = logging.getLogger(__name__)


class VectorStore:
    """Unit vectors of texts by one encoder, each embedded once. Safe to use from many threads.

    Vectors are kept in half precision, also those of this process, so that a score does not depend on who
    embedded the text. Where the files cannot be written, new vectors last as long as the process.

    Args:
        encoder: makes the vectors. files: where they are kept; None for memory alone.
    """

    def __init__(self, encoder: Encoder, files: VectorFiles | None = None) -> None:
        self.encoder, self.dimension = encoder, encoder.dimension
        self._files = files
        self._lock = RLock()
        self._keys = np.empty(0, KEY)
        self._sound = np.empty(0, bool)
        self._mapped = np.empty((0, self.dimension), ROW)
        self._own = np.empty((0, self.dimension), ROW)
        self._sorted, self._order = np.empty(0, np.uint64), np.empty(0, np.int64)
        self._recent: dict[tuple[int, int], int] = {}
        self._indexed = 0
        self._read()

    @classmethod
    def open(cls, folder: Path | None, encoder: Encoder) -> VectorStore:
        """The vectors of an encoder that lie in a folder (made when first written), or in memory alone."""
        return cls(encoder, None if folder is None else _files(folder, encoder))

    @property
    def path(self) -> Path | None:
        """The file with the vectors; None while they are in memory alone."""
        return self._files.rows_path if self._files is not None else None

    def __len__(self) -> int:
        """Rows known to this process."""
        with self._lock:
            return len(self._keys)

    def vectors(self, texts: Sequence[str], encoder: Encoder | None = None) -> np.ndarray:
        """Vectors of the texts, float32 of shape (n, dimension), in the order given; embeds the new ones.

        `encoder`: a session of the store's own encoder, where one run is to be told what embedding costs.
        """
        return self.at(self.rows(texts, encoder=encoder))

    def rows(
        self, texts: Sequence[str], digests: np.ndarray | None = None, encoder: Encoder | None = None
    ) -> np.ndarray:
        """Row numbers of the texts, int64 of shape (n,), good for `at` in this process; embeds new ones.

        `digests` are what they are kept under, where that is not their own digest (see `joined`).
        """
        if isinstance(texts, str):
            raise TypeError("rows takes a list of texts, not one text")
        digests = digests_of(texts) if digests is None else digests
        rows = self.find(digests)
        if (rows < 0).any():
            self._embed(texts, digests, rows < 0, encoder or self.encoder)
            rows = self.find(digests)
        return rows

    def known(self, texts: Sequence[str]) -> np.ndarray:
        """Row numbers of the texts that are kept, -1 for the others, int64 of shape (n,); embeds nothing."""
        return self.find(digests_of(texts)) if texts else np.empty(0, np.int64)

    def at(self, rows: np.ndarray) -> np.ndarray:
        """The vectors of rows, float32 of shape (n, dimension)."""
        vectors = np.empty((len(rows), self.dimension), np.float32)
        for place in blocks(len(rows)):
            vectors[place] = widened(self._raw(rows[place]))
        return vectors

    def dots(self, rows: np.ndarray, query: np.ndarray) -> np.ndarray:
        """Dot products of the vectors of rows with one vector, float32 of shape (n,).

        Without the matrix of them all, which takes longer to fill than to multiply.
        """
        scores = np.empty(len(rows), np.float32)
        for place in blocks(len(rows)):
            scores[place] = widened(self._raw(rows[place])) @ query
        return scores

    def sound(self, rows: np.ndarray) -> bool:
        """Whether all of these rows are there and what was written."""
        with self._lock:
            return bool((rows >= 0).all() and (rows < len(self._keys)).all() and self._are_sound(rows).all())

    def on_disk(self, rows: np.ndarray) -> bool:
        """Whether other processes can read these rows too."""
        with self._lock:
            return bool((rows < len(self._mapped)).all())

    def mark(self, rows: np.ndarray) -> int:
        """A number that tells which texts rows stand for, in this order; another store's are others."""
        with self._lock:
            weights = np.arange(1, 2 * len(rows), 2, dtype=np.uint64)
            return int((self._keys["high"][rows] * weights).sum())

    def add(self, texts: Iterable[str], progress: Callable[[int], None] | None = None) -> int:
        """Embed the new ones of many texts, some thousand at a time; returns how many were new.

        Each portion is written before the next begins: what is killed goes on where it was.

        Args:
            texts: any number of them, read as they are needed.
            progress: called with the number of texts done so far.
        """
        before, done, source = len(self), 0, iter(texts)
        while portion := list(islice(source, CHUNK)):
            self.rows(portion)
            done += len(portion)
            if progress is not None:
                progress(done)
        return len(self) - before

    def find(self, digests: np.ndarray) -> np.ndarray:
        """Row of each digest, -1 for those without a sound one, int64 of shape (n,)."""
        with self._lock:
            rows = self._known(digests)
            if (rows < 0).any() and self._read():
                rows = self._known(digests)
            return rows

    def _known(self, digests: np.ndarray) -> np.ndarray:
        self._index()
        rows = np.full(len(digests), -1, np.int64)
        if len(self._sorted):
            # The last one of equal keys is the newest: it replaced a row that was found damaged.
            at = np.searchsorted(self._sorted, digests[:, 0], "right") - 1
            found = self._order[at]
            hit = (self._keys["high"][found] == digests[:, 0]) & (self._keys["low"][found] == digests[:, 1])
            rows[hit] = found[hit]
        if self._recent:
            for i, (high, low) in enumerate(digests.tolist()):
                rows[i] = self._recent.get((high, low), rows[i])
        rows[rows >= 0] = np.where(self._are_sound(rows[rows >= 0]), rows[rows >= 0], -1)
        return rows

    def _are_sound(self, rows: np.ndarray) -> np.ndarray:
        """Whether rows are what was written, bool of shape (n,); each is looked at once a process."""
        new = rows[~self._sound[rows]]
        for place in blocks(len(new)):
            block = new[place]
            self._sound[block] = checksums(self._raw(block)) == self._keys["check"][block]
        return np.asarray(self._sound[rows])

    def _raw(self, rows: np.ndarray) -> np.ndarray:
        """Rows as they are kept, float16 of shape (n, dimension)."""
        with self._lock:
            mapped, own = self._mapped, self._own
        if not len(own):
            return np.asarray(mapped[rows])
        inside = rows < len(mapped)
        raw = np.empty((len(rows), self.dimension), ROW)
        raw[inside], raw[~inside] = mapped[rows[inside]], own[rows[~inside] - len(mapped)]
        return raw

    def _read(self, count: int | None = None) -> bool:
        """Take in what has been appended to the files; whether there was anything."""
        if self._files is None or len(self._own):
            return False
        known, count = len(self._keys), self._files.count() if count is None else count
        if count <= known:
            return False
        try:
            keys, self._mapped = self._files.keys(known, count), self._files.rows(count)
        except OSError as error:
            self._detach(error)
            return False
        self._take(keys)
        return True

    def _take(self, keys: np.ndarray) -> None:
        """Take in new keys; they are indexed when something is looked for."""
        self._keys = np.concatenate([self._keys, keys])
        self._sound = np.concatenate([self._sound, np.zeros(len(keys), bool)])

    def _index(self) -> None:
        """Index the keys that are not indexed yet."""
        first, self._indexed = self._indexed, len(self._keys)
        if first == self._indexed:
            return
        if len(self._keys) - len(self._sorted) > _UNSORTED + len(self._sorted) // 8:
            self._order = np.argsort(self._keys["high"], kind="stable")
            self._sorted = self._keys["high"][self._order]
            self._recent.clear()
            return
        keys = self._keys[first:]
        pairs = zip(keys["high"].tolist(), keys["low"].tolist(), strict=True)
        self._recent.update((pair, first + i) for i, pair in enumerate(pairs))

    def _embed(
        self, texts: Sequence[str], digests: np.ndarray, missing: np.ndarray, encoder: Encoder
    ) -> None:
        """Embed texts, one of each, and keep them."""
        places = {texts[i]: i for i in np.flatnonzero(missing).tolist()}
        # Texts of like length share a batch, so that little is computed on padding.
        fresh = sorted(places, key=len)
        vectors = np.asarray(encoder.encode(fresh), ROW)
        self._keep(digests[[places[t] for t in fresh]], vectors)

    def _keep(self, digests: np.ndarray, vectors: np.ndarray) -> None:
        def unwritten(count: int) -> tuple[np.ndarray, np.ndarray]:
            # Other processes may have embedded the same texts meanwhile.
            self._read(count)
            new = self._known(digests) < 0
            return digests[new], vectors[new]

        with self._lock:
            if self._files is not None and not len(self._own):
                try:
                    self._read(self._files.append(unwritten))
                except OSError as error:
                    self._detach(error)
            new = self._known(digests) < 0
            if new.any():
                self._keep_in_memory(digests[new], vectors[new])

    def _keep_in_memory(self, digests: np.ndarray, vectors: np.ndarray) -> None:
        keys = np.empty(len(digests), KEY)
        keys["high"], keys["low"], keys["check"] = digests[:, 0], digests[:, 1], checksums(vectors)
        self._own = np.concatenate([self._own, vectors])
        self._take(keys)

    def _detach(self, error: OSError) -> None:
        """From now on new vectors stay in memory."""
        assert self._files is not None
        _log.warning("vectors cannot be kept in %s (%s): they are made again by the next process",
                     self._files.keys_path.parent, error.strerror or error)  # fmt: skip
        self._files = None


_stores: WeakKeyDictionary[KnowledgeGraph, dict[int, VectorStore]] = WeakKeyDictionary()
_opening = Lock()


def vectors_of(kg: KnowledgeGraph, encoder: Encoder) -> VectorStore:
    """The vectors of a KG's texts by an encoder: opened once per process, shared by all questions.

    They lie in the first of the KG's `homes` that can be written, or in memory where it has none.
    """
    kg, encoder = origin_of(kg), getattr(encoder, "shared", encoder)
    with _opening:
        stores = _stores.setdefault(kg, {})
        if id(encoder) not in stores:  # the store holds its encoder, so the id stays its own
            stores[id(encoder)] = VectorStore.open(_home(kg), encoder)
        return stores[id(encoder)]


def _home(kg: KnowledgeGraph) -> Path | None:
    """The folder for a KG's vectors."""
    homes: Sequence[Path] = getattr(kg, "cache_dirs", ())
    return next((home / FOLDER for home in homes if _is_writable(home)), None)


def _is_writable(folder: Path) -> bool:
    """Whether files can be made in a folder, which need not be there yet."""
    there = next((f for f in (folder, *folder.parents) if f.exists()), folder)
    return there.is_dir() and os.access(there, os.W_OK)


def _files(folder: Path, encoder: Encoder) -> VectorFiles:
    """The files of one encoder, named by what it is and what its vectors are."""
    version = _version(encoder)
    mark = hashlib.sha256(f"{version}\0{encoder.dimension}".encode()).hexdigest()[:12]
    name = re.sub(r"[^A-Za-z0-9]+", "-", Path(encoder.name).name).strip("-")[:40] or "encoder"
    about: dict[str, object] = {"encoder": encoder.name, "version": version}
    return VectorFiles(folder / f"{name}-{encoder.dimension}-{mark}", encoder.dimension, about)


def _version(encoder: Encoder) -> str:
    """What makes vectors those of this encoder: its weights, where they are known."""
    if encoder.name == EMBEDDED:
        from triplewise.tools.retrieval.minilm import WEIGHTS_SHA256

        return WEIGHTS_SHA256
    folder = Path(encoder.name)
    if not folder.is_dir():
        return encoder.name
    facts = ((f.name, f.stat()) for f in sorted(folder.iterdir()) if f.is_file())
    return "\n".join([str(folder.resolve()), *(f"{n} {s.st_size} {s.st_mtime_ns}" for n, s in facts)])


def digests_of(texts: Sequence[str]) -> np.ndarray:
    """128-bit digests, uint64 of shape (n, 2)."""
    digest = hashlib.blake2b
    parts = [digest(t.encode("utf-8", "surrogatepass"), digest_size=16).digest() for t in texts]
    return np.frombuffer(b"".join(parts), "<u8").reshape(len(texts), 2)


def joined(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Digests of pairs of texts from those of either text, uint64 of shape (n, 2).

    Many pairs have few distinct parts: so each part is digested once.
    """
    return np.asarray(first * _PAIR + second)


def blocks(count: int) -> Iterator[slice]:
    """The places of `count` rows, some at a time."""
    return (slice(start, start + _BLOCK) for start in range(0, count, _BLOCK))
