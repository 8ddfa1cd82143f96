"""Plots of a report as Vega-Lite: accuracy against cost, by hops and level, failures, guidelines."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from triplewise.evals.errors import ERROR_CLASSES
from triplewise.evals.logged import Result
from triplewise.evals.report.grid_insides import failures
from triplewise.evals.report.labels import groups, system_labels
from triplewise.evals.report.measures import COST, Measure, figure, measure
from triplewise.evals.report.stats import interval
from triplewise.graphs.page.model import Chart

if TYPE_CHECKING:
    import altair as alt

Row = dict[str, Any]
_GUIDELINES_SHOWN = 15
_OF_ALL = ("hops", "level")
"""Tags that mean the same in every task, which therefore share a plot."""
_COLOURS = 8
_FORMS = ("circle", "square", "triangle-up", "diamond")
_FAR = 20
"""A cost this many times another is shown on a logarithmic scale."""
_SHORT_NAME = 16
"""Characters of a name of which three stand beside each other in a legend."""
_LABEL = 230
"""Width of the names beside bars, in pixels."""
_FEWEST = 5
"""Questions that a bar stands for at least; fewer say nothing."""
_MOST_VALUES = 12
"""Values of a tag that a plot shows; a tag with more is no grouping but a name."""


def charts(results: Sequence[Result]) -> list[Chart]:
    """All plots for which the logs have something to show; grids apart from each other and from the rest."""
    parts = groups(results, lambda r: r.cell.title or r.cell.name if r.cell else "")
    found: list[Chart | None] = []
    for title, part in parts.items():
        drawn = [*_cost_charts(part), *_tag_charts(part), _error_chart(part)]
        found += [_titled(chart, title) for chart in drawn if chart] if len(parts) > 1 else drawn
    return [chart for chart in [*found, _guideline_chart(results)] if chart is not None]


def _titled(chart: Chart, part: str) -> Chart:
    return replace(chart, title=f"{chart.title} ({part or 'no grid'})")


def _cost_charts(results: Sequence[Result]) -> Iterator[Chart | None]:
    """Accuracy against each kind of cost that was spent at all."""
    points = [_point(result, name) for result, name in _named(results)]
    for of in COST:
        spent = [{**point, "cost": point[of.name]} for point in points if point[of.name] is not None]
        if len({point["cost"] for point in spent}) > 1:
            yield _cost_chart(of, spent)


def _named(results: Sequence[Result]) -> list[tuple[Result, str]]:
    """Results with the name of their system, or of their row in a grid."""
    labels = system_labels(results)
    return [(r, r.cell.row if r.cell else labels[r.path]) for r in results]


def _point(result: Result, system: str) -> Row:
    of = measure(result.metric)
    found = figure([result], of)
    known = not math.isnan(found.low)
    costs = {one.name: mean for one in COST if not math.isnan(mean := result.mean(one.name))}
    return {
        "task": result.cell.column if result.cell else result.name,
        "system": system,
        "score": round(100 * found.mean, 2),
        "low": round(100 * found.low, 2) if known else None,
        "high": round(100 * found.high, 2) if known else None,
        "measure": of.heading,
        **{one.name: costs.get(one.name) for one in COST},
    }


def _cost_chart(of: Measure, points: Sequence[Row]) -> Chart:
    import altair as alt

    scale = _scale([point["cost"] for point in points])
    base = alt.Chart(alt.InlineData(values=_rounded(points))).encode(
        x=alt.X("cost:Q", title=f"{of.plotted} a question", scale=scale)
    )
    ranges = base.mark_rule(opacity=0.5).encode(y=alt.Y("low:Q", title="main score, %"), y2="high:Q")
    shown = ["task:N", "system:N", "measure:N", "score:Q", "low:Q", "high:Q"]
    dots = base.mark_point().encode(
        y=alt.Y("score:Q", title="main score, %", scale=alt.Scale(domain=[0, 100])),
        **_looks(points),
        tooltip=[*shown, alt.Tooltip("cost:Q", title=of.plotted)],
    )
    best = max(points, key=lambda point: point["score"])
    return Chart(
        f"Accuracy against {of.plotted}",
        {**_spec(ranges + dots), "height": _height(points)},
        "Main score (F1, Hits@1, accuracy or denotation accuracy) in percent, with its 95% interval.",
        f"{len(points)} points, main score against {of.plotted} a question; highest: {best['task']} with "
        f"{best['system']}: {best['score']:.1f}% at {best['cost']:.3g}.",
    )


def _looks(points: Sequence[Row]) -> dict[str, Any]:
    """Colours and shapes of points: of one system by task, of several systems by system and task."""
    import altair as alt

    tasks = list(dict.fromkeys(point["task"] for point in points))
    # Colours repeat after eight, so that the second eight get another shape.
    forms = [_FORMS[i // _COLOURS % len(_FORMS)] for i in range(len(tasks))]
    if not _is_compared(points):
        scale, legend = alt.Scale(domain=tasks, range=forms), _legend(tasks)
        return {
            "color": alt.Color("task:N", title=None, scale=alt.Scale(domain=tasks), legend=legend),
            "shape": alt.Shape("task:N", title=None, scale=scale, legend=legend),
        }
    systems = [point["system"] for point in points]
    return {
        "color": alt.Color("system:N", title=None, sort=None, legend=_legend(systems)),
        "shape": alt.Shape("task:N", title=None, legend=alt.Legend(orient="top", columns=_columns(tasks))),
    }


def _is_compared(points: Sequence[Row]) -> bool:
    """Whether several systems were asked one task."""
    pairs = {(point["task"], point["system"]) for point in points}
    return len({task for task, _ in pairs}) < len(pairs)


def _height(points: Sequence[Row]) -> int:
    """Pixels of a plot with room for its legends."""
    names = [list(dict.fromkeys(point[name] for point in points)) for name in ("task", "system")]
    rows = sum(-(-len(part) // _columns(part)) for part in (names if _is_compared(points) else names[:1]))
    return 240 + 19 * rows


def _scale(costs: Sequence[float]) -> alt.Scale:
    """From nothing on, or logarithmic where costs lie far apart."""
    import altair as alt

    if min(costs) > 0 and max(costs) > _FAR * min(costs):
        return alt.Scale(type="log", padding=12)
    return alt.Scale(domain=[0, 1.05 * max(costs)])


def _legend(names: Sequence[str]) -> alt.Legend | None:
    """A legend in as many columns as the names leave room for; none for a single name."""
    import altair as alt

    return alt.Legend(columns=_columns(names)) if len(set(names)) > 1 else None


def _columns(names: Sequence[str]) -> int:
    longest = max(map(len, names))
    return 3 if longest <= _SHORT_NAME else 2 if longest <= 2 * _SHORT_NAME else 1


def _tag_charts(results: Sequence[Result]) -> Iterator[Chart | None]:
    """Accuracy by each tag of the questions: hops, level, type, ..."""
    names = dict.fromkeys(tag for r in results for asked in r.questions for tag in asked.tags)
    for tag in sorted(names, key=lambda name: (name not in _OF_ALL, name)):
        rows = _apart([row for r, name in _named(results) for row in _by_tag(r, name, tag)])
        if tag in _OF_ALL:
            yield _tag_chart(tag, rows)
        else:
            for task in dict.fromkeys(row["task"] for row in rows):
                yield _tag_chart(tag, [row for row in rows if row["task"] == task])


def _apart(rows: Sequence[Row]) -> list[Row]:
    """Rows named by task alone where that tells them apart, otherwise with the task's arguments."""
    keys = [(row["task"], row["system"], row["value"]) for row in rows]
    unique = len(set(keys)) == len(keys)
    return [row if unique else {**row, "task": row["name"]} for row in rows]


