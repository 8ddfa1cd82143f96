"""A whole report: its tables, its page with plots and every question, and the results of all tasks."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from triplewise.evals.logs import Log
from triplewise.evals.report.grids import grid_tables
from triplewise.evals.report.labels import COST, figure, groups, measure, notes, run_names, system_labels
from triplewise.evals.report.render import escaped, markdown
from triplewise.evals.report.tables import crash_table, task_tables
from triplewise.graphs.page import Chart, Page, Question, RunBlock, Table

TITLE = "Evaluation report"
_SHAPES = ("circle", "square", "triangle-up", "diamond")
_LOG_RATIO = 20
"""A cost this many times another is shown on a logarithmic scale."""


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
    tags += dict.fromkeys(f"guideline: {name}" for name in run.corrections)
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
        tags=tags,
        trace=run.trace or {name: value for name, value in ending.items() if value},
    )


def charts(logs: Sequence[Log]) -> list[Chart]:
    """Return all plots for which the logs have something to show; grids stand apart."""
    parts = groups(logs, lambda log: log.cell.get("title") or log.cell.get("name") or "")
    drawn: list[Chart] = []
    for title, part in parts.items():
        of = f" ({title or 'no grid'})" if len(parts) > 1 else ""
        drawn += [replace(chart, title=f"{chart.title}{of}") for chart in cost_charts(part)]
    return drawn


def cost_charts(logs: Sequence[Log]) -> Iterator[Chart]:
    """Draw accuracy against each kind of cost that was spent at all, with its interval."""
    rows, labels = [], system_labels(logs)
    for log in logs:
        task, system = log.cell.get("column") or log.name, log.cell.get("row") or labels[log.path]
        of = measure(log.metric)
        value = figure([log], of)
        low, high = (round(100 * end, 2) if value.known else None for end in (value.low, value.high))
        row: dict[str, Any] = {
            "task": str(task),
            "system": str(system),
            "measure": of.heading,
            "low": low,
            "high": high,
        }
        costs = {kind.name: log.mean(kind.name) for kind in COST}
        rows.append(row | {"score": round(100 * value.mean, 2)} | costs)
    points = pd.DataFrame(rows)
    for kind in COST:
        spent = points.dropna(subset=kind.name)
        cost = spent[kind.name]
        if cost.nunique() < 2:
            continue
        name = {"cost": "US$"}.get(kind.name, kind.name.replace("_", " "))
        wide = cost.min() > 0 and cost.max() > _LOG_RATIO * cost.min()
        scale = alt.Scale(type="log", padding=12) if wide else alt.Scale(domain=[0, 1.05 * float(cost.max())])
        values = spent.astype(object).where(spent.notna(), None).to_dict("records")
        base = alt.Chart(alt.InlineData(values=values)).encode(
            x=alt.X(f"{kind.name}:Q", title=f"{name} a question", scale=scale)
        )
        marks = base.mark_point().encode(
            y=alt.Y("score:Q", title="main score, %", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color("system:N", title=None, sort=None, legend=alt.Legend(columns=2)),
            shape=alt.Shape("task:N", title=None, sort=None, scale=alt.Scale(range=_SHAPES)),
            tooltip=["task:N", "system:N", "measure:N", "score:Q", "low:Q", "high:Q", f"{kind.name}:Q"],
        )
        ranges = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", title="main score, %"), y2="high:Q")
        spec: dict[str, Any] = (marks + ranges).to_dict()
        spec.pop("config", None)  # the page has its own look
        spec["height"] = 240 + 10 * (spent["task"].nunique() + spent["system"].nunique())
        best = spent.loc[spent["score"].idxmax()]
        yield Chart(
            f"Accuracy against {name}",
            spec,
            "Main score (F1, Hits@1, accuracy or denotation accuracy) in percent, with its 95% interval.",
            f"{len(spent)} points, main score against {name} a question; highest: {best['task']} with "
            f"{best['system']}: {best['score']:.1f}% at {best[kind.name]:.3g}.",
        )
