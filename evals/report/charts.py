"""Plots of a report as Vega-Lite: accuracy against cost, and where questions fail."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from triplewise.evals.logs import Log
from triplewise.evals.record import ERROR_CLASSES
from triplewise.evals.report.labels import groups, system_labels
from triplewise.evals.report.measures import COST, figure, measure
from triplewise.graphs.page.model import Chart

_SHAPES = ("circle", "square", "triangle-up", "diamond")
_LOG_RATIO = 20
"""A cost this many times another is shown on a logarithmic scale."""


def charts(logs: Sequence[Log]) -> list[Chart]:
    """Return all plots for which the logs have something to show; grids stand apart."""
    parts = groups(logs, lambda log: log.cell.get("title") or log.cell.get("name") or "")
    drawn: list[Chart] = []
    for title, part in parts.items():
        labels = system_labels(part)
        named = [
            (log, str(log.cell.get("column") or log.name), str(log.cell.get("row") or labels[log.path]))
            for log in part
        ]
        own = [*cost_charts(named), *error_charts(named)]
        if len(parts) > 1:
            own = [replace(chart, title=f"{chart.title} ({title or 'no grid'})") for chart in own]
        drawn += own
    return drawn


Named = Sequence[tuple[Log, str, str]]
"""Logs, each with its task and system, or its column and row in a grid."""


def cost_charts(named: Named) -> Iterator[Chart]:
    """Draw accuracy against each kind of cost that was spent at all, with its interval."""
    rows = []
    for log, task, system in named:
        value, of = figure([log], measure(log.metric)), measure(log.metric)
        low, high = (round(100 * end, 2) if value.known else None for end in (value.low, value.high))
        row = {"task": task, "system": system, "measure": of.heading, "score": round(100 * value.mean, 2)}
        rows.append(row | {"low": low, "high": high} | {kind.name: log.mean(kind.name) for kind in COST})
    points = pd.DataFrame(rows)
    for kind in COST:
        spent = points.dropna(subset=kind.name)
        cost = spent[kind.name]
        if cost.nunique() < 2:
            continue
        name = {"cost": "US$"}.get(kind.name, kind.name.replace("_", " "))
        wide = cost.min() > 0 and cost.max() > _LOG_RATIO * cost.min()
        scale = alt.Scale(type="log", padding=12) if wide else alt.Scale(domain=[0, 1.05 * float(cost.max())])
        base = alt.Chart(_inline(spent)).encode(
            x=alt.X(f"{kind.name}:Q", title=f"{name} a question", scale=scale)
        )
        marks = base.mark_point().encode(
            y=alt.Y("score:Q", title="main score, %", scale=alt.Scale(domain=[0, 100])),
            color=alt.Color("system:N", title=None, sort=None, legend=alt.Legend(columns=2)),
            shape=alt.Shape("task:N", title=None, sort=None, scale=alt.Scale(range=_SHAPES)),
            tooltip=["task:N", "system:N", "measure:N", "score:Q", "low:Q", "high:Q", f"{kind.name}:Q"],
        )
        ranges = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", title="main score, %"), y2="high:Q")
        best = spent.loc[spent["score"].idxmax()]
        yield Chart(
            f"Accuracy against {name}",
            _spec(marks + ranges, 240 + 10 * (spent["task"].nunique() + spent["system"].nunique())),
            "Main score (F1, Hits@1, accuracy or denotation accuracy) in percent, with its 95% interval.",
            f"{len(spent)} points, main score against {name} a question; highest: {best['task']} with "
            f"{best['system']}: {best['score']:.1f}% at {best[kind.name]:.3g}.",
        )


def error_charts(named: Named) -> Iterator[Chart]:
    """Draw where questions fail: shares of error classes, stacked, one bar a task and system."""
    rows = pd.DataFrame(
        {
            "name": f"{task}, {system}",
            "error": name.replace("_", " "),
            "rank": ERROR_CLASSES.index(name),
            "questions": int(count),
            "share": round(100 * count / len(log.questions), 2),
        }
        for log, task, system in named
        for name, count in log.questions["error_class"].value_counts().items()
        if name
    )
    if rows.empty:
        return
    total = rows.sort_values("rank").groupby("error", sort=False)["questions"].sum()
    bars = (
        alt.Chart(_inline(rows))
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="% of all questions", stack=True),
            y=alt.Y("name:N", title=None, sort=None, axis=alt.Axis(labelLimit=230)),
            color=alt.Color("error:N", title=None, scale=alt.Scale(domain=list(total.index))),
            order=alt.Order("rank:Q"),
            tooltip=["name:N", "error:N", "questions:Q", "share:Q"],
        )
    )
    yield Chart(
        "Where questions fail",
        _spec(bars, max(120, 28 * rows["name"].nunique() + 20)),
        "Questions that were not answered right, by the class of their error (SymAgent, table 5).",
        ", ".join(f"{name}: {count} questions" for name, count in total.items()),
    )


def _inline(rows: pd.DataFrame) -> alt.InlineData:
    return alt.InlineData(values=rows.astype(object).where(rows.notna(), None).to_dict("records"))


def _spec(chart: alt.Chart | alt.LayerChart, height: int) -> dict[str, Any]:
    """Return a plot as plain data, without the look that the page gives it; `height` in pixels."""
    spec: dict[str, Any] = chart.to_dict()
    spec.pop("config", None)
    return spec | {"height": height}
