"""`triplewise eval report`: tables, tests and plots of logs for the terminal, as Markdown, JSON or a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triplewise.evals.report import render
from triplewise.graphs.cli.console import examples, out, say
from triplewise.graphs.page.write import check_place, write_page
from triplewise.tools.core.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from triplewise.graphs.page.model import Table

WIDTH = 180
"""Columns of tables that go to no terminal."""


def register(app: typer.Typer) -> None:
    """Add the command to `triplewise eval`."""
    app.command(
        "report",
        epilog=examples(
            "triplewise eval report runs",
            "triplewise eval report runs --html report.html --markdown report.md",
            "triplewise eval report a.eval b.eval --json",
        ),
    )(report)


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
        write_text(markdown, render.as_markdown(TITLE, [subtitle(chosen), *notes(chosen)], tables))
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


def write_text(path: Path, text: str) -> None:
    """Write a file and say so. Raises `DataError` where it cannot be written."""
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise DataError(f"cannot be written: {error.strerror or error}", path) from error
    say(f"written: {path}")
