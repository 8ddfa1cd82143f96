"""Servers on loopback for benches and tests: what they share, and a SPARQL endpoint that is a real engine."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    import pyoxigraph as ox


class LoopbackServer(ThreadingHTTPServer):
    """A server in a thread of its own, on a free port unless one is given; use it as a context manager."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

    @property
    def origin(self) -> str:
        """`http://127.0.0.1:PORT`."""
        return f"http://127.0.0.1:{self.server_address[1]}"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving."""
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: clients that hang up are no news."""


class LoopbackHandler(BaseHTTPRequestHandler):
    """Answers silently; connections stay open for clients that want it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""

    def read_body(self) -> bytes:
        """Return the body of the request."""
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def send_head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        """Send the status line and the headers."""
        self.send_response(status)
        for name, value in {"Content-Type": content_type, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def send_body(
        self, status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Answer with a body."""
        self.send_head(status, content_type, {"Content-Length": str(len(body)), **(headers or {})})
        self.wfile.write(body)


class OxigraphServer(LoopbackServer):
    """`with OxigraphServer(store) as server: EndpointKG(server.url, profile)`; named graphs read as one.

    Attributes:
        asked: the queries so far.
    """

    def __init__(self, store: ox.Store) -> None:
        super().__init__(_SparqlHandler)
        self.store, self.asked, self.url = store, list[str](), f"{self.origin}/sparql"

    def answer(self, sparql: str) -> tuple[int, str, bytes]:
        """Return status, content type and body of the reply to a query."""
        import pyoxigraph as ox

        try:
            results: Any = self.store.query(sparql, use_default_graph_as_union=True)
            body: bytes = results.serialize(format=ox.QueryResultsFormat.JSON)
        except (SyntaxError, RuntimeError, ValueError) as error:
            return 400, "text/plain", str(error).encode()
        return 200, "application/sparql-results+json", body


class _SparqlHandler(LoopbackHandler):
    server: OxigraphServer

    def do_GET(self) -> None:
        (sparql,) = parse_qs(urlsplit(self.path).query or self.read_body().decode())["query"]
        self.server.asked.append(sparql)
        status, kind, body = self.server.answer(sparql)
        self.send_body(status, body, kind)

    do_POST = do_GET  # noqa: N815 - the name that the base class looks for
