"""A language model that follows a script: an OpenAI-compatible server on loopback, which can also misbehave.

Tests and benchmarks ask it over real HTTP, with streaming, tool calls and embeddings:

```python
with OpenAIServer(["Thought: ...\\nAction: execute()"], faults=[Fault.RATE_LIMIT]) as server:
    model = open_model("openai:scripted", base_url=server.url)
```
As a process of its own it shows that the plumbing works and how fast it is, without a key or a network:

```
python -m triplewise.evals.scripted_model --port 8089 --latency 0.5
triplewise eval metaqa --model openai:scripted --base-url http://127.0.0.1:8089/v1 --jobs 64
```
Its replies are then rules in YAML, each a template over what was asked (`scripted_model.yaml`), and
`GET /counts` says how many calls there were, how many at a time, and how often each question was begun.
"""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
import struct
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Annotated, Any, Self
from urllib.request import urlopen

import typer
import yaml
from jinja2 import Template, TemplateError
from jinja2.sandbox import ImmutableSandboxedEnvironment

from triplewise.tools.core.errors import DataError

MODEL = "openai:scripted"
"""What a context calls the model of a server with the default names."""

Messages = list[dict[str, Any]]
Scripted = str | Mapping[str, Any]
"""Text, or a mapping with any of: text, tool_calls [(name, arguments)], finish_reason, usage, error."""
Replies = Sequence[Scripted | Callable[[Messages], Scripted]] | Callable[[Messages], Scripted]
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


