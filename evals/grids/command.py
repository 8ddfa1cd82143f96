"""`triplewise eval grid FILE`: run a grid of ablations, print its table; `results`: the grid of all tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from triplewise.evals.evaluation import TASKS, log_path, parse_settings, scores_of
from triplewise.evals.report.command import show, wide_console, write_text
from triplewise.evals.report.measures import measure
from triplewise.graphs.cli.console import columns, examples, progress_bars, say
from triplewise.graphs.page.write import check_place
from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.evals.grids.cells import Cell
    from triplewise.evals.grids.grid import GridFile
    from triplewise.evals.grids.run import Outcome

FAILED, INTERRUPTED = 3, 130


def register(app: typer.Typer) -> None:
    """Add `grid` and `results` to `triplewise eval`."""
    app.command(
        "grid",
        epilog=examples(
            "triplewise eval grid",
            "triplewise eval grid queryagent-table-3 --dry-run",
            "triplewise eval grid oda-table-3 --limit 50",
            "triplewise eval grid queryagent-table-3 --model openai:NAME --jobs 8",
            "triplewise eval grid oda-table-4 --model GPT4=openai:gpt-4o --model GPT3.5=openai:gpt-4o-mini",
            "triplewise eval grid mine.yaml --only 'w*/GrailQA' --set plan_hops=2",
        ),
    )(grid)
    app.command(
        "results",
        epilog=examples(
            "triplewise eval results",
            "triplewise eval results --limit 1000 --log-dir runs/results --out RESULTS.md",
        ),
    )(results)


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
    """Run a grid of ablations: rows (a system and what is swapped in it) on columns (benchmarks).

    FILE is a YAML file (evals/README.md has its form), or the name of a shipped grid; without it the shipped
    ones are listed. Each cell leaves one log. Run again, the grid goes on: cells whose log is complete with
    the same configuration, data and code are not run again, one that was interrupted goes on where it was. A
    cell that fails is listed, and the grid goes on.
    """
    from triplewise.evals.grids.cells import EMBEDDED, Choices, cells_of
    from triplewise.evals.grids.grid import load_grid
    from triplewise.evals.logs import read_logs
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
    if logs := [log_path(outcome.log) for outcome in outcomes if outcome.log]:
        show(grid_tables(read_logs(logs)))
    _end(cells, outcomes)


def results(
    limit: Annotated[int, typer.Option(min=0, help="Questions of each task, 0 for all.")] = 200,
    log_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the logs. [dim](the user's state folder)[/dim]"),
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where the tables are written.")] = Path(
        "RESULTS.md"
    ),
    tasks: Annotated[
        list[str] | None, typer.Option("--task", metavar="NAME", help="Only this task. Repeatable.")
    ] = None,
) -> None:
    """Run every shipped task with the embedded default, no key needed, and write the tables of the runs.

    These are the cells of the grid `results`, which goes on where it was as any grid does.
    """
    from triplewise.evals.grids.cells import Choices, cells_of
    from triplewise.evals.grids.grid import load_grid
    from triplewise.evals.logs import read_logs
    from triplewise.evals.report.page import results_text

    check_place(out)
    if unknown := set(tasks or ()) - set(TASKS):
        raise ConfigurationError.unknown("task", unknown.pop(), TASKS)
    loaded = load_grid("results")
    cells = [c for c in cells_of(loaded, Choices(limit=limit)) if not tasks or c.spec.task in tasks]
    outcomes = _run(loaded, cells, log_dir, jobs=1)
    if logs := [log_path(outcome.log) for outcome in outcomes if outcome.log]:
        failures = [f"{outcome.cell.column}: {outcome.why}" for outcome in outcomes if outcome.why]
        write_text(out, results_text(read_logs(logs), failures, limit))
    _end(cells, outcomes)


def _end(cells: Sequence[Cell], outcomes: Sequence[Outcome]) -> None:
    """Say what was skipped, what failed, where the logs are. Raises `typer.Exit` where something is wrong."""
    for row, why in dict.fromkeys((o.cell.row.row, o.why) for o in outcomes if o.state == "skipped"):
        names = dict.fromkeys(o.cell.column for o in outcomes if (o.cell.row.row, o.why) == (row, why))
        say(f"skipped: {row} / {', '.join(names)}: {why}", "notice")
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed:
        say(line(outcome), "error")
    for folder in sorted({log_path(outcome.log).parent.parent for outcome in outcomes if outcome.log}):
        say(f"logs: {folder} (triplewise eval report makes a page of them)")
    if len(outcomes) < len(cells):
        say(f"interrupted: {len(cells) - len(outcomes)} cells left; run the same again to go on", "notice")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(FAILED)


def _run(file: GridFile, cells: Sequence[Cell], log_dir: Path | None, jobs: int) -> list[Outcome]:
    """Run the cells under a bar, a line on stderr for each; an interrupt ends the list."""
    from triplewise.evals.grids.run import run_grid

    outcomes: list[Outcome] = []
    with suppress(KeyboardInterrupt), progress_bars() as report:

        def notify(stage: str) -> None:
            report("cells", len(outcomes), len(cells), escape(stage))

        for outcome in run_grid(file, cells, log_dir=log_dir, jobs=jobs, notify=notify):
            outcomes.append(outcome)
            if outcome.state != "skipped":
                say(f"{len(outcomes)}/{len(cells)} {line(outcome)}")
    return outcomes


def _shipped_grids() -> Table:
    """Return a table of the grids that come with the package."""
    from triplewise.evals.grids.grid import load_grid, shipped

    grids = [load_grid(name).grid for name in shipped()]
    rows = [(grid.name, str(len(grid.rows)), str(len(grid.columns)), grid.title) for grid in grids]
    return columns(("name", "rows", "columns", "what"), rows, "Shipped grids")


def _plan(file: GridFile, cells: Sequence[Cell]) -> Table:
    """Return a table of the cells that would be run, with what is special about each."""
    rows = []
    for cell in cells:
        spec = cell.spec
        given = [f"{name}={value}" for name, value in spec.set.items() if not name.endswith("_seed")]
        given += ["incomplete graph"] * bool(spec.thin) + ["self-learning"] * bool(spec.learn)
        limit = "task's own" if spec.limit is None else "all" if spec.limit == 0 else str(spec.limit)
        runs = "yes" if not cell.why_not else f"no: {cell.why_not}"
        names = (
            cell.row.row,
            cell.column,
            str(cell.seed),
            f"{spec.system or 'its own'} on {spec.task}",
            cell.model,
        )
        rows.append([Text(text) for text in (*names, ", ".join(given), limit, runs)])
    run = sum(not cell.why_not for cell in cells)
    heads = ("row", "column", "seed", "system", "model", "with", "limit", "runs")
    return columns(heads, rows, f"{file.grid.title}: {run} of {len(cells)} cells to run")


def line(outcome: Outcome) -> str:
    """Return what became of a cell, in a line."""
    cell = outcome.cell
    if outcome.log is None or outcome.state == "failed":
        return f"{cell.name}: {outcome.state}: {outcome.why}"
    scores, of = scores_of(outcome.log), measure(cell.metrics[0])
    crashed = int(scores.get("crashed.total", 0))
    asked = f"{outcome.log.results.total_samples if outcome.log.results else 0} questions"
    asked += f", {crashed} crashed" if crashed else ""
    took = f"{outcome.seconds:.1f} s" if outcome.state == "done" else outcome.state
    return f"{cell.name}: {of.name} {of.text(scores.get(f'{of.name}.mean', math.nan))} ({asked}, {took})"
