"""Plots of a report as Vega-Lite: accuracy against cost, by hops and level, failures, guidelines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

from triplewise.evals.logs import Log
from triplewise.evals.record import ERROR_CLASSES
from triplewise.evals.report.grids import corrections, failures
from triplewise.evals.report.labels import groups, system_labels
from triplewise.evals.report.measures import COST, figure, measure
from triplewise.evals.statistics import Interval, interval
from triplewise.graphs.page.model import Chart

_GUIDELINES_SHOWN = 15
_SHARED_TAGS = ("hops", "level")
"""Tags that mean the same in every task, which therefore share a plot."""
_SHAPES = ("circle", "square", "triangle-up", "diamond")
_COLOURS = 8
"""Colours before they repeat; what repeats a colour gets another shape."""
_LOG_RATIO = 20
"""A cost this many times another is shown on a logarithmic scale."""
_FEWEST = 5
"""Questions that a bar stands for at least; fewer say nothing."""
_MOST_VALUES = 12
"""Values of a tag that a plot shows; a tag with more is no grouping but a name."""
_SCORE = alt.Y("score:Q", title="main score, %", stack=None, scale=alt.Scale(domain=[0, 100]))
_LABELS = alt.Axis(labelLimit=230)


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
        own = [*cost_charts(named), *tag_charts(named), *error_charts(named)]
        if len(parts) > 1:
            own = [replace(chart, title=f"{chart.title} ({title or 'no grid'})") for chart in own]
        drawn += own
    return [*drawn, *guideline_charts(logs)]


Named = Sequence[tuple[Log, str, str]]
"""Logs, each with its task and system, or its column and row in a grid."""


def cost_charts(named: Named) -> Iterator[Chart]:
    """Draw accuracy against each kind of cost that was spent at all."""
    points = pd.DataFrame(
        {
            "task": task,
            "system": system,
            **_percent(figure([log], measure(log.metric))),
            "measure": measure(log.metric).heading,
            **{of.name: log.mean(of.name) for of in COST},
        }
        for log, task, system in named
    )
    kinds = [of.name for of in COST]
    for kind in kinds:
        spent = points.assign(x=points[kind]).drop(columns=kinds).dropna(subset="x")
        if spent["x"].nunique() < 2:
            continue
        name = kind.replace("_", " ").replace("cost", "US$")
        wide = spent["x"].min() > 0 and spent["x"].max() > _LOG_RATIO * spent["x"].min()
        domain = [0, 1.05 * float(spent["x"].max())]
        scale = alt.Scale(type="log", padding=12) if wide else alt.Scale(domain=domain)
        tasks, systems = list(spent["task"].unique()), list(spent["system"].unique())
        colour, names = ("task", tasks) if spent["task"].is_unique else ("system", systems)
        repeat = _COLOURS if colour == "task" else 1
        shapes = [_SHAPES[i // repeat % len(_SHAPES)] for i in range(len(tasks))]
        best = spent.loc[spent["score"].idxmax()]
        yield Chart(
            f"Accuracy against {name}",
            _draw(
                spent,
                "point",
                ("task", "system", "measure", "score", "low", "high", "x"),
                height=240 + 10 * (len(tasks) + len(systems)),
                ranges=True,
                x=alt.X("x:Q", title=f"{name} a question", scale=scale),
                y=_SCORE,
                color=_named_by(alt.Color, colour, names),
                shape=_named_by(alt.Shape, "task", tasks, range=shapes),
            ),
            "Main score (F1, Hits@1, accuracy or denotation accuracy) in percent, with its 95% interval.",
            f"{len(spent)} points, main score against {name} a question; highest: {best['task']} with "
            f"{best['system']}: {best['score']:.1f}% at {best['x']:.3g}.",
        )


def tag_charts(named: Named) -> Iterator[Chart]:
    """Draw accuracy by each tag of the questions: hops, level, type, ..."""
    tags = {tag for log, *_ in named for tags in log.questions["tags"] for tag in tags}
    for tag in sorted(tags, key=lambda name: (name not in _SHARED_TAGS, name)):
        bars: list[dict[str, Any]] = []
        for log, task, system in named:
            scores = log.scores(log.metric)
            values = log.questions["tags"].str.get(tag).loc[scores.index].dropna()
            if values.nunique() <= _MOST_VALUES:
                bars += [
                    {"task": task, "system": system, "value": str(value), "questions": len(part)}
                    | _percent(interval(part))
                    for value, part in scores.loc[values.index].groupby(values)
                    if len(part) >= _FEWEST
                ]
        if not bars:
            continue
        rows = pd.DataFrame(bars)
        shared = tag in _SHARED_TAGS
        for part in [rows] if shared else [same for _, same in rows.groupby("task", sort=False)]:
            if part["value"].nunique() < 2:
                continue
            part = _with_names(part)
            task = part["task"].iloc[0] if part["task"].nunique() == 1 else ""
            angle = 0 if sum(map(len, part["value"].unique())) <= 45 else -40
            yield Chart(
                f"Accuracy by {tag}{f', {task}' if task else ''}",
                _draw(
                    part,
                    "bar",
                    ("name", "value", "score", "low", "high", "questions"),
                    ranges=True,
                    x=alt.X("value:N", title=tag, axis=alt.Axis(labelAngle=angle)),
                    xOffset=alt.XOffset("name:N"),
                    y=_SCORE,
                    color=_named_by(alt.Color, "name", list(part["name"].unique())),
                ),
                f"Main score in percent with its 95% interval; groups of under {_FEWEST} questions left out.",
                "; ".join(
                    f"{row.name}, {tag} {row.value}: {row.score:.1f}%" for row in part.itertuples(False)
                ),
            )


def error_charts(named: Named) -> Iterator[Chart]:
    """Draw where questions fail: shares of error classes, stacked, one bar a task and system."""
    rows = pd.DataFrame(
        {
            "task": task,
            "system": system,
            "error": name.replace("_", " "),
            "rank": ERROR_CLASSES.index(name),
            "questions": count,
            "share": round(100 * count / len(log.questions), 2),
        }
        for log, task, system in named
        for name, count in failures(log).items()
    )
    if rows.empty:
        return
    rows = _with_names(rows).sort_values("rank", kind="stable")
    total = rows.groupby("error", sort=False)["questions"].sum()
    yield Chart(
        "Where questions fail",
        _draw(
            rows,
            "bar",
            ("name", "error", "questions", "share"),
            height=max(120, 28 * rows["name"].nunique() + 20),
            x=alt.X("share:Q", title="% of all questions", stack=True),
            y=alt.Y("name:N", title=None, sort=None, axis=_LABELS),
            color=alt.Color("error:N", title=None, scale=alt.Scale(domain=list(total.index))),
            order=alt.Order("rank:Q"),
        ),
        "Questions that were not answered right, by the class of their error (SymAgent, table 5).",
        ", ".join(f"{name}: {count} questions" for name, count in total.items()),
    )


def guideline_charts(logs: Sequence[Log]) -> Iterator[Chart]:
    """Draw how often guidelines corrected a run."""
    rows = pd.DataFrame(
        {"guideline": name, "system": system, "times": count}
        for system, same in groups(logs, lambda log: log.system).items()
        for name, count in sorted(corrections(same).items())
    )
    if rows.empty:
        return
    top = rows.groupby("guideline")["times"].sum().nlargest(_GUIDELINES_SHOWN)
    rows = rows[rows["guideline"].isin(top.index)]
    yield Chart(
        "Guidelines that corrected",
        _draw(
            rows,
            "bar",
            ("guideline", "system", "times"),
            height=24 * len(top) + 40,
            x=alt.X("times:Q", title="times fired", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("guideline:N", title=None, sort=list(top.index), axis=_LABELS),
            color=_named_by(alt.Color, "system", list(rows["system"].unique())),
        ),
        alt=", ".join(f"{name}: {count}" for name, count in top.items()),
    )


def _percent(value: Interval) -> dict[str, float | None]:
    low, high = (round(100 * end, 2) if value.known else None for end in (value.low, value.high))
    return {"score": round(100 * value.mean, 2), "low": low, "high": high}


def _with_names(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with a column `name`: task and system, as far as they differ."""
    parts = [name for name in ("task", "system") if rows[name].nunique() > 1] or ["task"]
    return rows.assign(name=rows[parts].agg(", ".join, axis=1))


