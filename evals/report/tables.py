"""Tables of task by system: how right, at what cost, on what, and which questions failed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pandas as pd

from triplewise.evals.logs import LENIENT, QUALITY, Log
from triplewise.evals.report.labels import (
    COST,
    NOTHING,
    Measure,
    figure,
    figure_cell,
    graph_mark,
    graph_note,
    groups,
    measure,
    model_note,
    number_cell,
    system_labels,
)
from triplewise.evals.statistics import LEVEL, RESAMPLES, Comparison, Scores, compare, corrected
from triplewise.graphs.page import Cell, Table

INTERVALS = (
    f"Ranges are {LEVEL:.0%} confidence intervals over questions (bootstrap, {RESAMPLES:,} resamples; exact "
    "binomial where all are right or all wrong)."
)
ANSWERABLE, NOT_TRIVIAL = "Answerable only", "Without trivial"
_ALL_PAIRS = 5
"""Systems of a task that are all compared with each other; of more, each with the first."""
_TEXT_SHOWN = 160


def task_tables(logs: Sequence[Log]) -> list[Table]:
    """Return all tables of logs that are in no grid."""
    rows = sorted(logs, key=lambda log: (log.name, log.system, log.created))
    if not rows:
        return []
    labels = system_labels(rows)
    families = [
        (name, of := measure(same[0].metric), [(labels[log.path], log.scores(of.name)) for log in same])
        for name, same in groups(rows, lambda log: log.name).items()
    ]
    compared = comparison_table("Differences between systems", "Task", families, model_note(rows))
    tables = [scores_table(rows), effort_table(rows), compared]
    return [table for table in tables if table.rows]


def scores_table(logs: Sequence[Log]) -> Table:
    """Return how right the answers are: of all questions, and of parts of them."""
    shown, lenient = (
        [measure(name) for name in names if any(name in log.questions for log in logs)]
        for names in (QUALITY, LENIENT)
    )
    has_trivial = any(log.questions["trivial"].any() for log in logs)
    rows = []
    for log in logs:
        main, about = measure(log.metric), log.about
        # Nothing is set off where there is nothing to choose from.
        means = pd.DataFrame({m.name: [o.mean(m.name) for o in logs if o.name == log.name] for m in shown})
        best = means.max()[means.nunique() > 1].to_dict()
        asked, whole = len(log.questions), int(about.get("drawn_from") or 0)
        share = 100 * about["answerable"] / about["asked"] if about.get("asked") else math.nan
        rows.append(
            [
                *_head_cells(log, logs),
                number_cell(asked, detail=f"of {whole:,}" if asked < whole else "all"),
                *(figure_cell(figure([log], m), m, best=log.mean(m.name) == best.get(m.name)) for m in shown),
                *([_part_cell(log, main, trivial=False)] if has_trivial else []),
                _part_cell(log, main, answerable=True),
                number_cell(share, detail=f"of {about.get('asked') or 0:,}"),
                *(figure_cell(figure([log], m), m) for m in lenient),
            ]
        )
    trivial = f" {NOT_TRIVIAL}: the main score without questions that an empty graph would answer right."
    parts = [*([NOT_TRIVIAL] if has_trivial else []), ANSWERABLE, "Answerable %"]
    columns = [*_heads(logs), "Questions", *(one.heading for one in shown), *parts]
    return Table(
        "Answers by task and system",
        [*columns, *(one.heading for one in lenient)],
        rows,
        f"Percent, averaged over questions; a question that crashed counts as wrong. {INTERVALS} "
        f"{ANSWERABLE}: the main score over those questions asked whose gold answers the graph holds; beside "
        f"it their share of the task's questions.{trivial * has_trivial} {model_note(logs)}",
    )


def effort_table(logs: Sequence[Log]) -> Table:
    """Return what a question took, and how runs ended."""
    measures = [*COST, *(measure(name) for name in ("corrections", "not_found", "budget_spent"))]
    rows = []
    for log in logs:
        cells = []
        for one in measures:
            scores = log.scores(one.name)
            mean, part = float(scores.mean()), len(scores) < len(log.questions)
            detail = f"of {len(scores):,} questions" if part and len(scores) else ""
            cells.append(Cell(one.text(mean), detail, number=None if math.isnan(mean) else mean * one.scale))
        rows.append([*_head_cells(log, logs), *cells, number_cell(len(log.crashes))])
    prices = sorted({str(log.about["prices_sha256"])[:12] for log in logs if log.about.get("prices_sha256")})
    priced = f"Costs are by the price table with sha256 {', '.join(prices)}. " if prices else ""
    return Table(
        "Cost of a question",
        [*_heads(logs), *(one.heading for one in measures), "Crashes"],
        rows,
        "Averages over questions. QPQ: queries that reached the graph; CPQ: US dollars at list prices; TPQ: "
        f"wall-clock seconds of a question. {priced}{model_note(logs)}",
    )


def crash_table(logs: Sequence[Log]) -> Table:
    """Return every question that ended in an error; each counts as wrong."""
    labels = system_labels(logs)

    def short(text: str) -> Cell:
        line = " ".join(text.split())
        return Cell(line if len(line) <= _TEXT_SHOWN else f"{line[:_TEXT_SHOWN]}…")

    rows = [
        [
            Cell(log.name, labels[log.path]),
            Cell(row["id"]),
            short(row["question"]),
            short(row["error"] or row["run"].reason),
        ]
        for log in logs
        for _, row in log.crashes.iterrows()
    ]
    columns = ["Task", "Question", "Text", "Error"]
    return Table("Questions that failed", columns, rows, "Each counts as wrong.")


Family = tuple[str, Measure, Sequence[tuple[str, Scores]]]
"""What systems are compared on (a task, a column), the measure, and each system's scores."""


