"""How long a person waits: from the start of a process to the answer of `triplewise ask`, and to `--help`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from triplewise.tools.core.errors import RunError

QUESTION = "Where are both The Call of the Wild and White Fang set, the two most famous works of Jack London?"
_TIMEOUT = 600.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Wall-clock seconds of the runs of one command, process start to process end."""

    what: str
    seconds: tuple[float, ...]

    @property
    def best(self) -> float:
        """The fastest run."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The run in the middle."""
        return statistics.median(self.seconds)


def measure(repeat: int = 5, question: str = QUESTION) -> list[Measured]:
    """Time `--help`, the first answer ever (no cache of triplewise's own), and answers after it.

    The first answer is measured once with each of `repeat` empty cache folders, the later ones in the last of
    them. The operating system's own file cache stays warm.

    Raises:
        RunError: a command fails or takes longer than ten minutes; holds what it wrote to stderr.
    """
    ask = ["ask", question, "--kg", "demo"]
    first, later = [], []
    with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as scratch:
        for i in range(repeat):
            environment = _fresh(Path(scratch) / str(i))
            first.append(_timed(ask, environment))
        for _ in range(repeat):
            later.append(_timed(ask, environment))
        shown = [_timed(["--help"], environment) for _ in range(repeat)]
    return [
        Measured("triplewise --help", tuple(shown)),
        Measured("triplewise ask, first (caches empty)", tuple(first)),
        Measured("triplewise ask, later", tuple(later)),
    ]


def _fresh(folder: Path) -> Mapping[str, str]:
    """An environment whose cache, data and state folders are empty ones."""
    names = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    for name in names:
        (folder / name).mkdir(parents=True)
    return {**os.environ, **{name: str(folder / name) for name in names}}


def _timed(arguments: Sequence[str], environment: Mapping[str, str]) -> float:
    """Seconds that the command line takes with some arguments."""
    start = time.perf_counter()
    command = [sys.executable, "-c", "from triplewise.graphs.cli import main; main()", *arguments]
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise RunError(f"triplewise {arguments[0]} took longer than {_TIMEOUT:g} s") from error
    seconds = time.perf_counter() - start
    if done.returncode:
        raise RunError(
            f"triplewise {arguments[0]} ended with {done.returncode}: {done.stderr.strip()[-2000:]}"
        )
    return seconds
