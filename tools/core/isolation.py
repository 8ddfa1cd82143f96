"""Calls that run where they can be ended: in processes of their own, with a cap of memory.

For queries that a person or a model wrote, over engines in this process that cannot be interrupted: a cross
product that is sorted takes all memory there is.
"""

from __future__ import annotations

import importlib
import os
import pickle
import select
import struct
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

PROCESSES = 2  # at a time for one graph or database; further calls wait for their turn
MEMORY = 1 << 30  # bytes that a call may take on top of what was loaded before
LARGEST = 64 << 20  # bytes of a reply above which it is refused
STARTING = 60.0  # seconds that a process may take to start
_LOOK = 0.05  # seconds after which a wait looks whether the run was cancelled
_LENGTH = struct.Struct("<Q")


class Within(Protocol):
    """A budget of time that a call is part of."""

    @property
    def passed(self) -> bool:
        """Whether it is spent."""


class Ended(TimeoutError):  # noqa: N818 - it says what happened to the call
    """The call took too long or too much memory and was ended; the message says which."""


class _GoneError(Exception):
    """The process ended in the middle of a call."""


class _Process:
    """One process, which answers one call after the other."""

    def __init__(self, target: str, arguments: tuple[str, ...]) -> None:
        command = [sys.executable, "-m", "triplewise.tools.core.isolation", str(MEMORY), target, *arguments]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        pipe = subprocess.PIPE
        # In a session of its own, so that Ctrl-C reaches the parent alone.
        self._child = subprocess.Popen(
            command,
            stdin=pipe,
            stdout=pipe,
            stderr=subprocess.DEVNULL,
            env=environment,
            start_new_session=True,
        )
        try:
            self._read(time.monotonic() + STARTING, None)  # it says when it is ready
        except BaseException:
            self.kill()
            raise

    def call(self, request: object, end: float, within: Within | None) -> Any:
        """Return the reply to a request. Raises TimeoutError, and `_GoneError` where the process ended."""
        assert self._child.stdin is not None
        message = pickle.dumps(request)
        try:
            self._child.stdin.write(_LENGTH.pack(len(message)) + message)
            self._child.stdin.flush()
        except OSError as error:
            raise _GoneError from error
        return pickle.loads(self._read(end, within))  # written by `_serve`

    def kill(self) -> None:
        """End it now."""
        self._child.kill()
        for pipe in (self._child.stdin, self._child.stdout):
            if pipe is not None:
                with suppress(OSError):
                    pipe.close()
        self._child.wait()

    def _read(self, end: float, within: Within | None) -> bytes:
        """Return the next message of the process."""
        (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size, end, within))
        return self._exactly(length, end, within)

    def _exactly(self, size: int, end: float, within: Within | None) -> bytes:
        assert self._child.stdout is not None
        file, parts = self._child.stdout.fileno(), list[bytes]()
        while size:
            left = end - time.monotonic()
            if left <= 0 or (within is not None and within.passed):
                raise TimeoutError
            if not select.select([file], [], [], min(_LOOK, left))[0]:
                continue
            if not (part := os.read(file, min(size, 1 << 20))):
                raise _GoneError
            parts.append(part)
            size -= len(part)
        return b"".join(parts)


class IsolatedCalls:
    """Answers requests in processes of their own, which start when they are first needed.

    Args:
        target: `package.module:function`. The function is called once in a process and returns what answers
            each request; requests and replies are pickled.
        arguments: gives the texts that it is called with.
    """

    def __init__(self, target: str, arguments: Callable[[], tuple[str, ...]]) -> None:
        self._target, self._arguments = target, arguments
        self._idle: list[_Process] = []
        self._turns = threading.BoundedSemaphore(PROCESSES)
        self._end = weakref.finalize(self, _kill_all, self._idle)

    def close(self) -> None:
        """End the processes."""
        self._end()

    def run(self, request: object, seconds: float, within: Within | None = None) -> Any:
        """Return the reply to a request.

        Raises:
            Ended: it took longer than `seconds`, or more than `MEMORY` bytes, or `within` is spent.
        """
        end, late = time.monotonic() + seconds, f"no answer within {seconds:g} s"
        while not self._turns.acquire(timeout=min(_LOOK, max(0.0, end - time.monotonic()))):
            if time.monotonic() >= end or (within is not None and within.passed):
                raise Ended(f"{late}: other queries were running")
        process = None
        try:
            process = self._idle.pop() if self._idle else _Process(self._target, self._arguments())
            reply = process.call(request, end, within)
            self._idle.append(process)
            return reply
        except (TimeoutError, _GoneError) as error:
            if process is not None:
                process.kill()
            memory = f"the query took more than {MEMORY >> 20} MiB of memory; ask for less"
            raise Ended(
                memory if isinstance(error, _GoneError) else f"{late}; ask for less, or allow more time"
            ) from None
        finally:
            self._turns.release()


def _kill_all(processes: list[_Process]) -> None:
    while processes:
        processes.pop().kill()


def _serve(memory: int, target: str, arguments: list[str]) -> None:
    """Answer requests from stdin on stdout until the parent is gone."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    output, requests = os.fdopen(os.dup(1), "wb"), sys.stdin.buffer

    def write(message: bytes) -> None:
        output.write(_LENGTH.pack(len(message)) + message)
        output.flush()

    module, _, function = target.partition(":")
    answer = getattr(importlib.import_module(module), function)(*arguments)
    with suppress(OSError, ImportError, ValueError):  # where the system can cap memory
        from resource import RLIMIT_AS, getpagesize, setrlimit

        taken = int(Path("/proc/self/statm").read_text().split()[0]) * getpagesize()
        setrlimit(RLIMIT_AS, (taken + memory, taken + memory))
    write(b"")
    while head := requests.read(_LENGTH.size):
        reply = pickle.dumps(answer(pickle.loads(requests.read(*_LENGTH.unpack(head)))))
        if len(reply) > LARGEST:
            os._exit(1)
        write(reply)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
