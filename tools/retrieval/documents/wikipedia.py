"""Wikipedia, or any other MediaWiki, read online through langchain-community's retriever."""

from __future__ import annotations

import importlib
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from triplewise.tools.core.errors import ConfigurationError, DocumentsUnavailableError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.lru import LRUCache
from triplewise.tools.core.names import normalise
from triplewise.tools.retrieval.documents.files import passages
from triplewise.tools.retrieval.documents.passage_index import SHOWN, PassageIndex
from triplewise.tools.retrieval.encoder import Encoder, open_encoder
from triplewise.tools.retrieval.vectors import VectorStore

WIKIPEDIA = "wikipedia"
REQUEST_SECONDS = 8.0
"""Seconds one request may take."""
SEARCH_SECONDS = 25.0
"""Seconds one search may take with all its requests."""
PAGES = 3
"""Pages of one search."""
CHARACTERS = 30_000
"""Characters read of one page."""
REMEMBERED, OPEN_WIKIS = 256, 8
"""Searches of a wiki whose pages are remembered, and wikis held open; the least recent ones leave first."""

_AGENT = "triplewise (https://github.com/triplewise/triplewise)"
_client = Lock()


class WikipediaDocuments:
    """Pages of a MediaWiki, fetched by the name of an entity when they are asked for. Keeps nothing on disk.

    Args:
        url: address of its API. encoder: orders passages; None for the embedded one.
        request_seconds: time one request may take. search_seconds: time a search may take with all of them.
    """

    def __init__(
        self,
        url: str,
        encoder: Encoder | None = None,
        request_seconds: float = REQUEST_SECONDS,
        search_seconds: float = SEARCH_SECONDS,
    ) -> None:
        self.url = url
        self._encoder = encoder
        self._seconds = (request_seconds, search_seconds)
        self._pages = LRUCache[str, PassageIndex](REMEMBERED)

    def find(
        self,
        name: str,
        relation: str = "",
        question: str = "",
        *,
        aliases: Sequence[str] = (),
        limit: int = SHOWN,
    ) -> tuple[Passage, ...]:
        """Passages of the pages about an entity, best first; see `Documents.find`.

        All passages of a page that is titled by the entity are about it.
        """
        sought = name.strip() or question.strip()
        if not sought:
            return ()
        index = self._pages.get(normalise(sought))
        if index is None:
            pages, encoder = self._fetch(sought), self._encoder
            index = PassageIndex(pages, lambda: VectorStore(encoder or open_encoder()))
            self._pages[normalise(sought)] = index
        names = [n for n in (name, *aliases) if n.strip()]
        return index.find(names, " ".join(p for p in (name, relation, question) if p), limit)

    def _fetch(self, sought: str) -> list[Passage]:
        """Search and fetch, all requests within the time there is.

        The one client of the library is global, and asks without a time-out: while it works for us, its
        requests go through ours.
        """
        module: Any = importlib.import_module("wikipedia.wikipedia")
        own = module.requests
        with _client, _failures(self.url, own, importlib.import_module("wikipedia.exceptions")):
            module.search.clear_cache()
            with warnings.catch_warnings():  # langchain-community says at import that it is in maintenance
                warnings.simplefilter("ignore", DeprecationWarning)
                from langchain_community.retrievers import WikipediaRetriever
            retriever = WikipediaRetriever(  # type: ignore[call-arg]
                top_k_results=PAGES, doc_content_chars_max=CHARACTERS
            )
            module.requests = _Requests(own, self.url, *self._seconds)
            try:
                pages = retriever.invoke(sought)
            finally:
                module.requests = own
        fetched = []
        for page in pages:
            # Headings (`== Career ==`) become paragraphs of their own.
            lines = (line.strip() for line in page.page_content.split("\n"))
            text = "\n\n".join(line.strip("= ") if line.startswith("==") else line for line in lines)
            title, source = str(page.metadata["title"]), str(page.metadata["source"])
            fetched += [Passage(passage, title, source) for passage in passages(text)]
        return fetched


_opened = LRUCache[tuple[str, int], WikipediaDocuments](OPEN_WIKIS)


def open_wikipedia(source: str, encoder: Encoder | None = None) -> WikipediaDocuments:
    """The wiki a source names: `wikipedia`, `wikipedia:LANGUAGE`, `wikipedia:URL of an API`.

    Raises:
        ConfigurationError: neither a language nor an address.
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
    with _client:
        documents = _opened.get((url, id(encoder)))
        if documents is None:
            documents = _opened[url, id(encoder)] = WikipediaDocuments(url, encoder)
        return documents


@dataclass(slots=True)
class _Requests:
    """Stands in for the library's `requests`: a `get` that ends in time and asks the right server."""

    library: Any
    url: str
    seconds: float
    all_seconds: float
    started: float = -1.0

    def get(self, _url: str, params: dict[str, Any], headers: dict[str, str]) -> Any:
        """One request."""
        now = time.monotonic()
        self.started = now if self.started < 0 else self.started
        left = self.all_seconds - (now - self.started)
        if left <= 0:
            raise TimeoutError(f"no answer within {self.all_seconds:g} s")
        headers = {**headers, "User-Agent": _AGENT}
        reply = self.library.get(self.url, params=params, headers=headers, timeout=min(self.seconds, left))
        reply.raise_for_status()
        return reply


@contextmanager
def _failures(url: str, requests: Any, exceptions: Any) -> Iterator[None]:
    """Turn failures of the wiki into one error that says what to do."""
    server = urlsplit(url).hostname
    try:
        yield
    except (requests.exceptions.RequestException, TimeoutError) as error:
        raise DocumentsUnavailableError(
            f"{server} cannot be reached ({type(error).__name__}): check the network, or set documents to a "
            "folder of text files, which needs none"
        ) from error
    except (ValueError, LookupError, TypeError, AssertionError, exceptions.WikipediaException) as error:
        raise DocumentsUnavailableError(
            f"{server} gave no usable answer ({type(error).__name__}); check that {url} is a MediaWiki's API"
        ) from error
