"""`triplewise eval report`: tables, tests and plots of logs: for the terminal, a page, Markdown, JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from triplewise.evals.report.render import as_markdown, plain, terminal
from triplewise.evals.report.results import EXAMPLES, results
from triplewise.graphs.cli.console import examples, out, say
from triplewise.tools.core.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from triplewise.graphs.page.model import Table

WIDTH = 180
"""Columns of tables that go to no terminal."""


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
    app.command("results", epilog=EXAMPLES)(results)


def report(
    logs: Annotated[list[Path], typer.Argument(metavar="LOGS...", help="Logs, or folders with logs.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page, every question on it.")
    ] = None,
    markdown: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the tables as Markdown.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
    every: Annotated[
        bool, typer.Option("--all", help="Also earlier logs of a configuration that was run again.")
    ] = False,
) -> None:
    """Make tables, tests between systems, and plots from logs of `triplewise eval` and `eval grid`.

    Logs of a grid become its table, with the published figures beside ours; all others a table of task by
    system. Every figure has its confidence interval.
    """
    from triplewise.evals.logs import latest, read_logs
    from triplewise.evals.report.labels import notes
    from triplewise.evals.report.page import TITLE, report_page, report_tables, subtitle
    from triplewise.graphs.page.write import write_page

    for path in filter(None, (html, markdown)):  # before logs are read
        folder = path.resolve().parent
        if path.is_dir():
            raise DataError("is a folder; name a file in it, e.g. report.html", path)
        if not folder.is_dir():
            raise DataError(f"no folder {str(folder)!r} to write it in; make it first", path)
    whole = read_logs(logs, traces=html is not None)
    chosen, earlier = (whole, []) if every else latest(whole)
    more: list[str] = []
    if earlier:
        left_out = f"{len(earlier)} earlier logs of configurations that were run again"
        more = [f"left out: {left_out}; --all shows them"]
    if html:
        page = report_page(chosen, more)
        write_page(html, page)
        say(f"written: {html}")
    tables = page.tables if html else report_tables(chosen)
    if markdown:
        text = as_markdown(TITLE, [subtitle(chosen), *more, *notes(chosen)], tables)
        try:
            markdown.write_text(text, encoding="utf-8")
        except OSError as error:
            raise DataError(f"cannot be written: {error.strerror or error}", markdown) from error
        say(f"written: {markdown}")
    if as_json:
        typer.echo(json.dumps([plain(table) for table in tables], indent=2, ensure_ascii=False))
    elif not html and not markdown:
        show(tables)
        for note in more:
            say(note, "notice")


def show(tables: Sequence[Table]) -> None:
    """Print tables on the terminal; as wide as they need where none is."""
    console = wide_console()
    for table in tables:
        console.print(terminal(table))


def wide_console() -> Console:
    """Return standard output, wide where it is no terminal."""
    console = out()
    if not sys.stdout.isatty():
        console.width = WIDTH
    return console
