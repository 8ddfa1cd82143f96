"""Tables of grids in the layout of the papers' tables, with the published figures beside ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pandas as pd

from triplewise.evals.logs import QUALITY, Log
from triplewise.evals.report.labels import (
    NOTHING,
    Measure,
    figure,
    figure_cell,
    graph_mark,
    groups,
    measure,
    notes,
    number_cell,
)
from triplewise.evals.report.published import PublishedTable, published
from triplewise.evals.report.tables import INTERVALS, NOT_TRIVIAL, Family, comparison_table, task_tables
from triplewise.evals.statistics import Interval
from triplewise.graphs.page import Cell, Table
from triplewise.guidelines import load_guidelines

AVERAGE = "average"
"""A published column of this name is the average over the others, and so is ours."""
TOP_GUIDELINES = 10
SOURCES = {
    "kb": "KB",
    "interpreter": "Python",
    "memory": "RM",
    "kb+memory": "KB+RM",
    "interpreter+memory": "Python+RM",
}
"""Our environments of guidelines -> QueryAgent's (table 8)."""


class Column(NamedTuple):
    """A column of a grid with one of its measures, and that one's name in the published table."""

    name: str
    of: Measure
    printed: str


@dataclass(frozen=True, slots=True)
class GridLogs:
    """The logs of one grid and the published table that it mirrors, if any."""

    title: str
    logs: Sequence[Log]
    table: PublishedTable | None

    @property
    def rows(self) -> list[str]:
        """The published table's rows in its order, then the grid's own that have logs."""
        printed = [row.row for row in self.table.rows] if self.table else []
        with_logs = [str(log.cell["row"]) for log in self.logs]
        own = [str(row) for row in self.logs[0].cell.get("rows") or () if row in with_logs]
        return list(dict.fromkeys([*printed, *own, *with_logs]))

    @property
    def columns(self) -> list[Column]:
        """The published table's columns in its order, then the grid's own, each with its measures."""
        printed = {column.column: column for column in self.table.columns} if self.table else {}
        own = [*(self.logs[0].cell.get("columns") or ()), *(log.cell["column"] for log in self.logs)]
        columns = []
        for name in dict.fromkeys([*printed, *map(str, own)]):
            theirs = printed[name].ours if name in printed else {}
            measures = {ours: metric for metric, ours in theirs.items()}
            for log in self.logs:
                if log.cell["column"] == name:  # measures that only our logs name come last
                    measures = dict.fromkeys([*measures, *log.cell["metrics"]], "") | measures
            columns += [Column(name, measure(ours), metric) for ours, metric in measures.items()]
        return columns

    def at(self, row: str, column: str) -> list[Log]:
        """Return the logs of a cell, the newest of each seed."""
        same = (log for log in self.logs if (log.cell["row"], log.cell["column"]) == (row, column))
        return list({log.seed: log for log in same}.values())


def grid_tables(logs: Sequence[Log]) -> list[Table]:
    """Return all tables of the logs that are in grids."""
    tables: list[Table] = []
    for name, same in groups([log for log in logs if log.cell], lambda log: log.cell["name"]).items():
        table = published().get(str(same[0].cell.get("table")))
        grid = GridLogs(str(same[0].cell.get("title") or name), same, table)
        layout = str(same[0].cell.get("layout"))
        if layout == "tasks":
            tables += task_tables(same)
        else:
            tables += cell_tables(grid) if layout == "cells" else [guideline_table(grid, layout)]
    return tables


def cell_tables(grid: GridLogs) -> list[Table]:
    """Return figures by row and column, and our rows tested against each other in every column."""
    columns, table = grid.columns, grid.table
    ours = [row for row in grid.rows if any(log.cell["row"] == row for log in grid.logs)]
    figures = {(row, c): figure(grid.at(row, c.name), c.of) for row in ours for c in columns}
    rows: list[list[Cell]] = []
    for row in grid.rows:
        if row in ours:
            logs = [log for log in grid.logs if log.cell["row"] == row]
            systems = dict.fromkeys(f"{log.system}, {log.model}" for log in logs)
            group = next((str(log.cell["group"]) for log in logs if log.cell.get("group")), "")
            remarks = dict.fromkeys(f"{row}: {log.cell['note']}" for log in logs if log.cell.get("note"))
            head = [Cell(row, group, note="; ".join(remarks)), Cell("ours", "; ".join(systems))]
            rows.append([*head, *(_own_cell(grid, row, column, figures) for column in columns)])
        if table and (printed := table.row(row)):
            note = f"{row} (published): {printed.note}" if printed.note else ""
            head = [
                Cell(row, printed.group, published=True, note=note),
                Cell("published", _origin(table, printed.model), published=True),
            ]
            values = (table.value(row, c.name, c.printed) if c.printed else None for c in columns)
            rows.append([*head, *map(_printed, values)])
    single = len({column.of.name for column in columns}) == 1
    heads = [column.name if single else f"{column.name} {column.of.heading}" for column in columns]
    families: list[Family] = []
    for name in dict.fromkeys(column.name for column in columns):
        first, scores = next(column for column in columns if column.name == name), []
        for row in ours:
            seeds = [log.scores(first.of.name) for log in grid.at(row, name)]
            # Averaged over seeds; only questions that all seeds were asked.
            if seeds and len(values := pd.concat(seeds, axis=1, join="inner").mean(axis=1)):
                scores.append((row, values))
        families.append((name, first.of, scores))
    note = _note(grid, f"Ours: {INTERVALS} ± is the standard deviation over seeds.")
    title = f"{grid.title}: differences between rows"
    compared = comparison_table(title, "Column", families, " ".join(notes(grid.logs)))
    tables = [Table(grid.title, ["Method", "Figures", *heads], rows, note), compared]
    return [table for table in tables if table.rows]


