"""Connections of the web service: one whose request does not come whole in time is closed."""

from __future__ import annotations

import asyncio
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 15.0  # In which a request, head and body, must have come; uvicorn itself waits for ever


class ImpatientProtocol(H11Protocol):
    """HTTP/1.1 that closes half-open connections."""

    _late: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request."""
        super().connection_made(transport)
        self._wait()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        self._wait()

    def _wait(self) -> None:
        def give_up() -> None:
            if self.conn.their_state in (h11.IDLE, h11.SEND_BODY):
                self.transport.close()

        if self._late is not None:
            self._late.cancel()
        self._late = self.loop.call_later(REQUEST_SECONDS, give_up)
