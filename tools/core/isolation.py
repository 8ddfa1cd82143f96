"""Calls that run where they can be ended: in processes of their own, with a cap of memory.

For queries that a person or a model wrote, over engines in this process that cannot be interrupted.
"""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import Any

PROCESSES = 2  # at a time for one graph or database; further calls wait for their turn
MEMORY = 1 << 30  # bytes that a call may take on top of what was loaded before
LARGEST = 64 << 20  # bytes of a reply above which it is refused
STARTING = 60.0  # seconds that a process may take to start
_LOOK = 0.05  # seconds after which a wait looks whether the run was cancelled


class Ended(TimeoutError):  # noqa: N818 - it says what happened to the call
    """The call took too long or too much memory and was ended; the message says which."""


class IsolatedCalls:
    """Answers requests in processes of their own, which start when they are first needed.

    `target` (`package.module:function`) is called once a process, with `arguments`; it returns what answers.
    """

    def __init__(self, target: str, arguments: Callable[[], tuple[str, ...]]) -> None:
        self._target, self._arguments = target, arguments
        self._idle: list[_Process] = []
        self._turns = threading.BoundedSemaphore(PROCESSES)
        self.close = weakref.finalize(self, _end_all, self._idle)

    def run(self, request: object, seconds: float, is_over: Callable[[], bool] = bool) -> Any:
        """Return the reply to a request.

        Raises `Ended` where it took more than `seconds`, the start of a process not counted, or more than
        `MEMORY` bytes, or the run `is_over`.
        """
        end, late = time.monotonic() + seconds, f"no answer within {seconds:g} s"
        while not self._turns.acquire(timeout=min(_LOOK, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end or is_over():
                raise Ended(f"{late}: other queries were running")
        process = None
        try:
            if self._idle:
                process = self._idle.pop()
            else:
                process = _Process(self._target, self._arguments())
                end = time.monotonic() + seconds  # one that starts slowly would be ended every time
            process.connection.send(request)
            reply = process.receive(end, is_over)
            self._idle.append(process)
            return reply
        except (OSError, EOFError) as error:
            if process is not None:
                process.end()
            if isinstance(error, TimeoutError):
                raise Ended(f"{late}; ask for less, or allow more time") from None
            raise Ended(f"the query took more than {MEMORY >> 20} MiB of memory; ask for less") from None
        finally:
            self._turns.release()


class _Process:
    """One process, which answers one call after the other."""

    def __init__(self, target: str, arguments: tuple[str, ...]) -> None:
        self.connection, theirs = Pipe()
        command = [sys.executable, "-m", "triplewise.tools.core.isolation", str(theirs.fileno()), str(MEMORY)]
        with theirs:
            # In a session of its own, so that Ctrl-C reaches the parent alone.
            self._child = subprocess.Popen(
                [*command, target, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        try:
            self.receive(time.monotonic() + STARTING)  # it says when it is ready
        except BaseException:
            self.end()
            raise

    def receive(self, end: float, is_over: Callable[[], bool] = bool) -> Any:
        """Return its next message. Raises TimeoutError, and OSError or EOFError where it has ended."""
        while not self.connection.poll(min(_LOOK, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end or is_over():
                raise TimeoutError
        return self.connection.recv()

    def end(self) -> None:
        self._child.kill()
        self.connection.close()
        self._child.wait()


def _end_all(processes: list[_Process]) -> None:
    while processes:
        processes.pop().end()


def _serve(connection: Connection, memory: int, target: str, arguments: list[str]) -> None:
    """Answer requests until the parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    module, _, function = target.partition(":")
    answer = getattr(importlib.import_module(module), function)(*arguments)
    with suppress(OSError, ImportError, ValueError):  # where the system can cap memory
        from resource import RLIMIT_AS, getpagesize, setrlimit

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * getpagesize()
        setrlimit(RLIMIT_AS, (taken + memory, taken + memory))
    connection.send(None)
    with suppress(EOFError):
        while True:
            reply = pickle.dumps(answer(connection.recv()))
            if len(reply) > LARGEST:
                os._exit(1)
            connection.send_bytes(reply)


if __name__ == "__main__":
    _serve(Connection(int(sys.argv[1])), int(sys.argv[2]), sys.argv[3], sys.argv[4:])
