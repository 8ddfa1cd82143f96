"""Half-open connections of the web service are closed; requests that take long are not."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

from triplewise.graphs import connections

PATIENCE = 0.4
HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 4\r\n"
HALVES = (b"", b"POST / HT", HEAD, HEAD + b"\r\nab")
WHOLE = HEAD + b"\r\nabcd"


async def slow(request: Request) -> PlainTextResponse:
    body = await request.body()
    await asyncio.sleep(2 * PATIENCE)
    return PlainTextResponse(body)


@asynccontextmanager
async def serving() -> AsyncIterator[int]:
    listening = socket.create_server(("127.0.0.1", 0))
    gone: Any = {ClientDisconnect: lambda request, error: PlainTextResponse("")}
    app = Starlette(routes=[Route("/", slow, methods=["POST"])], exception_handlers=gone)
    config = uvicorn.Config(app, http=connections.ImpatientProtocol, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve(sockets=[listening]))
    yield int(listening.getsockname()[1])
    server.should_exit = True
    await task


async def talk() -> None:
    async with serving() as port, asyncio.timeout(20):
        halves = [await asyncio.open_connection("127.0.0.1", port) for _ in range(10) for _ in HALVES]
        for (_, writer), half in zip(halves, HALVES * 10, strict=True):
            writer.write(half)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(2):  # on one connection: the wait for a request begins anew
            writer.write(WHOLE)
            assert b"200 OK" in await reader.readuntil(b"abcd")
        writer.write(WHOLE[:9])
        assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        for reader, writer in halves:
            await reader.read()  # ends only when the server has closed the connection
            writer.close()
            await writer.wait_closed()


def test_what_does_not_come_whole_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "REQUEST_SECONDS", PATIENCE)
    asyncio.run(talk())
