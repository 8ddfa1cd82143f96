"""What a page shows, as plain values; `triplewise.graphs.page.write` draws them.

Everything is text or plain JSON: nothing here is ever taken for HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Cell:
    """A cell of a table.

    Attributes:
        text: what it says.
        detail: a second line in small type, e.g. the model and year of a published figure, or `n = 200`.
        published: whether the figure is another's, taken from a publication.
        best: whether to set it off as the best of its row or column.
        low, high: confidence interval in the unit of `text`, or None; shown under it.
        number: value to sort by, where `text` is no number. link: `run` or `run/question` to open.
        note: a footnote to the cell, set under the table.
    """

    text: str
    detail: str = ""
    published: bool = False
    best: bool = False
    low: float | None = None
    high: float | None = None
    number: float | None = None
    link: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """A table: `rows` have as many cells as there are `columns`; the first column names the row.

    `note` stands under it: what is measured, on what, what is missing.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    note: str = ""


@dataclass(frozen=True, slots=True)
class Chart:
    """A plot as a Vega-Lite specification (version 5 or 6) with its data inline.

    `alt` says in words what it shows, for those who cannot see it.
    """

    title: str
    spec: Mapping[str, Any]
    note: str = ""
    alt: str = ""


@dataclass(frozen=True, slots=True)
class Question:
    """One question of a run.

    Attributes:
        id: unique in its run. question: in plain language.
        gold: right answers as text; empty where nobody knows them. answer: what was answered, as labels.
        status: answered, not_found, budget_spent, or crashed.
        score: in [0, 1] by the task's own metric; None where there is no gold.
        error_class: why it went wrong, "" if it did not.
        tags: to filter by, e.g. `2-hop` or `guideline: fact_empty`.
        trace: the run as `triplewise.graphs.trace.trace_of` tells it; {} where none was kept.
    """

    id: str
    question: str
    gold: Sequence[str] = ()
    answer: Sequence[str] = ()
    status: str = ""
    score: float | None = None
    error_class: str = ""
    tags: Sequence[str] = ()
    trace: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunBlock:
    """The questions of one run.

    Attributes:
        name: unique on the page, and part of links to it.
        about: provenance to print, in order: commit, configuration, data checksum, seeds, model, prices.
            A value is text or a number; a mapping or list is shown as JSON.
        questions: in the order they were asked.
        metric: what `score` measures, e.g. `F1`.
    """

    name: str
    about: Mapping[str, Any] = field(default_factory=dict)
    questions: Sequence[Question] = ()
    metric: str = "score"


@dataclass(frozen=True, slots=True)
class Page:
    """A page: headings, tables, plots and runs.

    `notes` are said before anything else, e.g. that a graph is partial or triples derive from gold.
    """

    title: str
    subtitle: str = ""
    notes: Sequence[str] = ()
    tables: Sequence[Table] = ()
    charts: Sequence[Chart] = ()
    runs: Sequence[RunBlock] = ()
