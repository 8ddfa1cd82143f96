"""How long a person waits: from the start of a process to the answer of `triplewise ask`, and to `--help`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from triplewise.tools.core.errors import RunError

QUESTION = "Where are both The Call of the Wild and White Fang set, the two most famous works of Jack London?"


def startup(
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each command.")] = 5,
    question: Annotated[str, typer.Option(help="What is asked of the demo graph.")] = QUESTION,
) -> list[dict[str, Any]]:
    """Seconds from process start to the answer of `triplewise ask`, and to `--help`.

    The first answer (caches empty) is measured once with each of some empty cache folders, the later ones in
    the last of them. The operating system's own file cache stays warm.
    """
    ask = ["ask", question, "--kg", "demo", "--set", "min_confidence=0"]
    with tempfile.TemporaryDirectory(prefix="triplewise-bench-") as scratch:
        folders = [Path(scratch) / str(i) for i in range(repeat)]
        seconds = {
            "ask, first (caches empty)": [_seconds(ask, folder) for folder in folders],
            "ask, later": [_seconds(ask, folders[-1]) for _ in range(repeat)],
            "--help": [_seconds(["--help"], folders[-1]) for _ in range(repeat)],
        }
    return [
        {"command": name, "median": statistics.median(s), "best": min(s), "runs": len(s)}
        for name, s in seconds.items()
    ]


def _seconds(arguments: Sequence[str], folder: Path) -> float:
    """Seconds of the command line whose caches lie in a folder. Raises `RunError` where it fails."""
    names = ("XDG_CACHE_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME")
    environment = {**os.environ, **{name: str(folder / name) for name in names}}
    command = [sys.executable, "-c", "from triplewise.graphs.cli import main; main()", *arguments]
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    if done.returncode:
        error = done.stderr.strip()[-2000:]
        raise RunError(f"triplewise {arguments[0]} ended with {done.returncode}: {error}")
    return time.perf_counter() - start
