"""Tables of grids in the layout of the papers' tables, with the published figures beside ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from triplewise.evals.logs import Log
from triplewise.evals.report.labels import graph_mark, groups, short_note
from triplewise.evals.report.measures import NOTHING, Measure, figure, figure_cell, measure, number_cell
from triplewise.evals.report.published import PublishedTable, published
from triplewise.evals.report.tables import INTERVALS, compare_family, comparison_row, comparisons
from triplewise.evals.statistics import Interval, Scores
from triplewise.graphs.page.model import Cell, Table

AVERAGE = "average"
"""A published column of this name is the average over the others, and so is ours."""
TOP_GUIDELINES = 10
FAILURES = {
    "IA": ("invalid_action",),
    "EA": ("argument_error",),
    "EMS": ("exceeded_steps",),
    "RE": ("reasoning_error", "not_found"),
}
"""SymAgent's classes of failed questions (table 5) -> ours; nothing found is a reasoning error there."""
SOURCES = {
    "KB": "kb",
    "Python": "interpreter",
    "RM": "memory",
    "KB+RM": "kb+memory",
    "Python+RM": "interpreter+memory",
}
"""QueryAgent's environments of guidelines (table 8) -> ours."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a grid with one of its measures.

    Attributes:
        name: of the grid's column. of: the measure of our logs. printed: its name in the published table.
    """

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
        with_logs = dict.fromkeys(str(log.cell["row"]) for log in self.logs)
        own = dict.fromkeys([*self._order("rows"), *with_logs])
        return [*printed, *(row for row in own if row in with_logs and row not in printed)]

    @property
    def columns(self) -> list[Column]:
        """The published table's columns in its order, then the grid's own, each with its measures."""
        printed = [column.column for column in self.table.columns] if self.table else []
        own = [*self._order("columns"), *(str(log.cell["column"]) for log in self.logs)]
        return [column for name in dict.fromkeys([*printed, *own]) for column in self._measures(name)]

    def at(self, row: str, column: str) -> list[Log]:
        """Return the logs of a cell, one a seed."""
        return [log for log in self.logs if (log.cell["row"], log.cell["column"]) == (row, column)]

    def figure(self, row: str, column: Column) -> Interval:
        """Return our figure in a cell."""
        return figure(self.at(row, column.name), column.of)

    def _order(self, key: str) -> list[str]:
        return next((list(map(str, names)) for log in self.logs if (names := log.cell.get(key))), [])

    def _measures(self, name: str) -> list[Column]:
        """The measures of a column: those of the published one, then those that only our logs name."""
        printed = self.table.column(name) if self.table else None
        pairs = {ours: theirs for theirs, ours in printed.ours.items()} if printed else {}
        for log in self.logs:
            if log.cell["column"] == name:
                for own in log.cell.get("metrics") or [log.metric]:
                    pairs.setdefault(str(own), "")
        return [Column(name, measure(ours), theirs) for ours, theirs in pairs.items()]


def grid_tables(logs: Sequence[Log]) -> list[Table]:
    """Return all tables of the logs that are in grids."""
    tables: list[Table] = []
    for name, same in groups([log for log in logs if log.cell], lambda log: log.cell["name"]).items():
        keys = (str(log.cell.get("table") or log.cell.get("published")) for log in same)
        table = next((published()[key] for key in keys if key in published()), None)
        grid = GridLogs(str(same[0].cell.get("title") or name), same, table)
        layout = str(same[0].cell.get("layout") or "cells")
        tables += [LAYOUTS[layout](grid)] if layout in LAYOUTS else _cell_tables(grid)
    return tables


def _cell_tables(grid: GridLogs) -> list[Table]:
    """Figures by row and column, and our rows tested against each other in every column."""
    columns = grid.columns
    single = len({column.of.name for column in columns}) == 1
    heads = [column.name if single else f"{column.name} {column.of.heading}" for column in columns]
    rows: list[list[Cell]] = []
    for row in grid.rows:
        rows += [_own_line(grid, row, columns)] if any(log.cell["row"] == row for log in grid.logs) else []
        rows += [_published_line(grid.table, row, columns)] if grid.table and grid.table.row(row) else []
    tables = [Table(grid.title, ["Method", "Figures", *heads], rows, _note(grid))]
    tested: list[list[Cell]] = []
    for name, column in {column.name: column for column in reversed(columns)}.items():
        scores = [(row, _by_question(grid.at(row, name), column.of)) for row in grid.rows]
        known = [(row, values) for row, values in scores if len(values)]
        tested = [comparison_row(name, column.of, one) for one in compare_family(known)] + tested
    title = f"{grid.title}: differences between rows"
    return tables + ([comparisons(title, "Column", tested, short_note(grid.logs))] if tested else [])


