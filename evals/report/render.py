"""Tables of a report for the terminal, as Markdown, and as plain JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from triplewise.graphs.page import Cell, Table, footnotes, interval

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table as RichTable

_MARKS = re.compile(r"[\\|*`\[\]]|(?<!\w)_|_(?!\w)")
"""What Markdown would take for a mark; an underscore within a word it does not."""
MOST_TURNED = 3
"""Rows of a table up to which each may become a column."""
HEADS = 3
"""Most columns of text that stand before every part of a table that comes in parts."""
ROWS_SHOWN = 30
"""Rows of a table on the terminal; the files have all of them."""


def terminal(table: Table, width: int = 1_000) -> RenderableType:
    """Return a table for a terminal; one too wide for it is turned, or comes in parts if it has many rows."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.text import Text

    notes, parts, most = footnotes(table), [table], 0
    if sum(widths := _widths(table)) > width:
        numeric = [i for i in range(len(table.columns)) if _is_numeric(table, i)]
        if len(table.rows) <= MOST_TURNED:
            lines = zip(map(Cell, table.columns), *table.rows, strict=True)
            parts = [
                replace(table, columns=[""] * (1 + len(table.rows)), rows=[list(line) for line in lines])
            ]
        elif numeric:
            heads, most = list(range(min(numeric[0], HEADS))), width // (HEADS + 1)
            room, chosen = width - sum(min(widths[i], most) for i in heads), [list[int]()]
            for i in range(len(heads), len(table.columns)):
                if sum(widths[j] for j in (*chosen[-1], i)) > room and chosen[-1]:
                    chosen.append([])
                chosen[-1].append(i)
            parts = [_with_columns(table, [*heads, *more]) for more in chosen]
    drawn = [_drawn(part, notes, most) for part in parts]
    drawn[0].title = Text(table.title)
    below = [*_below(table), *(f"[{number}] {note}" for note, number in notes.items())]
    if len(table.rows) > ROWS_SHOWN:
        below.append(f"... and {len(table.rows) - ROWS_SHOWN} more; --markdown and --html have all of them")
    return Padding(Group(*drawn, *(Text(line, style="dim") for line in below)), (0, 0, 1, 0))


def _widths(table: Table) -> list[int]:
    """How wide each column is with its border, where no line of it is broken."""
    rows = [[Cell(column) for column in table.columns], *table.rows]
    lines = [[[cell.text + " [1]" * bool(cell.note), *_small_lines(cell)] for cell in row] for row in rows]
    return [3 + max(len(line) for row in lines for line in row[i]) for i in range(len(table.columns))]


def _with_columns(table: Table, chosen: Sequence[int]) -> Table:
    """The table with some of its columns."""
    rows = [[row[i] for i in chosen] for row in table.rows]
    return replace(table, columns=[table.columns[i] for i in chosen], rows=rows)


def _drawn(table: Table, notes: Mapping[str, int], most: int) -> RichTable:
    """A table as rich draws it; `most` is how wide a column of text may be, 0 for any width."""
    from rich.table import Table as RichTable
    from rich.text import Text

    two_lines = any(cell.detail or cell.low is not None for row in table.rows for cell in row)
    drawn = RichTable(title_justify="left", title_style="bold", show_lines=two_lines)
    drawn.show_header = any(table.columns)
    for i, column in enumerate(table.columns):
        right = _is_numeric(table, i)
        drawn.add_column(
            Text(column),
            justify="right" if right else "left",
            overflow="fold",
            no_wrap=right,
            max_width=None if right or not most else most - 3,
        )
    for row in table.rows[:ROWS_SHOWN]:
        shown: list[Text] = []
        for cell in row:
            text = Text(cell.text, style="italic cyan" if cell.published else "bold" if cell.best else "")
            if cell.note:
                text.append(f" [{notes[cell.note]}]", style="dim")
            for more in _small_lines(cell):
                text.append(f"\n{more}", style="dim")
            shown.append(text)
        drawn.add_row(*shown)
    return drawn


def markdown(table: Table) -> str:
    """Return a table as GitHub's Markdown, with a heading of the second level."""
    notes = footnotes(table)

    def cell_text(cell: Cell) -> str:
        text = escaped(cell.text)
        if cell.published and text.strip(" –"):
            text = f"*{text}*"
        if cell.best:
            text = f"**{text}**"
        if cell.note:
            text += f" <sup>{notes[cell.note]}</sup>"
        return text + "".join(f"<br><sub>{escaped(line)}</sub>" for line in _small_lines(cell))

    marks = ["---:" if _is_numeric(table, i) else "---" for i in range(len(table.columns))]
    rows = [map(escaped, table.columns), marks, *(map(cell_text, row) for row in table.rows)]
    lines = [f"## {escaped(table.title)}", "", *(f"| {' | '.join(row)} |" for row in rows)]
    lines += [f"\n{escaped(line)}" for line in _below(table)]
    lines += [f"\n<sup>{number}</sup> {escaped(note)}" for note, number in notes.items()]
    return "\n".join(lines) + "\n"


def as_markdown(title: str, lead: Sequence[str], tables: Sequence[Table]) -> str:
    """Return a whole report as Markdown: heading, lines before the tables, tables."""
    head = [f"# {escaped(title)}", "", *(f"- {escaped(line)}" for line in lead), ""]
    return "\n".join(head) + "\n" + "\n".join(map(markdown, tables))


def plain(table: Table) -> dict[str, Any]:
    """Return a table as JSON holds it; of a cell, only what it has."""
    rows = [
        [{k: v for k, v in asdict(cell).items() if v not in ("", None, False)} for cell in row]
        for row in table.rows
    ]
    return {"title": table.title, "columns": list(table.columns), "rows": rows, "note": table.note}


def escaped(text: str) -> str:
    """Return text that Markdown and HTML leave as it is."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\g<0>", line)


def _small_lines(cell: Cell) -> list[str]:
    """Return what stands under a figure in small type."""
    return [line for line in (interval(cell), cell.detail) if line]


def _below(table: Table) -> Iterator[str]:
    """Yield what stands under a table."""
    if any(cell.published for row in table.rows for cell in row):
        yield "In italics: published figures of others, not measured here."
    if table.note:
        yield " ".join(table.note.split())


def _is_numeric(table: Table, column: int) -> bool:
    """Return whether a column has numbers only."""
    filled = [row[column] for row in table.rows if row[column].text not in ("", "–")]
    return bool(filled) and all(cell.number is not None for cell in filled)
