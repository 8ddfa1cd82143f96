"""Documents that say what a KG lacks (SymAgent 4.2.1): a folder of files, Wikipedia, any LangChain retriever.

A folder is indexed offline. Its passages are kept per file in the user's cache folder and read anew when the
file changes; vectors are kept by what they are of, so that touching a file embeds nothing again. Nothing is
written beside the documents. Wikipedia, or any other MediaWiki, is read online through langchain-community.

Which passages are about an entity is settled by the words of its name; BM25 and vectors only order those.
Where no entity is named, all passages are ranked by both.
"""

from __future__ import annotations

import hashlib
import json
import logging
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG
from threading import Lock, RLock
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

import httpx
import numpy as np
from bs4 import BeautifulSoup
from bs4.element import NavigableString

from triplewise.tools.core.errors import ConfigurationError, DataError, DocumentsUnavailableError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.files import unreadable, write_json
from triplewise.tools.core.names import normalise
from triplewise.tools.kg.protocol import LRUCache
from triplewise.tools.retrieval.encoder import Encoder, VectorStore, open_encoder
from triplewise.tools.retrieval.ranking import Bm25, fuse

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever

HTML = (".html", ".htm")
ENDINGS = (".txt", ".md", *HTML)
PASSAGE, LONGEST = 600, 1200
"""Characters up to which paragraphs are joined, and no passage has more of: encoders read no further."""
MOST_BYTES = 16 * 2**20
"""Bytes read of one file."""

_UNREAD = ("script", "style", "noscript", "template", "svg", "head", "iframe", "form", "nav")
_BLOCKS = re.compile(
    "address|article|aside|blockquote|body|br|caption|d[dlt]|div|fieldset|figcaption|figure|footer|h[1-6]|header"
    "|hr|li|main|ol|p|pre|section|summary|table|tbody|thead|tr|ul"
)
_CELLS = ["td", "th"]
_PARAGRAPH = re.compile(r"\n[ \t\r\f\v]*\n\s*")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n")
_HEADING = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)

WIKIPEDIA = "wikipedia"
REQUEST_SECONDS, SEARCH_SECONDS = 8.0, 25.0
"""Seconds that one request, and one search with all its requests, may take."""
PAGES, CHARACTERS = 3, 30_000
"""Pages of one search, and characters read of one page."""
AGENT = "triplewise (https://github.com/triplewise/triplewise)"
REMEMBERED = 256
"""Searches of a wiki whose pages are remembered, the least recent ones leave first."""

COMPARED = 50
"""Passages that are compared by vectors at least: those that BM25 puts first."""
FORMAT = f"3 {PASSAGE} {LONGEST}"
"""The version of cached passages: those of another one are made again."""
_lock = Lock()
_log = logging.getLogger(__name__)

_Stamp = tuple[str, int, int]
"""A file's path relative to its folder, its size, and when it changed."""


@runtime_checkable
class Documents(Protocol):
    """Passages that can be searched by the name of an entity and what is asked of it."""

    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """Return passages about an entity, best first; those that name it nowhere are left out.

        Args:
            name: label of the entity; "" for passages about the question alone.
            relation: what is asked of it, in words. question: what it is asked for.
            aliases: other names of the entity. limit: passages to give at most.

        Raises:
            DocumentsUnavailableError: the service that has them does not answer.
        """
        ...


class PassageIndex:
    """Documents made of passages, searchable. Safe to use from many threads; built where it is first needed.

    Args:
        passages: what is searched. encoder: makes their vectors; None for the embedded one.
        folder: where vectors are kept; None for nowhere.
    """

    def __init__(
        self, passages: Sequence[Passage], encoder: Encoder | None = None, folder: Path | None = None
    ) -> None:
        self.passages = tuple(passages)
        self._encoder, self._folder = encoder, folder
        self._lock = RLock()

    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """Return passages that bear the name or an alias in title or text, best first; see `Documents.find`.

        Passages of documents that are titled by a name, or begin with it, are no better than others that
        name it: what is said counts. Where no passage has a name in full, those that have all its words do.
        """
        names = [n for n in (name, *aliases) if n.strip()]
        query = " ".join(filter(None, (name, relation, question)))
        if not self.passages or not query:
            return ()
        with self._lock:
            places = self._about(names) if names else np.arange(len(self.passages))
            if len(places) > 1:
                lexical = self._bm25.scores(list(dict.fromkeys(normalise(query).split())))[places]
                if names:  # no more passages are embedded than the ones that BM25 puts first
                    first = np.argsort(-lexical, kind="stable")[: max(2 * limit, COMPARED)]
                    places, lexical = places[first], lexical[first]
                # The title says what `it` and `he` are.
                chosen = [self.passages[i] for i in places.tolist()]
                texts = [f"{p.title}: {p.text}" if p.title else p.text for p in chosen]
                dense = self._vectors.vectors(texts) @ self._vectors.encoder.encode([query])[0]
                places = places[np.argsort(-fuse([lexical, dense]), kind="stable")]
            return tuple(self.passages[i] for i in places[:limit].tolist())

    def _about(self, names: Sequence[str]) -> np.ndarray:
        """Return the places of the passages that bear a name: in full, else all its words."""
        normal = [name for name in dict.fromkeys(map(normalise, names)) if name]
        places = [i for i, text in enumerate(self._texts) if any(f" {name} " in text for name in normal)]
        if not places:
            split = [name.split() for name in normal if " " in name]
            for i, text in enumerate(self._texts):
                if any(all(f" {word} " in text for word in words) for words in split):
                    places.append(i)
        return np.array(places, np.int64)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """Normal forms of title and text, with blanks around."""
        return tuple(f" {normalise(p.title)} {normalise(p.text)} " for p in self.passages)

    @cached_property
    def _vectors(self) -> VectorStore:
        return VectorStore(self._encoder or open_encoder(), self._folder)

    @cached_property
    def _bm25(self) -> Bm25:
        return Bm25([text.split() for text in self._texts])


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


