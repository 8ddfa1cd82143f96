"""Throughput of an evaluation with many questions in flight, against one with a single question in flight.

The model is scripted (`evals/scripted_model.py`), in a process of its own; it takes a fixed time for every
reply and is called over HTTP on loopback. Everything else is what an evaluation does.
"""

from __future__ import annotations

import resource
import tempfile
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from triplewise.evals import scripted_model
from triplewise.evals.evaluation import make_task, parse_settings, run
from triplewise.graphs.console import relax_collector


def inflight(
    jobs: int = 64,
    waves: int = 20,
    latency: float = 0.5,
    system: str = "queryagent",
    sets: Annotated[list[str] | None, typer.Option("--set", help="As in `triplewise eval`.")] = None,
) -> list[dict[str, Any]]:
    """Questions a second with many in flight (`jobs`), as a multiple of those with one in flight (MetaQA).

    As many questions as `jobs` times `waves` are asked; a reply of the model takes `latency` seconds.
    """
    relax_collector()  # as the command line does
    rows = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:  # the first run warms up
        for count, questions, wait in ((jobs, jobs, 0.0), (1, waves, latency), (jobs, jobs * waves, latency)):
            with scripted_model.running(wait) as url:
                given = {"hops": 1, "seeds": False, "n": questions, "preset": system}
                given |= {"model": scripted_model.MODEL, "base_url": url} | parse_settings(sets or ())
                task = make_task("metaqa", given)
                start, busy = time.perf_counter(), _processor_seconds()
                log = run(task, jobs=count, log_dir=Path(folder), fresh=True)
                seconds, busy = time.perf_counter() - start, _processor_seconds() - busy
                counts = scripted_model.counts(url)
            done = log.results.completed_samples if log.results else 0
            rows.append({
                "in flight": count, "questions": done, "calls": counts["calls"],
                "most at a time": counts["most"], "seconds": seconds, "questions/s": done / seconds,
                "CPU ms/call": 1_000 * busy / max(counts["calls"], 1),
            })  # fmt: skip
    return [{**row, "times as fast": row["questions/s"] / rows[1]["questions/s"]} for row in rows[1:]]


def _processor_seconds() -> float:
    """Of this process and of its children that have ended; the server's are not among them."""
    own, ended = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + ended.ru_utime + ended.ru_stime
