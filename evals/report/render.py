"""Tables of a report for the terminal, as Markdown, and as plain JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from triplewise.graphs.page.model import Cell, Table
from triplewise.graphs.page.write import interval

if TYPE_CHECKING:
    from rich.console import RenderableType

_MARKS = re.compile(r"[\\|*`\[\]]|(?<!\w)_|_(?!\w)")
"""What Markdown would take for a mark; an underscore within a word it does not."""
ROWS_SHOWN = 30
"""Rows of a table on the terminal; the files have all of them."""


def terminal(table: Table) -> RenderableType:
    """Return a table for people at a terminal."""
    from rich.console import Group
    from rich.padding import Padding
    from rich.table import Table as RichTable
    from rich.text import Text

    two_lines = any(cell.detail or cell.low is not None for row in table.rows for cell in row)
    drawn = RichTable(title=Text(table.title), title_justify="left", title_style="bold", show_lines=two_lines)
    for i, column in enumerate(table.columns):
        right = _is_numeric(table, i)
        drawn.add_column(Text(column), justify="right" if right else "left", overflow="fold", no_wrap=right)
    notes = _numbered(table)
    for row in table.rows[:ROWS_SHOWN]:
        texts = []
        for cell in row:
            text = Text(cell.text, style="italic cyan" if cell.published else "bold" if cell.best else "")
            if cell.note:
                text.append(f" [{notes[cell.note]}]", style="dim")
            for more in filter(None, (interval(cell), cell.detail)):
                text.append(f"\n{more}", style="dim")
            texts.append(text)
        drawn.add_row(*texts)
    below = [*_below(table), *(f"[{number}] {note}" for note, number in notes.items())]
    lines = [Text(line, style="dim") for line in below]
    if len(table.rows) > ROWS_SHOWN:
        lines.append(
            Text(f"... and {len(table.rows) - ROWS_SHOWN} more; --markdown and --html have all of them")
        )
    return Padding(Group(drawn, *lines), (0, 0, 1, 0))


def markdown(table: Table, level: int = 2) -> str:
    """Return a table as GitHub's Markdown, with a heading of this level."""
    lines = [f"{'#' * level} {escaped(table.title)}", ""]
    lines.append("| " + " | ".join(escaped(column) for column in table.columns) + " |")
    marks = ("---:" if _is_numeric(table, i) else "---" for i in range(len(table.columns)))
    lines.append("| " + " | ".join(marks) + " |")
    notes = _numbered(table)
    lines += ["| " + " | ".join(_markdown_cell(cell, notes) for cell in row) + " |" for row in table.rows]
    lines += [f"\n{escaped(line)}" for line in _below(table)]
    lines += [f"\n<sup>{number}</sup> {escaped(note)}" for note, number in notes.items()]
    return "\n".join(lines) + "\n"


def plain(table: Table) -> dict[str, Any]:
    """Return a table as JSON holds it; of a cell, only what it has."""
    rows = [
        [{k: v for k, v in asdict(cell).items() if v not in ("", None, False)} for cell in row]
        for row in table.rows
    ]
    return {"title": table.title, "columns": list(table.columns), "rows": rows, "note": table.note}


def _markdown_cell(cell: Cell, notes: Mapping[str, int]) -> str:
    text = escaped(cell.text)
    if cell.published and text.strip(" –"):
        text = f"*{text}*"
    if cell.best:
        text = f"**{text}**"
    if cell.note:
        text += f" <sup>{notes[cell.note]}</sup>"
    more = [part for part in (interval(cell), cell.detail) if part]
    return text + "".join(f"<br><sub>{escaped(part)}</sub>" for part in more)


def escaped(text: str) -> str:
    """Return text that Markdown and HTML leave as it is."""
    line = " ".join(text.split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\g<0>", line)


def _below(table: Table) -> Iterator[str]:
    """What stands under a table."""
    if any(cell.published for row in table.rows for cell in row):
        yield "In italics: published figures of others, not measured here."
    if table.note:
        yield " ".join(table.note.split())


def _numbered(table: Table) -> dict[str, int]:
    """The different notes of a table's cells, numbered from 1."""
    notes = dict.fromkeys(cell.note for row in table.rows for cell in row if cell.note)
    return {note: number for number, note in enumerate(notes, 1)}


def _is_numeric(table: Table, column: int) -> bool:
    """Whether a column has numbers only."""
    cells = [row[column] for row in table.rows]
    known = [cell for cell in cells if cell.text not in ("", "–")]
    return bool(known) and all(cell.number is not None for cell in known)


def as_markdown(title: str, lead: Sequence[str], tables: Sequence[Table]) -> str:
    """Return a whole report as Markdown: heading, lines before the tables, tables."""
    head = [f"# {escaped(title)}", "", *(f"- {escaped(line)}" for line in lead), ""]
    return "\n".join(head) + "\n" + "\n".join(markdown(table) for table in tables)
