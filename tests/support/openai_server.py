"""An OpenAI-compatible server on loopback that replays scripted replies and can misbehave.

```python
with OpenAIServer(["Thought: ...\nAction: execute()"], faults=[Fault.RATE_LIMIT]) as server:
    model = open_model("openai:scripted", base_url=server.url, backoff=0.01)
```
Every call first meets the next fault (None lets it pass); only a chat that passes uses up a reply.
Embeddings are made by `embed`, from a text to its vector, or from nothing but the input.
When the script is exhausted the server answers 500 and says so, and asks not to be retried.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from tests.support.openai_replies import chunks, completion, packed, vector

Messages = list[dict[str, Any]]
Scripted = str | Mapping[str, Any]
"""Text, or a mapping with any of: text, tool_calls [(name, arguments)], finish_reason, usage, error."""
Script = Sequence[Scripted | Callable[[Messages], Scripted]] | Callable[[Messages], Scripted]
"""One reply a request, or one function that answers all of them."""


class Fault(StrEnum):
    """Ways to misbehave."""

    RATE_LIMIT = "429 with Retry-After"
    QUOTA = "429 because the account is empty"
    SERVER_ERROR = "500"
    OVERLOADED = "503 with a body that is no JSON"
    CUT = "the connection ends before any answer"
    CUT_BODY = "the connection ends in the middle of the body"
    SLOW = "an answer after `slow` seconds"
    MALFORMED = "200 with broken JSON"
    EMPTY_BODY = "200 with no body"
    HTML = "200 with a web page"
    EMPTY_CHOICES = "200 with no choices"
    NULL_CHOICES = "200 with choices null"
    NULL_MESSAGE = "200 with a choice without message"


@dataclass(frozen=True)
class Request:
    """One request as it arrived."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    at: float

    @property
    def messages(self) -> Messages:
        return list(self.body.get("messages", []))

    @property
    def text(self) -> str:
        """All message contents, for `in` checks."""
        return "\n".join(str(m.get("content") or "") for m in self.messages)


@dataclass
class _Rules:
    """How the server behaves."""

    models: Sequence[str]
    key: str | None
    report_usage: bool
    retry_after: float | str
    slow: float
    refuse: Mapping[str, str]
    embed: Callable[[str], Sequence[float]] | None
    adapters: bool


class OpenAIServer:
    """The server; use it as a context manager.

    Args:
        replies: the script.
        faults: one a request, in order; None for none.
        models: names it serves; others get 404.
        key: if set, any other key gets 401.
        report_usage: whether replies carry token counts (words, times ten for input).
        retry_after: the Retry-After of a 429, seconds or a date.
        slow: seconds a SLOW answer takes.
        refuse: request parameter -> message of the 400 that it gets.
        embed: the vector of a text; texts only, as most servers but OpenAI want it.
        adapters: whether it loads LoRA adapters while it runs, as vLLM does where it is told to.
    """

    def __init__(
        self,
        replies: Script = (),
        faults: Sequence[Fault | None] = (),
        *,
        models: Sequence[str] = ("scripted",),
        key: str | None = None,
        report_usage: bool = True,
        retry_after: float | str = 0.05,
        slow: float = 1.0,
        refuse: Mapping[str, str] | None = None,
        embed: Callable[[str], Sequence[float]] | None = None,
        adapters: bool = False,
    ) -> None:
        self.replies, self.faults = replies, list(faults)
        self.rules = _Rules(models, key, report_usage, retry_after, slow, refuse or {}, embed, adapters)
        self.requests: list[Request] = []
        self.used = 0
        self.closing = threading.Event()
        self._lock = threading.Lock()
        handler = type("Handler", (_Handler,), {"owner": self})
        self._http = _QuietServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """The base URL, `http://127.0.0.1:PORT/v1`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}/v1"

    @property
    def chats(self) -> list[Request]:
        """The requests for chat completions."""
        return [r for r in self.requests if r.path.endswith("/chat/completions")]

    @property
    def embedded(self) -> list[list[str]]:
        """The texts of each request for embeddings."""
        return [r.body["input"] for r in self.requests if r.path.endswith("/embeddings")]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving; slow answers are let go."""
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def note(self, request: Request) -> Fault | None:
        """Record a request and say which fault it meets."""
        with self._lock:
            self.requests.append(request)
            is_call = request.path.endswith(("/chat/completions", "/embeddings"))
            return self.faults.pop(0) if self.faults and is_call else None

    def next_reply(self, messages: Messages) -> Scripted | None:
        """The scripted reply to these messages; None when the script is exhausted."""
        reply: Callable[[Messages], Scripted] | Scripted
        with self._lock:
            if callable(self.replies):
                reply = self.replies
            elif self.used < len(self.replies):
                reply = self.replies[self.used]
            else:
                return None
            self.used += 1
        return reply(messages) if callable(reply) else reply


