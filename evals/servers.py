"""Servers on loopback for benches and tests: a SPARQL endpoint that is a real engine, a proxy before one."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from email.message import Message
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import httpx
import pyoxigraph as ox


class LoopbackServer(ThreadingHTTPServer):
    """A server in a thread of its own at `origin`, on a free port by default; use it as a context manager."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(self, handler: type[BaseHTTPRequestHandler], port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), handler)
        self.origin = f"http://127.0.0.1:{self.server_address[1]}"
        self._thread = threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True)

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
        """Log nothing when a client hangs up."""


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
    """An endpoint over a store, named graphs read as one; `asked` are the queries so far."""

    def __init__(self, store: ox.Store) -> None:
        super().__init__(_SparqlHandler)
        self.store, self.asked, self.url = store, list[str](), f"{self.origin}/sparql"

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
        self.server.asked.append(sparql)
        status, kind, body = self.server.answer(sparql)
        self.send_body(status, body, kind)

    do_POST = do_GET  # noqa: N815 - the name that the base class looks for


_HOP_BY_HOP = {
    "connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding",
    "content-encoding",
}  # fmt: skip


class Proxy(LoopbackServer):
    """Adds `delay_ms` to every round trip to an endpoint, opening a connection included, and counts.

    `waves` are sequential round trips: the longest chain of requests that each began after one had ended.
    """

    def __init__(self, target: str, *, delay_ms: float = 0.0) -> None:
        parts = urlsplit(target)
        self.target, self.delay_ms = f"http://{parts.netloc}", delay_ms
        self.lock, self.requests, self.waves = threading.Lock(), 0, 0
        super().__init__(_ProxyHandler)
        self.url = f"{self.origin}{parts.path}"

    def reset(self) -> None:
        """Count from zero."""
        self.requests = self.waves = 0


class _ProxyHandler(LoopbackHandler):
    server: Proxy

    def setup(self) -> None:
        """Shake hands, which takes a round trip."""
        super().setup()
        time.sleep(self.server.delay_ms / 1000)

    def do_GET(self) -> None:
        """Pass a request on."""
        proxy = self.server
        with proxy.lock:
            proxy.requests += 1
            place = proxy.waves + 1
        time.sleep(proxy.delay_ms / 1000)
        url, given = f"{proxy.target}{self.path}", _end_to_end(self.headers)
        reply = httpx.request(self.command, url, content=self.read_body(), headers=given, timeout=600)
        with proxy.lock:  # before the reply: what the client does next is a new round trip
            proxy.waves = max(proxy.waves, place)
        self.send_response_only(reply.status_code)  # no Server header: engines are recognised by theirs
        for name, value in {**_end_to_end(reply.headers), "Content-Length": str(len(reply.content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(reply.content)

    do_POST = do_GET  # noqa: N815 - the name that the base class looks for


def _end_to_end(headers: Mapping[str, str] | Message) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