def _by_tag(result: Result, system: str, tag: str) -> list[Row]:
    """The main score of a log for each value of a tag."""
    scores = result.scores(result.metric)
    values: dict[str, list[float]] = {}
    for asked in result.questions:
        if tag in asked.tags and asked.id in scores:
            values.setdefault(asked.tags[tag], []).append(scores[asked.id])
    kept = {value: found for value, found in values.items() if len(found) >= _FEWEST}
    if len(values) > _MOST_VALUES:
        return []
    return [_bar(result, system, value, found) for value, found in sorted(kept.items())]


def _bar(result: Result, system: str, value: str, found: Sequence[float]) -> Row:
    span = interval(found)
    known = not math.isnan(span.low)
    return {
        "task": result.cell.column if result.cell else result.task,
        "name": result.cell.column if result.cell else result.name,
        "system": system,
        "value": value,
        "score": round(100 * span.mean, 2),
        "low": round(100 * span.low, 2) if known else None,
        "high": round(100 * span.high, 2) if known else None,
        "questions": span.n,
    }


def _tag_chart(tag: str, rows: Sequence[Row]) -> Chart | None:
    import altair as alt

    if len({row["value"] for row in rows}) < 2:
        return None
    named = [{**row, "of": _of(row, rows)} for row in rows]
    base = alt.Chart(alt.InlineData(values=named)).encode(
        x=alt.X("value:N", title=tag, axis=alt.Axis(labelAngle=0 if _are_short(rows) else -40)),
        xOffset=alt.XOffset("of:N"),
    )
    bars = base.mark_bar().encode(
        y=alt.Y("score:Q", title="main score, %", stack=None, scale=alt.Scale(domain=[0, 100])),
        color=alt.Color("of:N", title=None, legend=_legend([row["of"] for row in named])),
        tooltip=["of:N", "value:N", "score:Q", "low:Q", "high:Q", "questions:Q"],
    )
    ranges = base.mark_rule().encode(y=alt.Y("low:Q", title="main score, %"), y2="high:Q")
    words = "; ".join(f"{row['of']}, {tag} {row['value']}: {row['score']:.1f}%" for row in named)
    return Chart(
        f"Accuracy by {tag}" + ("" if _several(rows, "task") else f", {rows[0]['task']}"),
        _spec(bars + ranges),
        f"Main score in percent with its 95% interval; groups of fewer than {_FEWEST} questions left out.",
        words,
    )


