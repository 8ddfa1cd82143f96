"""`triplewise eval`: run a benchmark, a grid or all tasks, make reports of logs, list tasks and systems."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from typer.core import TyperGroup

from triplewise.evals import evaluation
from triplewise.evals.baselines import systems
from triplewise.evals.data import catalog
from triplewise.evals.tasks import TASKS, describe
from triplewise.graphs.console import Json, columns, echo_json, examples, out, pairs, say
from triplewise.graphs.page import check_place, write_page
from triplewise.graphs.presets import PRESETS
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import writing

if TYPE_CHECKING:
    from rich.console import Console

    from triplewise.evals.grids.grid import Cell, GridFile, Outcome
    from triplewise.evals.logs import Log

HELP = ("-h", "--help")
FAILED, INTERRUPTED = 3, 130
WIDTH = 180  # columns of tables that go to no terminal

BaseURL = Annotated[str | None, typer.Option(metavar="URL", help="OpenAI-compatible server of the model.")]
_SET = "A parameter of the task, a phase of the system, or a setting of a run. Repeatable."
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help=_SET)]
Jobs = Annotated[int, typer.Option(min=1, help="Questions in flight; more than 1 stretches the seconds.")]
Markdown = Annotated[Path | None, typer.Option(metavar="FILE", help="Write the tables as Markdown.")]
_LOGS = "Folder of logs. [dim](the user's state folder)[/dim]"
LogDir = Annotated[Path | None, typer.Option(metavar="DIR", help=_LOGS)]


class TaskOrCommand(TyperGroup):
    """Takes anything but a sub-command for the task to run: `eval metaqa` is `eval run metaqa`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Put `run` before anything but a sub-command and a call for help."""
        if args and args[0] not in self.commands and args[0] not in HELP:
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = typer.Typer(
    cls=TaskOrCommand,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": list(HELP)},
    epilog=examples("triplewise eval metaqa --set hops=2 --limit 200", "triplewise eval run --help"),
)


@app.callback()
def about() -> None:
    """Run a benchmark with the agent or a baseline: `triplewise eval TASK`, options as in `eval run --help`.

    An evaluation that was killed or interrupted goes on where it was when the same command is run again.
    """


@app.command(
    "run",
    epilog=examples(
        "triplewise eval trex --set observe=one-hop --set reflect=random",
        "triplewise eval webqsp --system oda --jobs 4 --log-dir runs",
        "triplewise eval metaqa --model openai:M --base-url http://localhost:8000/v1",
    ),
)
def run_task(
    task: Annotated[str, typer.Argument(metavar="TASK", help=f"Benchmark: {', '.join(TASKS)}.")],
    limit: Annotated[
        int | None, typer.Option(min=0, help="Questions, drawn at random (default 1,000; 0 for all).")
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            "--system", "--preset", metavar="NAME", help="Preset or baseline that is asked (`eval systems`)."
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="M", help="embedded (no key, no network) or openai:NAME.")
    ] = None,
    base_url: BaseURL = None,
    sets: Settings = None,
    jobs: Jobs = 1,
    log_dir: LogDir = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Begin anew, whatever an earlier run left.")] = False,
    retry_crashed: Annotated[
        bool, typer.Option("--retry-crashed", help="Keep earlier results; ask only what crashed again.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a benchmark and print its scores. The log opens with `inspect view`."""
    from triplewise.evals.logs import NO_VARIANT, read_logs

    options = {"n": limit, "preset": system, "model": model, "base_url": base_url}
    settings = evaluation.parse_settings(sets or ())
    made = evaluation.make_task(task, settings | {n: v for n, v in options.items() if v is not None})
    log = evaluation.run(
        made, jobs=jobs, log_dir=log_dir, display=_display(as_json), fresh=fresh,
        retry_crashed=retry_crashed, notify=say,
    )  # fmt: skip
    if log.status != "success":
        reason = log.error.message if log.error else log.status
        say(f"the evaluation failed ({reason}); {evaluation.RESUME}", "error")
        raise typer.Exit(FAILED)
    failed, path = evaluation.crashes(log), evaluation.log_path(log)
    if as_json:
        shown: dict[str, Any] = {
            "task": log.eval.task,
            "version": log.eval.task_version,
            "arguments": log.eval.task_args,
        }
        shown |= {"about": log.eval.metadata, "scores": evaluation.scores_of(log), "crashes": dict(failed)}
        echo_json({**shown, "status": log.status, "log": log.location})
    else:
        (read,) = read_logs([path])
        print_report([read])
        own = [f"{name}={value}" for name, value in read.arguments.items() if name not in NO_VARIANT]
        for name, line in {"Of the task": ", ".join(own), "Note": read.about.get("note")}.items():
            if line:
                wide_console().print(f"{name}: {line}.")
        out().print(f"log: {path}", soft_wrap=True)
    if failed:
        name, error = failed[0]
        say(
            f"{len(failed)} questions crashed and count as wrong (first {name}: {error}); the same command "
            "with --retry-crashed asks them again",
            "error",
        )
        raise typer.Exit(FAILED)


