"""Tables of grids in the layout of the papers' tables, with the published figures beside ours."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from triplewise.evals.logs import Log
from triplewise.evals.report.labels import graph_mark, groups, notes
from triplewise.evals.report.measures import NOTHING, Measure, figure, figure_cell, measure, number_cell
from triplewise.evals.report.published import PublishedTable, published
from triplewise.evals.report.tables import INTERVALS, compare_family, comparison_row, comparisons
from triplewise.evals.statistics import Interval
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
_FAILURE_PARTS = (("not_found",), ("crashed",))
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
            measures = (
                {ours: theirs for theirs, ours in printed[name].ours.items()} if name in printed else {}
            )
            for log in self.logs:
                if log.cell["column"] == name:  # measures that only our logs name come last
                    measures = dict.fromkeys(log.cell.get("metrics") or [log.metric], "") | measures
                    measures = {of: measures[of] for of in sorted(measures, key=lambda of: not measures[of])}
            columns += [Column(name, measure(ours), theirs) for ours, theirs in measures.items()]
        return columns

    def at(self, row: str, column: str) -> list[Log]:
        """Return the logs of a cell, one a seed."""
        return [log for log in self.logs if (log.cell["row"], log.cell["column"]) == (row, column)]


def grid_tables(logs: Sequence[Log]) -> list[Table]:
    """Return all tables of the logs that are in grids."""
    tables: list[Table] = []
    for name, same in groups([log for log in logs if log.cell], lambda log: log.cell["name"]).items():
        keys = (str(log.cell.get("table") or log.cell.get("published")) for log in same)
        table = next((published()[key] for key in keys if key in published()), None)
        grid = GridLogs(str(same[0].cell.get("title") or name), same, table)
        tables += LAYOUTS.get(str(same[0].cell.get("layout")), cell_tables)(grid)
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
            notes_of = dict.fromkeys(f"{row}: {log.cell['note']}" for log in logs if log.cell.get("note"))
            head = [Cell(row, group, note="; ".join(notes_of)), Cell("ours", "; ".join(systems))]
            rows.append([*head, *(own_cell(grid, row, column, figures) for column in columns)])
        if table and (printed := table.row(row)):
            note = f"{row} (published): {printed.note}" if printed.note else ""
            head = [
                Cell(row, printed.group, published=True, note=note),
                Cell("published", _origin(table, printed.model), published=True),
            ]
            values = [table.value(row, c.name, c.printed) if c.printed else None for c in columns]
            rows.append(
                [*head, *(_printed(value, ",.2f" if (value or 1) < 1 else ",.1f") for value in values)]
            )
    single = len({column.of.name for column in columns}) == 1
    heads = [column.name if single else f"{column.name} {column.of.heading}" for column in columns]
    remarks = dict.fromkeys(" ".join(str(log.cell.get("notes") or "").split()) for log in grid.logs)
    note = " ".join(
        filter(
            None,
            [
                f"Rows marked published are figures of {table.source.title} ({table.source.venue}, "
                f"{table.source.date}), {table.place}, in {table.unit}: {' '.join(table.note.split())}. They "
                "are other models, other samples and other graphs than ours: no comparison of systems."
                if table
                else "",
                *remarks,
                f"Ours: {INTERVALS} ± is the standard deviation over seeds.",
                *notes(grid.logs),
            ],
        )
    )
    tested: list[list[Cell]] = []
    for name, column in {column.name: column for column in reversed(columns)}.items():
        scores = []
        for row in ours:
            seeds = [log.scores(column.of.name) for log in grid.at(row, name)]
            # Averaged over seeds; only questions that all seeds were asked.
            if seeds and len(values := pd.concat(seeds, axis=1, join="inner").mean(axis=1)):
                scores.append((row, values))
        tested = [comparison_row(name, column.of, one) for one in compare_family(scores)] + tested
    tables = [Table(grid.title, ["Method", "Figures", *heads], rows, note)]
    title = f"{grid.title}: differences between rows"
    more = " ".join(notes(grid.logs))
    return tables + ([comparisons(title, "Column", tested, more)] if tested else [])


def own_cell(
    grid: GridLogs, row: str, column: Column, figures: Mapping[tuple[str, Column], Interval]
) -> Cell:
    """Return our figure in a cell, the best of a column set off; an average is over the other columns."""
    logs, value = grid.at(row, column.name), figures[row, column]
    if not logs and column.name.casefold() == AVERAGE:
        others = [one.mean for (of, c), one in figures.items() if of == row and c.printed and c != column]
        return number_cell(100 * sum(others) / len(others) if others else math.nan, 1)
    means = [one.mean for (_, c), one in figures.items() if c == column and not math.isnan(one.mean)]
    top = (min if column.of.less_is_better else max)(means, default=math.nan)
    best = len(means) > 1 and min(means) < max(means) and value.mean == top
    cell = figure_cell(value, column.of, best=best, n=True)
    unfinished = "" if all(log.finished for log in logs) else "UNFINISHED"
    marks = dict.fromkeys(graph_mark(log) for log in logs if graph_mark(log))
    return replace(cell, detail=", ".join(filter(None, (cell.detail, unfinished))), note="; ".join(marks))


def error_table(grid: GridLogs) -> list[Table]:
    """Return of the questions that were not answered right how many percent fell into each class."""
    rows = []
    for log in grid.logs:
        counts = failures(log)
        place = f"ours: {log.cell['row']}, seed {log.seed}; {log.system}, {log.model}"
        shares = [sum(counts[name] for name in classes) for classes in (*FAILURES.values(), *_FAILURE_PARTS)]
        cells = [number_cell(100 * n / counts.total() if counts else math.nan, 1) for n in shares]
        total = number_cell(counts.total(), detail=f"of {len(log.questions):,}")
        rows.append([Cell(str(log.cell["row"]), place), *cells, total])
    for printed in grid.table.rows if grid.table else ():
        assert grid.table is not None
        cells = [_printed(grid.table.value(printed.row, name)) for name in FAILURES]
        head = Cell(printed.row, _origin(grid.table), published=True)
        rows.append([head, *cells, *[_printed(None)] * 3])
    columns = ["Questions of", *FAILURES, "Not found (of RE)", "Crashed", "Failed questions"]
    note = (
        "Percent of the questions that were not answered right. IA: no action of the tool set; EA: arguments "
        "that the interpreter refused; EMS: a budget was spent; RE: a wrong answer, or nothing found, after "
        "valid actions."
    )
    return [Table(grid.title, columns, rows, _note(grid, note))]


def source_table(grid: GridLogs) -> list[Table]:
    """Return how many guidelines there are by where their feedback comes from, and how often they fired."""
    sources, table = _guideline_sources(), grid.table
    written, fired = Counter(sources.values()), Counter[str]()
    for guideline, count in corrections(grid.logs).items():
        fired[sources.get(guideline, "unknown")] += count
    names = {**SOURCES, **{name: name for name in {*written, *fired} - set(SOURCES.values())}}
    rows = []
    for printed, source in names.items():
        row = [Cell(printed, source if source != printed else "")]
        row += [number_cell(written[source]), number_cell(fired[source])]
        if table:
            column = table.columns[0].column
            row += [_printed(table.value(printed, column, metric)) for metric in ("number", "triggers")]
        rows.append(row)
    heads = ["Published: guidelines", "Published: triggered"] if table else []
    return [Table(grid.title, ["Feedback from", "Guidelines", "Triggered", *heads], rows, _note(grid))]


def guideline_table(grid: GridLogs) -> list[Table]:
    """Return the guidelines that fired most, and the published ones that did."""
    sources, fired, table = _guideline_sources(), corrections(grid.logs), grid.table
    rows = []
    for guideline, count in fired.most_common(TOP_GUIDELINES):
        names = [Cell(guideline), Cell("ours"), Cell(sources.get(guideline, "unknown"))]
        rows.append([*names, number_cell(count), number_cell(100 * count / fired.total(), 1)])
    for row in table.rows if table else ():
        assert table is not None
        texts = [(row.row, ""), ("published", _origin(table)), (row.group, "")]
        names = [Cell(text, detail, published=True) for text, detail in texts]
        rows.append([*names, _printed(table.value(row.row, table.columns[0].column)), _printed(None)])
    columns = ["Guideline", "Whose", "Feedback from", "Triggered", "Percent of all"]
    return [Table(grid.title, columns, rows, _note(grid))]


LAYOUTS: Mapping[str, Callable[[GridLogs], list[Table]]] = {
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
    """Return guideline -> the environment that its feedback comes from."""
    from triplewise.guidelines import load_guidelines

    return {guideline.id: str(guideline.source) for guideline in load_guidelines()}


def _note(grid: GridLogs, what: str = "") -> str:
    """Return what a table that is no rows by columns shows, by default corrections, and of which logs."""
    asked = sum(len(log.questions) for log in grid.logs)
    columns = ", ".join(dict.fromkeys(str(log.cell["column"]) for log in grid.logs))
    lines = [what or f"Corrections of {asked:,} questions ({columns})."]
    if table := grid.table:
        note = " ".join(table.note.split())
        lines.append(f"Published: {table.source.title} ({_origin(table)}), {table.place}: {note}.")
    return " ".join([*lines, *notes(grid.logs)])


def _origin(table: PublishedTable, model: str = "") -> str:
    return f"{model or table.model}, {table.source.venue}, {table.source.date}"


def _printed(value: float | None, digits: str = "g") -> Cell:
    """Return a published figure as printed."""
    return Cell(NOTHING if value is None else f"{value:{digits}}", published=True, number=value)
