"""A stand-in for a language model: a loopback OpenAI-compatible server with a fixed latency.

It shows that the plumbing works and how fast it is, without a key or a network:

```
python -m triplewise.evals.stub --port 8089 --latency 0.5
triplewise eval metaqa --model openai:stub --base-url http://127.0.0.1:8089/v1 --jobs 64
```
`GET /counts` says how many calls there were, how many at a time, and how often each question was begun.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Annotated, Any

import typer

from triplewise.evals.stub_replies import Replies, load_replies

MODEL = "openai:stub"
"""What a context calls the model; the server answers to any name."""

_HEADERS_END = b"\r\n\r\n"
_CHARACTERS_PER_TOKEN = 4


@dataclass
class Stub:
    """The server's script and counts.

    Attributes:
        replies: what is answered. latency: seconds from a request to its answer.
        calls: chats answered. now, most: chats being answered, and the most there ever were.
        begun: question -> how often its first step was asked for.
    """

    replies: Replies
    latency: float = 0.0
    calls: int = 0
    now: int = 0
    most: int = 0
    begun: Counter[str] = field(default_factory=Counter)

    async def answer(self, method: str, path: str, body: bytes) -> tuple[int, dict[str, Any]]:
        """Status and JSON for a request."""
        if method == "GET" and path == "/counts":
            return 200, {"calls": self.calls, "now": self.now, "most": self.most, "begun": self.begun}
        if method == "GET" and path.endswith("/models"):
            return 200, {"object": "list", "data": [{"id": "stub", "object": "model"}]}
        if method != "POST" or not path.endswith("/chat/completions"):
            return 404, {"error": {"message": f"no such path: {method} {path}"}}
        try:
            asked = json.loads(body)
            return 200, await self._chat(asked["messages"], str(asked.get("model")))
        except (ValueError, KeyError, TypeError) as error:
            return 400, {"error": {"message": f"no chat: {error!r}"}}

    async def _chat(self, messages: list[dict[str, Any]], model: str) -> dict[str, Any]:
        """A chat completion, after the latency."""
        asked = self.replies.read(messages)
        if asked.begins:
            self.begun[asked.values.get("question", "")] += 1
        self.now += 1
        self.most = max(self.most, self.now)
        try:
            await asyncio.sleep(self.latency)
        finally:
            self.now -= 1
        self.calls += 1
        text = self.replies.reply(asked)
        tokens = (len(asked.text) // _CHARACTERS_PER_TOKEN, len(text) // _CHARACTERS_PER_TOKEN)
        message = {"role": "assistant", "content": text}
        return {
            "id": f"stub-{self.calls}",
            "object": "chat.completion",
            "created": 0,
            "model": model,
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
            "usage": {
                "prompt_tokens": tokens[0],
                "completion_tokens": tokens[1],
                "total_tokens": sum(tokens),
            },
        }


async def serve(stub: Stub, port: int = 0) -> asyncio.Server:
    """Start to serve on loopback; port 0 takes a free one."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await _exchange(stub, reader, writer):
                pass
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ConnectionError):
            pass  # whoever asked has hung up, as killed processes do
        finally:
            writer.close()

    return await asyncio.start_server(connected, "127.0.0.1", port, limit=1 << 20, backlog=512)


async def _exchange(stub: Stub, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    """One request and its answer; whether the connection stays open."""
    head = (await reader.readuntil(_HEADERS_END)).decode("latin-1")
    request, *lines = head.rstrip().split("\r\n")
    method, path, _ = request.split(" ", 2)
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    body = await reader.readexactly(int(headers.get("content-length", 0)))
    status, data = await stub.answer(method, path, body)
    payload = json.dumps(data).encode()
    stays = headers.get("connection", "").lower() != "close"
    connection = "keep-alive" if stays else "close"
    writer.write(
        f"HTTP/1.1 {status} {'OK' if status == 200 else 'Error'}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(payload)}\r\nConnection: {connection}\r\n\r\n".encode()
        + payload
    )
    await writer.drain()
    return stays


@contextmanager
def running(latency: float = 0.0, replies: Path | None = None) -> Iterator[str]:
    """A stub in a process of its own for as long as the block; its base URL.

    Raises:
        DataError: the replies are none.
    """
    load_replies(replies)
    command = [sys.executable, "-m", "triplewise.evals.stub", "--port", "0", "--latency", str(latency)]
    if replies is not None:
        command += ["--replies", str(replies)]
    process = Popen(command, stdout=PIPE, stderr=DEVNULL, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def counts(url: str) -> dict[str, Any]:
    """What a stub has counted so far. Raises OSError where none listens."""
    from urllib.request import urlopen

    with urlopen(f"{url.removesuffix('/v1')}/counts", timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def main(
    port: Annotated[int, typer.Option(help="Port on loopback; 0 takes a free one.")] = 8089,
    latency: Annotated[float, typer.Option(min=0, help="Seconds from a request to its answer.")] = 0.0,
    replies: Annotated[
        Path | None, typer.Option(help="YAML file of replies; see triplewise/evals/stub.yaml.")
    ] = None,
) -> None:
    """Serve scripted replies as an OpenAI-compatible model until interrupted. Prints its base URL first."""
    stub = Stub(load_replies(replies), latency)

    async def forever() -> None:
        server = await serve(stub, port)
        typer.echo(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1")
        sys.stdout.flush()
        await server.serve_forever()

    try:
        asyncio.run(forever())
    except KeyboardInterrupt:
        raise typer.Exit(130) from None


if __name__ == "__main__":
    typer.run(main)
