"""A report as a page: tables, plots, and every question of every log to be opened."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from triplewise.evals.logged import Asked, Result
from triplewise.evals.report.charts import charts
from triplewise.evals.report.grids import grid_tables
from triplewise.evals.report.labels import notes, run_names
from triplewise.evals.report.measures import measure
from triplewise.evals.report.tables import crash_table, task_tables
from triplewise.graphs.page.model import Page, Question, RunBlock, Table

TITLE = "Evaluation report"


def report_tables(results: Sequence[Result]) -> list[Table]:
    """All tables of a report: of grids, of tasks, of what failed."""
    failed = crash_table(results)
    tasks = task_tables([result for result in results if result.cell is None])
    return [*grid_tables(results), *tasks, *([failed] if failed.rows else [])]


def report_page(results: Sequence[Result], more: Sequence[str] = ()) -> Page:
    """The page of some logs.

    Args:
        results: read with their traces, for the questions to be opened. more: notes besides.
    """
    names = run_names(results)
    return Page(
        title=TITLE,
        subtitle=subtitle(results),
        notes=[*more, *notes(results)],
        tables=report_tables(results),
        charts=charts(results),
        runs=[_block(names[result.path], result) for result in results],
    )


def subtitle(results: Sequence[Result]) -> str:
    """How much was measured, and when."""
    asked = sum(len(result.questions) for result in results)
    days = sorted({result.created[:10] for result in results})
    when = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
    tasks = len({result.task for result in results})
    return f"{asked:,} questions, {len(results)} runs of {tasks} tasks, {when}"


def _block(name: str, result: Result) -> RunBlock:
    return RunBlock(
        name=name,
        about=dict(_about(result)),
        questions=[_question(asked, result) for asked in result.questions],
        metric=measure(result.metric).heading,
    )


def _about(result: Result) -> Iterator[tuple[str, Any]]:
    """Provenance, in the order in which it is read."""
    about = result.about
    yield "benchmark", f"{about.benchmark} (task {result.name}, version {result.version})"
    yield "system", result.system
    yield "model", result.model
    yield from _given("phases", result.phases)
    yield from _given("settings", result.settings)
    yield "questions", f"{len(result.questions):,} of {result.total:,}, drawn from {about.drawn_from:,}"
    yield "seed", result.seed
    yield "status", "finished" if result.finished else f"UNFINISHED ({result.status})"
    yield "knowledge graph", about.kg
    yield "graph is", "partial" if about.partial else "complete"
    yield "facts made from gold answers", "yes" if about.gold_derived else "no"
    yield "commit", (about.commit or "unknown") + " with changes" * about.dirty
    yield "date", result.created
    yield from _given("limits of a question", about.budgets)
    yield from _given(
        "data (sha256)", {**about.files, **({"graph": about.checksum} if about.checksum else {})}
    )
    yield from _given("changed data", list(about.changed))
    yield from _given("price table (sha256)", about.prices)
    yield from _given("note", about.note)
    yield from _given("licence", about.licence)
    yield from _given("citation", about.citation)


def _given(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if value:
        yield name, value


def _question(asked: Asked, result: Result) -> Question:
    score = asked.scores.get(result.metric, 0.0 if asked.crashed else math.nan)
    return Question(
        id=asked.id,
        question=asked.question,
        gold=asked.gold,
        answer=tuple(asked.run.labels or asked.run.values),
        status=asked.run.status,
        score=None if math.isnan(score) else min(1.0, max(0.0, score)),
        error_class=asked.error_class.replace("_", " "),
        tags=[*_tags(asked)],
        trace=_trace(asked),
    )


def _tags(asked: Asked) -> Iterator[str]:
    for name, value in asked.tags.items():
        yield f"{value}-hop" if name == "hops" else f"{name}: {value}"
    if asked.answerable is not None:
        yield "answerable" if asked.answerable else "not answerable"
    yield from dict.fromkeys(f"guideline: {id}" for id in asked.run.corrections)


def _trace(asked: Asked) -> Mapping[str, Any]:
    """The run as it was told; of one that told nothing, how it ended."""
    if asked.run.trace:
        return asked.run.trace
    run = asked.run
    told = {"reason": asked.error or run.reason, "sparql": run.sparql, "labels": list(run.labels)}
    return {"question": asked.question, "status": run.status, **{k: v for k, v in told.items() if v}}
