"""A report as a page: tables, plots, and every question of every log to be opened."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pandas as pd

from triplewise.evals.logs import Log
from triplewise.evals.report.charts import charts
from triplewise.evals.report.grids import grid_tables
from triplewise.evals.report.labels import notes, run_names
from triplewise.evals.report.measures import measure
from triplewise.evals.report.tables import crash_table, task_tables
from triplewise.graphs.page.model import Page, Question, RunBlock, Table

TITLE = "Evaluation report"


def report_tables(logs: Sequence[Log]) -> list[Table]:
    """Return all tables of a report: of grids, of tasks, of what failed."""
    failed = crash_table(logs)
    tasks = task_tables([log for log in logs if not log.cell])
    return [*grid_tables(logs), *tasks, *([failed] if failed.rows else [])]


def report_page(logs: Sequence[Log], more: Sequence[str] = ()) -> Page:
    """Return the page of some logs.

    Args:
        logs: read with their traces, for the questions to be opened. more: notes besides.
    """
    names = run_names(logs)
    return Page(
        title=TITLE,
        subtitle=subtitle(logs),
        notes=[*more, *notes(logs)],
        tables=report_tables(logs),
        charts=charts(logs),
        runs=[
            RunBlock(
                name=names[log.path],
                about=provenance(log),
                questions=[_question(row, log.metric) for _, row in log.questions.iterrows()],
                metric=measure(log.metric).heading,
            )
            for log in logs
        ],
    )


def subtitle(logs: Sequence[Log]) -> str:
    """Return how much was measured, and when."""
    asked = sum(len(log.questions) for log in logs)
    days = sorted({log.created[:10] for log in logs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{asked:,} questions, {len(logs)} runs of {len({log.task for log in logs})} tasks, {when}"


def provenance(log: Log) -> dict[str, Any]:
    """Return what a log was measured on and with, in the order in which it is read."""
    about = log.about
    drawn = f"{len(log.questions):,} of {log.total:,}, drawn from {about.get('drawn_from', 0):,}"
    graph = {"graph": about["kg_checksum"]} if about.get("kg_checksum") else {}
    optional = {
        "limits of a question": log.budgets,
        "data (sha256)": {**(about.get("data_files") or {}), **graph},
        "changed data": list(about.get("changed_files", ())),
        "price table (sha256)": about.get("prices_sha256"),
        "packages": about.get("packages"),
        "note": about.get("note"),
        "licence": about.get("licence"),
        "citation": about.get("citation"),
    }
    swapped = {name: value for name, value in (("phases", log.phases), ("settings", log.settings)) if value}
    return {
        "benchmark": f"{about['benchmark']} (task {log.name}, version {log.version})",
        "system": log.system,
        "model": log.model,
        **swapped,
        "questions": drawn,
        "seed": log.seed,
        "status": "finished" if log.finished else f"UNFINISHED ({log.header.status})",
        "knowledge graph": about.get("kg", ""),
        "graph is": "partial" if log.partial else "complete",
        "facts made from gold answers": "yes" if log.gold_derived else "no",
        "commit": (log.commit or "unknown") + " with changes" * log.dirty,
        "date": log.created,
        **{name: value for name, value in optional.items() if value},
    }


def _question(row: pd.Series[Any], metric: str) -> Question:
    run, score = row["run"], float(row.get(metric, math.nan))
    tags = [f"{value}-hop" if name == "hops" else f"{name}: {value}" for name, value in row["tags"].items()]
    if row["answerable"] is not None:
        tags.append("answerable" if row["answerable"] else "not answerable")
    tags += ["trivial"] * bool(row["trivial"])
    ending = {  # in a trace's form, for a run without one
        "question": row["question"],
        "status": run.status,
        "reason": row["error"] or run.reason,
        "sparql": run.sparql,
        "labels": list(run.labels),
    }
    return Question(
        id=row["id"],
        question=row["question"],
        gold=row["gold"],
        answer=tuple(run.labels or run.values),
        status=run.status,
        score=None if math.isnan(score) else min(1.0, max(0.0, score)),
        error_class=row["error_class"].replace("_", " "),
        tags=[*tags, *dict.fromkeys(f"guideline: {name}" for name in run.corrections)],
        trace=run.trace or {name: value for name, value in ending.items() if value},
    )
