"""The model server of the tests: `triplewise.evals.scripted_model`, which can also misbehave.

```python
with OpenAIServer(["Thought: ...\\nAction: execute()"], faults=[Fault.RATE_LIMIT]) as server:
    model = open_model(Context(model="openai:scripted", base_url=server.url))
```
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import struct
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from triplewise.evals import scripted_model
from triplewise.evals.scripted_model import Messages

__all__ = ["Fault", "Messages", "OpenAIServer", "Request"]

Replies = Sequence[Any] | Callable[[Messages], Any]
"""One reply a request, a text or a function of the messages; or one function that answers all requests."""


class Fault(StrEnum):
    """Ways to misbehave."""

    RATE_LIMIT = "429 with Retry-After"
    QUOTA = "429 because the account is empty"
    SERVER_ERROR = "500"
    OVERLOADED = "503 with a body that is no JSON"
    CUT = "the connection ends before any answer"
    CUT_BODY = "the connection ends in the middle of the body"
    SLOW = "an answer after `slow` seconds"
    DRIP = "a byte a second, for ever"
    MALFORMED = "200 with broken JSON"
    EMPTY_BODY = "200 with no body"
    HTML = "200 with a web page"
    EMPTY_CHOICES = "200 with no choices"
    NULL_CHOICES = "200 with choices null"
    DEEP = "200 with JSON nested 100,000 deep"
    NULL_MESSAGE = "200 with a choice without message"


@dataclass(frozen=True)
class Request:
    """One request as it arrived, at `at` seconds of the monotonic clock."""

    path: str
    headers: Mapping[str, str]
    body: dict[str, Any]
    at: float

    @property
    def messages(self) -> Messages:
        """The messages of a chat."""
        return list(self.body.get("messages", []))

    @property
    def text(self) -> str:
        """All message contents, for `in` checks."""
        return "\n".join(str(m.get("content") or "") for m in self.messages)


_BAD_BODIES = {
    Fault.MALFORMED: b'{"id": "chatcmpl-1", "choices": [{"mess',
    Fault.EMPTY_BODY: b"",
    Fault.HTML: b"<html>Welcome to the proxy</html>",
    Fault.EMPTY_CHOICES: b'{"id": "1", "object": "chat.completion", "model": "m", "choices": []}',
    Fault.NULL_CHOICES: b'{"id": "1", "object": "chat.completion", "model": "m", "choices": null}',
    Fault.DEEP: b"[" * 100_000,
    Fault.NULL_MESSAGE: b'{"id": "1", "model": "m", "choices": [{"index": 0, "message": null}]}',
}


class _Handler(scripted_model.ChatHandler):
    """Speaks the API with keys, models, embeddings and faults."""

    server: OpenAIServer
    protocol_version = "HTTP/1.0"

    def send_head(self, status: int, content_type: str, headers: Mapping[str, str]) -> None:
        """Send the status line and the headers."""
        self.send_response(status)
        for name, value in {"Content-Type": content_type, **headers}.items():
            self.send_header(name, value)
        self.end_headers()

    def do_GET(self) -> None:
        """Answer with the models."""
        if not self._admitted({}):
            return
        about = {"object": "model", "created": 0, "owned_by": "script"}
        models = [{"id": name, **about} for name in self.server.models or ("scripted",)]
        self.send_json(200, {"object": "list", "data": models})

    def post(self, body: dict[str, Any]) -> None:
        """Answer a chat or embeddings."""
        server = self.server
        if not self._admitted(body):
            return
        if server.models and body.get("model") not in server.models:
            message = f"The model {body.get('model')!r} does not exist"
            self.send_refusal(404, message, code="model_not_found", param="model")
        elif self.path == "/v1/embeddings":
            self._embeddings(body)
        elif self.path != "/v1/chat/completions":
            self.send_refusal(404, f"no such path: {self.path}")
        elif refused := next((name for name in server.refuse if name in body), None):
            self.send_refusal(400, server.refuse[refused], code="unsupported_parameter", param=refused)
        else:
            super().post(body)

    def _admitted(self, body: dict[str, Any]) -> bool:
        """Record the request; answer it here if it meets a fault or has a wrong key."""
        server = self.server
        with server.lock:
            server.requests.append(Request(self.path, dict(self.headers), body, time.monotonic()))
            is_call = self.path.endswith(("/chat/completions", "/embeddings"))
            fault = server.faults.pop(0) if server.faults and is_call else None
        if fault is not None and not self._misbehave(fault):
            return False
        if server.key is not None and self.headers.get("Authorization") != f"Bearer {server.key}":
            given = self.headers.get("Authorization")
            self.send_refusal(401, f"Incorrect API key provided: {given}", code="invalid_api_key")
            return False
        return True

    def _misbehave(self, fault: Fault) -> bool:
        """Act out a fault. Return whether the request may then be answered after all."""
        match fault:
            case Fault.SLOW:
                return not self.server.closing.wait(self.server.slow)
            case Fault.DRIP:
                self.send_head(200, "application/json", {})
                while not self.server.closing.wait(1):
                    self.wfile.write(b" ")
            case Fault.CUT | Fault.CUT_BODY:
                if fault is Fault.CUT_BODY:
                    self.send_head(200, "application/json", {"Content-Length": "1000"})
                    self.wfile.write(b'{"id": "chatcmpl-')
                    self.wfile.flush()
                self.close_connection = True
            case Fault.RATE_LIMIT:
                headers = {"Retry-After": str(self.server.retry_after)}
                self.send_refusal(429, "Rate limit reached", code="rate_limit_exceeded", headers=headers)
            case Fault.QUOTA:
                self.send_refusal(429, "You exceeded your current quota", code="insufficient_quota")
            case Fault.SERVER_ERROR:
                self.send_refusal(500, "The server had an error")
            case Fault.OVERLOADED:
                self.send_body(503, b"upstream connect error", "text/plain")
            case _:
                kind = "text/html" if fault is Fault.HTML else "application/json"
                self.send_body(200, _BAD_BODIES[fault], kind)
        return False

    def reply(self, reply: Any, body: dict[str, Any]) -> None:
        """Answer with what a scripted mapping says, as a stream where that is asked for.

        Tool arguments given as a string are sent as they are, broken JSON too.
        """
        reply = {"text": reply} if isinstance(reply, str) else reply
        if "body" in reply:
            self.send_body(200, reply["body"], "application/json")
            return
        if "error" in reply:
            status, about = reply.get("status", 400), {key: reply.get(key) for key in ("code", "headers")}
            self.send_refusal(status, reply["error"], **about)
            return
        text, calls = reply.get("text"), []
        for index, (name, arguments) in enumerate(reply.get("tool_calls", ())):
            written = arguments if isinstance(arguments, str) else json.dumps(arguments)
            call = {"id": f"call_{index}", "type": "function"}
            calls.append({**call, "function": {"name": name, "arguments": written}})
        finish = reply.get("finish_reason") or ("tool_calls" if calls else "stop")
        usage = reply.get("usage", self.usage(text or "", body)) if self.server.report_usage else {}
        reported = {"usage": usage} if usage else {}
        about = {"id": "chatcmpl-script", "created": 0, "model": body["model"]}
        if not body.get("stream"):
            message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
            choices: list[dict[str, Any]] = [{"index": 0, "message": message, "finish_reason": finish}]
            self.send_json(200, {**about, "object": "chat.completion", "choices": choices, **reported})
            return
        about["object"] = "chat.completion.chunk"
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        deltas += [{"content": (text or "")[i : i + 12]} for i in range(0, len(text or ""), 12)]
        deltas += [{"tool_calls": [{"index": i, **call}]} for i, call in enumerate(calls)]
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": finish})
        chunks: list[dict[str, Any]] = [{**about, "choices": [choice]} for choice in choices]
        if reported and (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**about, "choices": [], **reported})
        self.send_head(200, "text/event-stream", {"Cache-Control": "no-cache", "Connection": "close"})
        for data in (*map(json.dumps, chunks), "[DONE]"):
            self.wfile.write(f"data: {data}\n\n".encode())
            self.wfile.flush()

    def send_refusal(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        param: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Answer with an error in OpenAI's form."""
        kind = "server_error" if status >= 500 else "invalid_request_error"
        error = {"message": message, "type": kind, "param": param, "code": code}
        self.send_json(status, {"error": error}, headers or {})

    def _embeddings(self, body: dict[str, Any]) -> None:
        """Vectors of texts or token lists, one or many, as floats or base64 as asked."""
        inputs, embed = body["input"], self.server.embed
        if isinstance(inputs, str) or (inputs and isinstance(inputs[0], int)):
            inputs = [inputs]
        if not inputs or len(inputs) > 2048 or not all(inputs):
            self.send_refusal(400, "'$.input' is invalid: 1 to 2048 inputs that are not empty", param="input")
            return
        if embed is not None and not all(isinstance(item, str) for item in inputs):
            self.send_refusal(400, "this server takes texts, no tokens", param="input")
            return
        size = body.get("dimensions", 32)
        vectors = [list(embed(item)) if embed else _vector(item, size) for item in inputs]
        if body.get("encoding_format") == "base64":
            data: list[Any] = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
        else:
            data = vectors
        answer: dict[str, Any] = {"object": "list", "model": body["model"]}
        answer["data"] = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(data)]
        if self.server.report_usage:
            words = sum(len(item.split()) if isinstance(item, str) else len(item) for item in inputs)
            answer["usage"] = {"prompt_tokens": words, "total_tokens": words}
        self.send_json(200, answer)


