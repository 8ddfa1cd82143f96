"""Documents that say what a KG lacks (SymAgent 4.2.1): a folder of files, Wikipedia, any LangChain retriever.

A folder is read again when one of its files changes.
"""

from __future__ import annotations

import logging
import re
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from os.path import realpath
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import httpx
import numpy as np
from pydantic_core import from_json

from triplewise.tools.core.addresses import split_url
from triplewise.tools.core.errors import DataError, DocumentsUnavailableError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.files import unreadable
from triplewise.tools.core.isolation import IsolatedCalls
from triplewise.tools.core.names import normalise
from triplewise.tools.kg.protocol import LRUCache
from triplewise.tools.retrieval.encoder import open_encoder
from triplewise.tools.retrieval.ranking import Bm25, fuse

if TYPE_CHECKING:
    from langchain_core.retrievers import BaseRetriever

HTML = (".html", ".htm")
ENDINGS = (".txt", ".md", *HTML)
PASSAGE = 600  # characters that a passage has at most: encoders read little more
MOST_BYTES = 16 * 2**20  # Bytes read of one file, or of one answer of a wiki
HTML_SECONDS = 60.0  # that reading one page of HTML may take
COMPARED = 50  # Passages that are compared by vectors at least: those that BM25 puts first
WIKIPEDIA = "wikipedia"
REQUEST_SECONDS, PAGES, CHARACTERS, REMEMBERED = 8.0, 3, 30_000, 256
"""Of a wiki: seconds of a request, pages of a search, characters read of a page, searches remembered."""
AGENT = "triplewise (https://github.com/triplewise/triplewise)"

_UNREAD = ("script", "style", "noscript", "template", "svg", "head", "iframe", "form", "nav")
_HEADING = re.compile(r"^[ \t]{0,3}#{1,6}[ \t]+(.*?)[ \t]*#*[ \t]*$", re.MULTILINE)
_log = logging.getLogger(__name__)


class Documents(ABC):
    """Passages that can be searched by the name of an entity and a relation of it."""

    @abstractmethod
    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """Return passages that name an entity, best first; without a name, passages about the question.

        Raises `DocumentsUnavailableError` where the service that has them does not answer.
        """


class PassageIndex(Documents):
    """Documents made of passages. Safe to use from many threads; built where it is first needed.

    The words of its name settle which passages are about an entity; BM25 and vectors only order those.
    """

    def __init__(self, passages: Sequence[Passage]) -> None:
        self.passages, self._lock = tuple(passages), RLock()

    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """Return passages that have the name or an alias in full, else those that have all its words."""
        names = [n for n in map(normalise, (name, *aliases)) if n]
        query = " ".join(filter(None, (name, relation, question)))
        if not self.passages or not query:
            return ()

        def named(ways: Sequence[Sequence[str]]) -> list[int]:
            """Places of the passages that have all parts of one of the ways to write the name."""
            texts = enumerate(self._texts)
            return [i for i, t in texts if any(all(f" {part} " in t for part in way) for way in ways)]

        with self._lock:
            places = np.arange(len(self.passages))
            if names:
                places = np.array(named([[n] for n in names]) or named([n.split() for n in names]), int)
            if len(places) > 1:
                lexical = self._bm25.scores(list(dict.fromkeys(normalise(query).split())))[places]
                if names:  # no more passages are embedded than the ones that BM25 puts first
                    first = np.argsort(-lexical, kind="stable")[: max(2 * limit, COMPARED)]
                    places, lexical = places[first], lexical[first]
                # The title says what `it` and `he` are.
                chosen = [self.passages[i] for i in places.tolist()]
                texts = [f"{p.title}: {p.text}" if p.title else p.text for p in chosen]
                vectors = open_encoder().encode([query, *texts])
                places = places[np.argsort(-fuse([lexical, vectors[1:] @ vectors[0]]), kind="stable")]
            return tuple(self.passages[i] for i in places[:limit].tolist())

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """Normal forms of title and text, with blanks around."""
        return tuple(f" {normalise(p.title)} {normalise(p.text)} " for p in self.passages)

    @cached_property
    def _bm25(self) -> Bm25:
        return Bm25([text.split() for text in self._texts])


