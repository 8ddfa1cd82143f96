"""Neighbourhoods all of whose texts have vectors: which rows of the store these are.

To find 50,000 rows by the digests of their texts takes longer than to multiply them. So the rows of a large
neighbourhood are kept under one digest of all its texts: for this process, its matrix too, and, in a folder
beside the vectors, for any other. What is read there is believed only if the store's keys agree.
"""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from triplewise.tools.retrieval.observation.guess import save_array
from triplewise.tools.retrieval.observation.parts import Candidates
from triplewise.tools.retrieval.vectors import VectorStore

KEPT_FROM, KEPT_BYTES = 1_000, 256 << 20
"""Candidates from which a neighbourhood is kept, and bytes that all matrices in memory may take."""
KEPT_FILES = 400
"""Neighbourhoods kept on disk; of 50,000 candidates each takes 0.8 MB."""


@dataclass(slots=True)
class Neighbourhood:
    """Rows of the distinct pairs, the place among them of each candidate, and the matrix, once used twice."""

    rows: np.ndarray
    owner: np.ndarray
    matrix: np.ndarray | None = None
    uses: int = 0

    def scores(self, store: VectorStore, query: np.ndarray) -> np.ndarray:
        """Exact scores of all candidates, float32 of shape (n,)."""
        self.uses += 1
        if self.matrix is None and self.uses > 1:
            self.matrix = store.at(self.rows)
        distinct = store.dots(self.rows, query) if self.matrix is None else self.matrix @ query
        return np.asarray(distinct[self.owner])


class SeenBefore:
    """The neighbourhoods kept of one store, the last used ones. Safe to use from many threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Neighbourhood] = OrderedDict()
        self._lock = Lock()

    def get(self, store: VectorStore, candidates: Candidates) -> Neighbourhood | None:
        """A neighbourhood of this process or of an earlier one."""
        if len(candidates) < KEPT_FROM:
            return None
        with self._lock:
            found = self._known.get(candidates.digest)
        if found is None and (found := _read(store, candidates)) is None:
            return None
        return self._remember(candidates.digest, found)

    def keep(self, store: VectorStore, candidates: Candidates, rows: np.ndarray, owner: np.ndarray) -> None:
        """Keep the rows of a neighbourhood, where it is a large one."""
        if len(candidates) < KEPT_FROM:
            return
        self._remember(candidates.digest, Neighbourhood(rows, owner))
        path = _path(store, candidates)
        if path is None or not store.on_disk(rows):
            return
        head = np.array([store.mark(rows), len(rows)], np.uint64)
        with suppress(OSError):  # what cannot be kept is looked up again
            save_array(path, np.concatenate([head, rows.astype(np.uint64), owner.astype(np.uint64)]))
            _prune(path.parent)

    def _remember(self, digest: str, found: Neighbourhood) -> Neighbourhood:
        with self._lock:
            found = self._known.setdefault(digest, found)
            self._known.move_to_end(digest)
            while len(self._known) > 1 and self._bytes() > KEPT_BYTES:
                self._known.popitem(last=False)
        return found

    def _bytes(self) -> int:
        """What is kept, and what would be if each were used again."""
        return sum(n.rows.nbytes + n.owner.nbytes + 1536 * len(n.rows) for n in self._known.values())


def _path(store: VectorStore, candidates: Candidates) -> Path | None:
    """The file of a neighbourhood; None where the store is in memory alone."""
    if store.path is None:
        return None
    return store.path.with_suffix(".seen") / f"{candidates.digest}.npy"


def _read(store: VectorStore, candidates: Candidates) -> Neighbourhood | None:
    """A neighbourhood from its file, if it is one of these vectors and they are sound."""
    path = _path(store, candidates)
    if path is None:
        return None
    try:
        content = np.load(path, allow_pickle=False)
    except (OSError, ValueError):  # none, or half of one
        return None
    if content.dtype != np.uint64 or content.ndim != 1 or len(content) < 2:
        return None
    count = int(content[1])
    rows, owner = content[2 : 2 + count].astype(np.int64), content[2 + count :].astype(np.int64)
    fits = (
        len(rows) == count > 0 and len(owner) == len(candidates) and 0 <= owner.min() <= owner.max() < count
    )
    if not fits or not store.sound(rows) or store.mark(rows) != int(content[0]):
        return None
    return Neighbourhood(rows, owner)


def _prune(folder: Path) -> None:
    """Remove the oldest files where there are too many."""
    files = list(folder.glob("*.npy"))
    if len(files) <= KEPT_FILES:
        return
    for path in sorted(files, key=lambda p: (p.stat().st_mtime_ns, p.name))[:-KEPT_FILES]:
        path.unlink(missing_ok=True)


_seen: WeakKeyDictionary[VectorStore, SeenBefore] = WeakKeyDictionary()
_opening = Lock()


def seen_before(store: VectorStore) -> SeenBefore:
    """The neighbourhoods kept of a store."""
    with _opening:
        return _seen.setdefault(store, SeenBefore())
