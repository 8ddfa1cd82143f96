"""`triplewise eval grid FILE`: run a grid of ablations, print its table."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from triplewise.evals.report.measures import measure
from triplewise.graphs.cli.console import examples, say
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.evals.grids.grid import Cell, Choices, GridFile
    from triplewise.evals.grids.run import GridProgress, Notify, Outcome

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
seed_names: \\[plan_seed]             # settings and task parameters that take it
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
- {row: elsewhere, own: true, by: the command that makes it}
vary: {plan_hops: \\[2, 3]}           # every combination makes a row of each row
cells:                              # overrides; patterns with * and ?
- {row: "w*", column: GrailQA, skip: why}[/dim]

A cell is what defaults, its column, its row and its overrides say, a later one winning. Keys that each of
them may have: task, arguments, limit, system, phases (of a baseline: its parameters), settings, needs,
backbone, thin, learn, skip, by, note.
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
    from triplewise.evals.grids.grid import cells_of, load_grid
    from triplewise.evals.logs import read_logs
    from triplewise.evals.report.command import show, wide_console
    from triplewise.evals.report.grids import grid_tables

    if file is None:
        wide_console().print(_shipped_grids())
        return
    loaded = load_grid(file)
    given = parse_settings(sets or ()) | ({"base_url": base_url} if base_url else {})
    choices = _models(models or ())
    choices = replace(choices, limit=limit, train=train, given=given, only=only or (), seeds=seeds or ())
    cells = cells_of(loaded, choices)
    if dry_run:
        wide_console().print(_plan(loaded, cells))
        return
    outcomes, interrupted = _run(loaded, cells, log_dir, jobs)
    if logs := [outcome.log for outcome in outcomes if outcome.log]:
        show(grid_tables(read_logs(logs)))
    _list_rest(outcomes, cells)
    if interrupted:
        raise typer.Exit(INTERRUPTED)
    if any(o.state == "failed" for o in outcomes):
        raise typer.Exit(FAILED)


def _models(given: Sequence[str]) -> Choices:
    """Which model asks for which rows. Raises `ConfigurationError` where there are two for the same."""
    from triplewise.evals.grids.grid import EMBEDDED, Choices

    pairs = [(m.partition("=")[0], m.partition("=")[2]) if "=" in m else ("", m) for m in given]
    names = [name for name, _ in pairs]
    if repeated := {n for n in names if names.count(n) > 1}:
        which = repeated.pop() or "all rows"
        raise ConfigurationError(f"--model is given twice for {which}; NAME=openai:MODEL is for one's rows")
    named = dict(pairs)
    return Choices(model=named.pop("", EMBEDDED), backbones=named)


def _run(
    file: GridFile, cells: Sequence[Cell], log_dir: Path | None, jobs: int
) -> tuple[list[Outcome], bool]:
    """Run the cells under a progress display; what became of them, and whether that was broken off."""
    from triplewise.evals.grids.run import run_grid

    outcomes: list[Outcome] = []
    try:
        with _display(len(cells)) as notify:
            for outcome in run_grid(file, cells, log_dir=log_dir, jobs=jobs, notify=notify):
                outcomes.append(outcome)
    except KeyboardInterrupt:
        return outcomes, True
    return outcomes, False


@contextmanager
def _display(total: int) -> Iterator[Notify]:
    """A bar over the cells with the time left, and a line for each that is over, on stderr."""
    console = Console(stderr=True, highlight=False, markup=False)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[left]}"),
    )
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    with bar:
        whole = bar.add_task("cells", total=total, left="")

        def update(progress: GridProgress) -> None:
            doing = (
                f"{progress.cell}{f': {progress.stage}' if progress.stage else ''}"
                if progress.cell
                else "cells"
            )
            left = f"about {_duration(progress.left)} left" if progress.left else ""
            bar.update(whole, completed=progress.done, description=doing, left=left)
            if progress.last is not None and progress.last.state != "skipped":
                ahead = f"; {left}" if left else ""
                console.print(
                    f"{progress.done}/{progress.total} {line(progress.last)}{ahead}", soft_wrap=True
                )

        yield update


def _list_rest(outcomes: Sequence[Outcome], cells: Sequence[Cell]) -> None:
    """Say on stderr which cells have no figure and why, which questions crashed, and where the logs are."""
    skipped: dict[tuple[str, str], list[str]] = {}
    for outcome in outcomes:
        if outcome.state == "skipped":
            skipped.setdefault((outcome.cell.row, outcome.why), []).append(outcome.cell.column)
    for (row, why), columns in skipped.items():
        say(f"skipped: {row} / {', '.join(dict.fromkeys(columns))}: {why}", "notice")
    for outcome in outcomes:
        if outcome.state == "failed":
            say(line(outcome), "error")
    if len(outcomes) < len(cells):
        say(f"interrupted: {len(cells) - len(outcomes)} cells left; run the same again to go on", "notice")
    for folder in sorted({str(Path(outcome.log).parent.parent) for outcome in outcomes if outcome.log}):
        say(f"logs: {folder} (triplewise eval report makes a page of them)")


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


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
