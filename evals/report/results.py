"""`triplewise eval results`: every shipped task with the embedded default, and RESULTS.md from its logs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from triplewise.graphs.cli.console import examples, say
from triplewise.tools.core.errors import ConfigurationError, DataError, TriplewiseError

if TYPE_CHECKING:
    from triplewise.evals.logs import Log

LIMIT = 200
RUN_ERROR = 3
HONESTY = (
    "No language model, no key and no network were used: these are figures of the embedded default.",
    "Graphs marked partial are extracts that hold a part of the benchmark's graph and, where it says so, "
    "facts made from gold answers: figures are of these extracts, comparable with no published figure.",
    "All drawn questions are asked, also those that the graph cannot answer; a column of the first table "
    "counts the answerable ones alone, and where a draw has hardly any they are asked alone as well.",
    "A question that crashed counts as wrong and is listed.",
    "Two runs of the same code on the same files give the same answers; seconds differ between machines.",
)


@dataclass(frozen=True, slots=True)
class ShippedTask:
    """A task by name with the arguments that its results are of."""

    task: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The task with its arguments."""
        words = " ".join(f"{name}={str(value).lower()}" for name, value in self.arguments.items())
        return f"{self.task} {words}".strip()


@dataclass(frozen=True, slots=True)
class TaskRun:
    """What became of a shipped task: its log, or why there is none."""

    shipped: ShippedTask
    log: Path | None
    failure: str = ""


def results(
    limit: Annotated[int, typer.Option(min=0, help="Questions of each task, 0 for all.")] = LIMIT,
    log_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the logs. [dim](the user's state folder)[/dim]"),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the tables are written.")] = Path(
        "RESULTS.md"
    ),
    tasks: Annotated[
        list[str] | None, typer.Option("--task", metavar="NAME", help="Only this task. Repeatable.")
    ] = None,
) -> None:
    """Run every shipped task with the embedded default, no key needed, and write the tables of the runs.

    A task whose log is finished and was made by the same code from the same files is not run again, so that
    what was interrupted goes on where it was.
    """
    from triplewise.evals.evaluation import default_log_dir
    from triplewise.evals.logs import read_logs

    if not out.resolve().parent.is_dir():
        raise DataError("no folder to write it in; make it first", out.resolve().parent)
    shipped = shipped_tasks()
    if unknown := set(tasks or ()) - {one.task for one in shipped}:
        raise ConfigurationError.unknown("task", unknown.pop(), [one.task for one in shipped])
    chosen = [one for one in shipped if not tasks or one.task in tasks]
    paths: list[Path] = []
    failures: list[str] = []
    for i, one in enumerate(run_shipped(chosen, limit, log_dir or default_log_dir() / "results"), 1):
        say(
            f"[{i}/{len(chosen)}] {one.shipped.name}: {one.failure or 'done'}", "error" if one.failure else ""
        )
        paths += [one.log] if one.log else []
        failures += [f"{one.shipped.name}: {one.failure}"] if one.failure else []
    if not paths:
        raise DataError(f"no task could be run: {failures[0]}")
    try:
        out.write_text(results_text(read_logs(paths), failures, limit), encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", out) from error
    say(f"written: {out}")
    if failures:
        raise typer.Exit(RUN_ERROR)


EXAMPLES = examples(
    "triplewise eval results",
    "triplewise eval results --limit 1000 --log-dir runs/results --out RESULTS.md",
)


def shipped_tasks() -> list[ShippedTask]:
    """Return every task, each with the arguments that the results are of."""
    from triplewise.evals.evaluation import TASKS

    text = (files("triplewise.evals.report") / "shipped.yaml").read_text(encoding="utf-8")
    listed: Mapping[str, list[dict[str, Any]]] = yaml.safe_load(text)
    return [ShippedTask(task, given) for task in TASKS for given in listed.get(task) or [{}]]


def run_shipped(
    shipped: Sequence[ShippedTask],
    limit: int,
    folder: Path,
    notify: Callable[[str], None] = lambda line: None,
) -> Iterator[TaskRun]:
    """Run each task to its end, or take its finished log. One that cannot be run does not end the others.

    Args:
        shipped: what to run. limit: questions of each, 0 for all. folder: of the logs. notify: see `run`.
    """
    from triplewise.evals.evaluation import log_path, make_task, run

    for one in shipped:
        try:
            task = make_task(one.task, {**one.arguments, "n": limit})
        except TriplewiseError as error:
            yield TaskRun(one, None, str(error))
            continue
        log = run(task, log_dir=folder, samples=False, notify=notify)
        failure = "" if log.status == "success" else f"it ended with status {log.status}"
        yield TaskRun(one, log_path(log), failure)


def results_text(logs: Sequence[Log], failures: Sequence[str], limit: int) -> str:
    """Return the whole file as Markdown; the same logs give the same file."""
    from triplewise.evals.report.labels import notes
    from triplewise.evals.report.page import report_tables, subtitle
    from triplewise.evals.report.render import escaped, markdown

    ordered = sorted(logs, key=lambda log: (log.name, log.path))
    command = f"triplewise eval results --limit {limit} --out evals/RESULTS.md"
    lines = [
        "# Results of every shipped task with the embedded default",
        "",
        f"{escaped(subtitle(ordered))}. Made by `{command}`; change nothing here by hand, run it again.",
        "",
        *(f"- {escaped(line)}" for line in [*HONESTY, *notes(ordered)]),
        *(f"- NOT RUN TO ITS END: {escaped(line)}" for line in failures),
        "",
        *(markdown(table) for table in report_tables(ordered)),
        *([] if any(len(log.crashes) for log in ordered) else ["No question crashed.", ""]),
        "## The tasks",
        "",
    ]
    for log in {log.name: log for log in reversed(ordered)}.values():
        about = log.about
        note = f" Note: {' '.join(about['note'].split())}." if about.get("note") else ""
        share = f" The graph can answer {about['answerable']:,} of {about['asked']:,} questions."
        share = share if about.get("asked") else ""
        lines.append(
            f"- **{escaped(log.name)}** (version {log.version}): {escaped(about.get('benchmark', ''))}, of "
            f"{escaped(about.get('kg', ''))}. {escaped(f'{share} {note}')} "
            f"Citation: {escaped(about.get('citation', ''))}. Licence: {escaped(about.get('licence', ''))}."
        )
    return "\n".join(lines) + "\n"
