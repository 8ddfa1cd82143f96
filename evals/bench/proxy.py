"""A proxy before a real SPARQL endpoint: distance, faults by chance, and a count of round trips."""

from __future__ import annotations

import http.client
import random
import socket
import threading
import time
from dataclasses import dataclass, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self
from urllib.parse import urlsplit, urlunsplit

FAULTS = ("HTTP 503", "HTTP 504", "hung up", "cut")
"""A fault is one of: overloaded, out of time, no reply at all, half of the reply's bytes."""
_HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "host", "accept-encoding"}


@dataclass(frozen=True)
class Traffic:
    """What passed.

    Attributes:
        requests: all of them. failed: those that met a fault of the proxy's own. refused: those that came
            while the endpoint was down. in_flight: at this moment. most_in_flight: at any moment.
        waves: sequential round trips: the longest chain of requests that each began after the one before
            had ended.
    """

    requests: int = 0
    failed: int = 0
    refused: int = 0
    in_flight: int = 0
    most_in_flight: int = 0
    waves: int = 0


class Proxy(ThreadingHTTPServer):
    """`with Proxy(endpoint, delay_ms=250) as proxy: open_kg(proxy.url)`; `proxy.traffic` counts.

    Args:
        target: URL of the endpoint. delay_ms: milliseconds that a round trip takes longer.
        failure_rate: share of requests that meet one of `FAULTS`; may be changed while it runs.
        seed: of the draws, which are made in the order of the requests.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 256

    def __init__(
        self, target: str, *, delay_ms: float = 0.0, failure_rate: float = 0.0, seed: int = 1
    ) -> None:
        self.target, self.delay_ms, self.failure_rate = urlsplit(target), delay_ms, failure_rate
        self._draws, self._lock, self._traffic = random.Random(seed), threading.Lock(), Traffic()
        super().__init__(("127.0.0.1", 0), _Handler)
        host = f"127.0.0.1:{self.server_address[1]}"
        self.url = urlunsplit(("http", host, self.target.path, "", ""))
        self._thread = threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.shutdown()
        self.server_close()
        self._thread.join()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: clients that hang up are no news."""

    @property
    def traffic(self) -> Traffic:
        """What passed since the last reset."""
        with self._lock:
            return self._traffic

    def reset(self) -> None:
        """Count from zero."""
        with self._lock:
            self._traffic = Traffic()

    def begin(self) -> tuple[str, int]:
        """Count a request; return the fault it meets ("" for none) and the place in its chain."""
        with self._lock:
            fault = self._draws.choice(FAULTS) if self._draws.random() < self.failure_rate else ""
            seen = self._traffic
            in_flight = seen.in_flight + 1
            self._traffic = replace(
                seen,
                requests=seen.requests + 1,
                failed=seen.failed + bool(fault),
                in_flight=in_flight,
                most_in_flight=max(seen.most_in_flight, in_flight),
            )
            return fault, seen.waves + 1

    def end(self, place: int, refused: bool) -> None:
        """Count a request as ended."""
        with self._lock:
            seen = self._traffic
            self._traffic = replace(
                seen,
                refused=seen.refused + refused,
                in_flight=max(0, seen.in_flight - 1),
                waves=max(seen.waves, place),
            )


class _Handler(BaseHTTPRequestHandler):
    """Passes one request on after another; connections stay open for clients that want it."""

    server: Proxy
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        """Pass it on."""
        fault, place = self.server.begin()
        status = 0
        try:
            time.sleep(self.server.delay_ms / 1000)
            sent = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if fault == "hung up":
                self.close_connection = True
                return
            if fault.startswith("HTTP"):
                status, body, headers = int(fault[-3:]), b"failed by chance", {}
            else:
                status, body, headers = self._ask(sent)
        finally:  # before the reply: what the client does next is a new round trip
            self.server.end(place, status == 502)
        self.send_response_only(status)  # without a Server header: engines are told apart by theirs
        for name, value in headers.items():
            if name.lower() not in _HOP_BY_HOP:
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if fault == "cut":
            body, self.close_connection = body[: len(body) // 2], True
        self.wfile.write(body)

    do_POST = do_GET  # noqa: N815 - the name that the base class looks for

    def _ask(self, body: bytes) -> tuple[int, bytes, dict[str, str]]:
        """Return status, body and headers of the endpoint's reply; 502 where it cannot be reached."""
        target = self.server.target
        headers = {k: v for k, v in self.headers.items() if k.lower() not in _HOP_BY_HOP}
        upstream = http.client.HTTPConnection(target.hostname or "", target.port or 80, timeout=600)
        try:
            upstream.connect()
            upstream.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            upstream.request(self.command, self.path, body or None, headers)
            reply = upstream.getresponse()
            return reply.status, reply.read(), dict(reply.headers.items())
        except (OSError, http.client.HTTPException) as error:
            return 502, f"the endpoint cannot be reached: {error}".encode(), {}
        finally:
            upstream.close()
