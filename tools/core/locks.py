"""Locks between processes, which go with the process that holds them, however it ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout


@contextmanager
def exclusive(path: Path, waiting: Callable[[], object]) -> Iterator[None]:
    """Hold the lock of a file, which is made for it and removed afterwards.

    Args:
        waiting: called before the wait for another process begins; it may raise to refuse waiting.

    Raises:
        OSError: the file cannot be made.
    """
    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        waiting()
        lock.acquire()
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # whoever waits for it notices, and makes it anew
        lock.release()