class OpenAIServer:
    """The server, in a thread of its own; use it as a context manager.

    Every call first meets the next fault (None lets it pass); only a chat that passes uses up a reply. When
    the script is exhausted the server answers 500 and says so, and asks not to be retried.

    Args:
        replies: the script.
        faults: one a request, in order; None for none.
        models: names it serves, () for any; others get 404.
        key: if set, any other key gets 401.
        report_usage: whether replies carry token counts. count_tokens: of a text; words by default.
        retry_after: the Retry-After of a 429, seconds or a date.
        slow: seconds a SLOW answer takes. latency: seconds every chat takes.
        refuse: request parameter -> message of the 400 that it gets.
        embed: the vector of a text; texts only, as most servers but OpenAI want it.
        adapters: whether it loads LoRA adapters while it runs, as vLLM does where it is told to.
        port: on loopback; 0 takes a free one. keep_alive: whether connections stay open after an answer.
    """

    def __init__(
        self,
        replies: Replies = (),
        faults: Sequence[Fault | None] = (),
        *,
        models: Sequence[str] = ("scripted",),
        key: str | None = None,
        report_usage: bool = True,
        count_tokens: Callable[[str], int] = lambda text: len(text.split()),
        retry_after: float | str = 0.05,
        slow: float = 1.0,
        latency: float = 0.0,
        refuse: Mapping[str, str] | None = None,
        embed: Callable[[str], Sequence[float]] | None = None,
        adapters: bool = False,
        port: int = 0,
        keep_alive: bool = False,
    ) -> None:
        self.replies, self.faults, self.models = replies, list(faults), models
        self.key, self.report_usage, self.count_tokens = key, report_usage, count_tokens
        self.retry_after, self.slow, self.latency = retry_after, slow, latency
        self.refuse, self.embed, self.adapters = refuse or {}, embed, adapters
        self.requests: list[Request] = []
        self.used = self.answered = self.in_flight = self.most_in_flight = 0
        self.closing = threading.Event()
        self.lock = threading.Lock()
        protocol = "HTTP/1.1" if keep_alive else "HTTP/1.0"
        handler = type("Handler", (_Handler,), {"owner": self, "protocol_version": protocol})
        self._http = _QuietServer(("127.0.0.1", port), handler)
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

    def __exit__(self, *raised: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop serving; slow answers are let go."""
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def load(self, replies: Replies) -> None:
        """Begin another script."""
        with self.lock:
            self.replies, self.used = replies, 0

    def record(self, request: Request) -> Fault | None:
        """Keep a request and return the fault that it meets."""
        with self.lock:
            self.requests.append(request)
            is_call = request.path.endswith(("/chat/completions", "/embeddings"))
            return self.faults.pop(0) if self.faults and is_call else None

    def next_reply(self, messages: Messages) -> Scripted | None:
        """Return the scripted reply to some messages after the latency; None when the script is exhausted."""
        reply: Callable[[Messages], Scripted] | Scripted
        with self.lock:
            if callable(self.replies):
                reply = self.replies
            elif self.used < len(self.replies):
                reply = self.replies[self.used]
            else:
                return None
            self.used += 1
            self.in_flight += 1
            self.most_in_flight = max(self.most_in_flight, self.in_flight)
        text = reply(messages) if callable(reply) else reply
        if self.latency:
            self.closing.wait(self.latency)
        with self.lock:
            self.in_flight -= 1
            self.answered += 1
        return text

    def counts(self) -> dict[str, Any]:
        """Return what was asked so far: chats, the most at a time, and first steps by question."""
        begun = self.replies.begun if isinstance(self.replies, RuleScript) else {}
        return {"calls": self.answered, "most": self.most_in_flight, "begun": begun}


class _QuietServer(ThreadingHTTPServer):
    """Threads do not outlive the process, and clients that hang up are no news."""

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
        """Answer with the models, or with what was counted."""
        if self.path == "/counts":
            self._send(200, self.owner.counts())
        elif not self._admitted({}):
            return
        elif self.path == "/v1/models":
            about = {"object": "model", "created": 0, "owned_by": "script"}
            models = [{"id": name, **about} for name in self.owner.models or ("scripted",)]
            self._send(200, {"object": "list", "data": models})
        else:
            self._error(404, f"no such path: {self.path}")

    def do_POST(self) -> None:
        """Answer a chat, embeddings, or the order to load an adapter."""
        server = self.owner
        try:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))))
        except ValueError:
            self._error(400, "the body is no JSON")
            return
        if not self._admitted(body):
            return
        if self.path == "/v1/load_lora_adapter" and server.adapters:
            server.models = [*server.models, body["lora_name"]]
            self._raw(200, b"Success: LoRA adapter added successfully.", "text/plain")
        elif server.models and body.get("model") not in server.models:
            message = f"The model {body.get('model')!r} does not exist"
            self._error(404, message, code="model_not_found", param="model")
        elif self.path == "/v1/chat/completions":
            self._chat(body)
        elif self.path == "/v1/embeddings":
            self._embeddings(body)
        else:
            self._error(404, f"no such path: {self.path}")

    def _admitted(self, body: dict[str, Any]) -> bool:
        """Record the request; answer it here if it meets a fault or has a wrong key."""
        fault = self.owner.record(Request(self.path, dict(self.headers), body, time.monotonic()))
        if fault is not None and not self._misbehave(fault):
            return False
        if self.owner.key is not None and self.headers.get("Authorization") != f"Bearer {self.owner.key}":
            self._error(401, "Incorrect API key provided", code="invalid_api_key")
            return False
        return True

    def _misbehave(self, fault: Fault) -> bool:
        """Act out a fault. Return whether the request may then be answered after all."""
        match fault:
            case Fault.SLOW:
                return not self.owner.closing.wait(self.owner.slow)
            case Fault.CUT | Fault.CUT_BODY:
                if fault is Fault.CUT_BODY:
                    self._head(200, "application/json", {"Content-Length": "1000"})
                    self.wfile.write(b'{"id": "chatcmpl-')
                    self.wfile.flush()
                self.close_connection = True
            case Fault.RATE_LIMIT:
                headers = {"Retry-After": str(self.owner.retry_after)}
                self._error(429, "Rate limit reached", code="rate_limit_exceeded", headers=headers)
            case Fault.QUOTA:
                self._error(429, "You exceeded your current quota", code="insufficient_quota")
            case Fault.SERVER_ERROR:
                self._error(500, "The server had an error")
            case Fault.OVERLOADED:
                self._raw(503, b"upstream connect error", "text/plain")
            case _:
                kind = "text/html" if fault is Fault.HTML else "application/json"
                self._raw(200, _BAD_BODIES[fault], kind)
        return False

    def _chat(self, body: dict[str, Any]) -> None:
        """Answer a chat completion from the script."""
        server = self.owner
        for parameter, message in server.refuse.items():
            if parameter in body:
                self._error(400, message, code="unsupported_parameter", param=parameter)
                return
        scripted = server.next_reply(body["messages"])
        if scripted is None:
            number = len(server.chats)
            text = f"script exhausted: request {number} has no reply, {server.used} were scripted"
            self._error(500, text, headers={"x-should-retry": "false"})
            return
        reply: dict[str, Any] = {"text": scripted} if isinstance(scripted, str) else dict(scripted)
        if "error" in reply:
            self._error(reply.get("status", 400), reply["error"], code=reply.get("code"))
            return
        answer = _completion(reply, body, server.count_tokens if server.report_usage else None)
        if not body.get("stream"):
            self._send(200, answer)
            return
        self._head(200, "text/event-stream", {"Cache-Control": "no-cache", "Connection": "close"})
        for chunk in _chunks(answer, bool((body.get("stream_options") or {}).get("include_usage"))):
            self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
            self.wfile.flush()
        self.wfile.write(b"data: [DONE]\n\n")

    def _embeddings(self, body: dict[str, Any]) -> None:
        """Vectors of texts or token lists, one or many, as floats or base64 as asked."""
        inputs, embed = body["input"], self.owner.embed
        if isinstance(inputs, str) or (inputs and isinstance(inputs[0], int)):
            inputs = [inputs]
        if not inputs or len(inputs) > 2048 or not all(inputs):
            self._error(400, "'$.input' is invalid: 1 to 2048 inputs that are not empty", param="input")
            return
        if embed is not None and not all(isinstance(item, str) for item in inputs):
            self._error(400, "this server takes texts, no tokens", param="input")
            return
        size = body.get("dimensions", 32)
        vectors = [list(embed(item)) if embed else _vector(item, size) for item in inputs]
        if body.get("encoding_format") == "base64":
            data: list[Any] = [base64.b64encode(struct.pack(f"<{len(v)}f", *v)).decode() for v in vectors]
        else:
            data = vectors
        answer: dict[str, Any] = {"object": "list", "model": body["model"]}
        answer["data"] = [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(data)]
        if self.owner.report_usage:
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
        error = {"message": message, "type": kind, "param": param, "code": code}
        self._send(status, {"error": error}, headers)

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
        """Status line and headers."""
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


_BAD_BODIES = {
    Fault.MALFORMED: b'{"id": "chatcmpl-1", "choices": [{"mess',
    Fault.EMPTY_BODY: b"",
    Fault.HTML: b"<html>Welcome to the proxy</html>",
    Fault.EMPTY_CHOICES: b'{"id": "1", "object": "chat.completion", "model": "m", "choices": []}',
    Fault.NULL_CHOICES: b'{"id": "1", "object": "chat.completion", "model": "m", "choices": null}',
    Fault.NULL_MESSAGE: b'{"id": "1", "model": "m", "choices": [{"index": 0, "message": null}]}',
}


def _completion(
    reply: Mapping[str, Any], body: dict[str, Any], count: Callable[[str], int] | None
) -> dict[str, Any]:
    """A chat completion object. Tool arguments given as a string are sent as they are, broken JSON too."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.get("text")}
    for index, (name, arguments) in enumerate(reply.get("tool_calls", ())):
        text = arguments if isinstance(arguments, str) else json.dumps(arguments)
        call = {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": text}}
        message.setdefault("tool_calls", []).append(call)
    finish = reply.get("finish_reason") or ("tool_calls" if "tool_calls" in message else "stop")
    choice = {"index": 0, "message": message, "finish_reason": finish}
    about = {"id": "chatcmpl-script", "object": "chat.completion", "created": 0, "model": body["model"]}
    completion: dict[str, Any] = {**about, "choices": [choice]}
    if count is not None:
        asked = sum(count(str(m.get("content") or "")) for m in body["messages"])
        said = count(reply.get("text") or "")
        usage = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": asked + said}
        completion["usage"] = reply.get("usage") or usage
    return completion


def _chunks(completion: dict[str, Any], with_usage: bool) -> Iterator[dict[str, Any]]:
    """A completion cut into stream chunks: role, words, tool calls, end, usage."""
    choice = completion["choices"][0]
    text, calls = choice["message"]["content"] or "", choice["message"].get("tool_calls", ())
    base = {**completion, "object": "chat.completion.chunk"}
    usage = base.pop("usage", None)
    deltas: list[tuple[dict[str, Any], str | None]] = [({"role": "assistant", "content": ""}, None)]
    deltas += [({"content": text[i : i + 12]}, None) for i in range(0, len(text), 12)]
    deltas += [({"tool_calls": [{"index": i, **call}]}, None) for i, call in enumerate(calls)]
    for delta, finish in [*deltas, ({}, choice["finish_reason"])]:
        yield {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    if with_usage and usage:
        yield {**base, "choices": [], "usage": usage}


def _vector(item: object, size: int) -> list[float]:
    """A unit vector that depends on nothing but the input."""
    seed, blocks = json.dumps(item).encode(), -(-size // 8)
    raw = b"".join(hashlib.sha256(seed + bytes([i])).digest() for i in range(blocks))
    numbers = struct.unpack(f"<{blocks * 8}i", raw)[:size]
    length = math.sqrt(sum(n * n for n in numbers)) or 1.0
    return [n / length for n in numbers]


@dataclass(frozen=True)
class RuleScript:
    """Replies by rules: stateless but for what it counts, so that questions may be asked at once.

    Attributes:
        pick: how values are read from a prompt: group 1 of the last match.
        rules: patterns with replies by number of the step, the last one for all further. The first rule whose
            pattern is found in the prompt replies. begun: question -> how often its first step was asked for.
    """

    pick: Mapping[str, re.Pattern[str]]
    rules: Sequence[tuple[re.Pattern[str], Sequence[Template]]]
    begun: Counter[str]

    def __call__(self, messages: Messages) -> str:
        """Return the reply to some messages, "" where no rule fits."""
        text = "\n".join(str(message.get("content") or "") for message in messages)
        values = {}
        for name, pattern in self.pick.items():
            matches = list(pattern.finditer(text))
            values[name] = (matches[-1][1] or "").strip() if matches else ""
        number = values.get("step", "")
        replies_before = sum(message.get("role") == "assistant" for message in messages)
        step = int(number) if number.isdigit() else replies_before + 1
        if number == "1":
            self.begun[values.get("question", "")] += 1
        for pattern, templates in self.rules:
            if pattern.search(text):
                template = templates[min(step, len(templates)) - 1]
                return str(template.render({**values, "step": step})).strip()
        return ""


def load_script(path: Path | None = None) -> RuleScript:
    """Read the rules of a YAML file, or the shipped ones.

    Raises:
        DataError: it cannot be read, or is none; names the file and the rule.
    """
    source = path or files("triplewise.evals") / "scripted_model.yaml"
    where = "the script"
    try:
        data = yaml.safe_load(source.read_text(encoding="utf-8"))
        if not isinstance(data, dict) or not isinstance(data.get("rules"), list):
            raise DataError(
                "needs a key 'rules' with a list of {when: pattern, steps: [reply, ...]}", str(source)
            )
        pick = {}
        for where, pattern in (data.get("pick") or {}).items():
            pick[where] = re.compile(str(pattern), re.MULTILINE)
        rules, environment = [], ImmutableSandboxedEnvironment()
        for number, rule in enumerate(data["rules"], 1):
            where = f"rule {number}"
            steps = rule.get("steps") if isinstance(rule, dict) else None
            if not steps or not isinstance(steps, list):
                raise DataError(
                    f"{where} needs {{when: pattern, steps: [reply, ...]}}, got {rule!r}", str(source)
                )
            templates = [environment.from_string(str(step)) for step in steps]
            rules.append((re.compile(str(rule.get("when", "")), re.MULTILINE), templates))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"cannot read the replies: {error}", str(source)) from error
    except re.error as error:
        raise DataError(f"{where}: no regular expression ({error})", str(source)) from error
    except TemplateError as error:
        raise DataError(f"{where}: a reply is no Jinja template: {error}", str(source)) from error
    return RuleScript(pick, rules, Counter())


@contextmanager
def running(latency: float = 0.0, replies: Path | None = None) -> Iterator[str]:
    """Serve a script in a process of its own for as long as the block; its base URL.

    Raises:
        DataError: the replies are none.
    """
    load_script(replies)
    command = [sys.executable, "-m", "triplewise.evals.scripted_model", "--port", "0"]
    command += ["--latency", str(latency), *(["--replies", str(replies)] if replies else [])]
    with Popen(command, stdout=PIPE, stderr=DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.terminate()


def counts(url: str) -> dict[str, Any]:
    """Return what a running server has counted so far. Raises OSError where none listens."""
    with urlopen(f"{url.removesuffix('/v1')}/counts", timeout=10) as answer:
        counted: dict[str, Any] = json.load(answer)
    return counted


def main(
    port: Annotated[int, typer.Option(help="Port on loopback; 0 takes a free one.")] = 8089,
    latency: Annotated[float, typer.Option(min=0, help="Seconds from a request to its answer.")] = 0.0,
    replies: Annotated[
        Path | None, typer.Option(help="YAML file of replies; see triplewise/evals/scripted_model.yaml.")
    ] = None,
) -> None:
    """Serve scripted replies as an OpenAI-compatible model until interrupted. Prints its base URL first."""
    server = OpenAIServer(load_script(replies), models=(), latency=latency, port=port, keep_alive=True)
    with server:
        typer.echo(server.url)
        sys.stdout.flush()
        try:
            server.closing.wait()
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


if __name__ == "__main__":
    typer.run(main)
