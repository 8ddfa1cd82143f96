"""Wikipedia, or any other MediaWiki, read online through langchain-community's retriever."""

from __future__ import annotations

import importlib
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import Any
from urllib.parse import urlsplit

from triplewise.tools.core.errors import ConfigurationError, DocumentsUnavailableError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.names import normalise
from triplewise.tools.retrieval.documents.base import SHOWN, Progress
from triplewise.tools.retrieval.documents.embeddings import KeptEmbeddings
from triplewise.tools.retrieval.documents.index import PassageIndex, community
from triplewise.tools.retrieval.documents.reading import passages
from triplewise.tools.retrieval.encoder import Encoder, open_encoder

WIKIPEDIA = "wikipedia"
REQUEST_SECONDS = 8.0
"""Seconds one request may take."""
SEARCH_SECONDS = 25.0
"""Seconds one search may take with all its requests."""
PAGES = 3
"""Pages of one search."""
CHARACTERS = 30_000
"""Characters read of one page."""
KEPT = 256
"""Searches whose pages are kept, the least recent ones leave first."""

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
        self._pages: OrderedDict[str, PassageIndex] = OrderedDict()

    @classmethod
    def of(cls, source: str, encoder: Encoder | None = None) -> WikipediaDocuments:
        """The wiki a source names: `wikipedia`, `wikipedia:LANGUAGE`, `wikipedia:URL of an API`.

        Raises:
            ConfigurationError: neither a language nor an address.
        """
        url = _address(source.partition(":")[2] or "en")
        with _client:
            return _opened.setdefault((url, id(encoder)), cls(url, encoder))

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
        index = self._fetched(sought)
        names = [n for n in (name, *aliases) if n.strip()]
        query = " ".join(p for p in (name, relation, question) if p)
        return index.find(names, query, query, limit, mentioned=True)

    def search(self, name: str, relation: str, limit: int = SHOWN) -> list[str]:
        """The texts of `find`; none without a name."""
        return [p.text for p in self.find(name, relation, limit=limit)] if name.strip() else []

    def prepare(self, progress: Progress | None = None) -> None:
        """Nothing: pages are fetched when they are asked for."""

    def _fetched(self, sought: str) -> PassageIndex:
        """The passages of the pages found for a name."""
        key = normalise(sought)
        if (known := self._pages.get(key)) is not None:
            return known
        index = PassageIndex(self._ask(sought), lambda: KeptEmbeddings(self._encoder or open_encoder()))
        self._pages[key] = index
        while len(self._pages) > KEPT:
            self._pages.popitem(last=False)
        return index

    def _ask(self, sought: str) -> list[Passage]:
        """Search and fetch, all requests within the time there is.

        The one client of the library is global, and asks without a time-out: while it works for us, its
        requests go through ours.
        """
        module: Any = importlib.import_module("wikipedia.wikipedia")
        own = module.requests
        with _client, _failures(self.url, own, importlib.import_module("wikipedia.exceptions")):
            module.search.clear_cache()
            retriever = community().retrievers.WikipediaRetriever(
                top_k_results=PAGES, doc_content_chars_max=CHARACTERS
            )
            module.requests = _Requests(own, self.url, *self._seconds)
            try:
                pages = retriever.invoke(sought)
            finally:
                module.requests = own
        return [
            Passage(text, str(page.metadata["title"]), str(page.metadata["source"]))
            for page in pages
            for text in passages(_without_signs(page.page_content))
        ]


_opened: dict[tuple[str, int], WikipediaDocuments] = {}


def _address(where: str) -> str:
    """The address of an API, from a language or as it is."""
    if where.replace("-", "").isalpha() and len(where) <= 12:
        return f"https://{where.lower()}.wikipedia.org/w/api.php"
    parts = urlsplit(where)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"documents {WIKIPEDIA}:{where} is neither a language nor the address of a MediaWiki API; give "
            f"{WIKIPEDIA}, {WIKIPEDIA}:de, or {WIKIPEDIA}:https://wiki.example.org/w/api.php"
        )
    return where


@dataclass(slots=True)
class _Requests:
    """What the library calls `requests`: a `get` that ends in time and asks the right server."""

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
    """What can go wrong between us and the wiki, as one error with the mend."""
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


def _without_signs(text: str) -> str:
    """Plain text of a page: its headings (`== Career ==`) as paragraphs of their own."""
    lines = (line.strip() for line in text.split("\n"))
    return "\n\n".join(line.strip("= ") if line.startswith("==") else line for line in lines)
