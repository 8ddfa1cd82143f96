"""The scripted model in a process of its own, which says what it has counted."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, PIPE, Popen
from typing import Any
from urllib.request import urlopen

from triplewise.evals.scripted_model import ChatHandler, Messages, OpenAIServer, RuleScript


class _Handler(ChatHandler):
    server: CountingServer

    def do_GET(self) -> None:
        """Answer with what was counted: chats, the most at a time, and first steps by question."""
        self.send_json(200, self.server.counted())


class CountingServer(OpenAIServer):
    """Replies by the rules of `scripted_model.yaml`, and counts."""

    handler = _Handler

    def __init__(self, latency: float) -> None:
        self.script, self.lock = RuleScript(), threading.Lock()
        self.answered = self.in_flight = self.most = 0
        super().__init__(self.script, latency=latency)

    def counted(self) -> dict[str, Any]:
        """What was counted so far."""
        return {"calls": self.answered, "most": self.most, "begun": self.script.begun}

    def next_reply(self, messages: Messages) -> Any:
        with self.lock:
            self.in_flight += 1
            self.most = max(self.most, self.in_flight)
        reply = super().next_reply(messages)
        with self.lock:
            self.in_flight -= 1
            self.answered += 1
        return reply


@contextmanager
def running(latency: float = 0.0) -> Iterator[str]:
    """Serve the rules in a process of its own for as long as the block; its base URL."""
    command = [sys.executable, "-m", "tests.support.counting_model", str(latency)]
    root = Path(__file__).parents[2]
    with Popen(command, stdout=PIPE, stderr=DEVNULL, text=True, cwd=root) as process:
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


if __name__ == "__main__":
    with CountingServer(float(sys.argv[1])) as serving:
        sys.stdout.write(f"{serving.url}\n")
        sys.stdout.flush()
        threading.Event().wait()
