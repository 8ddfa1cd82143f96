"""`python -m triplewise.evals.bench rules`: MetaQA's gold paths against the planner's first rule."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from triplewise.tools.core.errors import TriplewiseError

if TYPE_CHECKING:
    from triplewise.evals.rules import Measured


def rules(
    count: Annotated[int, typer.Option(min=1, help="Test questions of each length.")] = 1_000,
    sample_seed: Annotated[int, typer.Option(help="Seed of their draw.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """How often the first rule of the planner is MetaQA's gold path, its dev questions being the seeds.

    With the topic entity given, and with own linking. Needs TRIPLEWISE_DATA.
    """
    from triplewise.evals.rules import TARGET, measure
    from triplewise.graphs.cli.progress import progress_bars

    try:
        with progress_bars() as tell:
            found = measure(count, sample_seed, tell=tell)
    except TriplewiseError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    if as_json:
        typer.echo(json.dumps(asdict(found), indent=2, ensure_ascii=False))
        return
    console = Console()
    console.print(_table(found, TARGET))
    for row in found.rows:
        for qtype, path, times in row.wrong[:3]:
            console.print(
                f"  missed {times}x, {row.hops} hops, {row.linking} linking: {qtype}, first was {path}",
                markup=False,
                highlight=False,
            )


def _table(found: Measured, target: float) -> Table:
    """The scores."""
    title = f"First rule against the gold path (target {target}); seeds: {found.seeds:,} dev questions"
    if found.index_seconds:
        title += f", {found.mined:,} of them mined in {found.index_seconds:.0f} s, once"
    table = Table(title=title, title_justify="left")
    heads = (
        "topic",
        "hops",
        "questions",
        "first",
        "among",
        "same answers",
        "topic found",
        "median ms",
        "p95 ms",
    )
    for head in heads:
        table.add_column(head, justify="left" if head == "topic" else "right")
    for r in found.rows:
        scores = (f"{x:.3f}" for x in (r.first, r.listed, r.answers, r.linked))
        times = (f"{r.median * 1000:.0f}", f"{r.p95 * 1000:.0f}")
        table.add_row(
            "given" if r.linking == "gold" else "own", str(r.hops), f"{r.questions:,}", *scores, *times
        )
    return table
