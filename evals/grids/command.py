"""`triplewise eval grid FILE`: run a grid of ablations, print its table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from triplewise.evals.report.measures import measure
from triplewise.graphs.cli.console import examples, say
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.evals.grids.cells import Cell
    from triplewise.evals.grids.grid import GridFile
    from triplewise.evals.grids.run import Outcome

FAILED, INTERRUPTED = 3, 130

HELP = """Run a grid of ablations: rows (a system and what is swapped in it) on columns (benchmarks).

FILE is a YAML file, or the name of a shipped grid; without it the shipped ones are listed. Each cell leaves
one log. Run again, the grid goes on: cells whose log is complete with the same configuration and data are not
run again, one that was interrupted goes on where it was. A cell that fails is listed, and the grid goes on.

The file, with all keys that there are:

\b
[dim]name: correction-modes              # names the folder of its logs
title: Ways of correcting
published: queryagent-table-3       # the published table that it mirrors, if any
layout: cells                       # or guideline-sources, guidelines, error-classes
metrics: \\[f1]
seeds: \\[1, 2]                       # each cell runs once for each
notes: what a reader has to know
defaults: {system: queryagent, limit: 200}
columns:
- {column: GrailQA, task: grailqa, arguments: {linking: own}, metrics: \\[f1]}
rows:
- row: Ours
- {row: w/o ERASER, group: ablations, phases: {correct: raw}, needs: \\[model]}
- {row: deeper, own: true, settings: {observe_depth: 4}, note: not in the paper}
- {row: on half a graph, own: true, thin: {share: 0.5, documents: true}}
- {row: learned, own: true, learn: {benchmark: webqsp, recipe: full}}
- {row: GPT-4's, own: true, backbone: GPT-4}    # run with --model GPT-4=openai:NAME
- {row: elsewhere, own: true, skip: why there is nothing to run}
vary: {plan_hops: \\[2, 3]}           # every combination makes a row of each row
cells:                              # overrides; patterns with * and ?
- {row: "w*", column: GrailQA, skip: why}[/dim]

A cell is what defaults, its column, its row and its overrides say, a later one winning. Keys that each of
them may have: task, arguments, limit, system, phases (of a baseline: its parameters), settings, needs,
backbone, thin, learn, skip, note.
"""


def register(app: typer.Typer) -> None:
    """Add the command to `triplewise eval`."""
    app.command(
        "grid",
        help=HELP,
        epilog=examples(
            "triplewise eval grid",
            "triplewise eval grid queryagent-table-3 --dry-run",
            "triplewise eval grid oda-table-3 --limit 50",
            "triplewise eval grid queryagent-table-3 --model openai:NAME --jobs 8",
            "triplewise eval grid oda-table-4 --model GPT4=openai:gpt-4o --model GPT3.5=openai:gpt-4o-mini",
            "triplewise eval grid mine.yaml --only 'w*/GrailQA' --set plan_hops=2",
        ),
    )(grid)


def grid(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A YAML file, or the name of a shipped grid.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=1, help="Most questions a cell. [dim](what the grid says)[/dim]")
    ] = None,
    train: Annotated[
        int | None, typer.Option(min=1, help="Most training questions where a cell learns first.")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="[NAME=]M",
            help="embedded, or openai:NAME; with NAME= for the rows of one backbone (* for any). Repeatable.",
        ),
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="OpenAI-compatible server of the models.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the tasks, a phase, or a setting, in all cells that have it. Repeatable.",
        ),
    ] = None,
    seeds: Annotated[
        list[int] | None,
        typer.Option("--seed", min=1, help="Seeds in the place of the grid's own. Repeatable."),
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ROW/COLUMN", help="Only these cells; patterns with * and ?. Repeatable."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cells and run nothing.")] = False,
    jobs: Annotated[int, typer.Option(min=1, help="Questions in flight.")] = 1,
    log_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of the logs. [dim](user's state folder)[/dim]")
    ] = None,
) -> None:
    """Run a grid; see `HELP`."""
    from triplewise.evals.evaluation import parse_settings
    from triplewise.evals.grids.cells import EMBEDDED, Choices, cells_of
    from triplewise.evals.grids.grid import load_grid
    from triplewise.evals.logs import read_logs
    from triplewise.evals.report.command import show, wide_console
    from triplewise.evals.report.grids import grid_tables

    if file is None:
        wide_console().print(_shipped_grids())
        return
    loaded = load_grid(file)
    backbones: dict[str, str] = {}
    for model in models or ():
        name, equals, value = model.partition("=")
        name, value = (name, value) if equals else ("", model)
        if name in backbones:
            raise ConfigurationError(
                f"--model is given twice for {name or 'all rows'}; NAME=openai:MODEL is for one's rows"
            )
        backbones[name] = value
    choices = Choices(
        model=backbones.pop("", EMBEDDED),
        backbones=backbones,
        limit=limit,
        train=train,
        given=parse_settings(sets or ()) | ({"base_url": base_url} if base_url else {}),
        only=only or (),
        seeds=seeds or (),
    )
    cells = cells_of(loaded, choices)
    if dry_run:
        wide_console().print(_plan(loaded, cells))
        return
    outcomes = _run(loaded, cells, log_dir, jobs)
    if logs := [outcome.log for outcome in outcomes if outcome.log]:
        show(grid_tables(read_logs(logs)))
    skipped = dict.fromkeys((o.cell.row, o.why) for o in outcomes if o.state == "skipped")
    for row, why in skipped:
        columns = dict.fromkeys(o.cell.column for o in outcomes if (o.cell.row, o.why) == (row, why))
        say(f"skipped: {row} / {', '.join(columns)}: {why}", "notice")
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed:
        say(line(outcome), "error")
    for folder in sorted({str(Path(log).parent.parent) for log in logs}):
        say(f"logs: {folder} (triplewise eval report makes a page of them)")
    if len(outcomes) < len(cells):
        say(f"interrupted: {len(cells) - len(outcomes)} cells left; run the same again to go on", "notice")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(FAILED)


def _run(file: GridFile, cells: Sequence[Cell], log_dir: Path | None, jobs: int) -> list[Outcome]:
    """Run the cells under a bar with the time left, a line on stderr for each; an interrupt ends the list."""
    from triplewise.evals.grids.run import run_grid

    console = Console(stderr=True, highlight=False, markup=False)
    bar = Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        disable=not console.is_terminal,
    )
    outcomes: list[Outcome] = []
    with bar, suppress(KeyboardInterrupt):
        whole = bar.add_task("cells", total=len(cells))

        def notify(stage: str) -> None:
            bar.update(whole, description=stage)

        for outcome in run_grid(file, cells, log_dir=log_dir, jobs=jobs, notify=notify):
            outcomes.append(outcome)
            bar.update(whole, advance=1)
            if outcome.state != "skipped":
                console.print(f"{len(outcomes)}/{len(cells)} {line(outcome)}", soft_wrap=True)
    return outcomes


def _shipped_grids() -> Table:
    """The grids that come with the package."""
    from triplewise.evals.grids.grid import load_grid, shipped

    table = Table(title="Shipped grids", title_justify="left", box=None)
    for heading in ("name", "rows", "columns", "what"):
        table.add_column(heading)
    for name in shipped():
        grid = load_grid(name).grid
        table.add_row(name, str(len(grid.rows)), str(len(grid.columns)), grid.title)
    return table


def _plan(file: GridFile, cells: Sequence[Cell]) -> Group:
    """The cells that would be run, with what is special about each."""
    table = Table()
    for heading in ("row", "column", "seed", "system", "model", "with", "limit", "runs"):
        table.add_column(heading, overflow="fold")
    for c in cells:
        settings = {name: value for name, value in c.settings.items() if not name.endswith("_seed")}
        given = [f"{n}={v}" for n, v in {**c.arguments, **c.phases, **settings}.items()]
        given += ["incomplete graph"] * bool(c.thin) + ["self-learning"] * bool(c.learn)
        limit = "task's own" if c.limit is None else "all" if c.limit == 0 else str(c.limit)
        runs = "yes" if not c.why_not else f"no: {c.why_not}"
        system = f"{c.system} on {c.task}"
        row = (c.row, c.column, str(c.seed), system, c.model, ", ".join(given), limit, runs)
        table.add_row(*map(Text, row))
    run = sum(not c.why_not for c in cells)
    return Group(Text(f"{file.grid.title}: {run} of {len(cells)} cells to run", "bold"), table)


def line(outcome: Outcome) -> str:
    """Return what became of a cell, in a line."""
    cell = outcome.cell
    if outcome.state in ("skipped", "failed"):
        return f"{cell.name}: {outcome.state}: {outcome.why}"
    of = measure(cell.metrics[0])
    mean = outcome.scores.get(f"{of.name}.mean", math.nan)
    took = "complete before" if outcome.state == "kept" else f"{outcome.seconds:.1f} s"
    crashed = f", {outcome.crashed} crashed" if outcome.crashed else ""
    return f"{cell.name}: {of.name} {of.text(mean)} ({outcome.questions} questions{crashed}, {took})"