def guideline_table(grid: GridLogs, layout: str) -> Table:
    """Return what corrected the runs, then the published table's rows.

    Either the guidelines that fired most, or all by where their feedback comes from (`guideline-sources`).
    """
    fired = Counter(name for log in grid.logs for run in log.questions["run"] for name in run.corrections)
    sources = {one.id: SOURCES.get(str(one.source), str(one.source)) for one in load_guidelines()}
    counts = pd.DataFrame(
        [(name, sources.get(name, "unknown"), 1, fired[name]) for name in {**sources, **fired}],
        columns=["guideline", "source", "number", "times"],
    )
    if layout == "guidelines":
        counts = counts[counts["times"] > 0].nlargest(TOP_GUIDELINES, "times")
    else:
        counts = counts.groupby("source", as_index=False)[["number", "times"]].sum()
        counts["guideline"] = counts["source"]
    rows = [
        [*map(Cell, (one.guideline, "ours", one.source)), *map(number_cell, (one.number, one.times))]
        for one in counts.itertuples(index=False)
    ]
    if table := grid.table:
        column = table.columns[0].column
        for row in table.rows:
            texts = [(row.row, ""), ("published", _origin(table)), (row.group or row.row, "")]
            names = [Cell(text, detail, published=True) for text, detail in texts]
            values = (table.value(row.row, column, metric) for metric in ("number", "triggers"))
            rows.append([*names, *map(_printed, values)])
    asked = sum(len(log.questions) for log in grid.logs)
    columns = ["Guideline", "Whose", "Feedback from", "Guidelines", "Triggered"]
    return Table(grid.title, columns, rows, _note(grid, f"Corrections of {asked:,} questions."))


def _own_cell(
    grid: GridLogs, row: str, column: Column, figures: Mapping[tuple[str, Column], Interval]
) -> Cell:
    """Return our figure in a cell, the best of a column set off; an average is over the other columns."""
    logs, value = grid.at(row, column.name), figures[row, column]
    if not logs and column.name.casefold() == AVERAGE:
        others = [one.mean for (of, c), one in figures.items() if of == row and c.printed and c != column]
        return number_cell(100 * sum(others) / len(others) if others else math.nan, 1)
    means = [one.mean for (_, c), one in figures.items() if c == column and not math.isnan(one.mean)]
    best = column.of.name in QUALITY and len(set(means)) > 1 and value.mean == max(means)
    cell = figure_cell(value, column.of, best=best, n=True)
    details = [cell.detail]
    if any(log.questions["trivial"].any() for log in logs):
        rest = figure(logs, column.of, trivial=False)
        details.append(f"{NOT_TRIVIAL.lower()} {column.of.text(rest.mean)} of {rest.n:,}")
    if not all(log.finished for log in logs):
        details.append("UNFINISHED")
    marks = dict.fromkeys(graph_mark(log) for log in logs if graph_mark(log))
    return replace(cell, detail=", ".join(filter(None, details)), note="; ".join(marks))


def _note(grid: GridLogs, ours: str) -> str:
    """Return what a table shows: whose figures, the grid's own notes, and what the logs were measured on."""
    lines = []
    if table := grid.table:
        about = " ".join(table.note.split()).rstrip(".")
        lines.append(
            f"Rows marked published are figures of {table.source.title} ({table.source.venue}, "
            f"{table.source.date}), {table.place}, in {table.unit}: {about}. They are other models, other "
            "samples and other graphs than ours: no comparison of systems."
        )
    remarks = dict.fromkeys(" ".join(str(log.cell.get("notes") or "").split()) for log in grid.logs)
    return " ".join(filter(None, [*lines, *remarks, ours, *notes(grid.logs)]))


def _origin(table: PublishedTable, model: str = "") -> str:
    return f"{model or table.model}, {table.source.venue}, {table.source.date}"


def _printed(value: float | None) -> Cell:
    """Return a published figure as printed."""
    return Cell(NOTHING if value is None else f"{value:g}", published=True, number=value)
