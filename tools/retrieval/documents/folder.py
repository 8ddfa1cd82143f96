"""A folder of documents, indexed offline. What is worked out about it is kept in the user's cache folder.

Passages are kept per file and read anew when the file changes; vectors are kept by what they are of, so that
moving, renaming or touching a file embeds nothing again. Nothing is written beside the documents.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from threading import Lock
from time import monotonic as _now

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.lru import LRUCache
from triplewise.tools.retrieval.documents.files import ENDINGS, LONGEST, PASSAGE, read_file
from triplewise.tools.retrieval.documents.passage_index import SHOWN, PassageIndex
from triplewise.tools.retrieval.encoder import Encoder, open_encoder
from triplewise.tools.retrieval.vectors import VectorStore

FORMAT = f"2 {PASSAGE} {LONGEST}"
"""The version of cached passages: those of another one are made again."""
OPEN_FOLDERS = 8
"""Folders held open, the least recent ones are let go."""
_QUICK = 0.01
"""Seconds: looking for changes is free below it; above, it is done again after fifty times what it took."""
_log = logging.getLogger(__name__)

_Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class _File:
    """A file as it was when it was read: size and time of change, its text, or why there is none."""

    stamp: _Stamp
    title: str = ""
    passages: tuple[str, ...] = ()
    trouble: str = ""


class FolderDocuments:
    """The passages of a folder's files.

    Args:
        files: what was read in them, by path relative to the folder.
        encoder: makes the vectors; None for the embedded one.
    """

    def __init__(self, files: dict[str, _File], encoder: Encoder | None) -> None:
        passages = [Passage(text, file.title, name) for name, file in files.items() for text in file.passages]
        self._index = PassageIndex(
            passages, lambda: VectorStore(encoder or open_encoder(), cache_folder() / "vectors")
        )

    def find(
        self,
        name: str,
        relation: str = "",
        question: str = "",
        *,
        aliases: Sequence[str] = (),
        limit: int = SHOWN,
    ) -> tuple[Passage, ...]:
        """Passages about an entity, best first; see `Documents.find`."""
        names = [n for n in (name, *aliases) if n.strip()]
        return self._index.find(names, " ".join(p for p in (name, relation, question) if p), limit)


@dataclass(slots=True)
class _Opened:
    """A folder that was opened: its files' stamps, when they were looked at last, and how long that took."""

    documents: FolderDocuments
    stamps: dict[str, _Stamp]
    looked: float
    took: float


_opened = LRUCache[tuple[str, int], _Opened](OPEN_FOLDERS)
_lock = Lock()


def cache_folder() -> Path:
    """Where passages and vectors of documents are kept."""
    from platformdirs import user_cache_path

    return user_cache_path("triplewise") / "documents"


def open_folder(folder: str | Path, encoder: Encoder | None = None) -> FolderDocuments:
    """The documents of a folder and its sub-folders, read once and again when they change.

    Raises:
        DataError: no such folder, no document in it, or none that can be read.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise DataError("no such folder of documents; setting documents takes a folder, or `wikipedia`", path)
    key = (str(path.resolve()), id(encoder))
    with _lock:
        before, start = _opened.get(key), _now()
        if before is not None and before.took > _QUICK and start - before.looked < 50 * before.took:
            return before.documents
        stamps = _stamps(path)
        took = _now() - start
        if before is not None and before.stamps == stamps:
            documents = before.documents
        else:
            documents = FolderDocuments(_read_files(path, stamps), encoder)
        _opened[key] = _Opened(documents, stamps, _now(), took)
        return documents


def _stamps(folder: Path) -> dict[str, _Stamp]:
    """Relative path -> size and time of change of every document, sorted by path."""
    stamps: dict[str, _Stamp] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".")]
        for name in names:
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                file = Path(place, name)
                with suppress(OSError):  # gone meanwhile, or a link to nowhere
                    facts = file.stat()
                    stamps[file.relative_to(folder).as_posix()] = (facts.st_size, facts.st_mtime_ns)
    if not stamps:
        endings = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise DataError(f"no document in it; it should hold files that end in {endings}", folder)
    return dict(sorted(stamps.items()))


def _read_files(folder: Path, stamps: dict[str, _Stamp]) -> dict[str, _File]:
    """Return the files by path: unchanged ones from the cache, the others read."""
    cache = cache_folder() / hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:20]
    path = cache / "passages.jsonl"
    cached: dict[str, _File] = {}
    with suppress(OSError, ValueError, TypeError):  # no cache, or a damaged one: every file is read
        head, *lines = path.read_text(encoding="utf-8").split("\n")
        rows = [json.loads(line) for line in lines if line and head == FORMAT]
        cached = {n: _File((size, at), title, tuple(texts), bad) for n, size, at, title, texts, bad in rows}
    files: dict[str, _File] = {}
    for name, stamp in stamps.items():
        if name in cached and cached[name].stamp == stamp:
            files[name] = cached[name]
            continue
        try:
            title, passages = read_file(folder / name)
            files[name] = _File(stamp, title, tuple(passages))
        except DataError as error:
            files[name] = _File(stamp, trouble=str(error))
    if files != cached:
        written = (json.dumps([n, *f.stamp, f.title, f.passages, f.trouble]) for n, f in files.items())
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with NamedTemporaryFile("w", encoding="utf-8", dir=cache, delete=False) as file:
                file.write("\n".join([FORMAT, *written]) + "\n")
            os.replace(file.name, path)
        except OSError as error:
            _log.warning("passages cannot be kept in %s: %s", cache, error.strerror or error)
    troubles = [f.trouble for f in files.values() if f.trouble]
    if len(troubles) == len(files):
        raise DataError(troubles[0])
    for trouble in troubles:
        _log.warning("left out: %s", trouble)
    return files
