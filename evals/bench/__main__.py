"""`python -m triplewise.evals.bench NAME`."""

from __future__ import annotations

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
from triplewise.graphs.console import columns, echo_json, run_command


def show(rows: Sequence[Mapping[str, Any]], as_json: bool) -> None:
    """Print the rows that a bench returns: as a table, or as JSON."""
    if as_json:
        echo_json(rows)
        return
    texts = [
        [v if isinstance(v, str) else f"{v:,.3g}" if abs(v) < 100 else f"{v:,.0f}" for v in row.values()]
        for row in rows
    ]
    Console(width=None if sys.stdout.isatty() else 160).print(columns(tuple(rows[0]), texts, right=True))


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
    sys.exit(run_command(sys.argv[1:], app, "python -m triplewise.evals.bench"))
