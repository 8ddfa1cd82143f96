"""A SPARQL endpoint on loopback that is a real engine, near or far."""

from __future__ import annotations

import threading
import time
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyoxigraph as ox

from triplewise.evals.scripted_model import LoopbackHandler, LoopbackServer


class OxigraphServer(LoopbackServer):
    """An endpoint over a store, named graphs read as one."""

    def __init__(self, store: ox.Store) -> None:
        super().__init__(_SparqlHandler)
        self.store, self.url = store, f"{self.origin}/sparql"

    def answer(self, sparql: str) -> tuple[int, str, bytes]:
        """Return status, content type and body of the reply to a query."""
        try:
            results: Any = self.store.query(sparql, use_default_graph_as_union=True)
            body = results.serialize(format=ox.QueryResultsFormat.JSON)
            return 200, "application/sparql-results+json", body
        except (SyntaxError, RuntimeError, ValueError) as error:
            return 400, "text/plain", str(error).encode()


class _SparqlHandler(LoopbackHandler):
    server: OxigraphServer

    def do_GET(self) -> None:
        (sparql,) = parse_qs(urlsplit(self.path).query or self.read_body().decode())["query"]
        status, kind, body = self.server.answer(sparql)
        self.send_body(status, body, kind)

    do_POST = do_GET  # noqa: N815 - the name that the base class looks for


class DistantServer(OxigraphServer):
    """An endpoint over a store, a round trip of `delay_ms` away; also counts.

    `asked` are the queries since the last `reset`, `waves` the sequential round trips: the longest chain of
    requests that each began after one had ended.
    """

    def __init__(self, store: ox.Store, delay_ms: float = 0.0) -> None:
        super().__init__(store)
        self.delay_ms, self.lock, self.asked, self.waves = delay_ms, threading.Lock(), list[str](), 0

    def reset(self) -> None:
        """Count from zero."""
        self.asked, self.waves = [], 0

    def wait(self) -> None:
        """Let the time of a round trip pass."""
        time.sleep(self.delay_ms / 1000)

    def answer(self, sparql: str) -> tuple[int, str, bytes]:
        with self.lock:
            self.asked.append(sparql)
            place = self.waves + 1
        self.wait()
        reply = super().answer(sparql)
        with self.lock:  # before the reply: what the client does next is a new round trip
            self.waves = max(self.waves, place)
        return reply