def _own_line(grid: GridLogs, row: str, columns: Sequence[Column]) -> list[Cell]:
    logs = [log for log in grid.logs if log.cell["row"] == row]
    systems = dict.fromkeys(f"{log.system}, {log.model}" for log in logs)
    group = next((str(log.cell["group"]) for log in logs if log.cell.get("group")), "")
    note = "; ".join(dict.fromkeys(f"{row}: {log.cell['note']}" for log in logs if log.cell.get("note")))
    cells = [_own_cell(grid, row, column, columns) for column in columns]
    return [Cell(row, group, note=note), Cell("ours", "; ".join(systems)), *cells]


def _own_cell(grid: GridLogs, row: str, column: Column, columns: Sequence[Column]) -> Cell:
    logs = grid.at(row, column.name)
    if not logs and column.name.casefold() == AVERAGE:
        others = [other for other in columns if other.name.casefold() != AVERAGE and other.printed]
        means = [grid.figure(row, other).mean for other in others]
        return number_cell(100 * sum(means) / len(means) if means else math.nan, 1)
    value = grid.figure(row, column)
    ours = dict.fromkeys(log.cell["row"] for log in grid.logs)
    means = [mean for other in ours if not math.isnan(mean := grid.figure(other, column).mean)]
    top = (min if column.of.less_is_better else max)(means, default=math.nan)
    best = len(means) > 1 and min(means) < max(means) and value.mean == top
    cell = figure_cell(value, column.of, best=best, n=True)
    unfinished = "" if all(log.finished for log in logs) else "UNFINISHED"
    marks = dict.fromkeys(graph_mark(log) for log in logs if graph_mark(log))
    return replace(cell, detail=", ".join(filter(None, (cell.detail, unfinished))), note="; ".join(marks))


def _published_line(table: PublishedTable, row: str, columns: Sequence[Column]) -> list[Cell]:
    """A row as printed, each cell marked as published."""
    printed = table.row(row)
    assert printed is not None, "asked for a row of the table"
    note = f"{row} (published): {printed.note}" if printed.note else ""
    cells = []
    for column in columns:
        value = table.value(row, column.name, column.printed) if column.printed else None
        text = NOTHING if value is None else f"{value:,.2f}" if value < 1 else f"{value:,.1f}"
        cells.append(Cell(text, published=True, number=value))
    origin = f"{printed.model}, {table.source.venue}, {table.date}"
    head = Cell(row, printed.group, published=True, note=note)
    return [head, Cell("published", origin, published=True), *cells]


def _note(grid: GridLogs) -> str:
    """What is measured, by whom, on what."""
    lines = []
    if table := grid.table:
        lines.append(
            f"Rows marked published are figures of {table.source.title} ({table.source.venue}, "
            f"{table.source.date}), {table.place}, in {table.unit}: {' '.join(table.note.split())}. They are "
            "other models, other samples and other graphs than ours: no comparison of systems."
        )
    notes = dict.fromkeys(" ".join(str(log.cell.get("notes") or "").split()) for log in grid.logs)
    lines += filter(None, notes)
    lines.append(f"Ours: {INTERVALS} ± is the standard deviation over seeds. {short_note(grid.logs)}")
    return " ".join(lines)


def _by_question(logs: Sequence[Log], of: Measure) -> Scores:
    """Question -> value, averaged over seeds; only questions that all seeds were asked."""
    scores = [log.scores(of.name) for log in logs]
    return pd.concat(scores, axis=1, join="inner").mean(axis=1) if scores else pd.Series(dtype=float)