def _vector(item: object, size: int) -> list[float]:
    """A unit vector that depends on nothing but the input."""
    seed, blocks = json.dumps(item).encode(), -(-size // 8)
    raw = b"".join(hashlib.sha256(seed + bytes([i])).digest() for i in range(blocks))
    numbers = struct.unpack(f"<{blocks * 8}i", raw)[:size]
    length = math.sqrt(sum(n * n for n in numbers)) or 1.0
    return [n / length for n in numbers]


class OpenAIServer(scripted_model.OpenAIServer):
    """The scripted server with all that goes wrong on real ones.

    A reply may be a mapping with any of: text, tool_calls [(name, arguments)], finish_reason, usage, error,
    or body: all bytes of the answer.
    Every call first meets the next fault (None lets it pass); only a chat that passes uses up a reply.

    Args:
        replies: the script. faults: one a request, in order; None for none.
        models: names it serves, () for any; others get 404.
        key: if set, any other key gets 401. report_usage: whether replies carry token counts.
        retry_after: the Retry-After of a 429, seconds or a date. slow: seconds a SLOW answer takes.
        refuse: request parameter -> message of the 400 that it gets.
        embed: the vector of a text; texts only, as most servers but OpenAI want it.
        options: of the server that this one extends.
    """

    handler = _Handler

    def __init__(
        self,
        replies: Replies = (),
        faults: Sequence[Fault | None] = (),
        *,
        models: Sequence[str] = ("scripted",),
        key: str | None = None,
        report_usage: bool = True,
        retry_after: float | str = 0.05,
        slow: float = 1.0,
        refuse: Mapping[str, str] | None = None,
        embed: Callable[[str], Sequence[float]] | None = None,
        **options: Any,
    ) -> None:
        self.faults, self.models, self.key, self.report_usage = list(faults), models, key, report_usage
        self.retry_after, self.slow, self.refuse = retry_after, slow, refuse or {}
        self.embed = embed
        self.requests: list[Request] = []
        self.script, self.used, self.lock = replies, 0, threading.Lock()
        super().__init__(self._next, **options)

    def _next(self, messages: Messages) -> Any:
        """The next reply of the script; where it is exhausted, 500 and the wish not to be retried."""
        with self.lock:
            if not callable(self.script) and self.used >= len(self.script):
                message = f"script exhausted: request {self.used + 1} has no reply"
                return {"error": message, "status": 500, "headers": {"x-should-retry": "false"}}
            reply = self.script if callable(self.script) else self.script[self.used]
            self.used += 1
        return reply(messages) if callable(reply) else reply

    @property
    def chats(self) -> list[Request]:
        """The requests for chat completions."""
        return [r for r in self.requests if r.path.endswith("/chat/completions")]

    @property
    def embedded(self) -> list[list[str]]:
        """The texts of each request for embeddings."""
        return [r.body["input"] for r in self.requests if r.path.endswith("/embeddings")]
