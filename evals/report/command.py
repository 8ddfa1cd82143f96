"""`triplewise eval report` and `results`: tables, tests and plots of logs, the results of all tasks."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
import yaml

from triplewise.evals.evaluation import TASKS, default_log_dir, log_path, make_task, run
from triplewise.evals.report import render
from triplewise.graphs.cli.console import examples, out, say
from triplewise.graphs.page.write import check_place, write_page
from triplewise.tools.core.errors import ConfigurationError, DataError, TriplewiseError

if TYPE_CHECKING:
    from rich.console import Console

    from triplewise.graphs.page.model import Table

WIDTH = 180
"""Columns of tables that go to no terminal."""
LIMIT = 200
RUN_ERROR = 3


def register(app: typer.Typer) -> None:
    """Add `report` and `results`."""
    app.command(
        "report",
        epilog=examples(
            "triplewise eval report runs",
            "triplewise eval report runs --html report.html --markdown report.md",
            "triplewise eval report a.eval b.eval --json",
        ),
    )(report)
    app.command(
        "results",
        epilog=examples(
            "triplewise eval results",
            "triplewise eval results --limit 1000 --log-dir runs/results --out RESULTS.md",
        ),
    )(results)


def report(
    logs: Annotated[list[Path], typer.Argument(metavar="LOGS...", help="Logs, or folders with logs.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page, every question on it.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables as Markdown.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Make tables, tests between systems, and plots from logs of `triplewise eval` and `eval grid`.

    Logs of a grid become its table, with the published figures beside ours; all others a table of task by
    system. Every figure has its confidence interval.
    """
    from triplewise.evals.logs import read_logs
    from triplewise.evals.report.labels import notes
    from triplewise.evals.report.page import TITLE, report_page, report_tables, subtitle

    for path in filter(None, (html, markdown)):  # before logs are read
        check_place(path)
    chosen = read_logs(logs, traces=html is not None)
    if html:
        page = report_page(chosen)
        write_page(html, page)
        say(f"written: {html}")
    tables = page.tables if html else report_tables(chosen)
    if markdown:
        _write(markdown, render.as_markdown(TITLE, [subtitle(chosen), *notes(chosen)], tables))
    if as_json:
        typer.echo(json.dumps([render.plain(table) for table in tables], indent=2, ensure_ascii=False))
    elif not html and not markdown:
        show(tables)


def show(tables: Sequence[Table]) -> None:
    """Print tables on the terminal; as wide as they need where none is."""
    console = wide_console()
    for table in tables:
        console.print(render.terminal(table))


def wide_console() -> Console:
    """Return standard output, wide where it is no terminal."""
    console = out()
    if not sys.stdout.isatty():
        console.width = WIDTH
    return console


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
    what was interrupted goes on where it was. One that cannot be run does not end the others.
    """
    from triplewise.evals.logs import read_logs
    from triplewise.evals.report.page import results_text

    check_place(out)
    if unknown := set(tasks or ()) - set(TASKS):
        raise ConfigurationError.unknown("task", unknown.pop(), TASKS)
    chosen = [(task, arguments) for task, arguments in shipped_tasks() if not tasks or task in tasks]
    paths: list[Path] = []
    failures: list[str] = []
    for i, (task, arguments) in enumerate(chosen, 1):
        words = (f"{name}={str(value).lower()}" for name, value in arguments.items())
        name = " ".join([task, *words])
        failure = ""
        try:
            log = run(
                make_task(task, {**arguments, "n": limit}),
                log_dir=log_dir or default_log_dir() / "results",
                samples=False,
            )
        except TriplewiseError as error:
            failure = str(error)
        else:
            paths.append(log_path(log))
            failure = "" if log.status == "success" else f"it ended with status {log.status}"
        say(f"[{i}/{len(chosen)}] {name}: {failure or 'done'}", "error" if failure else "")
        failures += [f"{name}: {failure}"] if failure else []
    if not paths:
        raise DataError(f"no task could be run: {failures[0]}")
    _write(out, results_text(read_logs(paths), failures, limit))
    if failures:
        raise typer.Exit(RUN_ERROR)


def shipped_tasks() -> list[tuple[str, Mapping[str, Any]]]:
    """Return every task, each with the arguments that the results are of."""
    text = (files("triplewise.evals.report") / "shipped.yaml").read_text(encoding="utf-8")
    listed: Mapping[str, list[dict[str, Any]]] = yaml.safe_load(text)
    return [(task, arguments) for task in TASKS for arguments in listed.get(task) or [{}]]


def _write(path: Path, text: str) -> None:
    """Write a file and say so. Raises `DataError` where it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path) from error
    say(f"written: {path}")
