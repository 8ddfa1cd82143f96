"""Plots of a report as Vega-Lite: accuracy against what it cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from triplewise.evals.logs import Log
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
        of = f" ({title or 'no grid'})" if len(parts) > 1 else ""
        drawn += [replace(chart, title=f"{chart.title}{of}") for chart in cost_charts(named)]
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
