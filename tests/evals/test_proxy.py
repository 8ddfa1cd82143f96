"""The proxy that benches put before an endpoint: what it counts."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.request import urlopen

from tests.support.sparql_server import Asked, Scripted, SparqlServer, rows
from triplewise.evals.servers import Proxy

BODY = rows("http://example.org/a")


class Together(SparqlServer):
    """Answers no request before three are there."""

    barrier = Barrier(3)

    def next_reply(self, asked: Asked) -> Scripted:
        self.barrier.wait(30)
        return super().next_reply(asked)


def ask(url: str) -> str:
    """The body of a reply."""
    with urlopen(f"{url}?query=x", timeout=30) as reply:
        return str(reply.read().decode())


def test_round_trips_are_counted_by_what_waits_for_what() -> None:
    with SparqlServer([Scripted(BODY)]) as server, Proxy(server.url) as proxy:
        assert {ask(proxy.url) for _ in range(3)} == {BODY}
        assert (proxy.requests, proxy.waves) == (3, 3)
    with Together([Scripted(BODY)]) as server, Proxy(server.url) as proxy, ThreadPoolExecutor(3) as pool:
        assert set(pool.map(ask, [proxy.url] * 3)) == {BODY}
        assert (proxy.requests, proxy.waves) == (3, 1)
