"""RESULTS.md: the report's tables of every shipped task, with all that a reader has to know of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from triplewise.evals.logged import Result
from triplewise.evals.report.labels import groups, notes
from triplewise.evals.report.page import report_tables, subtitle
from triplewise.evals.report.render import escaped, markdown
from triplewise.evals.results import read_results
from triplewise.tools.core.errors import DataError

if TYPE_CHECKING:
    from triplewise.evals.report.shipped import Done

COMMAND = "triplewise eval results"
HONESTY = (
    "No language model, no key and no network were used: these are figures of the embedded default.",
    "Graphs marked partial are extracts that hold a part of the benchmark's graph and, where it says so, "
    "facts made from gold answers: figures are of these extracts, comparable with no published figure.",
    "All drawn questions are asked, also those that the graph cannot answer; a column of the first table "
    "counts the answerable ones alone, and where a draw has hardly any they are asked alone as well.",
    "A question that crashed counts as wrong and is listed.",
    "Two runs of the same code on the same files give the same answers; seconds differ between machines.",
)


def write_results(done: Sequence[Done], limit: int, path: Path) -> None:
    """Write the tables of some runs; the same logs give the same file.

    Raises:
        DataError: no run has a log, a log cannot be read, or the file cannot be written.
    """
    logs = [one.log for one in done if one.log]
    if not logs:
        raise DataError(f"no task could be run: {done[0].why if done else 'none was chosen'}")
    text = results_text(
        read_results(logs), [f"{one.shipped.name}: {one.why}" for one in done if one.why], limit
    )
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path) from error


def results_text(results: Sequence[Result], failed: Sequence[str], limit: int) -> str:
    """The whole file as Markdown."""
    ordered = sorted(results, key=lambda result: (result.name, result.path))
    command = f"{COMMAND} --limit {limit} --out evals/RESULTS.md"
    lines = [
        "# Results of every shipped task with the embedded default",
        "",
        f"{escaped(subtitle(ordered))}. Made by `{command}`; change nothing here by hand, run it again.",
        "",
        *(f"- {escaped(line)}" for line in [*HONESTY, *notes(ordered)]),
        *(f"- NOT RUN TO ITS END: {escaped(line)}" for line in failed),
        "",
    ]
    tables = [markdown(table) for table in report_tables(ordered)]
    crashes = [] if any(result.crashes for result in ordered) else ["No question crashed.", ""]
    return "\n".join([*lines, *tables, *crashes, *_graph_lines(ordered)]) + "\n"


def _graph_lines(results: Sequence[Result]) -> list[str]:
    """What each task asks, and what its reader has to know."""
    lines = ["## The tasks", ""]
    for name, same in groups(results, lambda result: result.name).items():
        about = same[0].about
        note = f" Note: {' '.join(about.note.split())}." if about.note else ""
        share = (
            f" The graph can answer {about.answerable:,} of {about.asked:,} questions." if about.asked else ""
        )
        lines.append(
            f"- **{escaped(name)}** (version {same[0].version}): {escaped(about.benchmark)}, of "
            f"{escaped(about.kg)}. {escaped(f'{share} {note}')} Citation: {escaped(about.citation)}. "
            f"Licence: {escaped(about.licence)}."
        )
    return lines
