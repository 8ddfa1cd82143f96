"""Opening documents that say what a KG lacks: a folder of files, Wikipedia, any LangChain retriever.

A folder is indexed offline. Its passages are kept per file in the user's cache folder and read anew when the
file changes; vectors are kept by what they are of, so that touching a file embeds nothing again. Nothing is
written beside the documents.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from threading import Lock
from typing import TYPE_CHECKING

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.files import write_json
from triplewise.tools.retrieval.document_files import ENDINGS, LONGEST, PASSAGE, read_file
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.passage_index import Documents, PassageIndex
from triplewise.tools.retrieval.wikipedia import WIKIPEDIA, open_wikipedia

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever

FORMAT = f"3 {PASSAGE} {LONGEST}"
"""The version of cached passages: those of another one are made again."""
_lock = Lock()
_log = logging.getLogger(__name__)

_Stamp = tuple[str, int, int]
"""A file's path relative to its folder, its size, and when it changed."""


class RetrieverDocuments:
    """Any LangChain retriever as documents: its passages that name the entity, in its order.

    It is given the name and the relation together, or the question where there is no name.
    """

    def __init__(self, retriever: BaseRetriever) -> None:
        self._retriever = retriever

    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """Return passages about an entity, best first; see `Documents.find`."""
        query = " ".join(filter(None, (name, relation))) or question
        names = [n.casefold() for n in (name, *aliases) if n]
        named = []
        for document in self._retriever.invoke(query) if query else ():
            text, title = document.page_content, str(document.metadata.get("title", ""))
            if not names or any(n in f"{title} {text}".casefold() for n in names):
                named.append(Passage(text, title, str(document.metadata.get("source", ""))))
        return tuple(named[:limit])


def open_documents(
    source: str | Path | Documents | BaseRetriever, encoder: Encoder | None = None
) -> Documents:
    """Open the documents of a source; a folder and a wiki are opened once per process.

    Args:
        source: a folder of .txt, .md and .html files; `wikipedia` for the English one online; `wikipedia:de`
            for another language; `wikipedia:https://wiki.example.org/w/api.php` for any MediaWiki; a
            LangChain retriever; or documents themselves, which are returned as they are.
        encoder: makes the vectors of passages; None for the embedded one.

    Raises:
        DataError: no such folder, or no document in it that can be read.
        ConfigurationError: an address of a MediaWiki that is none.
    """
    if not isinstance(source, str | Path):
        return source if isinstance(source, Documents) else RetrieverDocuments(source)
    if isinstance(source, str) and (source == WIKIPEDIA or source.startswith(f"{WIKIPEDIA}:")):
        return open_wikipedia(source, encoder)
    folder = Path(source).expanduser().resolve()
    if not folder.is_dir():
        raise DataError(
            "no such folder of documents; setting documents takes a folder, or `wikipedia`", source
        )
    with _lock:
        return _open_folder(folder, _stamps(folder), encoder)


def cache_folder() -> Path:
    """Return where passages and vectors of documents are kept."""
    from platformdirs import user_cache_path

    return user_cache_path("triplewise") / "documents"


def _stamps(folder: Path) -> tuple[_Stamp, ...]:
    """Return what tells the state of every document in a folder and its sub-folders, sorted by path."""
    stamps: list[_Stamp] = []
    for file in folder.rglob("*"):
        path = file.relative_to(folder)
        if file.suffix.lower() in ENDINGS and not any(part.startswith(".") for part in path.parts):
            with suppress(OSError):  # gone meanwhile, or a link to nowhere
                facts = file.stat()
                if S_ISREG(facts.st_mode):
                    stamps.append((path.as_posix(), facts.st_size, facts.st_mtime_ns))
                elif not S_ISDIR(facts.st_mode):  # reading a pipe would wait for ever
                    _log.warning("left out: %s is a pipe or a device, no file", file)
    if not stamps:
        endings = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise DataError(f"no document in it; it should hold files that end in {endings}", folder)
    return tuple(sorted(stamps))


@lru_cache(maxsize=4)
def _open_folder(folder: Path, stamps: tuple[_Stamp, ...], encoder: Encoder | None) -> PassageIndex:
    """Return the documents of a folder in one state of its files: unchanged ones from the cache."""
    cache = cache_folder() / f"{hashlib.sha256(str(folder).encode()).hexdigest()[:20]}.json"
    cached: dict[_Stamp, list[str]] = {}  # title and passages of each file
    with suppress(OSError, ValueError, TypeError, KeyError):  # none, or a damaged one
        record = json.loads(cache.read_text(encoding="utf-8"))
        if record["format"] == FORMAT:
            cached = {(name, size, at): texts for (name, size, at), texts in record["files"]}
    files: dict[_Stamp, list[str]] = {}
    unreadable: list[DataError] = []
    for stamp in stamps:
        try:
            files[stamp] = cached[stamp] if stamp in cached else read_file(folder / stamp[0])
        except DataError as error:
            unreadable.append(error)
    if not files:
        raise unreadable[0]
    for failure in unreadable:
        _log.warning("left out: %s", failure)
    if files != cached:
        try:
            write_json(cache, {"format": FORMAT, "files": list(files.items())})
        except OSError as error:
            _log.warning("passages cannot be kept in %s: %s", cache.parent, error.strerror or error)
    passages = [Passage(text, title, name) for (name, *_), (title, *texts) in files.items() for text in texts]
    return PassageIndex(passages, encoder, cache_folder() / "vectors")
