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
from triplewise.tools.retrieval.documents.base import SHOWN, Progress
from triplewise.tools.retrieval.documents.embeddings import KeptEmbeddings
from triplewise.tools.retrieval.documents.index import PassageIndex
from triplewise.tools.retrieval.documents.reading import ENDINGS, LONGEST, PASSAGE, read_file
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

FORMAT = f"2 {PASSAGE} {LONGEST}"
"""What the kept passages were made by: with another one they are made again."""
TOLD_FROM = 200
"""Files from which reading them shows progress."""
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

    Attributes:
        passages: in the order of files and of their text. skipped: file -> why it could not be read.

    Args:
        folder: of the files. files: what was read in them, by path relative to it.
        encoder: makes the vectors; None for the embedded one.
    """

    def __init__(self, folder: Path, files: dict[str, _File], encoder: Encoder | None) -> None:
        self.folder = folder
        self.skipped = {name: file.trouble for name, file in files.items() if file.trouble}
        self.passages = tuple(
            Passage(text, file.title, name) for name, file in files.items() for text in file.passages
        )
        self._index = PassageIndex(
            self.passages, lambda: KeptEmbeddings(encoder or open_encoder(), cache_folder() / "vectors")
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
        query = " ".join(p for p in (name, relation, question) if p)
        return self._index.find(names, query, query, limit)

    def search(self, name: str, relation: str, limit: int = SHOWN) -> list[str]:
        """The texts of `find`; none without a name."""
        return [p.text for p in self.find(name, relation, limit=limit)] if name.strip() else []

    def prepare(self, progress: Progress | None = None) -> None:
        """Make the vectors and the indexes now."""
        self._index.prepare(progress)


@dataclass(slots=True)
class _Opened:
    documents: FolderDocuments
    stamps: dict[str, _Stamp]
    looked: float
    took: float


_opened: dict[tuple[str, int], _Opened] = {}
_lock = Lock()


def cache_folder() -> Path:
    """Where passages and vectors of documents are kept."""
    from platformdirs import user_cache_path

    return user_cache_path("triplewise") / "documents"


def open_folder(
    folder: str | Path, encoder: Encoder | None = None, progress: Progress | None = None
) -> FolderDocuments:
    """The documents of a folder and its sub-folders, read once and again when they change.

    Raises:
        DataError: no such folder, no document in it, or none that can be read.
    """
    path = Path(folder).expanduser()
    if not path.is_dir():
        raise DataError("no such folder of documents; setting documents takes a folder, or `wikipedia`", path)
    key = (str(path.resolve()), id(encoder))
    with _lock:
        known = _opened.get(key)
        if known is not None and known.took > _QUICK and _now() - known.looked < 50 * known.took:
            return known.documents
        start = _now()
        stamps = _stamps(path)
        now = _now()
        if known is None or known.stamps != stamps:
            files = _read(path, stamps, progress)
            known = _opened[key] = _Opened(FolderDocuments(path, files, encoder), stamps, now, 0.0)
        known.looked, known.took = now, now - start
        return known.documents


def _stamps(folder: Path) -> dict[str, _Stamp]:
    """Relative path -> size and time of change of every document, sorted by path."""
    found: dict[str, _Stamp] = {}
    for place, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if not f.startswith(".")]
        for name in names:
            if name.lower().endswith(ENDINGS) and not name.startswith("."):
                file = Path(place, name)
                with suppress(OSError):  # gone meanwhile, or a link to nowhere
                    facts = file.stat()
                    found[file.relative_to(folder).as_posix()] = (facts.st_size, facts.st_mtime_ns)
    if not found:
        raise DataError(f"no document in it; it should hold files that end in {_endings()}", folder)
    return dict(sorted(found.items()))


def _endings() -> str:
    return f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"


def _read(folder: Path, stamps: dict[str, _Stamp], progress: Progress | None) -> dict[str, _File]:
    """The files, those that are kept as they are and the others read."""
    kept_at = cache_folder() / hashlib.sha256(str(folder.resolve()).encode()).hexdigest()[:20]
    kept = _load(kept_at / "passages.jsonl")
    files: dict[str, _File] = {}
    tell = progress if len(stamps) >= TOLD_FROM else None
    for done, (name, stamp) in enumerate(stamps.items(), 1):
        old = kept.get(name)
        files[name] = old if old is not None and old.stamp == stamp else _file(folder / name, stamp)
        if tell is not None and (done % 100 == 0 or done == len(stamps)):
            tell("reading documents", done, len(stamps))
    if files != kept:
        _save(kept_at / "passages.jsonl", files)
    troubles = [f.trouble for f in files.values() if f.trouble]
    if len(troubles) == len(files):
        raise DataError(troubles[0])
    for trouble in troubles:
        _log.warning("left out: %s", trouble)
    return files


def _file(path: Path, stamp: _Stamp) -> _File:
    try:
        title, passages = read_file(path)
    except DataError as error:
        return _File(stamp, trouble=str(error))
    return _File(stamp, title, tuple(passages))


def _load(path: Path) -> dict[str, _File]:
    """What is kept of a folder; nothing if it was made otherwise or is damaged."""
    try:
        head, *lines = path.read_text(encoding="utf-8").split("\n")
        if head != FORMAT:
            return {}
        rows = [json.loads(line) for line in lines if line]
        return {n: _File((size, at), title, tuple(texts), bad) for n, size, at, title, texts, bad in rows}
    except (OSError, ValueError, TypeError):
        return {}


def _save(path: Path, files: dict[str, _File]) -> None:
    """Keep what was read; a folder that cannot be written only costs time."""
    rows = (json.dumps([n, *f.stamp, f.title, f.passages, f.trouble]) for n, f in files.items())
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", encoding="utf-8", dir=path.parent, delete=False) as file:
            file.write("\n".join([FORMAT, *rows]) + "\n")
        os.replace(file.name, path)
    except OSError as error:
        _log.warning("passages cannot be kept in %s: %s", path.parent, error.strerror or error)
