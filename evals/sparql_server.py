"""A SPARQL endpoint over a pyoxigraph store of this process: a real engine for benches and tests."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import pyoxigraph as ox


class OxigraphServer(ThreadingHTTPServer):
    """`with OxigraphServer(store) as server: EndpointKG(server.url, profile)`; named graphs read as one.

    Attributes:
        asked: the queries so far.
    """

    daemon_threads = True
    block_on_close = False

    def __init__(self, store: ox.Store) -> None:
        self.store, self.asked = store, list[str]()
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_address[1]}/sparql"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def answer(self, sparql: str) -> tuple[int, str, bytes]:
        """Return status, content type and body of the reply to a query."""
        try:
            results: Any = self.store.query(sparql, use_default_graph_as_union=True)
            body: bytes = results.serialize(format=ox.QueryResultsFormat.JSON)
        except (SyntaxError, RuntimeError, ValueError) as error:
            return 400, "text/plain", str(error).encode()
        return 200, "application/sparql-results+json", body

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: clients that hang up are no news."""


class _Handler(BaseHTTPRequestHandler):
    server: OxigraphServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        self._answer(urlsplit(self.path).query)

    def do_POST(self) -> None:
        self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

    def _answer(self, parameters: str) -> None:
        (sparql,) = parse_qs(parameters)["query"]
        self.server.asked.append(sparql)
        status, kind, body = self.server.answer(sparql)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        pass
