"""Throughput of an evaluation with many questions in flight, beside one with a single question in flight.

The model is scripted (`evals/scripted_model.py`), in a process of its own; it takes a fixed time for every
answer and is asked over real HTTP on loopback; everything else is what an evaluation does.
"""

from __future__ import annotations

import json
import os
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals import scripted_model
from triplewise.graphs.cli.app import relax_collector


@dataclass(frozen=True, slots=True)
class Flight:
    """One evaluation.

    Attributes:
        jobs: questions in flight. questions: how many were asked. calls: model calls they took.
        most: most calls that the server saw at a time. seconds: wall-clock time of the evaluation.
        busy: seconds of processor time of this process and its workers, their start included.
    """

    jobs: int
    questions: int
    calls: int
    most: int
    seconds: float
    busy: float

    @property
    def rate(self) -> float:
        """Questions a second."""
        return self.questions / self.seconds


def measure(
    jobs: Sequence[int],
    waves: int = 10,
    latency: float = 0.5,
    system: str = "queryagent",
    settings: Sequence[str] = (),
) -> list[Flight]:
    """Evaluate MetaQA with each number of questions in flight, in one process, after a warm-up.

    Args:
        jobs: the numbers of questions in flight. waves: questions of each run, as a multiple of it.
        latency: seconds an answer of the model takes. system: preset or baseline that is asked.
        settings: further `name=value` pairs of the evaluation.

    Raises:
        DataError: MetaQA is not in the data folder.
    """
    with tempfile.TemporaryDirectory() as folder:
        with scripted_model.running() as url:
            _fly(url, max(jobs), max(jobs), system, settings, Path(folder))
        flights = []
        for count in jobs:
            with scripted_model.running(latency) as url:
                flights.append(_fly(url, count, count * waves, system, settings, Path(folder)))
        return flights


def _fly(url: str, jobs: int, questions: int, system: str, settings: Sequence[str], folder: Path) -> Flight:
    """One evaluation, measured."""
    from triplewise.evals.evaluation import make_task, parse_settings, run

    given = {
        "hops": 1,
        "seeds": False,
        "n": questions,
        "preset": system,
        "model": scripted_model.MODEL,
        "base_url": url,
    }
    task = make_task("metaqa", given | parse_settings(settings))
    start, busy = time.perf_counter(), _processor_seconds()
    log = run(task, jobs=jobs, log_dir=folder, fresh=True)
    seconds, busy = time.perf_counter() - start, _processor_seconds() - busy
    done = log.results.completed_samples if log.results else 0
    counts = scripted_model.counts(url)
    return Flight(jobs, done, int(counts["calls"]), int(counts["most"]), seconds, busy)


def _processor_seconds() -> float:
    """Of this process and of its children that have ended, which the server has not."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime


def inflight(
    jobs: Annotated[int, typer.Option(min=2, help="Questions in flight, beside a run with one.")] = 64,
    waves: Annotated[
        int, typer.Option(min=1, help="Questions asked, as a multiple of those in flight.")
    ] = 20,
    latency: Annotated[float, typer.Option(help="Seconds an answer of the model takes.")] = 0.5,
    system: Annotated[str, typer.Option(help="Preset or baseline that is asked.")] = "queryagent",
    sets: Annotated[list[str] | None, typer.Option("--set", help="As in `triplewise eval`.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Questions a second with many in flight, as a multiple of those with one in flight."""
    relax_collector()  # as the command line does
    load = os.getloadavg()[0]
    flights = measure((1, jobs), waves, latency, system, sets or ())
    ratio = flights[1].rate / flights[0].rate
    if as_json:
        found = {"ratio": ratio, "load": load, "flights": [asdict(f) | {"rate": f.rate} for f in flights]}
        typer.echo(json.dumps(found, indent=2))
        return
    table = Table(title=f"{system} on MetaQA, {latency:g} s a model call", title_justify="left")
    for heading in (
        "in flight",
        "questions",
        "calls",
        "most at a time",
        "seconds",
        "questions/s",
        "CPU ms/call",
    ):
        table.add_column(heading, justify="right")
    for f in flights:
        cpu = 1_000 * f.busy / max(f.calls, 1)
        table.add_row(
            *(str(f.jobs), str(f.questions), str(f.calls), str(f.most)),
            *(f"{f.seconds:.1f}", f"{f.rate:.2f}", f"{cpu:.1f}"),
        )
    Console().print(table, f"ratio {ratio:.1f}; load of the machine before: {load:.1f}")
