"""The three graphs of the tests, in memory, and an endpoint in front of one that fails on command."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pyoxigraph as ox

from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.profile import load_profile
from triplewise.tools.kg.rdf import GraphReader

FILES = {
    "freebase": (
        ("freebase_kg/observed.nt.gz", "freebase_kg/gold_derived.nt.gz"),
        "freebase_kg/labels.tsv.gz",
    ),
    "wikidata": (
        ("wikidata_kg/observed.nt.gz", "wikidata_kg/gold_derived.nt.gz", "wikidata_kg/background.nt.gz"),
        "wikidata_kg/labels.tsv.gz",
    ),
    "metaqa": (("metaqa/kb.txt.gz",), ""),
}
RESULTS = "application/sparql-results+json"


@cache
def store(folder: Path, name: str) -> ox.Store:
    """A graph with its labels, without a label index: nothing here is linked by name."""
    facts, labels = FILES[name]
    profile, filled = load_profile(name), ox.Store()
    feed = GraphReader(profile)
    filled.bulk_extend(feed.facts([folder / f for f in facts], profile))
    if labels:
        filled.bulk_extend(feed.labels([folder / labels], profile))
    return filled


def open_graph(folder: Path, name: str, timeout: float = 30.0, limit: int = 10_000) -> EmbeddedKG:
    """The graph as the product opens it."""
    return EmbeddedKG(store(folder, name), load_profile(name), name, timeout=timeout, limit=limit)


class Endpoint:
    """A SPARQL endpoint on loopback that answers from a store.

    `fault`: "" answers; "timeout" hangs until the client has gone; "unavailable" cuts the connection;
    "refused" says that the query cannot be run; "empty" finds nothing.
    """

    def __init__(self, graph: ox.Store) -> None:
        self.graph = graph
        self.fault = ""
        self.closing = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/sparql"

    def answer(self, query: str) -> bytes:
        """The results as SPARQL JSON."""
        found = self.graph.query(query)
        assert not isinstance(found, ox.QueryTriples)
        return found.serialize(format=ox.QueryResultsFormat.JSON) or b""

    @contextmanager
    def running(self) -> Iterator[Endpoint]:
        """Serve until the block ends."""
        thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self.closing.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join(5)


def _handler(endpoint: Endpoint) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._reply(urlsplit(self.path).query)

        def do_POST(self) -> None:
            self._reply(self.rfile.read(int(self.headers["Content-Length"])).decode())

        def _reply(self, encoded: str) -> None:
            self.close_connection = True
            if endpoint.fault == "unavailable":
                return
            if endpoint.fault == "timeout":
                endpoint.closing.wait(10)
                return
            if endpoint.fault == "refused":
                self._send(400, b"37000 Error SP030: SPARQL compiler: incomparable types", "text/plain")
                return
            if endpoint.fault == "empty":
                self._send(200, b'{"head": {"vars": []}, "results": {"bindings": []}}', RESULTS)
                return
            self._send(200, endpoint.answer(parse_qs(encoded)["query"][0]), RESULTS)

        def _send(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    return Handler