def _display(quiet: bool = False) -> Literal["rich", "none"]:
    """What Inspect shows of its progress: nothing where no one looks at it."""
    return "rich" if sys.stdout.isatty() and not quiet else "none"


def wide_console() -> Console:
    """Return standard output, wide where it does not go to a terminal."""
    console = out()
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def print_report(logs: Sequence[Log]) -> None:
    """Print the tables of logs, and what they were measured on."""
    from triplewise.evals.report.page import show
    from triplewise.evals.report.tables import notes, report_tables

    console = wide_console()
    for table in report_tables(logs):
        show(table, console)
        console.print()
    for line in notes(logs):
        console.print(line)


def write_markdown(path: Path, logs: Sequence[Log], *about: Any, tasks: bool = False) -> None:
    """Write a report as Markdown and say so. Raises `DataError` where the file cannot be written."""
    from triplewise.evals.report.page import markdown

    with writing(path):
        path.write_text(markdown(logs, *about, tasks=tasks), encoding="utf-8")
    say(f"written: {path}")


@app.command(
    "report",
    epilog=examples(
        "triplewise eval report runs",
        "triplewise eval report runs --html report.html --markdown report.md",
    ),
)
def report(
    logs: Annotated[list[Path], typer.Argument(metavar="LOGS...", help="Logs, or folders with logs.")],
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one self-contained page, every question on it.")
    ] = None,
    markdown: Markdown = None,
    as_json: Json = False,
) -> None:
    """Make tables and tests between systems from logs of `triplewise eval` and `eval grid`.

    Logs of a grid become its table, with the published figures next to ours; all others a table of task by
    system. Every figure has its confidence interval.
    """
    from triplewise.evals.logs import read_logs
    from triplewise.evals.report.page import report_page
    from triplewise.evals.report.tables import report_tables

    for path in filter(None, (html, markdown)):  # before logs are read
        check_place(path)
    chosen = read_logs(logs, traces=html is not None)
    if html:
        write_page(html, report_page(chosen))
        say(f"written: {html}")
    if markdown:
        write_markdown(markdown, chosen)
    if as_json:
        echo_json([asdict(table) for table in report_tables(chosen)])
    elif not html and not markdown:
        print_report(chosen)


@app.command("tasks", epilog=examples("triplewise eval tasks", "triplewise eval tasks webqsp"))
def list_tasks(
    name: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Show all of one task.")] = None,
    as_json: Json = False,
) -> None:
    """List the benchmarks: questions, graph, and which share of them the graph can answer."""

    def counts(asked: Mapping[str, int | None]) -> str:
        return ", ".join(f"{count:,} {key}" for key, count in asked.items() if count is not None)

    tasks = [describe(task) for task in (TASKS if name is None else [name])]
    if as_json:
        echo_json(tasks)
        return
    if name is None:
        rows = [
            (f"{task['name']} {which}".strip(), f"{counts(asked)}\n{task['title']}; {task['graph']}")
            for task in tasks
            for which, asked in task["asked"].items()
        ]
        out().print(columns(("task", "what it asks, over what"), rows, whole=True))
        out().print(
            "observed: answerable without the facts that were made from gold answers. `triplewise eval tasks "
            "TASK` shows the rest; parameters are given as `--set hops=2`."
        )
        return
    (task,) = tasks
    rows = [(f"asked {which}".strip(), counts(asked)) for which, asked in task.pop("asked").items()]
    sets = [
        (f"--set {n}={json.dumps(v)}", catalog().parameters[n]) for n, v in task.pop("parameters").items()
    ]
    rest = ((key, ", ".join(v) if isinstance(v, list) else str(v)) for key, v in task.items())
    out().print(pairs(f"{task['name']}: {task['title']}", [*rows, *(row for row in rest if row[1]), *sets]))


@app.command("systems", epilog=examples("triplewise eval systems"))
def list_systems(as_json: Json = False) -> None:
    """List presets and baselines: what they do, the paper they follow, and what can be set."""
    listed, rows = systems(), []
    for system in listed:
        parameters = system["parameters"].items() if system["kind"] == "baseline" else ()
        about_system = [system["source"], ", ".join(f"{name}={value}" for name, value in parameters)]
        about_system += ["needs a language model"] * system["needs_model"]
        rows.append((system["name"], f"{system['summary']}\n{'; '.join(filter(None, about_system))}"))
    if as_json:
        echo_json(listed)
    else:
        out().print(columns(("system", "what it does"), rows, whole=True))
        phases = ", ".join(PRESETS["agent"].phases)
        out().print(f"Set with --set NAME=VALUE; the phases of a preset are {phases}.")


