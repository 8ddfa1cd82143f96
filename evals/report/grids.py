"""Tables of grids in the layout of the papers' tables, with the published figures beside ours."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from triplewise.evals.logged import Result
from triplewise.evals.report.grid_insides import inside_tables
from triplewise.evals.report.labels import graph_mark, groups, short_note
from triplewise.evals.report.measures import NOTHING, Measure, figure, figure_cell, measure, number_cell
from triplewise.evals.report.published import PublishedTable, published
from triplewise.evals.report.stats import Interval
from triplewise.evals.report.tables import INTERVALS, comparison_row, comparisons, family
from triplewise.graphs.page.model import Cell, Table

AVERAGE = "average"
"""A published column of this name is the average over the others, and so is ours."""
OURS, PUBLISHED = "ours", "published"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: a column of the grid and one of its measures.

    Attributes:
        name: of the grid's column. of: the measure of our logs. printed: its name in the published table.
        heading: as the table shows it.
    """

    name: str
    of: Measure
    printed: str
    heading: str


@dataclass(frozen=True, slots=True)
class GridLogs:
    """The logs of one grid and the published table that it mirrors, if any."""

    name: str
    title: str
    results: tuple[Result, ...]
    table: PublishedTable | None

    def at(self, row: str, column: str) -> list[Result]:
        """The logs of a cell, one a seed."""
        return [r for r in self.results if r.cell and (r.cell.row, r.cell.column) == (row, column)]

    def told(self, name: str) -> Sequence[str]:
        """A list of names that the logs tell of their grid: its rows, its columns."""
        found = (r.cell.more.get(name) for r in self.results if r.cell)
        return next((list(map(str, names)) for names in found if names), [])


def grid_tables(results: Sequence[Result]) -> list[Table]:
    """All tables of the logs that are in grids."""
    tables: list[Table] = []
    in_grids = [result for result in results if result.cell]
    for name, logs in groups(in_grids, lambda r: r.cell.name if r.cell else "").items():
        tables += _tables(_grid(name, logs))
    return tables


def _grid(name: str, logs: Sequence[Result]) -> GridLogs:
    cells = [r.cell for r in logs if r.cell]
    keys = (str(cell.more.get("table") or cell.published) for cell in cells)
    key = next((key for key in keys if key in published()), "")
    return GridLogs(name, cells[0].title or name, tuple(logs), published().get(key))


def _tables(grid: GridLogs) -> list[Table]:
    cell = grid.results[0].cell
    layout = str(cell.more.get("layout") or "cells") if cell else "cells"
    if layout != "cells":
        return inside_tables(layout, grid.title, grid.results, grid.table)
    columns = columns_of(grid)
    rows = [line for row in rows_of(grid) for line in _lines(grid, row, columns)]
    table = Table(
        grid.title, ["Method", "Figures", *(column.heading for column in columns)], rows, _note(grid)
    )
    tested = _comparison_rows(grid, columns)
    title = f"{grid.title}: differences between rows"
    return [table, comparisons(title, "Column", tested, short_note(grid.results))] if tested else [table]


def rows_of(grid: GridLogs) -> list[str]:
    """Names of the rows: those of the published table in its order, then the grid's own."""
    printed = [row.row for row in grid.table.rows] if grid.table else []
    own = [*grid.told("rows"), *(r.cell.row for r in grid.results if r.cell)]
    with_logs = {r.cell.row for r in grid.results if r.cell}
    return [*printed, *(row for row in dict.fromkeys(own) if row in with_logs and row not in printed)]


def columns_of(grid: GridLogs) -> list[Column]:
    """The columns: the published table's in its order, then the grid's own, each with its measures."""
    printed = [column.column for column in grid.table.columns] if grid.table else []
    own = dict.fromkeys([*grid.told("columns"), *(r.cell.column for r in grid.results if r.cell)])
    names = [*printed, *(name for name in own if name not in printed)]
    found = [column for name in names for column in _columns(grid, name)]
    single = len({column.of.name for column in found}) == 1
    return [Column(c.name, c.of, c.printed, c.name) for c in found] if single else found


def _columns(grid: GridLogs, name: str) -> list[Column]:
    """The measures of a column: those of the published one, then those that only our logs name."""
    printed = grid.table.column(name) if grid.table else None
    pairs = [(ours, theirs) for theirs, ours in printed.ours.items()] if printed else []
    own = dict.fromkeys(m for r in grid.results if r.cell and r.cell.column == name for m in _metrics(r))
    pairs += [(m, "") for m in own if m not in (ours for ours, _ in pairs)]
    described = [(measure(ours), theirs) for ours, theirs in pairs]
    return [Column(name, of, theirs, f"{name} {of.heading}") for of, theirs in described]


def _metrics(result: Result) -> Sequence[str]:
    told = result.cell.more.get("metrics") if result.cell else None
    return [str(name) for name in told] if told else [result.metric]


def _lines(grid: GridLogs, row: str, columns: Sequence[Column]) -> list[list[Cell]]:
    """Ours and the published line of a row, as far as there are any."""
    logs = [r for r in grid.results if r.cell and r.cell.row == row]
    lines = [_own_line(grid, row, columns, logs)] if logs else []
    return lines + ([_published_line(grid.table, row, columns)] if grid.table and grid.table.row(row) else [])


