"""A MediaWiki on loopback that answers the queries of its real API: search, info, extracts."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit


class MediaWiki:
    """Pages by title. `fault`: html, error, status, slow, odd, deep, long; asked: the queries that came."""

    def __init__(self, pages: Mapping[str, str], fault: str = "") -> None:
        self.pages, self.fault = dict(pages), fault
        self.asked: list[dict[str, str]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.url = f"http://127.0.0.1:{self._server.server_port}/w/api.php"

    def __enter__(self) -> MediaWiki:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def answer(self, query: dict[str, str]) -> Any:
        if query.get("list") == "search":
            words = query["srsearch"].lower().split()
            titles = [t for t, text in self.pages.items() if all(w in f"{t} {text}".lower() for w in words)]
            return {"query": {"search": [{"ns": 0, "title": t} for t in titles[: int(query["srlimit"])]]}}
        title = query["titles"]
        number = str(1 + list(self.pages).index(title)) if title in self.pages else "-1"
        page: dict[str, Any] = {"pageid": int(number), "ns": 0, "title": title}
        if number == "-1":
            page["missing"] = ""
        else:
            address = f"https://wiki.example.org/wiki/{title.replace(' ', '_')}"
            page |= {"extract": self.pages[title], "fullurl": address}
        return {"query": {"pages": {number: page}}}

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        wiki = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                query = {k: v[0] for k, v in parse_qs(urlsplit(self.path).query).items()}
                wiki.asked.append(query)
                if wiki.fault == "slow":
                    time.sleep(1.0)
                body = {
                    "html": "<html>Please log in</html>",
                    "error": json.dumps({"error": {"info": "Pool queue is full"}}),
                    "odd": json.dumps({"query": []}),
                    "deep": "[" * 100_000,
                    "long": json.dumps({"query": {"search": [], "x": "y" * 20_000_000}}),
                }.get(wiki.fault) or json.dumps(wiki.answer(query))
                with suppress(OSError):  # the client has gone
                    self._send(body)

            def _send(self, body: str) -> None:
                self.send_response(503 if wiki.fault == "status" else 200)
                self.send_header("Content-Type", "application/json")
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_: object) -> None:
                pass

        return Handler
