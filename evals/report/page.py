"""A report as a page with every question, and as Markdown, which the terminal shows too."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pandas as pd
from jinja2 import Environment, StrictUndefined
from rich.console import Console
from rich.markdown import Markdown

from triplewise.evals.logs import Log
from triplewise.evals.report.tables import measure, notes, report_tables, system_labels
from triplewise.graphs.page import Cell, Page, Question, RunBlock, Table, footnotes, interval

TITLE = "Evaluation report"
TURNED = 3  # tables of so many rows or fewer are turned: their columns become rows
_MARKS = re.compile(r"[\\|*`\[\]]|(?<!\w)_|_(?!\w)")
"""What Markdown would take for a mark; an underscore within a word it does not."""


def subtitle(logs: Sequence[Log]) -> str:
    """Return how much was measured, and when."""
    days = sorted({log.created[:10] for log in logs})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    asked, tasks = sum(len(log.questions) for log in logs), len({log.task for log in logs})
    return f"{asked:,} questions, {len(logs)} runs of {tasks} tasks, {when}"


def markdown(
    logs: Sequence[Log], title: str = TITLE, lead: Sequence[str] = (), *, tasks: bool = False
) -> str:
    """Return a report as Markdown, `lead` before its notes; with `tasks` a list of what was measured."""
    ordered = sorted(logs, key=lambda log: (log.name, log.path))
    environment = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters["escaped"] = _escaped
    template = files("triplewise.evals.report") / "report.md.jinja"
    return environment.from_string(template.read_text(encoding="utf-8")).render(
        title=title, lead=[subtitle(ordered), *lead, *notes(ordered)], footnotes=footnotes, interval=interval,
        tables=[table if len(table.rows) > TURNED else _turned(table) for table in report_tables(ordered)],
        tasks={log.name: log for log in reversed(ordered)} if tasks else {},
    )  # fmt: skip


def _escaped(text: object) -> str:
    """Return text that Markdown and HTML leave as it is."""
    line = " ".join(str(text).split()).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _MARKS.sub(r"\\\g<0>", line)


def _turned(table: Table) -> Table:
    """Return a table with its columns as rows: one of few rows is wider than most terminals."""
    lines = [list(map(Cell, table.columns)), *table.rows]
    head, *rows = zip(*lines, strict=True)
    heads = [f"{cell.text} ({cell.detail})" if cell.detail else cell.text for cell in head]
    return replace(table, columns=heads, rows=list(map(list, rows)))


def print_report(logs: Sequence[Log], console: Console) -> None:
    """Print a report of logs."""
    console.print(Markdown(markdown(logs)))


def report_page(logs: Sequence[Log]) -> Page:
    """Return the page of logs that were read with their traces, for the questions to be opened."""
    labels, blocks = system_labels(logs), dict[str, RunBlock]()
    for log in logs:
        cell, name = log.cell, f"{log.name}, {labels[log.path]}"
        if cell:
            name = f"{cell['name']}: {cell['row']}, {cell['column']}"
        name = f"{name} ({len(blocks) + 1})" if name in blocks else name
        about = {
            "task": f"{log.name}, version {log.version}",
            "questions": f"{len(log.questions):,} of {log.total:,}",
            "status": "finished" if log.finished else f"UNFINISHED ({log.status})",
            "date": log.created,
            "changed settings": dict(log.swapped),
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
