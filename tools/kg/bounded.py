"""Calls that return in time, whatever the code they call does.

Neither a pyoxigraph query nor a name look-up can be interrupted from outside. A call therefore runs in a
worker thread and the caller stops waiting at its time-out; the worker is told to stop, and does so at the
next point where it can.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")
Job = Callable[[threading.Event], T]


class Deadline:
    """A time budget that several queries of one call share, in seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the budget is spent."""
        return time.monotonic() >= self._end


class Workers:
    """Daemon threads that run jobs, reused from call to call.

    Args:
        size: most jobs at a time. Jobs that were given up on count until they really end, so a query that
            cannot be interrupted takes at most `size` threads from the process.
    """

    def __init__(self, size: int = 16) -> None:
        self._slots = threading.BoundedSemaphore(size)
        self._idle: list[SimpleQueue[Callable[[], None] | None]] = []
        self._closed = False

    def run(self, job: Job[T], seconds: float) -> T:
        """The job's value or its exception. Raises TimeoutError when `seconds` are over.

        The job gets an event that is set when nobody waits for it any longer.
        """
        deadline = Deadline(seconds)
        if not self._slots.acquire(timeout=max(seconds, 0.0)):
            raise TimeoutError("earlier queries that ran out of time still occupy the engine")
        cancelled = threading.Event()
        answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._hand_over(lambda: answers.put(_attempt(job, cancelled)))
        try:
            value, error = answers.get(timeout=deadline.left)
        except Empty:
            cancelled.set()
            raise TimeoutError(f"no answer within {seconds:g} s") from None
        if error is not None:
            raise error
        return value  # type: ignore[no-any-return]

    def close(self) -> None:
        """Let idle threads end, and the others once their job is done."""
        self._closed = True
        while self._idle:
            self._idle.pop().put(None)

    def _hand_over(self, task: Callable[[], None]) -> None:
        try:
            inbox = self._idle.pop()
        except IndexError:
            inbox = SimpleQueue()
            threading.Thread(target=self._serve, args=(inbox,), name="triplewise-kg", daemon=True).start()
        inbox.put(task)

    def _serve(self, inbox: SimpleQueue[Callable[[], None] | None]) -> None:
        while task := inbox.get():
            task()
            del task
            if not self._closed:
                self._idle.append(inbox)
            self._slots.release()
            if self._closed:
                return


def _attempt(job: Job[Any], cancelled: threading.Event) -> tuple[Any, BaseException | None]:
    try:
        return job(cancelled), None
    except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
        return None, error