class _QuietServer(ThreadingHTTPServer):
    """Threads do not outlive the tests, and clients that hang up are no news."""

    daemon_threads = True
    block_on_close = False
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Stay silent: cutting connections is what this server is for."""


class _Handler(BaseHTTPRequestHandler):
    """Speaks the part of the API that clients use."""

    owner: OpenAIServer

    def log_message(self, format: str, *args: Any) -> None:
        """Stay silent."""

    def do_GET(self) -> None:
        if not self._admitted({}):
            return
        if self.path == "/v1/models":
            models = [
                {"id": m, "object": "model", "created": 0, "owned_by": "tests"} for m in self._rules.models
            ]
            self._send(200, {"object": "list", "data": models})
        else:
            self._error(404, f"no such path: {self.path}")

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        try:
            body = json.loads(raw)
        except ValueError:
            self._error(400, "the body is no JSON")
            return
        if not self._admitted(body):
            return
        if self.path == "/v1/load_lora_adapter" and self._rules.adapters:
            self._rules.models = [*self._rules.models, body["lora_name"]]
            self._raw(200, b"Success: LoRA adapter added successfully.", "text/plain")
        elif body.get("model") not in self._rules.models:
            message = f"The model {body.get('model')!r} does not exist"
            self._error(404, message, code="model_not_found", param="model")
        elif self.path == "/v1/chat/completions":
            self._chat(body)
        elif self.path == "/v1/embeddings":
            self._embeddings(body)
        else:
            self._error(404, f"no such path: {self.path}")

    @property
    def _rules(self) -> _Rules:
        return self.owner.rules

    def _admitted(self, body: dict[str, Any]) -> bool:
        """Record the request; answer it here if it meets a fault or has a wrong key."""
        fault = self.owner.note(Request(self.path, dict(self.headers), body, time.monotonic()))
        if fault is not None and not self._misbehave(fault):
            return False
        if self._rules.key is not None and self.headers.get("Authorization") != f"Bearer {self._rules.key}":
            self._error(401, "Incorrect API key provided", code="invalid_api_key")
            return False
        return True

    def _misbehave(self, fault: Fault) -> bool:
        """Act out a fault. True if the request may then be answered after all."""
        if fault is Fault.SLOW:
            return not self.owner.closing.wait(self._rules.slow)
        if fault in (Fault.CUT, Fault.CUT_BODY):
            self._cut(fault)
        elif fault is Fault.RATE_LIMIT:
            headers = {"Retry-After": str(self._rules.retry_after)}
            self._error(429, "Rate limit reached", code="rate_limit_exceeded", headers=headers)
        elif fault is Fault.QUOTA:
            self._error(429, "You exceeded your current quota", code="insufficient_quota")
        elif fault is Fault.SERVER_ERROR:
            self._error(500, "The server had an error")
        elif fault is Fault.OVERLOADED:
            self._raw(503, b"upstream connect error", "text/plain")
        else:
            self._raw(200, *_BAD_BODIES[fault])
        return False

    def _cut(self, fault: Fault) -> None:
        """Hang up, with half an answer or none."""
        if fault is Fault.CUT_BODY:
            self._head(200, "application/json", {"Content-Length": "1000"})
            self.wfile.write(b'{"id": "chatcmpl-')
            self.wfile.flush()
        self.close_connection = True

    def _chat(self, body: dict[str, Any]) -> None:
        """Answer a chat completion from the script."""
        for parameter, message in self._rules.refuse.items():
            if parameter in body:
                self._error(400, message, code="unsupported_parameter", param=parameter)
                return
        scripted = self.owner.next_reply(body["messages"])
        if scripted is None:
            number = len(self.owner.chats)
            text = f"script exhausted: request {number} has no reply, {self.owner.used} were scripted"
            self._error(500, text, headers={"x-should-retry": "false"})
            return
        reply: dict[str, Any] = {"text": scripted} if isinstance(scripted, str) else dict(scripted)
        if "error" in reply:
            self._error(reply.get("status", 400), reply["error"], code=reply.get("code"))
            return
        answer = completion(reply, body, self._rules.report_usage)
        if body.get("stream"):
            self._stream(answer, body)
        else:
            self._send(200, answer)

    def _stream(self, answer: dict[str, Any], body: dict[str, Any]) -> None:
        """The same completion as server-sent events."""
        self._head(200, "text/event-stream", {"Cache-Control": "no-cache"})
        for chunk in chunks(answer, bool((body.get("stream_options") or {}).get("include_usage"))):
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def _embeddings(self, body: dict[str, Any]) -> None:
        """Vectors of texts or token lists, one or many, as floats or base64 as asked."""
        inputs = body["input"]
        if isinstance(inputs, str) or (inputs and isinstance(inputs[0], int)):
            inputs = [inputs]
        if not inputs or len(inputs) > 2048 or not all(inputs):
            self._error(400, "'$.input' is invalid: 1 to 2048 inputs that are not empty", param="input")
            return
        embed = self._rules.embed
        if embed is not None and not all(isinstance(item, str) for item in inputs):
            self._error(400, "this server takes texts, no tokens", param="input")
            return
        dimensions = body.get("dimensions", 32)
        vectors = [list(embed(item)) if embed else vector(item, dimensions) for item in inputs]
        as_text = body.get("encoding_format") == "base64"
        answer: dict[str, Any] = {"object": "list", "model": body["model"]}
        answer["data"] = [
            {"object": "embedding", "index": i, "embedding": packed(v) if as_text else v}
            for i, v in enumerate(vectors)
        ]
        if self._rules.report_usage:
            words = sum(len(item.split()) if isinstance(item, str) else len(item) for item in inputs)
            answer["usage"] = {"prompt_tokens": words, "total_tokens": words}
        self._send(200, answer)

    def _error(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """An error in OpenAI's form."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        self._send(
            status, {"error": {"message": message, "type": kind, "param": param, "code": code}}, headers
        )

    def _send(self, status: int, data: dict[str, Any], headers: Mapping[str, str] | None = None) -> None:
        """A JSON answer."""
        self._raw(status, json.dumps(data).encode(), "application/json", headers)

    def _raw(
        self, status: int, body: bytes, content_type: str, headers: Mapping[str, str] | None = None
    ) -> None:
        """Any answer."""
        self._head(status, content_type, {"Content-Length": str(len(body)), **(headers or {})})
        self.wfile.write(body)

    def _head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        """Status line and headers. HTTP/1.0, so every answer ends its connection."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


_JSON = "application/json"
_BAD_BODIES: dict[Fault, tuple[bytes, str]] = {
    Fault.MALFORMED: (b'{"id": "chatcmpl-1", "choices": [{"mess', _JSON),
    Fault.EMPTY_BODY: (b"", _JSON),
    Fault.HTML: (b"<html>Welcome to the proxy</html>", "text/html"),
    Fault.EMPTY_CHOICES: (b'{"id": "1", "object": "chat.completion", "model": "m", "choices": []}', _JSON),
    Fault.NULL_CHOICES: (b'{"id": "1", "object": "chat.completion", "model": "m", "choices": null}', _JSON),
    Fault.NULL_MESSAGE: (b'{"id": "1", "model": "m", "choices": [{"index": 0, "message": null}]}', _JSON),
}
