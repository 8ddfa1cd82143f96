"""Wikipedia, or any other MediaWiki, read online through langchain-community."""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import httpx

from triplewise.tools.core.errors import ConfigurationError, DocumentsUnavailableError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.names import normalise
from triplewise.tools.kg.protocol import LRUCache
from triplewise.tools.retrieval.document_files import passages
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.passage_index import PassageIndex

WIKIPEDIA = "wikipedia"
REQUEST_SECONDS, SEARCH_SECONDS = 8.0, 25.0
"""Seconds that one request, and one search with all its requests, may take."""
PAGES, CHARACTERS = 3, 30_000
"""Pages of one search, and characters read of one page."""
AGENT = "triplewise (https://github.com/triplewise/triplewise)"
REMEMBERED = 256
"""Searches of a wiki whose pages are remembered, the least recent ones leave first."""


class WikipediaDocuments:
    """Pages of a MediaWiki, fetched by the name of an entity when they are asked for. Keeps nothing on disk.

    Args:
        url: address of its API. encoder: orders passages; None for the embedded one.
        request_seconds: time one request may take.
    """

    def __init__(
        self, url: str, encoder: Encoder | None = None, request_seconds: float = REQUEST_SECONDS
    ) -> None:
        self.url, self._encoder, self._seconds = url, encoder, request_seconds
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
                    wiki_client=_Wiki(http, self.url, self._seconds),
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

    def __init__(self, http: httpx.Client, url: str, request_seconds: float) -> None:
        self._http, self._url, self._seconds = http, url, request_seconds
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
        seconds = min(self._seconds, self._deadline - time.monotonic())
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
