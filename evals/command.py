"""`triplewise eval`: run a benchmark or a grid, make reports of logs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.markdown import Markdown

from triplewise.evals import evaluation
from triplewise.evals.baselines import BASELINES
from triplewise.evals.grids.grid import EMBEDDED, Cell, Grid, Outcome, cells_of, load_grid, run_grid, shipped
from triplewise.evals.logs import read_logs
from triplewise.evals.report import tables
from triplewise.evals.tasks import TASKS
from triplewise.graphs.commands import argument, command, flag, option, with_default
from triplewise.graphs.console import INTERRUPTED, RUN_ERROR, columns, out, say
from triplewise.graphs.page import check_place
from triplewise.tools.core.files import writing

WIDTH = 180  # columns of tables that go to no terminal
_SET = "A parameter of the task, a phase of the system, or a setting of a run. Repeatable."

app = typer.Typer(
    cls=with_default("run"),
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
)


@dataclass(frozen=True)
class RunOptions:
    """The model, settings, and how it is run."""

    model: str | None = option("M", "Language model: openai:NAME.", shown="embedded")
    base_url: str | None = option("URL", "OpenAI-compatible server of the model.")
    sets: list[str] | None = option("NAME=VALUE", _SET, None, "--set")
    jobs: int = option("N", "Questions in flight; more than 1 stretches the seconds.", 1, min=1)
    log_dir: Path | None = option("DIR", "Folder of logs.", shown="the user's state folder")

    def given(self) -> dict[str, Any]:
        """Return what --set and --base-url give, by name."""
        server = {"base_url": self.base_url} if self.base_url else {}
        return evaluation.parse_settings(self.sets or ()) | server


@command(app, add="callback")
def about() -> None:
    """Run a benchmark with the agent or a baseline: `triplewise eval TASK`, options as in `eval run --help`.

    An evaluation that was killed or interrupted goes on where it was when the same command is run again.

    Examples:
        triplewise eval metaqa --set hops=2 --limit 200
        triplewise eval run --help
    """


@command(app, "run")
def run_task(
    options: RunOptions,
    task: str = argument("TASK", f"Benchmark: {', '.join(TASKS)}."),
    limit: int | None = option("N", "Questions, drawn at random; 0 for all.", min=0, shown="1,000"),
    system: str | None = option(
        "NAME", f"Preset, or baseline: {', '.join(BASELINES)}.", None, "--system", "--preset"
    ),
) -> None:
    """Run a benchmark and print its scores. The log opens with `inspect view`, `inspect log dump` has all.

    Examples:
        triplewise eval trex --set observe_depth=1 --set reflect=random
        triplewise eval webqsp --system oda --jobs 4 --log-dir runs
        triplewise eval metaqa --model openai:M --base-url http://localhost:8000/v1
    """
    named = {"n": limit, "preset": system, "model": options.model}
    given = options.given() | {name: value for name, value in named.items() if value is not None}
    asked = evaluation.make_task(task, given)
    log = evaluation.run(asked, jobs=options.jobs, log_dir=options.log_dir, notify=say)
    if log.status != "success":
        reason = log.error.message if log.error else log.status
        say(f"the evaluation failed ({reason}); {evaluation.RESUME}", "error")
        raise typer.Exit(RUN_ERROR)
    failed, path = evaluation.crashes(log), evaluation.log_path(log)
    wide_console().print(Markdown(tables.markdown(read_logs([path]))))
    out().print(f"log: {path}", soft_wrap=True)
    if failed:
        name, error = failed[0]
        crashed = f"{len(failed)} questions crashed and count as wrong (first {name}: {error})"
        say(f"{crashed}; the same command asks them again", "error")
        raise typer.Exit(RUN_ERROR)


def wide_console() -> Console:
    """Return standard output, wide where it does not go to a terminal."""
    console = out()
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


@command(app)
def report(
    logs: list[Path] = argument("LOGS...", "Logs, or folders with logs."),
    markdown: Path | None = option("FILE", "Write the tables as Markdown."),
) -> None:
    """Make tables, with differences between systems, from logs of `triplewise eval` and `eval grid`.

    Logs of a grid become its table, with the published figures next to ours; all others a table of task by
    system. Every figure has its confidence interval. `inspect view` shows every question of a log.

    Examples:
        triplewise eval report runs --markdown report.md
    """
    if markdown:  # before logs are read
        check_place(markdown)
    text = tables.markdown(read_logs(logs))
    if markdown is None:
        return wide_console().print(Markdown(text))
    with writing(markdown):
        markdown.write_text(text, encoding="utf-8")
    return say(f"written: {markdown}")


@command(app)
def grid(
    options: RunOptions,
    file: str | None = argument("[FILE]", "A YAML file, or the name of a shipped grid.", None),
    limit: int | None = option("N", "Most questions a cell, 0 for all.", min=0, shown="as in the grid"),
    only: list[str] | None = option("ROW/COLUMN", "Only these cells; patterns with * and ?. Repeatable."),
    dry_run: bool = flag("Show the cells and run nothing.", "--dry-run"),
) -> None:
    """Run a grid of ablations: rows (a system and what is swapped in it) on columns (benchmarks).

    FILE is a YAML file (evals/README.md has its form), or the name of a shipped grid; without it the shipped
    ones are listed. What --set gives goes to all cells that have such a name. Each cell leaves one log for
    each model. Run again, the grid goes on: cells whose log is complete with the same configuration, data and
    code are not run again, one that was interrupted goes on where it was. A cell that fails is listed.

    Examples:
        triplewise eval grid queryagent-table-3 --dry-run
        triplewise eval grid oda-table-4 --model openai:gpt-4o --jobs 8
        triplewise eval grid mine.yaml --only 'w*/GrailQA' --set plan_hops=2
        triplewise eval grid results --limit 200 --log-dir runs
        triplewise eval report runs --markdown RESULTS.md
    """
    if file is None:
        grids = [load_grid(name)[0] for name in shipped()]
        rows = [(one.name, str(len(one.rows)), str(len(one.columns)), one.title) for one in grids]
        shown = columns(("name", "rows", "columns", "what"), rows, "Shipped grids", whole=True)
        return wide_console().print(shown)
    loaded, _ = found = load_grid(file)
    cells = cells_of(found, options.model or EMBEDDED, limit=limit, given=options.given(), only=only or ())
    if not dry_run:
        return _run_cells(loaded, cells, options)
    plan = []
    for cell in cells:
        swapped = [f"{name}={value}" for name, value in cell.spec.set.items()]
        swapped += [f"limit={cell.spec.limit or 'all'}"] * (cell.spec.limit is not None)
        system = f"{cell.spec.system or 'its own'} on {cell.spec.task}"
        plan.append((cell.name, system, ", ".join(swapped), f"no: {cell.why_not}" if cell.why_not else "yes"))
    title = f"{loaded.title}: {sum(not cell.why_not for cell in cells)} of {len(cells)} cells to run"
    return wide_console().print(columns(("cell", "system", "with", "runs"), plan, title))


def _run_cells(grid: Grid, cells: Sequence[Cell], options: RunOptions) -> None:
    """Run the cells until an interrupt, then show what was measured; exits where something is wrong."""
    outcomes: list[Outcome] = []
    with suppress(KeyboardInterrupt):
        for outcome in run_grid(grid, cells, log_dir=options.log_dir, jobs=options.jobs, notify=say):
            outcomes.append(outcome)
            if outcome.state != "skipped":
                say(f"{len(outcomes)}/{len(cells)} {outcome.line()}")
    if paths := [evaluation.log_path(outcome.log) for outcome in outcomes if outcome.log]:
        wide_console().print(Markdown(tables.markdown(read_logs(paths))))
        say(f"logs: {paths[0].parent.parent} (triplewise eval report makes a page of them)")
    for why in dict.fromkeys(outcome.why for outcome in outcomes if outcome.state == "skipped"):
        say(f"skipped: {', '.join(o.cell.name for o in outcomes if o.why == why)}: {why}", "notice")
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed:
        say(outcome.line(), "error")
    if len(outcomes) < len(cells):
        say(f"interrupted: {len(cells) - len(outcomes)} cells left; run the same again to go on", "notice")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(RUN_ERROR)