def read_file(file: Path) -> list[str]:
    """Return the title of a file, then its passages. Of a file over 16 MiB only the beginning is read.

    Raises `DataError` where it cannot be read, or is no text.
    """
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
    except OSError as error:
        raise DataError(f"cannot read the document: {error.strerror or error}", file) from error
    if len(data) > MOST_BYTES:
        _log.warning("%s: only its first %d MiB are read", file, MOST_BYTES // 2**20)
        data = data[:MOST_BYTES]
        # A character that was cut in two is left out.
        data = data[: data.rfind(b"\n") + 1] or data.decode("utf-8", "ignore").encode()
    title, text = (_html if file.suffix.lower() in HTML else _plain)(data, file)
    title = " ".join(title.split()) or " ".join(re.sub(r"[_-]+", " ", file.stem).split())
    return [title[:200], *passages(text)]


def passages(text: str) -> Iterator[str]:
    """Split a text into passages: paragraphs, short ones joined, long ones cut where sentences end."""
    short: list[str] = []
    for paragraph in _PARAGRAPH.split(text.replace("\r\n", "\n")):
        if len(paragraph) <= PASSAGE:
            short.append(" ".join(paragraph.split()))
            continue
        yield from _joined(short, "\n")
        short = []
        sentences = (" ".join(sentence.split()) for sentence in _SENTENCE_END.split(paragraph))
        yield from _joined((s[at : at + LONGEST] for s in sentences for at in range(0, len(s), LONGEST)), " ")
    yield from _joined(short, "\n")


def _joined(pieces: Iterable[str], sign: str) -> Iterator[str]:
    """Pieces, joined up to the length of a passage: paragraphs by line ends, so that headings end there."""
    passage = ""
    for piece in filter(None, pieces):
        if passage and len(passage) + len(piece) >= PASSAGE:
            yield passage
            passage = ""
        passage = f"{passage}{sign}{piece}" if passage else piece
    if passage:
        yield passage


def _plain(data: bytes, file: Path) -> tuple[str, str]:
    """Title ("" if the text has none) and text."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise unreadable(file, error) from error
    if "\x00" in text:
        raise DataError("cannot read the document as text: it holds zero bytes, as binary files do", file)
    if file.suffix.lower() != ".md":
        return "", text
    heading = _HEADING.search(text[:2000])
    return heading[1] if heading else "", _HEADING.sub(lambda m: f"\n\n{m[1]}\n\n", text)


def _html(data: bytes, file: Path) -> tuple[str, str]:
    """Return title and visible text."""
    try:
        page = BeautifulSoup(data, "html.parser")
        title = page.title.get_text() if page.title is not None else ""
        for tag in page.find_all(_UNREAD):
            tag.decompose()
        if not title and (heading := page.find("h1")) is not None:
            title = heading.get_text()
        for node in page.find_all(string=True):
            if type(node) is NavigableString:  # and no comment
                node.replace_with(re.sub(r"\s+", " ", node))
        # A blank line around every block, a semicolon between the cells of a row.
        for tag in page.find_all():
            if _BLOCKS.fullmatch(tag.name):
                tag.insert_before("\n\n")
                tag.append("\n\n")
            elif tag.name in _CELLS and tag.find_previous_sibling(_CELLS) is not None:
                tag.insert_before(" ; ")
        return title, page.get_text()
    except (RecursionError, ValueError, AssertionError) as error:
        raise DataError(f"cannot read the document as HTML: {type(error).__name__}", file) from error


class WikipediaDocuments:
    """Pages of a MediaWiki, fetched by the name of an entity when they are asked for. Keeps nothing on disk.

    `url` is the address of its API; the encoder orders passages, None for the embedded one.
    """

    def __init__(self, url: str, encoder: Encoder | None = None) -> None:
        self.url, self._encoder = url, encoder
        self._searches = LRUCache[str, PassageIndex](REMEMBERED)

    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """Return passages of the pages about an entity, best first; see `Documents.find`.

        All passages of a page that is titled by the entity are about it.
        """
        topic = name.strip() or question.strip()
        if not topic:
            return ()
        index = self._searches.get(normalise(topic))
        if index is None:
            index = PassageIndex(self._fetch(topic), self._encoder)
            self._searches[normalise(topic)] = index
        return index.find(name, relation, question, aliases, limit)

    def _fetch(self, topic: str) -> list[Passage]:
        """Search the wiki, and fetch the pages it finds."""
        with warnings.catch_warnings():  # it says at import that it is in maintenance
            warnings.simplefilter("ignore", DeprecationWarning)
            from langchain_community.utilities.wikipedia import WikipediaAPIWrapper
        server, fetched = urlsplit(self.url).hostname, list[Passage]()
        try:
            with httpx.Client(headers={"User-Agent": AGENT}, follow_redirects=True) as http:
                # Without validation, which would put a client without time-outs in the place of ours.
                wiki = WikipediaAPIWrapper.model_construct(
                    wiki_client=_Wiki(http, self.url),
                    top_k_results=PAGES,
                    load_all_available_meta=False,
                    doc_content_chars_max=CHARACTERS,
                )
                for page in wiki.lazy_load(topic):
                    # Headings (`== Career ==`) become paragraphs of their own.
                    lines = (line.strip() for line in page.page_content.split("\n"))
                    text = "\n\n".join(s.strip("= ") if s.startswith("==") else s for s in lines)
                    about = (str(page.metadata["title"]), str(page.metadata["source"]))
                    fetched += [Passage(passage, *about) for passage in passages(text)]
        except httpx.HTTPError as error:
            raise DocumentsUnavailableError(
                f"{server} cannot be reached ({type(error).__name__}): check the network, or set documents "
                "to a folder of text files, which needs none"
            ) from error
        except (ValueError, LookupError, TypeError, AttributeError, httpx.InvalidURL) as error:
            raise DocumentsUnavailableError(
                f"{server} gave no usable answer ({type(error).__name__}); check that {self.url} is a "
                "MediaWiki's API"
            ) from error
        return fetched


class _Wiki:
    """The client that langchain-community asks, for any MediaWiki and with an end to all waiting."""

    exceptions = SimpleNamespace(PageError=(), DisambiguationError=())

    def __init__(self, http: httpx.Client, url: str) -> None:
        self._http, self._url = http, url
        self._deadline = time.monotonic() + SEARCH_SECONDS

    def search(self, text: str, results: int) -> list[str]:
        """Return the titles of the pages found, best first."""
        return [hit["title"] for hit in self._query(list="search", srsearch=text, srlimit=results)["search"]]

    def page(self, title: str, auto_suggest: bool) -> SimpleNamespace:
        """Return a page with its text and address."""
        parts: dict[str, str | int] = {"prop": "extracts|info", "explaintext": 1, "inprop": "url"}
        (page,) = self._query(titles=title, redirects=1, **parts)["pages"].values()
        return SimpleNamespace(content=page.get("extract", ""), url=page.get("fullurl", ""), summary="")

    def _query(self, **parameters: str | int) -> Any:
        seconds = min(REQUEST_SECONDS, self._deadline - time.monotonic())
        if seconds <= 0:
            raise httpx.ReadTimeout(f"no answer within {SEARCH_SECONDS:g} s")
        parameters |= {"action": "query", "format": "json"}
        reply = self._http.get(self._url, params=parameters, timeout=seconds)
        return reply.raise_for_status().json()["query"]


@lru_cache(maxsize=8)
def open_wikipedia(source: str, encoder: Encoder | None = None) -> WikipediaDocuments:
    """Return the wiki a source names: `wikipedia`, `wikipedia:LANGUAGE`, `wikipedia:URL of an API`.

    Raises `ConfigurationError` on what is neither a language nor an address.
    """
    url = source.partition(":")[2] or "en"
    if url.replace("-", "").isalpha() and len(url) <= 12:
        url = f"https://{url.lower()}.wikipedia.org/w/api.php"
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"documents {source} names neither a language nor the address of a MediaWiki API; give "
            f"{WIKIPEDIA}, {WIKIPEDIA}:de, or {WIKIPEDIA}:https://wiki.example.org/w/api.php"
        )
    return WikipediaDocuments(url, encoder)