def _named_by(channel: type[Any], column: str, names: Sequence[str], **scale: Any) -> Any:
    """Return colour or shape by a column, its legend in as many columns as the names leave room for."""
    longest = max(map(len, names))
    columns = 3 if longest <= 16 else 2 if longest <= 32 else 1
    legend = alt.Legend(columns=columns) if len(names) > 1 else None
    return channel(f"{column}:N", title=None, scale=alt.Scale(domain=names, **scale), legend=legend)


def _draw(
    rows: pd.DataFrame,
    mark: str,
    tooltip: Sequence[str],
    *,
    height: int | None = None,
    ranges: bool = False,
    **encoding: Any,
) -> dict[str, Any]:
    """Return a plot as plain data, its rows inline, without the look that the page gives it.

    Args:
        rows: what is shown. mark: `bar` or `point`. tooltip: columns shown on pointing at a mark.
        height: in pixels. ranges: whether `low` and `high` are shown as a line. encoding: see Altair.
    """
    rounded = rows.map(lambda v: float(f"{v:.5g}") if isinstance(v, float) else v)
    values = rounded.astype(object).where(rounded.notna(), None).to_dict("records")
    base = alt.Chart(alt.InlineData(values=values))
    types = [f"{name}:{'Q' if pd.api.types.is_numeric_dtype(rows[name]) else 'N'}" for name in tooltip]
    drawn: alt.Chart | alt.LayerChart = getattr(base, f"mark_{mark}")().encode(tooltip=types, **encoding)
    if ranges:
        where = {name: encoding[name] for name in ("x", "xOffset") if name in encoding}
        ends = alt.Y("low:Q", title="main score, %")
        drawn += base.mark_rule(opacity=0.5).encode(y=ends, y2="high:Q", **where)
    spec: dict[str, Any] = drawn.to_dict()
    spec.pop("config", None)
    return spec | ({"height": height} if height else {})
