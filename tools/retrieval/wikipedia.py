"""Wikipedia, or any other MediaWiki, read online through its web API."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx

from triplewise.tools.core.errors import ConfigurationError, DocumentsUnavailableError
from triplewise.tools.core.facts import Passage
from triplewise.tools.core.lru import LRUCache
from triplewise.tools.core.names import normalise
from triplewise.tools.retrieval.document_files import passages
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.passage_index import SHOWN, PassageIndex

WIKIPEDIA = "wikipedia"
REQUEST_SECONDS = 8.0
"""Seconds one request may take."""
SEARCH_SECONDS = 25.0
"""Seconds one search may take with all its requests."""
PAGES = 3
"""Pages of one search."""
CHARACTERS = 30_000
"""Characters read of one page."""
REMEMBERED = 256
"""Searches of a wiki whose pages are remembered, the least recent ones leave first."""

_AGENT = "triplewise (https://github.com/triplewise/triplewise)"


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
        self,
        name: str,
        relation: str = "",
        question: str = "",
        *,
        aliases: Sequence[str] = (),
        limit: int = SHOWN,
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
        return index.find(name, relation, question, aliases=aliases, limit=limit)

    def _fetch(self, topic: str) -> list[Passage]:
        """Search the wiki, and fetch the pages it finds."""
        server, deadline = urlsplit(self.url).hostname, time.monotonic() + SEARCH_SECONDS
        fetched: list[Passage] = []
        try:
            with httpx.Client(headers={"User-Agent": _AGENT}, follow_redirects=True) as client:

                def query(**parameters: str | int) -> Any:
                    seconds = min(self._seconds, deadline - time.monotonic())
                    if seconds <= 0:
                        raise httpx.ReadTimeout(f"no answer within {SEARCH_SECONDS:g} s")
                    parameters |= {"action": "query", "format": "json"}
                    reply = client.get(self.url, params=parameters, timeout=seconds)
                    return reply.raise_for_status().json()["query"]

                parts: dict[str, str | int]
                parts = {"prop": "extracts|info", "explaintext": 1, "inprop": "url", "redirects": 1}
                for hit in query(list="search", srsearch=topic, srlimit=PAGES)["search"]:
                    for page in query(titles=hit["title"], **parts)["pages"].values():
                        # Headings (`== Career ==`) become paragraphs of their own.
                        lines = (line.strip() for line in page.get("extract", "")[:CHARACTERS].split("\n"))
                        text = "\n\n".join(s.strip("= ") if s.startswith("==") else s for s in lines)
                        about = (str(page["title"]), str(page.get("fullurl", "")))
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


@lru_cache(maxsize=8)
def open_wikipedia(source: str, encoder: Encoder | None = None) -> WikipediaDocuments:
    """Return the wiki a source names: `wikipedia`, `wikipedia:LANGUAGE`, `wikipedia:URL of an API`.

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
    return WikipediaDocuments(url, encoder)
