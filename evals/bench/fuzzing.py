"""The command `fuzz`: hostile replies for every toolset, with a progress bar and a table at the end."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.console import Console
from rich.progress import MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table

from triplewise.evals.bench.fuzz import Report, by_rdflib, fuzz
from triplewise.tools.actions import TOOLSETS


def command(
    texts: Annotated[int, typer.Option(min=1, help="Replies in all, shared among the toolsets.")] = 100_000,
    seed: Annotated[int, typer.Option(help="Which replies.")] = 1,
    toolset: Annotated[list[str] | None, typer.Option(help="Only this toolset; may be repeated.")] = None,
) -> None:
    """Hostile replies: nothing may raise, and nothing but read queries may reach an engine."""
    names = [TOOLSETS[name].name for name in toolset or TOOLSETS]
    found: dict[str, Report] = {}
    columns = (*Progress.get_default_columns()[:2], MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("fuzz", total=texts)
        for number, name in enumerate(names):
            share = texts // len(names) + (number < texts % len(names))
            bar.update(task, description=name)
            found[name] = fuzz(name, share, seed, by_rdflib, lambda done: bar.advance(task, done))
    console = Console()
    console.print(_table(found))
    for name, report in found.items():
        for fault in report.faults:
            console.print(f"{name}: {fault}", markup=False, highlight=False)
    raise typer.Exit(1 if any(report.fault_count for report in found.values()) else 0)


def _table(found: dict[str, Report]) -> Table:
    table = Table(title="Hostile replies by toolset", title_justify="left")
    for heading in ("toolset", "texts", "calls", "queries", "texts/s", "faults"):
        table.add_column(heading, justify="left" if heading == "toolset" else "right")
    total = Report()
    for name, report in found.items():
        table.add_row(*_row(name, report))
        for key in ("texts", "executed", "queries", "seconds", "fault_count"):
            setattr(total, key, getattr(total, key) + getattr(report, key))
    table.add_section()
    table.add_row(*_row("all", total))
    return table


def _row(name: str, report: Report) -> tuple[str, ...]:
    rate = report.texts / max(report.seconds, 1e-9)
    counts = (report.texts, report.executed, report.queries, rate, report.fault_count)
    return (name, *(f"{count:,.0f}" for count in counts))
