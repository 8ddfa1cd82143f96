"""A SPARQL endpoint on loopback that answers as a script says, in well-behaved and bad ways."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

RESULTS = "application/sparql-results+json"


def rows(*values: str, variable: str = "x") -> str:
    """JSON results with one IRI a row; without any, they name no column."""
    bindings = [{variable: {"type": "uri", "value": v}} for v in values]
    return json.dumps({"head": {"vars": [variable] if values else []}, "results": {"bindings": bindings}})


@dataclass(frozen=True)
class Scripted:
    """One reply. `cut`: bytes of the body after which the connection closes. `delay`: seconds before it.

    `drip`: seconds between single bytes of the body. `hang_up`: close without any reply.
    """

    body: str | bytes = ""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    content_type: str = RESULTS
    cut: int | None = None
    delay: float = 0.0
    drip: float = 0.0
    hang_up: bool = False


@dataclass(frozen=True)
class Asked:
    """A request as it came, header names in lower case."""

    method: str
    parameters: dict[str, list[str]]
    headers: dict[str, str]


class SparqlServer:
    """`with SparqlServer([Scripted(...), ...]) as server`: the last reply repeats; `server.asked` records."""

    def __init__(self, replies: Sequence[Scripted]) -> None:
        self._replies = list(replies)
        self.asked: list[Asked] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/sparql"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(5)

    def next_reply(self, asked: Asked) -> Scripted:
        """The reply due to a request."""
        return self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        script = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(urlsplit(self.path).query)

            def do_POST(self) -> None:
                self._answer(self.rfile.read(int(self.headers["Content-Length"])).decode())

            def _answer(self, query: str) -> None:
                headers = {name.lower(): value for name, value in self.headers.items()}
                asked = Asked(self.command, parse_qs(query), headers)
                script.asked.append(asked)
                reply = script.next_reply(asked)
                time.sleep(reply.delay)
                self.close_connection = True
                if not reply.hang_up:
                    _send(self, reply)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        return Handler


def _send(handler: BaseHTTPRequestHandler, reply: Scripted) -> None:
    body = reply.body if isinstance(reply.body, bytes) else reply.body.encode()
    try:
        handler.send_response(reply.status)
        handler.send_header("Content-Type", reply.content_type)
        handler.send_header("Content-Length", str(len(body)))
        for name, value in reply.headers.items():
            handler.send_header(name, value)
        handler.end_headers()
        body = body[: reply.cut]
        for i in range(len(body) if reply.drip else 0):
            handler.wfile.write(body[i : i + 1])
            time.sleep(reply.drip)
        handler.wfile.write(b"" if reply.drip else body)
    except ConnectionError:
        handler.close_connection = True