def error_table(grid: GridLogs) -> Table:
    """Of the questions that were not answered right, how many percent fell into each class."""
    rows = []
    for log in grid.logs:
        counts = failures(log)
        whole = sum(counts.values())

        def percent(*classes: str, counts: Counter[str] = counts, whole: int = whole) -> Cell:
            share = 100 * sum(counts[name] for name in classes) / whole if whole else math.nan
            return number_cell(share, 1)

        place = f"ours: {log.cell['row']}, seed {log.seed}; {log.system}, {log.model}"
        cells = [percent(*classes) for classes in FAILURES.values()]
        total = number_cell(whole, detail=f"of {len(log.questions):,}")
        head = Cell(str(log.cell["row"]), place)
        rows.append([head, *cells, percent("not_found"), percent("crashed"), total])
    if grid.table:
        for printed in grid.table.rows:
            cells = [_printed_figure(grid.table.value(printed.row, name)) for name in FAILURES]
            head = Cell(printed.row, _origin(grid.table), published=True)
            rows.append([head, *cells, *[Cell(NOTHING, published=True)] * 3])
    columns = ["Questions of", *FAILURES, "Not found (of RE)", "Crashed", "Failed questions"]
    note = (
        "Percent of the questions that were not answered right. IA: no action of the tool set; EA: arguments "
        "that the interpreter refused; EMS: a budget was spent; RE: a wrong answer, or nothing found, after "
        f"valid actions. {_printed_note(grid)}{short_note(grid.logs)}"
    )
    return Table(grid.title, columns, rows, note)


def source_table(grid: GridLogs) -> Table:
    """How many guidelines there are by where their feedback comes from, and how often they fired."""
    sources = _guideline_sources()
    written = Counter(sources.values())
    fired: Counter[str] = Counter()
    for guideline, count in corrections(grid.logs).items():
        fired[sources.get(guideline, "unknown")] += count
    names = {**SOURCES, **{name: name for name in {*written, *fired} - set(SOURCES.values())}}
    rows = []
    for printed, source in names.items():
        row = [Cell(printed, source if source != printed else "")]
        row += [number_cell(written[source]), number_cell(fired[source])]
        if table := grid.table:
            column = table.columns[0].column
            row += [_printed_figure(table.value(printed, column, m)) for m in ("number", "triggers")]
        rows.append(row)
    heads = ["Published: guidelines", "Published: triggered"] if grid.table else []
    return Table(
        grid.title, ["Feedback from", "Guidelines", "Triggered", *heads], rows, _guideline_note(grid)
    )


def guideline_table(grid: GridLogs) -> Table:
    """The guidelines that fired most, and the published ones that did."""
    sources, fired = _guideline_sources(), corrections(grid.logs)
    rows = [
        [
            Cell(guideline),
            Cell("ours"),
            Cell(sources.get(guideline, "unknown")),
            number_cell(count),
            number_cell(100 * count / fired.total(), 1),
        ]
        for guideline, count in fired.most_common(TOP_GUIDELINES)
    ]
    for row in grid.table.rows if grid.table else ():
        assert grid.table is not None
        value = grid.table.value(row.row, grid.table.columns[0].column)
        names = [(row.row, ""), ("published", _origin(grid.table)), (row.group, "")]
        cells = [Cell(text, detail, published=True) for text, detail in names]
        rows.append([*cells, _printed_figure(value), Cell(NOTHING, published=True)])
    columns = ["Guideline", "Whose", "Feedback from", "Triggered", "Percent of all"]
    return Table(grid.title, columns, rows, _guideline_note(grid))


LAYOUTS: Mapping[str, Callable[[GridLogs], Table]] = {
    "error-classes": error_table,
    "guideline-sources": source_table,
    "guidelines": guideline_table,
}
"""Layouts of grids that are no rows by columns of figures."""


def failures(log: Log) -> Counter[str]:
    """Return error class -> questions, of those that were not answered right."""
    return Counter(name for name in log.questions["error_class"] if name)


def corrections(logs: Iterable[Log]) -> Counter[str]:
    """Return guideline -> how often it corrected a run."""
    return Counter(name for log in logs for run in log.questions["run"] for name in run.corrections)


def _guideline_sources() -> Mapping[str, str]:
    """Guideline -> the environment that its feedback comes from."""
    from triplewise.guidelines import load_guidelines

    return {guideline.id: str(guideline.source) for guideline in load_guidelines()}


def _guideline_note(grid: GridLogs) -> str:
    asked = sum(len(log.questions) for log in grid.logs)
    columns = ", ".join(dict.fromkeys(str(log.cell["column"]) for log in grid.logs))
    return f"Corrections of {asked:,} questions ({columns}). {_printed_note(grid)}{short_note(grid.logs)}"


def _printed_note(grid: GridLogs) -> str:
    table = grid.table
    if table is None:
        return ""
    note = " ".join(table.note.split())
    return f"Published: {table.source.title} ({_origin(table)}), {table.place}: {note}. "


def _origin(table: PublishedTable) -> str:
    return f"{table.model}, {table.source.venue}, {table.date}"


def _printed_figure(value: float | None) -> Cell:
    return Cell(NOTHING if value is None else f"{value:,g}", published=True, number=value)