def _own_line(grid: GridLogs, row: str, columns: Sequence[Column], logs: Sequence[Result]) -> list[Cell]:
    systems = dict.fromkeys(f"{r.system}, {r.model}" for r in logs)
    group = next((str(r.cell.more["group"]) for r in logs if r.cell and r.cell.more.get("group")), "")
    notes = dict.fromkeys(str(r.cell.more["note"]) for r in logs if r.cell and r.cell.more.get("note"))
    head = Cell(row, group, note="; ".join(f"{row}: {note}" for note in notes))
    return [head, Cell(OURS, "; ".join(systems)), *(_own_cell(grid, row, c, columns) for c in columns)]


def _own_cell(grid: GridLogs, row: str, column: Column, columns: Sequence[Column]) -> Cell:
    logs = grid.at(row, column.name)
    if not logs and column.name.casefold() == AVERAGE:
        return _average_cell(grid, row, column, columns)
    found = figure(logs, column.of)
    cell = figure_cell(found, column.of, best=_is_best(grid, column, found), n=True)
    unfinished = any(not r.finished for r in logs)
    detail = ", ".join(filter(None, [cell.detail, "UNFINISHED" * unfinished]))
    mark = dict.fromkeys(graph_mark(r) for r in logs if graph_mark(r))
    return replace(cell, detail=detail, note="; ".join(mark))


def _average_cell(grid: GridLogs, row: str, column: Column, columns: Sequence[Column]) -> Cell:
    """The average over all other columns of the published table; nothing where one of them is missing."""
    others = [c for c in columns if c.name.casefold() != AVERAGE and c.printed]
    means = [figure(grid.at(row, c.name), c.of).mean for c in others]
    known = bool(means) and not any(math.isnan(mean) for mean in means)
    return number_cell(100 * sum(means) / len(means), 1) if known else Cell(NOTHING)


def _is_best(grid: GridLogs, column: Column, found: Interval) -> bool:
    """Whether it is the best of our rows in this column."""
    rows = dict.fromkeys(r.cell.row for r in grid.results if r.cell)
    means = [figure(grid.at(row, column.name), column.of).mean for row in rows]
    known = [mean for mean in means if not math.isnan(mean)]
    wanted = min if column.of.less_is_better else max
    return len(known) > 1 and min(known) < max(known) and found.mean == wanted(known)


def _published_line(table: PublishedTable, row: str, columns: Sequence[Column]) -> list[Cell]:
    """A row as printed, each cell marked as published."""
    printed = table.row(row)
    assert printed is not None, "asked for a row of the table"
    detail = f"{printed.model}, {table.source.venue}, {table.date}"
    note = f"{row} (published): {printed.note}" if printed.note else ""
    cells = [_published_cell(table.value(row, c.name, c.printed) if c.printed else None) for c in columns]
    return [
        Cell(row, printed.group, published=True, note=note),
        Cell(PUBLISHED, detail, published=True),
        *cells,
    ]


def _published_cell(value: float | None) -> Cell:
    if value is None:
        return Cell(NOTHING, published=True)
    return Cell(f"{value:,.2f}" if value < 1 else f"{value:,.1f}", published=True, number=value)


def _note(grid: GridLogs) -> str:
    """What is measured, by whom, on what."""
    lines = []
    if grid.table:
        source = grid.table.source
        lines.append(
            f"Rows marked published are figures of {source.title} ({source.venue}, {source.date}), "
            f"{grid.table.place}, in {grid.table.unit}: {' '.join(grid.table.note.split())}. They are "
            "other models, other samples and other graphs than ours: no comparison of systems."
        )
    notes = dict.fromkeys(str(r.cell.more.get("notes") or "") for r in grid.results if r.cell)
    lines += [" ".join(note.split()) for note in notes if note]
    lines.append(f"Ours: {INTERVALS} ± is the standard deviation over seeds. {short_note(grid.results)}")
    return " ".join(lines)


def _comparison_rows(grid: GridLogs, columns: Sequence[Column]) -> list[list[Cell]]:
    """Our rows against each other in every column, on its first measure; corrected within a column."""
    rows: list[list[Cell]] = []
    for name, (first, *_) in groups_of_columns(columns).items():
        variants = [(row, _by_question(grid.at(row, name), first.of)) for row in rows_of(grid)]
        known = [(row, values) for row, values in variants if values]
        rows += [comparison_row(name, first.of, one) for one in family(known, first.of.name)]
    return rows


def groups_of_columns(columns: Sequence[Column]) -> dict[str, list[Column]]:
    """Columns of the table by the grid's column."""
    found: dict[str, list[Column]] = {}
    for column in columns:
        found.setdefault(column.name, []).append(column)
    return found


def _by_question(logs: Sequence[Result], of: Measure) -> dict[str, float]:
    """Question -> value, averaged over seeds; only questions that all seeds were asked."""
    values = [log.scores(of.name) for log in logs]
    shared = [i for i in values[0] if all(i in other for other in values)] if values else []
    return {i: math.fsum(one[i] for one in values) / len(values) for i in shared}
