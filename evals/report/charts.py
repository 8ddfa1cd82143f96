"""Plots of a report as Vega-Lite: accuracy against cost, by hops and level, failures, guidelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from triplewise.evals.errors import ERROR_CLASSES
from triplewise.evals.logs import Log
from triplewise.evals.report.grids import corrections, failures
from triplewise.evals.report.labels import groups, system_labels
from triplewise.evals.report.measures import COST, figure, measure
from triplewise.evals.statistics import Interval, interval
from triplewise.graphs.page.model import Chart

_GUIDELINES_SHOWN = 15
_SHARED_TAGS = ("hops", "level")
"""Tags that mean the same in every task, which therefore share a plot."""
_COLOURS = 8
_SHAPES = ("circle", "square", "triangle-up", "diamond")
_LOG_RATIO = 20
"""A cost this many times another is shown on a logarithmic scale."""
_LABEL_PIXELS = 230
_FEWEST = 5
"""Questions that a bar stands for at least; fewer say nothing."""
_MOST_VALUES = 12
"""Values of a tag that a plot shows; a tag with more is no grouping but a name."""


def charts(logs: Sequence[Log]) -> list[Chart]:
    """Return all plots for which the logs have something to show; grids stand apart."""
    parts = groups(logs, lambda log: log.cell.get("title") or log.cell.get("name") or "")
    drawn: list[Chart] = []
    for title, part in parts.items():
        own = [*_cost_charts(part), *_tag_charts(part), *_error_charts(part)]
        if len(parts) > 1:
            own = [replace(chart, title=f"{chart.title} ({title or 'no grid'})") for chart in own]
        drawn += own
    return [*drawn, *_guideline_charts(logs)]


def _named(logs: Sequence[Log]) -> Iterator[tuple[Log, str, str]]:
    """Each log with its task and system, or its column and row in a grid."""
    labels = system_labels(logs)
    for log in logs:
        yield log, str(log.cell.get("column") or log.name), str(log.cell.get("row") or labels[log.path])


def _percent(value: Interval) -> dict[str, float | None]:
    low, high = (round(100 * end, 2) if value.known else None for end in (value.low, value.high))
    return {"score": round(100 * value.mean, 2), "low": low, "high": high}


def _cost_charts(logs: Sequence[Log]) -> Iterator[Chart]:
    """Accuracy against each kind of cost that was spent at all."""
    points = pd.DataFrame(
        {
            "task": task,
            "system": system,
            **_percent(figure([log], measure(log.metric))),
            "measure": measure(log.metric).heading,
            **{one.name: log.mean(one.name) for one in COST},
        }
        for log, task, system in _named(logs)
    )
    for of in COST:
        spent = points.assign(cost=points[of.name]).dropna(subset="cost")
        if spent["cost"].nunique() > 1:
            name = of.name.replace("_", " ").replace("cost", "US$")
            yield _cost_chart(name, spent.drop(columns=[one.name for one in COST if one.name != "cost"]))


def _cost_chart(name: str, points: pd.DataFrame) -> Chart:
    far = points["cost"].min() > 0 and points["cost"].max() > _LOG_RATIO * points["cost"].min()
    domain = [0, 1.05 * float(points["cost"].max())]
    scale = alt.Scale(type="log", padding=12) if far else alt.Scale(domain=domain)
    base = _chart(points).encode(x=alt.X("cost:Q", title=f"{name} a question", scale=scale))
    ranges = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", title="main score, %"), y2="high:Q")
    tasks, systems = list(points["task"].unique()), list(points["system"].unique())
    shapes = [_SHAPES[i // _COLOURS % len(_SHAPES)] for i in range(len(tasks))]
    if points["task"].is_unique:  # colours repeat after eight, so that the second eight get another shape
        colour = alt.Color("task:N", title=None, scale=alt.Scale(domain=tasks), legend=_legend(tasks))
        scale = alt.Scale(domain=tasks, range=shapes)
        shape = alt.Shape("task:N", title=None, scale=scale, legend=_legend(tasks))
    else:
        colour = alt.Color("system:N", title=None, sort=None, legend=_legend(systems))
        shape = alt.Shape("task:N", title=None, legend=_legend(tasks))
    dots = base.mark_point().encode(
        y=alt.Y("score:Q", title="main score, %", scale=alt.Scale(domain=[0, 100])),
        color=colour,
        shape=shape,
        tooltip=["task:N", "system:N", "measure:N", "score:Q", "low:Q", "high:Q", "cost:Q"],
    )
    best = points.loc[points["score"].idxmax()]
    return Chart(
        f"Accuracy against {name}",
        {**_spec(ranges + dots), "height": 240 + 10 * (len(tasks) + len(systems))},
        "Main score (F1, Hits@1, accuracy or denotation accuracy) in percent, with its 95% interval.",
        f"{len(points)} points, main score against {name} a question; highest: {best['task']} with "
        f"{best['system']}: {best['score']:.1f}% at {best['cost']:.3g}.",
    )


def _tag_charts(logs: Sequence[Log]) -> Iterator[Chart]:
    """Accuracy by each tag of the questions: hops, level, type, ..."""
    names = dict.fromkeys(tag for log in logs for tags in log.questions["tags"] for tag in tags)
    for tag in sorted(names, key=lambda name: (name not in _SHARED_TAGS, name)):
        rows = pd.DataFrame(
            row for log, task, system in _named(logs) for row in _bars(log, task, system, tag)
        )
        if rows.empty:
            continue
        for part in [rows] if tag in _SHARED_TAGS else [same for _, same in rows.groupby("task", sort=False)]:
            if part["value"].nunique() > 1:
                yield _tag_chart(tag, part)


def _bars(log: Log, task: str, system: str, tag: str) -> Iterator[dict[str, Any]]:
    """The main score of a log for each value of a tag."""
    scores = log.scores(log.metric)
    values = log.questions["tags"].map(lambda tags: tags.get(tag)).loc[scores.index].dropna()
    if values.nunique() <= _MOST_VALUES:
        for value, part in scores.loc[values.index].groupby(values):
            if len(part) >= _FEWEST:
                names = {"task": task, "system": system, "value": str(value)}
                yield {**names, **_percent(interval(part)), "questions": len(part)}


def _tag_chart(tag: str, rows: pd.DataFrame) -> Chart:
    rows = rows.assign(of=_distinct_names(rows))
    angle = 0 if sum(map(len, rows["value"].unique())) <= 45 else -40
    base = _chart(rows).encode(
        x=alt.X("value:N", title=tag, axis=alt.Axis(labelAngle=angle)), xOffset=alt.XOffset("of:N")
    )
    bars = base.mark_bar().encode(
        y=alt.Y("score:Q", title="main score, %", stack=None, scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("of:N", title=None, legend=_legend(list(rows["of"].unique()))),
        tooltip=["of:N", "value:N", "score:Q", "low:Q", "high:Q", "questions:Q"],
    )
    ranges = base.mark_rule().encode(y=alt.Y("low:Q", title="main score, %"), y2="high:Q")
    task = "" if rows["task"].nunique() > 1 else f", {rows['task'].iloc[0]}"
    return Chart(
        f"Accuracy by {tag}{task}",
        _spec(bars + ranges),
        f"Main score in percent with its 95% interval; groups of fewer than {_FEWEST} questions left out.",
        "; ".join(f"{row.of}, {tag} {row.value}: {row.score:.1f}%" for row in rows.itertuples()),
    )


def _distinct_names(rows: pd.DataFrame) -> pd.Series[Any]:
    """Task and system of each row, as far as they differ."""
    parts = [name for name in ("task", "system") if rows[name].nunique() > 1] or ["task"]
    names: pd.Series[Any] = rows[parts].agg(", ".join, axis=1)
    return names


def _error_charts(logs: Sequence[Log]) -> Iterator[Chart]:
    """Where questions fail: shares of error classes, stacked, one bar a task and system."""
    rows = pd.DataFrame(
        {
            "task": task,
            "system": system,
            "error": name.replace("_", " "),
            "rank": ERROR_CLASSES.index(name),
            "questions": count,
            "share": round(100 * count / len(log.questions), 2),
        }
        for log, task, system in _named(logs)
        for name, count in failures(log).items()
    )
    if rows.empty:
        return
    rows = rows.assign(of=_distinct_names(rows)).sort_values("rank", kind="stable")
    present = list(rows["error"].unique())
    bars = (
        _chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="% of all questions", stack=True),
            y=alt.Y("of:N", title=None, sort=None, axis=alt.Axis(labelLimit=_LABEL_PIXELS)),
            color=alt.Color("error:N", title=None, sort=present, scale=alt.Scale(domain=present)),
            order=alt.Order("rank:Q"),
            tooltip=["of:N", "error:N", "questions:Q", "share:Q"],
        )
    )
    total = rows.groupby("error", sort=False)["questions"].sum()
    yield Chart(
        "Where questions fail",
        {**_spec(bars), "height": max(120, 28 * rows["of"].nunique() + 20)},
        "Questions that were not answered right, by the class of their error (SymAgent, table 5).",
        ", ".join(f"{name}: {count} questions" for name, count in total.items()),
    )


def _guideline_charts(logs: Sequence[Log]) -> Iterator[Chart]:
    """How often guidelines corrected a run."""
    rows = pd.DataFrame(
        [
            (name, system, count)
            for system, same in groups(logs, lambda log: log.system).items()
            for name, count in sorted(corrections(same).items())
        ],
        columns=["guideline", "system", "times"],
    )
    if rows.empty:
        return
    top = rows.groupby("guideline")["times"].sum().nlargest(_GUIDELINES_SHOWN)
    rows = rows[rows["guideline"].isin(top.index)]
    several = rows["system"].nunique() > 1
    axis = alt.Axis(labelLimit=_LABEL_PIXELS)
    bars = (
        _chart(rows)
        .mark_bar()
        .encode(
            x=alt.X("times:Q", title="times fired", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("guideline:N", title=None, sort=list(top.index), axis=axis),
            color=alt.Color("system:N", title="system") if several else alt.Undefined,
            tooltip=["guideline:N", "system:N", "times:Q"],
        )
    )
    words = ", ".join(f"{name}: {count}" for name, count in top.items())
    yield Chart("Guidelines that corrected", {**_spec(bars), "height": 24 * len(top) + 40}, "", words)


def _chart(rows: pd.DataFrame) -> alt.Chart:
    """A plot with its rows inline, numbers with no more digits than it shows."""
    rounded = rows.map(lambda v: float(f"{v:.5g}") if isinstance(v, float) else v)
    values = rounded.astype(object).where(rounded.notna(), None).to_dict("records")
    return alt.Chart(alt.InlineData(values=values))


def _legend(names: Sequence[str]) -> alt.Legend | None:
    """A legend in as many columns as the names leave room for; none for a single name."""
    longest = max(map(len, names))
    return alt.Legend(columns=3 if longest <= 16 else 2 if longest <= 32 else 1) if len(names) > 1 else None


def _spec(chart: alt.Chart | alt.LayerChart) -> dict[str, Any]:
    """The plot as plain data, without the look that the page gives it."""
    spec: dict[str, Any] = chart.to_dict()
    spec.pop("config", None)
    return spec
