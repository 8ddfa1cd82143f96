"""`triplewise eval`: run a benchmark, print its scores; grids, reports and lists as sub-commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from inspect_ai.log import EvalLog
from typer.core import TyperGroup

from triplewise.evals import systems
from triplewise.evals.evaluation import (
    RESUME,
    TASKS,
    crashes,
    log_path,
    make_task,
    parse_settings,
    run,
    scores_of,
)
from triplewise.evals.grids import command as grid
from triplewise.evals.report import command as report
from triplewise.evals.tasks import task_list
from triplewise.graphs.cli.console import examples, out, say

HELP = ("-h", "--help")


class TaskOrCommand(TyperGroup):
    """Takes what is no sub-command for the task to run: `eval metaqa` is `eval run metaqa`."""

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
    epilog=examples(
        "triplewise eval metaqa --set hops=2 --limit 200",
        "triplewise eval webqsp --system oda --jobs 4",
        "triplewise eval qald10 --model openai:gpt-4o-mini --jobs 64 --log-dir runs",
        "triplewise eval run --help",
    ),
)


@app.callback()
def about() -> None:
    """Run a benchmark with the agent or a baseline: `triplewise eval TASK`, options as in `eval run --help`.

    An evaluation that was killed or interrupted goes on where it was when the same command is run again.
    """


@app.command(
    "run",
    epilog=examples(
        "triplewise eval metaqa --set hops=2 --limit 200",
        "triplewise eval webqsp --set linking=own",
        "triplewise eval trex --set observe=one-hop --set reflect=random",
        "triplewise eval metaqa --system queryagent --model openai:NAME --base-url http://localhost:8000/v1",
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
            "--system",
            "--preset",
            metavar="NAME",
            help="Preset or baseline that is asked. See `eval systems`.",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="M", help="embedded (no key, no network) or openai:NAME.")
    ] = None,
    base_url: Annotated[
        str | None, typer.Option(metavar="URL", help="OpenAI-compatible server of the model.")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="A parameter of the task, a phase of the system, or a setting of a run. Repeatable.",
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Questions in flight; more than 1 stretches the seconds.")
    ] = 1,
    log_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder for the log. [dim](the user's state folder)[/dim]"),
    ] = None,
    fresh: Annotated[
        bool,
        typer.Option("--fresh", help="Begin anew, whatever an earlier run left."),
    ] = False,
    retry_crashed: Annotated[
        bool,
        typer.Option(
            "--retry-crashed", help="Keep the results of an earlier run; ask only what crashed again."
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Run a benchmark and print its scores. The log opens with `inspect view`."""
    options = {"n": limit, "preset": system, "model": model, "base_url": base_url}
    settings = parse_settings(sets or ())
    settings |= {name: value for name, value in options.items() if value is not None}
    log = run(
        make_task(task, settings),
        jobs=jobs,
        log_dir=log_dir,
        display="rich" if sys.stderr.isatty() and not as_json else "none",
        fresh=fresh,
        retry_crashed=retry_crashed,
        samples=False,
        notify=say,
    )
    if log.status != "success":
        reason = log.error.message if log.error else log.status
        say(f"the evaluation failed ({reason}); {RESUME}", "error")
        raise typer.Exit(3)
    if not as_json:
        print_summary(log)
        return
    summary = {
        "task": log.eval.task,
        "version": log.eval.task_version,
        "arguments": log.eval.task_args,
        "about": log.eval.metadata,
        "scores": scores_of(log),
        "crashes": dict(crashes(log)),
        "status": log.status,
        "log": log.location,
    }
    typer.echo(json.dumps(summary, indent=2, ensure_ascii=False))


def print_summary(log: EvalLog) -> None:
    """Print a log's tables: how right, at what cost, what crashed, and what it was measured on."""
    from triplewise.evals.logs import read_logs
    from triplewise.evals.report.labels import notes
    from triplewise.evals.report.page import report_tables

    logs = read_logs([log_path(log)])
    report.show(report_tables(logs))
    about = logs[0].about.get("note")
    for line in [*notes(logs), *([f"Note: {about}."] if about else []), f"log: {log_path(log)}"]:
        out().print(line, highlight=False, soft_wrap=True, markup=False)


for part in (grid, report, task_list, systems):
    part.register(app)
