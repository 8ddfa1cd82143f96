"""Questions a second with many in flight, against one: `python -m triplewise.evals.bench`, see `--help`.

On a machine that does nothing else. The model is a process of its own, called over HTTP.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pandas as pd
import typer

from triplewise.evals import scripted_model
from triplewise.evals.evaluation import make_task, run
from triplewise.evals.scripted_model import MODEL
from triplewise.graphs.console import relax_collector, run_command

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def inflight(jobs: int = 64, waves: int = 20, latency: float = 0.5) -> None:
    """Questions a second with many in flight, as a multiple of those with one in flight (MetaQA).

    As many as `jobs` times `waves` are asked; a reply of the model takes `latency` seconds.
    """
    relax_collector()  # as the command line does
    rows = list[dict[str, Any]]()
    with tempfile.TemporaryDirectory() as folder:  # the first run warms up
        for count, questions, wait in ((jobs, jobs, 0.0), (1, waves, latency), (jobs, jobs * waves, latency)):
            with scripted_model.running(wait) as url:
                given = {"hops": 1, "seeds": False, "n": questions, "preset": "queryagent"}
                task = make_task("metaqa", {**given, "model": MODEL, "base_url": url})
                start, busy = time.perf_counter(), time.process_time()
                log = run(task, jobs=count, log_dir=Path(folder, f"{count} {questions}"))
                seconds, busy = time.perf_counter() - start, time.process_time() - busy
                counts = scripted_model.counts(url)
            done = log.results.completed_samples if log.results else 0
            rows.append({
                "in flight": count, "questions": done, "calls": counts["calls"],
                "most at a time": counts["most"], "seconds": seconds, "questions/s": done / seconds,
                "CPU ms/call": 1_000 * busy / max(counts["calls"], 1),
            })  # fmt: skip
    table = pd.DataFrame(rows[1:])
    table["times as fast"] = table["questions/s"] / table["questions/s"].iloc[0]
    typer.echo(table.to_string(index=False, float_format="{:,.4g}".format))


if __name__ == "__main__":
    sys.exit(run_command(sys.argv[1:], app, "python -m triplewise.evals.bench"))
