"""`python -m triplewise.evals.bench startup`, or another of its commands."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from triplewise.evals.bench.mends import mends
from triplewise.evals.bench.startup import QUESTION, Measured, measure
from triplewise.tools.errors import TriplewiseError

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True)


@app.callback()
def about() -> None:
    """Benchmarks of speed. Run them on a machine that does nothing else."""


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


app.command()(mends)


def _table(found: Sequence[Measured]) -> Table:
    table = Table(title="Start of process to end of process, seconds (lower is better)", title_justify="left")
    for heading in ("command", "median", "best", "runs"):
        table.add_column(heading, justify="left" if heading == "command" else "right")
    for m in found:
        table.add_row(m.what, f"{m.median:.2f}", f"{m.best:.2f}", str(len(m.seconds)))
    return table


if __name__ == "__main__":
    app(prog_name="python -m triplewise.evals.bench")
