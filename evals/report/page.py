"""A report as a page with every question, as Markdown, and on the terminal."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from triplewise.evals.logs import Log
from triplewise.evals.report.tables import (
    measure,
    notes,
    report_tables,
    system_labels,
)
from triplewise.graphs.page import Cell, Page, Question, RunBlock, Table, footnotes, interval

TITLE = "Evaluation report"
ROWS_SHOWN, TURNED = 30, 3
"""Rows of a table that the terminal shows, and how many of a turned one next to each other."""
_MARKS = re.compile(r"[\\|*`\[\]]|(?<!\w)_|_(?!\w)")
"""What Markdown would take for a mark; an underscore within a word it does not."""


def subtitle(logs: Sequence[Log]) -> str:
    """Return how much was measured, and when."""
    days = sorted({log.created[:10] for log in logs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    asked, tasks = sum(len(log.questions) for log in logs), len({log.task for log in logs})
    return f"{asked:,} questions, {len(logs)} runs of {tasks} tasks, {when}"


# -- Markdown and terminal


def markdown(
    logs: Sequence[Log], title: str = TITLE, lead: Sequence[str] = (), *, tasks: bool = False
) -> str:
    """Return a report as Markdown, `lead` before its notes, and with `tasks` a list of what was measured.

    The same logs give the same text.
    """
    ordered = sorted(logs, key=lambda log: (log.name, log.path))
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["escaped"] = escaped
    template = files("triplewise.evals.report") / "report.md.jinja"
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        title=title, lead=[subtitle(ordered), *lead, *notes(ordered)], tables=report_tables(ordered),
        tasks=list({log.name: log for log in reversed(ordered)}.values())[::-1] if tasks else (),
        footnotes=footnotes, small_lines=small_lines, is_numeric=is_numeric, below=below,
    )  # fmt: skip


def escaped(text: object) -> str:
    """Return text that Markdown and HTML leave as it is."""
    line = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\g<0>", line)


def small_lines(cell: Cell) -> list[str]:
    """Return what stands under a figure in small type."""
    return [line for line in (interval(cell), cell.detail) if line]


def below(table: Table) -> list[str]:
    """Return what stands under a table."""
    italics = "In italics: published figures of others, not measured here."
    published = any(cell.published for row in table.rows for cell in row)
    numbered = [f"[{number}] {note}" for note, number in footnotes(table).items()]
    return [line for line in (italics if published else "", " ".join(table.note.split()), *numbered) if line]


def is_numeric(table: Table, column: int) -> bool:
    """Return whether a column has numbers only."""
    filled = [row[column] for row in table.rows if row[column].text not in ("", "–")]
    return bool(filled) and all(cell.number is not None for cell in filled)


def show(table: Table, console: Console) -> None:
    """Print a table; one too wide for the terminal is turned, a few of its rows at a time."""
    numbers, right = footnotes(table), [is_numeric(table, i) for i in range(len(table.columns))]

    def text(cell: Cell) -> Text:
        main = cell.text + (f" [{numbers[cell.note]}]" if cell.note else "")
        style = "italic cyan" if cell.published else "bold" if cell.best else ""
        return Text.assemble((main, style), *((f"\n{line}", "dim") for line in small_lines(cell)))

    def draw(
        title: str, heads: Sequence[Text], rows: Sequence[Sequence[Text]], right: Sequence[bool]
    ) -> None:
        drawn = RichTable(title=Text(title), title_justify="left", show_lines=True)
        for head, is_number in zip(heads, right, strict=True):
            drawn.add_column(head, justify="right" if is_number else "left", overflow="fold")
        for row in rows:
            drawn.add_row(*row)
        console.print(drawn)

    heads, rows = list(map(Text, table.columns)), [list(map(text, row)) for row in table.rows[:ROWS_SHOWN]]
    widths = (
        max(len(w) for cell in column for w in str(cell).split("\n"))
        for column in zip(heads, *rows, strict=True)
    )
    if sum(min(width, console.width // 4) + 3 for width in widths) < console.width:
        draw(table.title, heads, rows, right)
    else:
        for at in range(0, len(rows), TURNED):
            first, *others = zip(heads, *rows[at : at + TURNED], strict=True)
            draw("" if at else table.title, first, others, [False] * len(first))
    rest = len(table.rows) - ROWS_SHOWN
    more = [f"... and {rest} more; --markdown and --html have all of them"] if rest > 0 else []
    for line in [*below(table), *more]:
        console.print(Text(line, style="dim"))


# -- the page


def report_page(logs: Sequence[Log]) -> Page:
    """Return the page of logs that were read with their traces, for the questions to be opened."""
    labels, blocks = system_labels(logs), dict[str, RunBlock]()
    for log in logs:
        cell, name = log.cell, f"{log.name}, {labels[log.path]}"
        if cell:
            name = f"{cell['name']}: {cell['row']}, {cell['column']}, seed {log.seed}"
        name = f"{name} ({len(blocks) + 1})" if name in blocks else name
        about = {
            "task": f"{log.name}, version {log.version}",
            "questions": f"{len(log.questions):,} of {log.total:,}",
            "status": "finished" if log.finished else f"UNFINISHED ({log.status})",
            "date": log.created,
            "changed settings": {**log.phases, **log.settings},
            **{key: value for key, value in log.about.items() if value and key != "grid"},
        }
        questions = [_question(row, log.metric) for _, row in log.questions.iterrows()]
        blocks[name] = RunBlock(name, about, questions, measure(log.metric).heading)
    return Page(TITLE, subtitle(logs), notes(logs), report_tables(logs), list(blocks.values()))


def _question(row: pd.Series[Any], metric: str) -> Question:
    score = float(row.get(metric, math.nan))
    tags = [f"{value}-hop" if name == "hops" else f"{name}: {value}" for name, value in row["tags"].items()]
    if row["answerable"] is not None:
        tags.append("answerable" if row["answerable"] else "not answerable")
    tags += ["trivial"] * bool(row["trivial"])
    tags += dict.fromkeys(f"guideline: {name}" for name in row["guidelines"])
    ending = {name: row[name] for name in ("question", "status", "sparql", "labels")}
    ending["reason"] = row["error"] or row["reason"]  # in a trace's form, for a run without one
    return Question(
        **{name: row[name] for name in ("id", "question", "gold", "status")},
        answer=tuple(row["labels"] or row["values"]),
        score=None if math.isnan(score) else min(1.0, max(0.0, score)),
        error_class=row["error_class"].replace("_", " "),
        tags=tags,
        trace=json.loads(row["trace"]) or {name: value for name, value in ending.items() if value},
    )
