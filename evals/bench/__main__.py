"""`python -m triplewise.evals.bench startup`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals.bench.inflight import inflight
from triplewise.evals.bench.observe import observe
from triplewise.evals.bench.paths import paths
from triplewise.evals.bench.ranking import ranking
from triplewise.evals.bench.repairs import repairs
from triplewise.evals.bench.startup import QUESTION, Measured, measure
from triplewise.tools.core.errors import TriplewiseError

if TYPE_CHECKING:
    from triplewise.evals.bench.thrift import Spent

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def about() -> None:
    """Benchmarks of speed and thrift. Run them on a machine that does nothing else."""


@app.command()
def startup(
    repeat: Annotated[int, typer.Option(min=1, help="Runs of each command.")] = 5,
    question: Annotated[str, typer.Option(help="What is asked of the demo graph.")] = QUESTION,
    as_json: Annotated[bool, typer.Option("--json", help="Print the seconds as JSON.")] = False,
) -> None:
    """Time from process start to the answer of `triplewise ask` on the demo graph, and to `--help`."""
    try:
        found = measure(repeat, question)
    except TriplewiseError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    if as_json:
        typer.echo(json.dumps([asdict(m) | {"median": m.median} for m in found], indent=2))
    else:
        Console().print(_table(found))


app.command()(repairs)
app.command()(observe)
app.command()(ranking)
app.command()(paths)
app.command()(inflight)


def _table(found: Sequence[Measured]) -> Table:
    table = Table(title="Start of process to end of process, seconds (lower is better)", title_justify="left")
    for heading in ("command", "median", "best", "runs"):
        table.add_column(heading, justify="left" if heading == "command" else "right")
    for m in found:
        table.add_row(m.what, f"{m.median:.2f}", f"{m.best:.2f}", str(len(m.seconds)))
    return table


@app.command()
def thrift(
    count: Annotated[int, typer.Option(min=1, help="Questions of each source.")] = 24,
    cold: Annotated[bool, typer.Option("--cold", help="Open the graph anew for each question.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Queries, tokens and calls a question with each thrift measure on and off, beside the paper's own loop.

    The demo's questions, and those of MetaQA and WebQSP where TRIPLEWISE_DATA names their folder.
    """
    from triplewise.evals.bench.thrift import measure as spend

    try:
        found = spend(count, cold=cold)
    except TriplewiseError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(3) from error
    if as_json:
        typer.echo(json.dumps([asdict(s) for s in found], indent=2))
        return
    for source in dict.fromkeys(s.source for s in found):
        Console().print(_thrift_table([s for s in found if s.source == source]))


def _thrift_table(found: Sequence[Spent]) -> Table:
    """What each loop took on one source, and how that compares with the first one."""
    first = found[0]
    title = f"{first.source}: means over {first.questions} questions, on the same scripted replies"
    table = Table(title=title, title_justify="left")
    heads = ("loop", "queries", "ratio", "prompt tokens", "ratio", "calls", "seconds", "corrections", "same")
    for heading in heads:
        table.add_column(heading, justify="left" if heading == "loop" else "right")
    for s in found:
        ratios = (s.queries / first.queries, s.tokens / first.tokens)
        table.add_row(
            s.name,
            *(f"{s.queries:.1f}", f"{ratios[0]:.2f}", f"{s.tokens:,.0f}", f"{ratios[1]:.2f}"),
            *(f"{s.calls:.1f}", f"{s.seconds:.2f}", f"{s.corrections:.1f}", f"{s.same}/{s.questions}"),
        )
    return table


if __name__ == "__main__":
    app(prog_name="python -m triplewise.evals.bench")
