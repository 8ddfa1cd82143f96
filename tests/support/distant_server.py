"""A SPARQL endpoint far away, which counts round trips."""

from __future__ import annotations

import threading
import time

import pyoxigraph as ox

from triplewise.evals.servers import OxigraphServer


class DistantServer(OxigraphServer):
    """An endpoint over a store, a round trip of `delay_ms` away; also counts.

    `asked` are the queries since the last `reset`, `waves` the sequential round trips: the longest chain of
    requests that each began after one had ended.
    """

    def __init__(self, store: ox.Store, delay_ms: float = 0.0) -> None:
        super().__init__(store)
        self.delay_ms, self.lock, self.asked, self.waves = delay_ms, threading.Lock(), list[str](), 0

    def reset(self) -> None:
        """Count from zero."""
        self.asked, self.waves = [], 0

    def answer(self, sparql: str) -> tuple[int, str, bytes]:
        with self.lock:
            self.asked.append(sparql)
            place = self.waves + 1
        time.sleep(self.delay_ms / 1000)
        reply = super().answer(sparql)
        with self.lock:  # before the reply: what the client does next is a new round trip
            self.waves = max(self.waves, place)
        return reply
