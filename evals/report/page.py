"""A whole report: its tables, its page with plots and every question, and the results of all tasks."""

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
from triplewise.evals.report.render import escaped, markdown
from triplewise.evals.report.tables import crash_table, task_tables
from triplewise.graphs.page.model import Page, Question, RunBlock, Table

TITLE = "Evaluation report"


def report_tables(logs: Sequence[Log]) -> list[Table]:
    """Return all tables of a report: of grids, of tasks, of what failed."""
    failed = crash_table(logs)
    tasks = task_tables([log for log in logs if not log.cell])
    return [*grid_tables(logs), *tasks, *([failed] if failed.rows else [])]


def report_page(logs: Sequence[Log]) -> Page:
    """Return the page of logs that were read with their traces, for the questions to be opened."""
    names = run_names(logs)
    return Page(
        title=TITLE,
        subtitle=subtitle(logs),
        notes=notes(logs),
        tables=report_tables(logs),
        charts=charts(logs),
        runs=[
            RunBlock(
                name=names[log.path],
                about={
                    "task": f"{log.name}, version {log.version}",
                    "questions": f"{len(log.questions):,} of {log.total:,}",
                    "status": "finished" if log.finished else f"UNFINISHED ({log.status})",
                    "date": log.created,
                    "changed settings": {**log.phases, **log.settings},
                    **{name: value for name, value in log.about.items() if value and name != "grid"},
                },
                questions=[_question(row, log.metric) for _, row in log.questions.iterrows()],
                metric=measure(log.metric).heading,
            )
            for log in logs
        ],
    )


def results_text(logs: Sequence[Log], failures: Sequence[str], limit: int) -> str:
    """Return the whole file as Markdown; the same logs give the same file."""
    ordered = sorted(logs, key=lambda log: (log.name, log.path))
    command = f"triplewise eval results --limit {limit} --out evals/RESULTS.md"
    lines = [
        "# Results of every shipped task with the embedded default",
        "",
        f"{escaped(subtitle(ordered))}. Made by `{command}`; change nothing here by hand, run it again.",
        "",
        *(f"- {escaped(line)}" for line in [*ordered[0].cell["notes"].splitlines(), *notes(ordered)]),
        *(f"- NOT RUN TO ITS END: {escaped(line)}" for line in failures),
        "",
        *map(markdown, report_tables(ordered)),
        *([] if any(len(log.crashes) for log in ordered) else ["No question crashed.", ""]),
        "## The tasks",
        "",
    ]
    for log in {log.name: log for log in reversed(ordered)}.values():
        about = log.about
        note = f" Note: {' '.join(about['note'].split())}." if about.get("note") else ""
        share = f" The graph can answer {about['answerable']:,} of {about['asked']:,} questions."
        share = share if about.get("asked") else ""
        lines.append(
            f"- **{escaped(log.name)}** (version {log.version}): {escaped(about.get('benchmark', ''))}, of "
            f"{escaped(about.get('kg', ''))}. {escaped(f'{share} {note}')} "
            f"Citation: {escaped(about.get('citation', ''))}. Licence: {escaped(about.get('licence', ''))}."
        )
    return "\n".join(lines) + "\n"


def subtitle(logs: Sequence[Log]) -> str:
    """Return how much was measured, and when."""
    asked = sum(len(log.questions) for log in logs)
    days = sorted({log.created[:10] for log in logs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    return f"{asked:,} questions, {len(logs)} runs of {len({log.task for log in logs})} tasks, {when}"


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
