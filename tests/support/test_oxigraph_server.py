"""The endpoint far away: what it counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.parse import quote
from urllib.request import urlopen

import pyoxigraph as ox

from tests.support.oxigraph_server import DistantServer


class Together(DistantServer):
    """Answers no request before three are there."""

    barrier = Barrier(3)

    def wait(self) -> None:
        self.barrier.wait(30)


def ask(url: str) -> bool:
    """Whether the body of a reply is the answer yes."""
    with urlopen(f"{url}?query={quote('ASK {}')}", timeout=30) as reply:
        return b"true" in reply.read()


def test_round_trips_are_counted_by_what_waits_for_what() -> None:
    with DistantServer(ox.Store()) as server:
        for _ in range(2):
            server.reset()
            assert all(ask(server.url) for _ in range(3))
            assert (len(server.asked), server.waves) == (3, 3)
    with Together(ox.Store()) as server, ThreadPoolExecutor(3) as pool:
        assert all(pool.map(ask, [server.url] * 3))
        assert (len(server.asked), server.waves) == (3, 1)
