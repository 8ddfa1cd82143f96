"""Tables of task by system: how right, at what cost, on what, and which questions failed."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace

from triplewise.evals.logged import Result
from triplewise.evals.report.labels import (
    budget_note,
    graph_mark,
    graph_note,
    groups,
    model_note,
    price_note,
    system_labels,
)
from triplewise.evals.report.measures import (
    COST,
    LENIENT,
    NOTHING,
    QUALITY,
    Measure,
    figure,
    figure_cell,
    measure,
    number_cell,
)
from triplewise.evals.report.stats import LEVEL, RESAMPLES, Comparison, compare, corrected
from triplewise.graphs.page.model import Cell, Table
from triplewise.tools.core.errors import DataError

INTERVALS = (
    f"Ranges are {LEVEL:.0%} confidence intervals over questions (bootstrap, {RESAMPLES:,} resamples; exact "
    "binomial where all are right or all wrong)."
)
ANSWERABLE = "Answerable only"
_PAIRS_OF = 5
"""Systems of a task that are all compared with each other; of more, each with the first."""
_TEXT_SHOWN = 160


def task_tables(results: Sequence[Result]) -> list[Table]:
    """All tables of logs that are in no grid."""
    rows = sorted(results, key=lambda r: (r.name, r.system, r.created))
    if not rows:
        return []
    tables = [scores_table(rows), effort_table(rows), comparison_table(rows), sources_table(rows)]
    return [table for table in tables if table.rows]


def scores_table(results: Sequence[Result]) -> Table:
    """How right the answers are: of all questions, and of those that the graph can answer."""
    known = {name for result in results for name in result.measures()}
    shown = [one for one in QUALITY if one.name in known]
    lenient = [one for one in LENIENT if one.name in known]
    columns = [*_heads(results), "Questions", *(one.heading for one in shown)]
    return Table(
        "Answers by task and system",
        [*columns, ANSWERABLE, "Answerable %", *(one.heading for one in lenient)],
        [_score_row(result, results, shown, lenient) for result in results],
        f"Percent, averaged over questions; a question that crashed counts as wrong. {INTERVALS} "
        f"{ANSWERABLE}: the main score over those questions asked whose gold answers the graph holds; beside "
        f"it their share of the task's questions. {model_note(results)}",
    )


def effort_table(results: Sequence[Result]) -> Table:
    """What a question took, and how runs ended."""
    rest = [measure(name) for name in ("corrections", "not_found", "budget_spent")]
    columns = [*_heads(results), *(one.heading for one in COST), "Median s"]
    return Table(
        "Cost of a question",
        [*columns, "Corrections", "Not found %", "Budget spent %", "Crashes"],
        [_effort_row(result, results, rest) for result in results],
        "Averages over questions. QPQ: queries that reached the graph; CPQ: US dollars at list prices; TPQ: "
        f"wall-clock seconds of a question. {price_note(results)} {model_note(results)}",
    )


def sources_table(results: Sequence[Result]) -> Table:
    """What each log was measured on."""
    columns = [*_heads(results), "Benchmark", "Knowledge graph", "Code", "Data"]
    return Table(
        "What it was measured on",
        columns,
        [_source_row(result, results) for result in results],
        "Checksums are the first digits of sha256: of the question files, and of the graph's source files. "
        f"{budget_note(results)}",
    )


def crash_table(results: Sequence[Result]) -> Table:
    """Every question that ended in an error; each counts as wrong."""
    labels = system_labels(results)
    rows = [
        [
            Cell(result.name, labels[result.path]),
            Cell(asked.id),
            Cell(_short(asked.question)),
            Cell(_short(asked.error or asked.run.reason)),
        ]
        for result in results
        for asked in result.crashes
    ]
    return Table(
        "Questions that failed", ["Task", "Question", "Text", "Error"], rows, "Each counts as wrong."
    )


def comparison_table(results: Sequence[Result]) -> Table:
    """Systems of one task tested against each other on the questions that both were asked."""
    labels = system_labels(results)
    rows: list[list[Cell]] = []
    for name, same in groups(results, lambda r: r.name).items():
        of = measure(same[0].metric)
        pairs = [(labels[r.path], r.scores(of.name)) for r in same]
        rows += [comparison_row(name, of, one) for one in family(pairs, of.name)]
    return comparisons("Differences between systems", "Task", rows, model_note(results))


def family(variants: Sequence[tuple[str, dict[str, float]]], of: str) -> list[Comparison]:
    """Every pair of variants (of many: each with the first) that share questions, corrected together."""
    few = len(variants) <= _PAIRS_OF
    pairs = [
        (first, second)
        for i, first in enumerate(variants if few else variants[:1])
        for second in variants[i + 1 :]
    ]
    found = []
    for first, second in pairs:
        try:
            found.append(compare(first, second, of))
        except DataError:  # other questions: there is nothing to pair, and the table's note says so
            continue
    return corrected(found)


def comparisons(title: str, where: str, rows: list[list[Cell]], note: str) -> Table:
    """Rows of comparisons as a table; `where` heads its first column."""
    columns = [where, "First", "Second", "Measure", "Pairs", "First minus second", "p", "p (Holm)", "Test"]
    return Table(
        title,
        columns,
        rows,
        "Paired by question: only questions that both were asked, and none where they share none. Percentage "
        "points with their 95% interval (bootstrap); p is two-sided, Holm's correction is over the rows of "
        f"one {where.lower()}. {note}",
    )


def comparison_row(task: str, of: Measure, found: Comparison) -> list[Cell]:
    """One comparison; a difference that stands after correction is set off."""
    known = not math.isnan(found.low)
    left_out = f"{found.left_out} asked of one only" if found.left_out else ""
    return [
        Cell(task),
        Cell(found.first),
        Cell(found.second),
        Cell(of.heading),
        Cell(f"{found.n:,}", left_out, number=found.n),
        Cell(
            f"{found.difference * of.scale:+.1f}",
            f"{found.low * of.scale:+.1f} to {found.high * of.scale:+.1f}" if known else "",
            number=found.difference * of.scale,
            best=found.significant,
        ),
        Cell(_p(found.p), number=found.p),
        Cell(_p(found.p_corrected), number=found.p_corrected, best=found.significant),
        Cell(found.method),
    ]


def _heads(results: Sequence[Result]) -> list[str]:
    return ["Task", "System"] + ["Model"] * (len({r.model for r in results}) > 1)


def _head_cells(result: Result, results: Sequence[Result]) -> list[Cell]:
    mark = graph_mark(result) + ("" if result.finished else ", UNFINISHED")
    name = Cell(result.name, mark.removeprefix(", "), note=graph_note(result))
    cells = [name, Cell(system_labels(results)[result.path])]
    return cells + [Cell(result.model)] * (len(_heads(results)) > 2)


def _score_row(
    result: Result, results: Sequence[Result], shown: Sequence[Measure], lenient: Sequence[Measure]
) -> list[Cell]:
    others = [r for r in results if r.name == result.name]
    main = measure(result.metric)
    part = figure_cell(figure([result], main, answerable=True), main, n=True)
    return [
        *_head_cells(result, results),
        _asked_cell(result),
        *(figure_cell(figure([result], one), one, best=_is_best(result, others, one)) for one in shown),
        replace(part, detail=f"{main.heading}, {part.detail}") if part.text != NOTHING else part,
        _share_cell(result),
        *(figure_cell(figure([result], one), one) for one in lenient),
    ]


def _asked_cell(result: Result) -> Cell:
    """How many questions were asked, and of how many they were drawn."""
    asked, whole = len(result.questions), result.about.drawn_from
    return Cell(f"{asked:,}", f"of {whole:,}" if asked < whole else "all", number=asked)


def _share_cell(result: Result) -> Cell:
    about = result.about
    if not about.asked:
        return Cell(NOTHING)
    share = 100 * about.answerable / about.asked
    return Cell(f"{share:.0f}", f"of {about.asked:,}", number=share)


def _is_best(result: Result, others: Sequence[Result], of: Measure) -> bool:
    """Whether it is the best of several; nothing is set off where there is nothing to choose from."""
    means = [mean for r in others if not math.isnan(mean := r.mean(of.name))]
    return len(means) > 1 and max(means) > min(means) and result.mean(of.name) == max(means)


def _effort_row(result: Result, results: Sequence[Result], rest: Sequence[Measure]) -> list[Cell]:
    seconds = list(result.scores("seconds").values())
    median = statistics.median(seconds) if seconds else math.nan
    cells = [_mean_cell(result, one) for one in COST]
    more = [_mean_cell(result, one) for one in rest]
    return [
        *_head_cells(result, results),
        *cells,
        number_cell(median, 2),
        *more,
        number_cell(len(result.crashes)),
    ]


def _mean_cell(result: Result, of: Measure) -> Cell:
    mean = result.mean(of.name)
    known = len(result.scores(of.name))
    part = f"of {known:,} questions" if 0 < known < len(result.questions) else ""
    return Cell(NOTHING) if math.isnan(mean) else Cell(of.text(mean), part, number=mean * of.scale)


def _source_row(result: Result, results: Sequence[Result]) -> list[Cell]:
    about = result.about
    changed = f"changed: {', '.join(about.changed)}" if about.changed else ""
    sums = ", ".join(dict.fromkeys(value[:8] for value in about.files.values()))
    return [
        *_head_cells(result, results),
        Cell(about.benchmark, f"task version {result.version}; {about.licence}"),
        Cell(about.kg, f"{about.triples:,} triples" if about.triples else ""),
        Cell(about.commit[:7] or "unknown", "with changes" if about.dirty else ""),
        Cell(
            sums, f"{changed}; graph {about.checksum[:8]}".removeprefix("; ") if about.checksum else changed
        ),
    ]


def _p(value: float) -> str:
    return "< 0.001" if value < 0.001 else f"{value:.3f}"


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SHOWN else f"{line[:_TEXT_SHOWN]}…"
