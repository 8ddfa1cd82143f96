"""Servers on loopback for benches and tests: a SPARQL endpoint that is a real engine, a proxy before one."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
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
    """An endpoint over a store, named graphs read as one; `asked` are the queries so far."""

    def __init__(self, store: ox.Store) -> None:
        super().__init__(_SparqlHandler)
        self.store, self.asked, self.url = store, list[str](), f"{self.origin}/sparql"

    def answer(self, sparql: str) -> tuple[int, str, bytes]:
        """Return status, content type and body of the reply to a query."""
        try:
            results: Any = self.store.query(sparql, use_default_graph_as_union=True)
            return (
                200,
                "application/sparql-results+json",
                results.serialize(format=ox.QueryResultsFormat.JSON),
            )
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


FAULTS = ("503", "504", "hung up", "cut")
"""A failing request meets one of these: overloaded, out of time, no reply, half of the reply's bytes."""
_HOP_BY_HOP = {
    "connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding",
    "content-encoding",
}  # fmt: skip


@dataclass
class Traffic:
    """What passed; `failed` met a fault of the proxy, `refused` an endpoint that is down.

    `waves` are sequential round trips: the longest chain of requests that each began after one had ended.
    """

    requests: int = 0
    failed: int = 0
    refused: int = 0
    waves: int = 0


class Proxy(LoopbackServer):
    """Counts what goes to an endpoint, `failure_rate` of which meets one of `FAULTS`, drawn by `seed`.

    `delay_ms` is added to every round trip, opening a connection included.
    """

    def __init__(
        self, target: str, *, delay_ms: float = 0.0, failure_rate: float = 0.0, seed: int = 1
    ) -> None:
        parts = urlsplit(target)
        self.target, self.delay_ms, self.failure_rate = f"http://{parts.netloc}", delay_ms, failure_rate
        self.draws, self.lock, self.traffic = random.Random(seed), threading.Lock(), Traffic()
        super().__init__(_ProxyHandler)
        self.url = f"{self.origin}{parts.path}"

    def reset(self) -> None:
        """Count from zero."""
        self.traffic = Traffic()


class _ProxyHandler(LoopbackHandler):
    server: Proxy

    def setup(self) -> None:
        """Shake hands, which takes a round trip."""
        super().setup()
        time.sleep(self.server.delay_ms / 1000)

    def do_GET(self) -> None:
        """Pass a request on, or fail it."""
        proxy = self.server
        with proxy.lock:
            traffic, fault = proxy.traffic, ""
            if proxy.draws.random() < proxy.failure_rate:
                fault = proxy.draws.choice(FAULTS)
            place = traffic.waves + 1
            traffic.requests += 1
            traffic.failed += bool(fault)
        sent, headers = self.read_body(), dict[str, str]()
        time.sleep(proxy.delay_ms / 1000)
        status, body = int(fault) if fault.isdecimal() else 0, b"failed by chance"
        if fault in ("", "cut"):
            try:
                url, given = f"{proxy.target}{self.path}", _end_to_end(self.headers)
                reply = httpx.request(self.command, url, content=sent, headers=given, timeout=600)
                status, headers, body = reply.status_code, _end_to_end(reply.headers), reply.content
            except httpx.HTTPError as error:
                status, body = 502, f"the endpoint cannot be reached: {error}".encode()
        with proxy.lock:  # before the reply: what the client does next is a new round trip
            traffic.refused += status == 502
            traffic.waves = max(traffic.waves, place)
        self.close_connection = self.close_connection or fault in ("hung up", "cut")
        if status:
            self.send_response_only(status)  # without a Server header: engines are recognised by theirs
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)

    do_POST = do_GET  # noqa: N815 - the name that the base class looks for


def _end_to_end(headers: Mapping[str, str] | Message) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.lower() not in _HOP_BY_HOP}
