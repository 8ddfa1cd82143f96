"""A language model that follows a script: an OpenAI-compatible chat server on loopback.

`python -m triplewise.evals.scripted_model --port 8089` replies by the rules of `scripted_model.yaml`.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Annotated, Any, ClassVar, Self

import typer
from jinja2 import Template

from triplewise.tools.core.files import packaged

MODEL = "openai:scripted"  # what a context calls the model of a server

Messages = list[dict[str, Any]]
Replies = Callable[[Messages], Any]  # the text of a reply, or what `ChatHandler.reply` of a subclass takes


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

    def send_body(self, status: int, body: bytes, content_type: str, headers: Mapping[str, str] = {}) -> None:
        """Answer with a body."""
        self.send_response(status)
        about = {"Content-Type": content_type, "Content-Length": str(len(body)), **headers}
        for name, value in about.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


class ChatHandler(LoopbackHandler):
    """Speaks the part of the API that a chat needs."""

    server: OpenAIServer

    def do_POST(self) -> None:
        """Answer a request."""
        self.post(json.loads(self.read_body()))

    def post(self, body: dict[str, Any]) -> None:
        """Answer a chat."""
        self.reply(self.server.next_reply(body["messages"]), body)

    def reply(self, reply: Any, body: dict[str, Any]) -> None:
        """Answer a chat with what the script says."""
        choice = {"index": 0, "message": {"role": "assistant", "content": reply}, "finish_reason": "stop"}
        about = {"id": "chatcmpl-script", "object": "chat.completion", "created": 0, "model": body["model"]}
        self.send_json(200, {**about, "choices": [choice], "usage": self.usage(reply, body)})

    def usage(self, reply: str, body: dict[str, Any]) -> dict[str, int]:
        """Return the tokens of a chat as the API has them."""
        prompt = sum(self.server.count_tokens(str(m.get("content") or "")) for m in body["messages"])
        written = self.server.count_tokens(reply)
        return {"prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written}

    def send_json(self, status: int, data: Any, headers: Mapping[str, str] = {}) -> None:
        """Answer with JSON."""
        self.send_body(status, json.dumps(data).encode(), "application/json", headers)


class OpenAIServer(LoopbackServer):
    """The server; use it as a context manager. A chat takes `latency` seconds."""

    handler: ClassVar[type[ChatHandler]] = ChatHandler

    def __init__(
        self,
        replies: Replies,
        *,
        count_tokens: Callable[[str], int] = lambda text: len(text.split()),
        latency: float = 0.0,
        port: int = 0,
    ) -> None:
        self.replies, self.count_tokens, self.latency = replies, count_tokens, latency
        self.closing = threading.Event()
        super().__init__(self.handler, port)
        self.url = f"{self.origin}/v1"

    def close(self) -> None:
        """Stop serving; slow answers are let go."""
        self.closing.set()
        super().close()

    def next_reply(self, messages: Messages) -> Any:
        """Return the scripted reply to some messages after the latency."""
        reply = self.replies(messages)
        if self.latency:
            self.closing.wait(self.latency)
        return reply


class RuleScript:
    """Replies by the rules of `scripted_model.yaml`, stateless; `begun` counts first steps by question."""

    def __init__(self) -> None:
        data = packaged("triplewise.evals", "scripted_model.yaml")
        self.begun = Counter[str]()
        # How values are read from a prompt: group 1 of the last match.
        self._pick = {name: re.compile(pattern, re.MULTILINE) for name, pattern in data["pick"].items()}
        # Pattern -> replies by number of the step, the last one for all further.
        rules = ((re.compile(rule["when"], re.MULTILINE), rule["steps"]) for rule in data["rules"])
        self._rules = [(pattern, list(map(Template, steps))) for pattern, steps in rules]

    def __call__(self, messages: Messages) -> str:
        """Return the reply of the first rule whose pattern is found in some messages, "" where none is."""
        text = "\n".join(str(message.get("content") or "") for message in messages)
        matches = {name: list(pattern.finditer(text)) for name, pattern in self._pick.items()}
        values = {name: (found[-1][1] or "").strip() if found else "" for name, found in matches.items()}
        number = values.get("step", "")
        replies_before = sum(message.get("role") == "assistant" for message in messages)
        step = int(number) if number.isdigit() else replies_before + 1
        if number == "1":
            self.begun[values.get("question", "")] += 1
        templates = next((steps for pattern, steps in self._rules if pattern.search(text)), [Template("")])
        return str(templates[min(step, len(templates)) - 1].render({**values, "step": step})).strip()


def main(
    port: Annotated[int, typer.Option(help="Port on loopback; 0 takes a free one.")] = 8089,
    latency: Annotated[float, typer.Option(min=0, help="Seconds from a request to its answer.")] = 0.0,
) -> None:
    """Serve scripted replies as an OpenAI-compatible model until interrupted. Prints its base URL first."""
    with OpenAIServer(RuleScript(), latency=latency, port=port) as server:
        typer.echo(server.url)
        sys.stdout.flush()
        try:
            server.closing.wait()
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


if __name__ == "__main__":
    typer.run(main)
