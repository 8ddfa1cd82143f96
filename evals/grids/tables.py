"""What `triplewise eval grid` prints: cells, what became of each, and the figures in the paper's layout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group
from rich.table import Table
from rich.text import Text

from triplewise.evals.grids.cells import Cell
from triplewise.evals.grids.model import GridFile, load_grid, shipped
from triplewise.evals.grids.run import Outcome

COUNTED = frozenset(
    ("seconds", "queries", "steps", "model_calls", "input_tokens", "output_tokens", "cost", "corrections")
)
"""Scores that are no shares: printed as they are, all others as percentages."""


def shipped_grids() -> Table:
    """The grids that come with the package."""
    table = Table(title="Shipped grids", title_justify="left", box=None)
    for heading in ("name", "rows", "columns", "what"):
        table.add_column(heading)
    for name in shipped():
        found = load_grid(name).grid
        table.add_row(name, str(len(found.rows)), str(len(found.columns)), found.title)
    return table


def plan(file: GridFile, cells: Sequence[Cell]) -> Group:
    """The cells that would be run."""
    table = Table()
    for heading in ("row", "column", "seed", "system", "model", "with", "limit", "runs"):
        table.add_column(heading, overflow="fold")
    for c in cells:
        limit = "task's own" if c.limit is None else "all" if c.limit == 0 else str(c.limit)
        runs = "yes" if not c.why_not else f"no: {c.why_not}"
        row = (c.row, c.column, str(c.seed), f"{c.system} on {c.task}", c.model, _swapped(c), limit, runs)
        table.add_row(*map(Text, row))
    run = sum(not c.why_not for c in cells)
    return Group(Text(f"{file.grid.title}: {run} of {len(cells)} cells to run", "bold"), table)


def _swapped(cell: Cell) -> str:
    """What is special about a cell, its seeds left out."""
    settings = {name: value for name, value in cell.settings.items() if not name.endswith("_seed")}
    words = [f"{n}={v}" for n, v in {**cell.arguments, **cell.phases, **settings}.items()]
    extra = [n for n, given in (("thinned graph", cell.thin), ("self-learning", cell.learn)) if given]
    return ", ".join([*words, *extra])


def line(outcome: Outcome) -> str:
    """What became of a cell, in a line."""
    cell = outcome.cell
    if outcome.state in ("skipped", "failed"):
        return f"{cell.name}: {outcome.state}: {outcome.why}"
    metric = cell.metrics[0]
    took = "complete before" if outcome.state == "kept" else f"{outcome.seconds:.1f} s"
    lost = f", {outcome.crashed} crashed" if outcome.crashed else ""
    return f"{cell.name}: {metric} {_shown([outcome], metric)} ({outcome.questions} questions{lost}, {took})"


def reasons(outcomes: Sequence[Outcome]) -> Iterator[str]:
    """Cells and why they were skipped, those of one row and reason together."""
    groups: dict[tuple[str, str], list[str]] = {}
    for o in outcomes:
        groups.setdefault((o.cell.row, o.why), []).append(o.cell.column)
    for (row, why), columns in groups.items():
        yield f"{row} / {', '.join(dict.fromkeys(columns))}: {why}"


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def result(file: GridFile, outcomes: Sequence[Outcome]) -> Group:
    """The figures laid out as the published table, its own in brackets."""
    table = Table()
    table.add_column("")
    columns = [c.column for c in file.grid.columns if any(o.cell.column == c.column for o in outcomes)]
    for column in columns:
        table.add_column(Text(column), justify="right")
    for row in dict.fromkeys(o.cell.row for o in outcomes):
        table.add_row(Text(row), *(Text(_figures(file, outcomes, row, column)) for column in columns))
    lines = [Text(text) for text in _captions(file, outcomes)]
    return Group(Text(file.grid.title, "bold"), table, *lines)


def _captions(file: GridFile, outcomes: Sequence[Outcome]) -> Iterator[str]:
    """What the figures are."""
    metrics = dict.fromkeys(" / ".join(o.cell.metrics) for o in outcomes)
    asked = sorted({o.questions for o in outcomes if o.questions})
    number = "" if not asked else f"; {asked[0]} questions" if len(asked) == 1 else (
        f"; {asked[0]} to {asked[-1]} questions"
    )  # fmt: skip
    yield f"{', '.join(metrics)}{number} a cell"
    for o in outcomes:
        if o.crashed:
            yield f"{o.cell.name}: {o.crashed} of {o.questions} questions crashed and count as wrong"
    if file.table is not None and file.grid.layout == "cells":
        told = f"published {file.table.date} with {file.table.model}"
        yield f"in brackets: {told}, on other questions and graphs"
    if file.grid.layout != "cells":
        yield f"the table of the paper ({file.grid.layout}) is made of the logs by triplewise eval report"
    if file.grid.notes:
        yield f"note: {file.grid.notes}"


def _figures(file: GridFile, outcomes: Sequence[Outcome], row: str, column: str) -> str:
    """A cell of the table: means over seeds, metric by metric."""
    here = [o for o in outcomes if (o.cell.row, o.cell.column) == (row, column)]
    ran = [o for o in here if o.state in ("done", "kept")]
    if not ran:
        return here[0].state if here else ""
    parts = []
    for number, metric in enumerate(ran[0].cell.metrics):
        theirs = _published(file, row, column, number)
        parts.append(_shown(ran, metric) + (f" [{theirs:.1f}]" if theirs is not None else ""))
    return " / ".join(parts)


def _shown(outcomes: Sequence[Outcome], metric: str) -> str:
    """The mean of a score over some logs."""
    values = [value for o in outcomes if (value := o.figure(metric)) is not None]
    if not values:
        return "–"
    mean = sum(values) / len(values)
    return f"{mean:.2f}" if metric in COUNTED else f"{100 * mean:.1f}"


def _published(file: GridFile, row: str, column: str, metric: int) -> float | None:
    """The published figure beside ours, if it is a percentage."""
    table = file.table
    if table is None or not table.unit.startswith("percent") or metric >= len(table.metrics):
        return None
    return table.value(row, column, table.metrics[metric])