def _of(row: Row, rows: Sequence[Row]) -> str:
    """Task and system, as far as they differ."""
    parts = [row[name] for name in ("task", "system") if _several(rows, name)]
    return ", ".join(parts) or row["task"]


def _error_chart(results: Sequence[Result]) -> Chart | None:
    """Where questions fail: shares of error classes, stacked, one bar a task and system."""
    import altair as alt

    rows = [row for result, name in _named(results) for row in _failed(result, name)]
    if not rows:
        return None
    named = [{**row, "of": _whose(row, rows)} for row in rows]
    order = [name.replace("_", " ") for name in ERROR_CLASSES]
    bars = (
        alt.Chart(alt.InlineData(values=named))
        .mark_bar()
        .encode(
            x=alt.X("share:Q", title="% of all questions", stack=True),
            y=alt.Y("of:N", title=None, sort=None, axis=alt.Axis(labelLimit=_LABEL)),
            color=alt.Color(
                "error:N", title=None, sort=order, scale=alt.Scale(domain=_present(order, named))
            ),
            order=alt.Order("rank:Q"),
            tooltip=["of:N", "error:N", "questions:Q", "share:Q"],
        )
    )
    count = len({row["of"] for row in named})
    total = Counter(dict.fromkeys(order, 0))
    for row in named:
        total[row["error"]] += row["questions"]
    words = ", ".join(f"{name}: {count} questions" for name, count in total.items() if count)
    return Chart(
        "Where questions fail",
        {**_spec(bars), "height": max(120, 28 * count + 20)},
        "Questions that were not answered right, by the class of their error (SymAgent, table 5).",
        words,
    )


def _failed(result: Result, system: str) -> list[Row]:
    found, asked = failures(result), len(result.questions)
    return [
        {
            "task": result.cell.column if result.cell else result.name,
            "system": system,
            "error": name.replace("_", " "),
            "rank": rank,
            "questions": found[name],
            "share": round(100 * found[name] / asked, 2),
        }
        for rank, name in enumerate(ERROR_CLASSES)
        if found[name]
    ]


def _whose(row: Row, rows: Sequence[Row]) -> str:
    return f"{row['task']}, {row['system']}" if _several(rows, "system") else str(row["task"])


def _present(order: Sequence[str], rows: Sequence[Row]) -> list[str]:
    known = {row["error"] for row in rows}
    return [name for name in order if name in known]


def _guideline_chart(results: Sequence[Result]) -> Chart | None:
    """How often guidelines corrected a run."""
    import altair as alt

    fired: Counter[tuple[str, str]] = Counter()
    for same in groups(results, lambda r: r.system).values():
        fired.update((id, r.system) for r in same for asked in r.questions for id in asked.run.corrections)
    if not fired:
        return None
    whole = Counter(dict.fromkeys((id for id, _ in fired), 0))
    for (id, _), count in fired.items():
        whole[id] += count
    shown = [id for id, _ in whole.most_common(_GUIDELINES_SHOWN)]
    rows = [
        {"guideline": id, "system": system, "times": count}
        for (id, system), count in sorted(fired.items())
        if id in shown
    ]
    bars = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar()
        .encode(
            x=alt.X("times:Q", title="times fired", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y("guideline:N", title=None, sort=shown, axis=alt.Axis(labelLimit=_LABEL)),
            color=alt.Color("system:N", title="system") if _several(rows, "system") else alt.Undefined,
            tooltip=["guideline:N", "system:N", "times:Q"],
        )
    )
    words = ", ".join(f"{id}: {whole[id]}" for id in shown)
    return Chart("Guidelines that corrected", {**_spec(bars), "height": 24 * len(shown) + 40}, "", words)


def _several(rows: Sequence[Mapping[str, Any]], name: str) -> bool:
    return len({row[name] for row in rows}) > 1


def _are_short(rows: Sequence[Row]) -> bool:
    values = {row["value"] for row in rows}
    return sum(map(len, values)) <= 45


def _rounded(rows: Sequence[Row]) -> list[Row]:
    """Numbers with no more digits than a plot shows."""
    return [{k: float(f"{v:.5g}") if isinstance(v, float) else v for k, v in row.items()} for row in rows]


def _spec(chart: alt.Chart | alt.LayerChart) -> dict[str, Any]:
    """The plot as plain data, without the look that the page gives it."""
    spec: dict[str, Any] = chart.to_dict()
    spec.pop("config", None)
    return spec
