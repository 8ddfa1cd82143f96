"""`python -m triplewise.evals.bench NAME`."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from triplewise.evals.bench.inflight import inflight
from triplewise.evals.bench.latency import latency
from triplewise.evals.bench.observe import observe
from triplewise.evals.bench.savings import savings
from triplewise.evals.bench.soak import soak
from triplewise.graphs.console import columns
from triplewise.tools.core.errors import TriplewiseError


def show(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print the rows that a bench returns: as a table, or as JSON."""
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return

    def cell(value: Any) -> str:
        form = ",.3g" if isinstance(value, float) and value < 100 else ",.0f"
        return value if isinstance(value, str) else format(value, form)

    table = columns(tuple(rows[0]), ([cell(value) for value in row.values()] for row in rows), right=True)
    Console(width=None if sys.stdout.isatty() else 160).print(table)


app = typer.Typer(
    add_completion=False, pretty_exceptions_enable=False, no_args_is_help=True, result_callback=show
)


@app.callback()
def about(
    as_json: Annotated[bool, typer.Option("--json", help="Print the figures as JSON.")] = False,
) -> None:
    """Benches behind published figures. Run them on a machine that does nothing else."""


for bench in (observe, inflight, savings, latency, soak):
    app.command()(bench)

if __name__ == "__main__":
    try:
        app(prog_name="python -m triplewise.evals.bench")
    except TriplewiseError as error:
        Console(stderr=True).print(f"error: {error}", style="red", markup=False, highlight=False)
        raise SystemExit(3) from error
