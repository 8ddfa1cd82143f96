"""Benches behind published figures, each against a named alternative in the same run.

`python -m triplewise.evals.bench NAME` on a machine that does nothing else; each has `--help`.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

import pandas as pd
import pyoxigraph as ox
import typer

from triplewise.evals import scripted_model
from triplewise.evals.evaluation import make_task, run
from triplewise.evals.question_sets import question_sets
from triplewise.evals.scripted_model import MODEL
from triplewise.evals.servers import OxigraphServer
from triplewise.graphs import Answer, Context, build_graph
from triplewise.graphs.console import relax_collector, run_command
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.endpoint import EndpointKG
from triplewise.tools.kg.local import LocalKG

# -- throughput with many questions in flight; the model is a process of its own, called over HTTP


def inflight(jobs: int = 64, waves: int = 20, latency: float = 0.5) -> list[dict[str, Any]]:
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
    return [{**row, "times as fast": row["questions/s"] / rows[1]["questions/s"]} for row in rows[1:]]


# -- what distance costs: an engine some milliseconds away, and the same graph in process

SETS = ("metaqa", "demo", "cars", "units", "elements")


def latency(
    count: int = 10, delays: tuple[int, int, int] = (0, 50, 250), only: str = ""
) -> list[dict[str, Any]]:
    """Round trips and seconds of a question without a model, by the distance of the endpoint.

    `count` development questions of each set whose name begins with `only`; the engine is pyoxigraph behind
    HTTP with an index of labels. `sequential` is the longest chain of round trips that wait for each other.
    """
    rows = list[dict[str, Any]]()
    for asked in question_sets([name for name in SETS if name.startswith(only)]):
        kg, store = asked.open(), ox.Store()
        assert isinstance(kg, LocalKG)
        store.bulk_extend(kg.quads())
        questions = [one.question for one in asked.questions[:count]]
        _ask(kg, questions[0])  # opens the encoder
        here = [(*_ask(kg, question), 0, 0) for question in questions]
        replies = {"embedded": here}
        for delay in delays:
            with OxigraphServer(store, delay) as engine:
                endpoint = EndpointKG(engine.url, kg.profile)
                endpoint.index = kg.index
                replies[f"{delay} ms"] = distant = []
                for question in questions:
                    engine.reset()
                    reply = _ask(endpoint, question)
                    distant.append((*reply, len(engine.asked), engine.waves))
                endpoint.close()
        for name, given in replies.items():
            answers, seconds, trips, waves = zip(*given, strict=True)
            same = [set(a.values) == set(b[0].values) for a, b in zip(answers, here, strict=True)]
            rows.append({
                "questions": asked.name, "engine": name, "asked": len(answers), "same answers": sum(same),
                "trips": fmean(trips), "sequential": fmean(waves), "most sequential": max(waves),
                "first, s": seconds[0], "median, s": median(seconds), "most, s": max(seconds),
            })  # fmt: skip
    return rows


def _ask(kg: KnowledgeGraph, question: str) -> tuple[Answer, float]:
    """Return the answer without a model, and the seconds that it took."""
    start, context = time.perf_counter(), Context(kg=kg, model="embedded", max_seconds=600)
    answer: Answer = build_graph("agent").invoke({"question": question}, context=context)["answer"]
    return answer, time.perf_counter() - start


def show(rows: Sequence[Mapping[str, Any]]) -> None:
    """Print the rows that a bench returns."""
    typer.echo(pd.DataFrame(rows).to_string(index=False, float_format="{:,.4g}".format))


app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, result_callback=show
)
for bench in (inflight, latency):
    app.command()(bench)

if __name__ == "__main__":
    sys.exit(run_command(sys.argv[1:], app, "python -m triplewise.evals.bench"))
