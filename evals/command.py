"""`python -m triplewise.evals TASK`: run a benchmark, print its scores."""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml
from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog
from platformdirs import user_state_path
from rich.console import Console

from triplewise.evals import tasks
from triplewise.evals.table import crashes, render, scores_of
from triplewise.nodes import VARIANTS
from triplewise.nodes.context import Context
from triplewise.tools.errors import ConfigurationError, UserError

TASKS: Mapping[str, Callable[..., Task]] = {name: getattr(tasks, name) for name in tasks.__all__}

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


def make_task(name: str, given: Mapping[str, Any]) -> Task:
    """A task by name, with values for its own parameters, phases of the graph, or settings of the context.

    Raises:
        ConfigurationError: unknown task or name; lists the legal ones.
    """
    if name not in TASKS:
        raise ConfigurationError.unknown("task", name, TASKS)
    own = set(inspect.signature(TASKS[name]).parameters)
    arguments: dict[str, Any] = {key: value for key, value in given.items() if key in own}
    rest = {key: value for key, value in given.items() if key not in own}
    phases = {key: rest.pop(key) for key in list(rest) if key in VARIANTS}
    if unknown := set(rest) - set(Context.__dataclass_fields__):
        legal = [*own, *VARIANTS, *Context.__dataclass_fields__]
        raise ConfigurationError.unknown("name in --set", unknown.pop(), legal)
    for key, values in (("phases", phases), ("settings", rest)):
        if values:
            arguments[key] = {**arguments.get(key, {}), **values}
    return TASKS[name](**arguments)


def run(task: Task, *, jobs: int = 1, log_dir: Path | str | None = None, display: str = "none") -> EvalLog:
    """Run one task with small logs.

    Args:
        task: what to run. jobs: questions in flight.
        log_dir: folder of the log (default: the user's state folder).
        display: Inspect's display (`none`, `plain`, `rich`, `full`).
    """
    folder = Path(log_dir) if log_dir is not None else user_state_path("triplewise") / "evals"
    logs = inspect_eval(
        task,
        model=None,
        max_samples=jobs,
        log_dir=str(folder),
        log_buffer=50,
        score_display=False,
        ctl_server=False,
        display=display,  # type: ignore[arg-type]
    )
    return logs[0]


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """`name=value` pairs, values read as YAML. Raises `ConfigurationError` on anything else."""
    given: dict[str, Any] = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise ConfigurationError(f"--set takes name=value, got {pair!r}")
        try:
            given[name.strip()] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ConfigurationError(f"--set {pair!r}: the value is not YAML ({error})") from error
    return given


@app.command()
def main(
    task: Annotated[str, typer.Argument(help=f"Benchmark: {', '.join(TASKS)}.")],
    limit: Annotated[
        int | None, typer.Option(help="Questions, drawn at random (default 1,000; 0 for all).")
    ] = None,
    sets: Annotated[
        list[str] | None,
        typer.Option(
            "--set", help="name=value: a parameter of the task, a phase, or a setting of the context."
        ),
    ] = None,
    jobs: Annotated[
        int, typer.Option(min=1, help="Questions in flight; more than 1 stretches the seconds.")
    ] = 1,
    log_dir: Annotated[Path | None, typer.Option(help="Folder for the log.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the scores as JSON.")] = False,
) -> None:
    """Run a benchmark with the agent and print its scores. The log opens with `inspect view`."""
    errors = Console(stderr=True)
    try:
        given = parse_settings(sets or ()) | ({} if limit is None else {"n": limit})
        chosen = make_task(task, given)
    except UserError as error:
        errors.print(f"error: {error}", style="red", markup=False, highlight=False)
        raise typer.Exit(2) from error
    log = run(
        chosen, jobs=jobs, log_dir=log_dir, display="rich" if errors.is_terminal and not as_json else "none"
    )
    if as_json:
        typer.echo(json.dumps(_summary(log), indent=2, ensure_ascii=False))
    else:
        console = Console(width=None if sys.stdout.isatty() else 200)
        console.print(render(log))
        console.print(f"log: {log.location}", highlight=False, soft_wrap=True)
    if log.status != "success":
        errors.print(f"the evaluation ended with status {log.status}", style="red")
        raise typer.Exit(3)


def _summary(log: EvalLog) -> dict[str, Any]:
    return {
        "task": log.eval.task,
        "version": log.eval.task_version,
        "arguments": log.eval.task_args,
        "about": log.eval.metadata,
        "scores": scores_of(log),
        "crashes": dict(crashes(log)),
        "status": log.status,
        "log": log.location,
    }
