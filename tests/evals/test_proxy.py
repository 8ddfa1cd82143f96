"""The proxy that benches put before an endpoint: what it counts, and how it fails."""

from __future__ import annotations

import http.client
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from urllib.error import HTTPError
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
    """What a request came to: the body, or what went wrong."""
    try:
        with urlopen(f"{url}?query=x", timeout=30) as reply:
            return str(reply.read().decode())
    except HTTPError as error:
        with error:
            return str(error.code)
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__


def test_round_trips_are_counted_by_what_waits_for_what() -> None:
    with SparqlServer([Scripted(BODY)]) as server, Proxy(server.url) as proxy:
        assert {ask(proxy.url) for _ in range(3)} == {BODY}
        assert (proxy.traffic.requests, proxy.traffic.waves) == (3, 3)
    with Together([Scripted(BODY)]) as server, Proxy(server.url) as proxy, ThreadPoolExecutor(3) as pool:
        assert set(pool.map(ask, [proxy.url] * 3)) == {BODY}
        assert (proxy.traffic.requests, proxy.traffic.waves) == (3, 1)


def test_a_share_of_requests_fails_in_every_way_and_again_alike() -> None:
    came = []
    for _ in range(2):
        with SparqlServer([Scripted(BODY)]) as server, Proxy(server.url, failure_rate=0.5) as proxy:
            came.append([ask(proxy.url) for _ in range(60)])
            assert 20 <= proxy.traffic.failed == sum(reply != BODY for reply in came[-1]) <= 40
    assert came[0] == came[1]
    assert set(came[0]) == {BODY, "503", "504", "RemoteDisconnected", "IncompleteRead"}
    with SparqlServer([Scripted(BODY)]) as server:
        gone = server.url
    with Proxy(gone) as proxy:
        assert (ask(proxy.url), proxy.traffic.refused) == ("502", 1)
