"""Throughput of an evaluation with many questions in flight, beside one with a single question in flight.

The model is scripted (`evals/scripted_model.py`), in a process of its own; it takes a fixed time for every
answer and is asked over real HTTP on loopback. Everything else is what an evaluation does.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from triplewise.evals import scripted_model
from triplewise.graphs.cli.app import relax_collector


def inflight(
    jobs: Annotated[int, typer.Option(min=2, help="Questions in flight, beside a run with one.")] = 64,
    waves: Annotated[
        int, typer.Option(min=1, help="Questions asked, as a multiple of those in flight.")
    ] = 20,
    latency: Annotated[float, typer.Option(help="Seconds an answer of the model takes.")] = 0.5,
    system: Annotated[str, typer.Option(help="Preset or baseline that is asked.")] = "queryagent",
    sets: Annotated[list[str] | None, typer.Option("--set", help="As in `triplewise eval`.")] = None,
) -> list[dict[str, Any]]:
    """Questions a second with many in flight, as a multiple of those with one in flight (MetaQA)."""
    relax_collector()  # as the command line does
    with tempfile.TemporaryDirectory() as folder:
        with scripted_model.running() as url:
            _evaluate(url, jobs, jobs, system, sets or (), Path(folder))  # warms up
        rows = []
        for count in (1, jobs):
            with scripted_model.running(latency) as url:
                rows.append(_evaluate(url, count, count * waves, system, sets or (), Path(folder)))
    return [{**row, "times as fast": row["questions/s"] / rows[0]["questions/s"]} for row in rows]


def _evaluate(
    url: str, jobs: int, questions: int, system: str, settings: Sequence[str], folder: Path
) -> dict[str, Any]:
    """One evaluation, measured. Processor time is without that of the server."""
    from triplewise.evals.evaluation import make_task, parse_settings, run

    given = {"hops": 1, "seeds": False, "n": questions, "preset": system}
    server = {"model": scripted_model.MODEL, "base_url": url}
    task = make_task("metaqa", given | server | parse_settings(settings))
    start, busy = time.perf_counter(), _processor_seconds()
    log = run(task, jobs=jobs, log_dir=folder, fresh=True)
    seconds, busy = time.perf_counter() - start, _processor_seconds() - busy
    counts = scripted_model.counts(url)
    done = log.results.completed_samples if log.results else 0
    return {
        "in flight": jobs,
        "questions": done,
        "calls": counts["calls"],
        "most at a time": counts["most"],
        "seconds": seconds,
        "questions/s": done / seconds,
        "CPU ms/call": 1_000 * busy / max(counts["calls"], 1),
    }


def _processor_seconds() -> float:
    """Of this process and of its children that have ended."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