def comparison_table(title: str, where: str, families: Iterable[Family], note: str) -> Table:
    """Return systems tested against each other on the questions that both were asked.

    `where` heads the first column, which names the families; Holm's correction is within each.
    """
    rows = [row for family in families for row in comparison_rows(*family)]
    columns = [where, "First", "Second", "Measure", "Pairs", "First minus second", "p", "p (Holm)", "Test"]
    return Table(
        title,
        columns,
        rows,
        "Paired by question: only questions that both were asked, and none where they share none. Percentage "
        "points with their 95% interval (bootstrap); p is two-sided, Holm's correction is over the rows of "
        f"one {where.lower()}. {note}",
    )


def comparison_rows(where: str, of: Measure, systems: Sequence[tuple[str, Scores]]) -> list[list[Cell]]:
    """Return all pairs of systems (of many: each with the first) that share questions, a row each.

    A difference that stands after correction for the number of rows is set off.
    """
    firsts = systems if len(systems) <= _ALL_PAIRS else systems[:1]
    family = [
        compare(first, second)
        for i, first in enumerate(firsts)
        for second in systems[i + 1 :]
        if len(first[1].index.intersection(second[1].index))
    ]

    def p_cell(value: float, best: bool = False) -> Cell:
        return Cell("< 0.001" if value < 0.001 else f"{value:.3f}", number=value, best=best)

    def difference_cell(one: Comparison) -> Cell:
        mean, low, high = (getattr(one.difference, end) * of.scale for end in ("mean", "low", "high"))
        ends = f"{low:+.1f} to {high:+.1f}" if one.difference.known else ""
        return Cell(f"{mean:+.1f}", ends, number=mean, best=one.significant)

    return [
        [
            *(Cell(text) for text in (where, one.first, one.second, of.heading)),
            number_cell(one.n, detail=f"{one.unpaired} asked of one only" if one.unpaired else ""),
            difference_cell(one),
            p_cell(one.p),
            p_cell(one.p_corrected, one.significant),
            Cell(one.method),
        ]
        for one in corrected(family)
    ]


def _heads(logs: Sequence[Log]) -> list[str]:
    return ["Task", "System"] + ["Model"] * (len({log.model for log in logs}) > 1)


def _head_cells(log: Log, logs: Sequence[Log]) -> list[Cell]:
    mark = ", ".join(filter(None, (graph_mark(log), "" if log.finished else "UNFINISHED")))
    cells = [Cell(log.name, mark, note=graph_note(log)), Cell(system_labels(logs)[log.path])]
    return cells + [Cell(log.model)] * (len(_heads(logs)) > 2)


def _part_cell(log: Log, main: Measure, *, answerable: bool = False, trivial: bool = True) -> Cell:
    """Return the main score over a part of the questions."""
    cell = figure_cell(figure([log], main, answerable=answerable, trivial=trivial), main, n=True)
    return cell if cell.text == NOTHING else replace(cell, detail=f"{main.heading}, {cell.detail}")