class RetrieverDocuments(Documents):
    """Any LangChain retriever as documents: its passages that name the entity, in its order."""

    def __init__(self, retriever: BaseRetriever) -> None:
        self._retriever = retriever

    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """See `Documents.find`; the retriever is given name and relation, else the question."""
        query = " ".join(filter(None, (name, relation))) or question
        names, named = [n.casefold() for n in (name, *aliases) if n], []
        for document in self._retriever.invoke(query) if query else ():
            text, title = document.page_content, str(document.metadata.get("title", ""))
            if not names or any(n in f"{title} {text}".casefold() for n in names):
                named.append(Passage(text, title, str(document.metadata.get("source", ""))))
        return tuple(named[:limit])


class WikipediaDocuments(Documents):
    """Pages of a MediaWiki with its API at `url`, fetched by the name of an entity. Keeps nothing on disk."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._searches = LRUCache[str, PassageIndex](REMEMBERED)

    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """Return passages of the pages about an entity; all of a page that is titled by it are about it."""
        topic = name.strip() or question.strip()
        if not topic:
            return ()
        index = self._searches.get(normalise(topic))
        if index is None:
            index = self._searches[normalise(topic)] = PassageIndex(self._fetch(topic))
        return index.find(name, relation, question, aliases, limit)

    def _fetch(self, topic: str) -> list[Passage]:
        server, found = urlsplit(self.url).hostname, list[Passage]()
        headers = {"User-Agent": AGENT}
        try:
            with httpx.Client(headers=headers, follow_redirects=True, timeout=REQUEST_SECONDS) as http:

                def query(**parameters: str | int) -> Any:
                    parameters |= {"action": "query", "format": "json"}
                    body, end = bytearray(), time.monotonic() + REQUEST_SECONDS
                    with http.stream("GET", self.url, params=parameters) as response:
                        for piece in response.raise_for_status().iter_bytes():
                            body += piece
                            if len(body) > MOST_BYTES or time.monotonic() > end:
                                raise ValueError("the answer is too long, or takes too long")
                    return from_json(bytes(body))["query"]

                for hit in query(list="search", srsearch=topic, srlimit=PAGES)["search"]:
                    title = str(hit["title"])
                    page = query(titles=title, prop="extracts|info", explaintext=1, inprop="url", redirects=1)
                    (page,) = page["pages"].values()
                    # Headings (`== Career ==`) become paragraphs of their own.
                    lines = (line.strip() for line in page.get("extract", "")[:CHARACTERS].split("\n"))
                    content = "\n\n".join(s.strip("= ") if s.startswith("==") else s for s in lines)
                    found += [Passage(p, title, str(page.get("fullurl", ""))) for p in passages(content)]
        except httpx.HTTPError as error:
            fix = "check the network, or set documents to a folder of text files, which needs none"
            message = f"{server} cannot be reached ({type(error).__name__}): {fix}"
            raise DocumentsUnavailableError(message) from error
        except (ValueError, LookupError, TypeError, AttributeError, httpx.InvalidURL) as error:
            fix = f"check that {self.url} is a MediaWiki's API"
            message = f"{server} gave no usable answer ({type(error).__name__}); {fix}"
            raise DocumentsUnavailableError(message) from error
        return found


def open_documents(source: str | Path | Documents | BaseRetriever) -> Documents:
    """Open the documents of a source; a folder and a wiki are opened once per process.

    It is a folder of .txt, .md and .html files, `wikipedia`, `wikipedia:de` or `wikipedia:` and the API of
    any MediaWiki, a LangChain retriever, or documents. Raises `DataError` and `ConfigurationError`.
    """
    if not isinstance(source, str | Path):
        return source if isinstance(source, Documents) else RetrieverDocuments(source)
    if isinstance(source, str) and (source == WIKIPEDIA or source.startswith(f"{WIKIPEDIA}:")):
        return _open_wiki(source)
    folder = Path(realpath(Path(source).expanduser()))
    if not folder.is_dir():
        fix = "setting documents takes a folder, or `wikipedia`"
        raise DataError(f"no such folder of documents; {fix}", source)
    states: dict[str, tuple[int, int]] = {}  # path in the folder -> size, and when it changed
    for file in folder.rglob("*"):
        path = file.relative_to(folder)
        if file.suffix.lower() in ENDINGS and not any(part.startswith(".") for part in path.parts):
            with suppress(OSError):  # gone meanwhile, or a link to nowhere
                facts = file.stat()
                if file.is_file():
                    states[path.as_posix()] = facts.st_size, facts.st_mtime_ns
                elif not file.is_dir():  # reading a pipe would wait for ever
                    _log.warning("left out: %s is a pipe or a device, no file", file)
    if not states:
        endings = f"{', '.join(ENDINGS[:-1])} or {ENDINGS[-1]}"
        raise DataError(f"no document in it; it should hold files that end in {endings}", folder)
    return _open_folder(folder, tuple(sorted(states.items())))


@lru_cache(maxsize=8)
def _open_wiki(source: str) -> WikipediaDocuments:
    url = source.partition(":")[2] or "en"
    if url.replace("-", "").isalpha() and len(url) <= 12:
        url = f"https://{url.lower()}.wikipedia.org/w/api.php"
    example = f"{WIKIPEDIA}, {WIKIPEDIA}:de, or {WIKIPEDIA}:https://wiki.example.org/w/api.php"
    split_url(url, "documents, a language or the API of a MediaWiki", example)
    return WikipediaDocuments(url)


@lru_cache(maxsize=4)
def _open_folder(folder: Path, states: tuple[tuple[str, tuple[int, int]], ...]) -> PassageIndex:
    found, errors = list[Passage](), list[DataError]()
    for name, _ in states:
        try:
            title, *texts = read_file(folder / name)
            found += [Passage(text, title, name) for text in texts]
        except DataError as error:
            errors.append(error)
            _log.warning("left out: %s", error)
    if len(errors) == len(states):
        raise errors[0]
    return PassageIndex(found)


def read_file(file: Path) -> list[str]:
    """Return the title of a file, then passages of its first 16 MiB. Raises `DataError` if it is not text."""
    title, ending = "", file.suffix.lower()
    try:
        with file.open("rb") as stream:
            data = stream.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            _log.warning("%s: only its first %d MiB are read", file, MOST_BYTES // 2**20)
            # A character that was cut in two is left out.
            data = data[:MOST_BYTES].decode("utf-8", "ignore").encode()
        if ending in HTML:
            if (page := _html.run(data, HTML_SECONDS)) is None:
                raise DataError("cannot read the document as HTML: nested too deep, or none", file)
            title, text = page
        else:
            text = data.decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(file, error) from error
    if "\x00" in text and ending not in HTML:
        raise DataError("cannot read the document as text: it holds zero bytes, as binary files do", file)
    if ending == ".md":
        title = match[1] if (match := _HEADING.search(text[:2000])) else ""
        text = _HEADING.sub(lambda m: f"\n\n{m[1]}\n\n", text)
    title = " ".join(title.split()) or " ".join(re.sub(r"[_-]+", " ", file.stem).split())
    return [title[:200], *passages(text)]


def html_reader() -> Callable[[bytes], tuple[str, str] | None]:
    """Return what gives title and text of a page: its parser takes hours for some, and cannot be ended."""

    def read(data: bytes) -> tuple[str, str] | None:
        from bs4 import BeautifulSoup

        with suppress(RecursionError, ValueError, AssertionError):
            page = BeautifulSoup(data, "html.parser")
            title = heading.get_text() if (heading := page.title or page.find("h1")) else ""
            for tag in page.find_all(_UNREAD):
                tag.decompose()
            return title, page.get_text("\n", strip=True)
        return None

    return read


_html = IsolatedCalls(f"{__name__}:{html_reader.__name__}", tuple)


def passages(text: str) -> Iterator[str]:
    """Split a text into passages: paragraphs, short ones joined, long ones cut where sentences end."""
    from langchain_classic.text_splitter import RecursiveCharacterTextSplitter

    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    ends = ["\n", r"(?<=[.!?;]) ", " ", ""]
    sizes: dict[str, Any] = {"chunk_size": PASSAGE, "chunk_overlap": 0}
    splitter = RecursiveCharacterTextSplitter(ends, is_separator_regex=True, **sizes)
    for chunk in splitter.split_text("\n".join(filter(None, paragraphs))):
        yield "\n".join(map(str.strip, chunk.split("\n")))