@app.command(
    "grid",
    epilog=examples(
        "triplewise eval grid queryagent-table-3 --dry-run",
        "triplewise eval grid oda-table-4 --model GPT4=openai:gpt-4o --jobs 8",
        "triplewise eval grid mine.yaml --only 'w*/GrailQA' --set plan_hops=2",
        "triplewise eval grid results --limit 200 --markdown RESULTS.md",
    ),
)
def grid(
    file: Annotated[
        str | None, typer.Argument(metavar="[FILE]", help="A YAML file, or the name of a shipped grid.")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help="Most questions a cell, 0 for all. [dim](as in the grid)[/dim]")
    ] = None,
    models: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            metavar="[NAME=]M",
            help="embedded, or openai:NAME; with NAME= for the rows of one backbone (* for any). Repeatable.",
        ),
    ] = None,
    base_url: BaseURL = None,
    sets: Settings = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ROW/COLUMN", help="Only these cells; patterns with * and ?. Repeatable."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the cells and run nothing.")] = False,
    markdown: Markdown = None,
    jobs: Jobs = 1,
    log_dir: LogDir = None,
) -> None:
    """Run a grid of ablations: rows (a system and what is swapped in it) on columns (benchmarks).

    FILE is a YAML file (evals/README.md has its form), or the name of a shipped grid; without it the shipped
    ones are listed. What --set gives goes to all cells that have such a name. Each cell leaves one log. Run
    again, the grid goes on: cells whose log is complete with the same configuration, data and code are not
    run again, one that was interrupted goes on where it was. A cell that fails is listed, and the grid goes
    on.
    """
    from triplewise.evals.grids.grid import EMBEDDED, cells_of, load_grid, shipped

    if markdown:
        check_place(markdown)
    if file is None:
        grids = [load_grid(name).grid for name in shipped()]
        rows = [(one.name, str(len(one.rows)), str(len(one.columns)), one.title) for one in grids]
        wide_console().print(columns(("name", "rows", "columns", "what"), rows, "Shipped grids", whole=True))
        return
    backbones: dict[str, str] = {}
    for name, equals, value in (model.partition("=") for model in models or ()):
        backbone, named = (name, value) if equals else ("", name)
        if backbone in backbones:
            raise ConfigurationError("--model is given twice for the same rows; NAME=openai:M is for some")
        backbones[backbone] = named
    given = evaluation.parse_settings(sets or ()) | ({"base_url": base_url} if base_url else {})
    loaded, model = load_grid(file), backbones.pop("", EMBEDDED)
    cells = cells_of(loaded, model, backbones=backbones, limit=limit, given=given, only=only or ())
    if not dry_run:
        _run_cells(loaded, cells, log_dir, jobs, markdown)
        return
    plan = []
    for cell in cells:
        swapped = [f"{name}={value}" for name, value in cell.spec.set.items()]
        swapped += [f"limit={cell.spec.limit or 'all'}"] * (cell.spec.limit is not None)
        system = f"{cell.spec.system or 'its own'} on {cell.spec.task}"
        runs = f"no: {cell.why_not}" if cell.why_not else "yes"
        plan.append((cell.name, system, cell.model, ", ".join(swapped), runs))
    title = f"{loaded.grid.title}: {sum(not cell.why_not for cell in cells)} of {len(cells)} cells to run"
    wide_console().print(columns(("cell", "system", "model", "with", "runs"), plan, title))


def _run_cells(
    file: GridFile, cells: Sequence[Cell], log_dir: Path | None, jobs: int, markdown: Path | None
) -> None:
    """Run the cells until an interrupt, then show what was measured; exits where something is wrong."""
    from triplewise.evals.grids.grid import run_grid
    from triplewise.evals.logs import read_logs

    outcomes: list[Outcome] = []
    with suppress(KeyboardInterrupt):
        for outcome in run_grid(file, cells, log_dir=log_dir, jobs=jobs, display=_display(), notify=say):
            outcomes.append(outcome)
            if outcome.state != "skipped":
                say(f"{len(outcomes)}/{len(cells)} {outcome.line()}")
    if paths := [evaluation.log_path(outcome.log) for outcome in outcomes if outcome.log]:
        logs = read_logs(paths)
        print_report(logs)
        if markdown:
            lead = [f"Made by: triplewise eval grid {file.grid.name}", *file.grid.notes.splitlines()]
            lead += [f"NOT RUN TO ITS END: {o.cell.column}: {o.why}" for o in outcomes if o.why]
            write_markdown(markdown, logs, file.grid.title, lead, tasks=True)
    skipped = [outcome for outcome in outcomes if outcome.state == "skipped"]
    for why in dict.fromkeys(outcome.why for outcome in skipped):
        say(f"skipped: {', '.join(o.cell.name for o in skipped if o.why == why)}: {why}", "notice")
    failed = [outcome for outcome in outcomes if outcome.state == "failed"]
    for outcome in failed:
        say(outcome.line(), "error")
    for folder in sorted({path.parent.parent for path in paths}):
        say(f"logs: {folder} (triplewise eval report makes a page of them)")
    if len(outcomes) < len(cells):
        say(f"interrupted: {len(cells) - len(outcomes)} cells left; run the same again to go on", "notice")
        raise typer.Exit(INTERRUPTED)
    if failed:
        raise typer.Exit(FAILED)
