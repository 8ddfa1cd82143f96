"""Runs a benchmark: a task by name and settings, through Inspect, with small logs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog
from platformdirs import user_state_path

from triplewise.evals import tasks
from triplewise.nodes import VARIANTS
from triplewise.nodes.context import Context
from triplewise.tools.errors import ConfigurationError

TASKS: Mapping[str, Callable[..., Task]] = {name: getattr(tasks, name) for name in tasks.__all__}


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
        log_realtime=False,
        score_display=False,
        ctl_server=False,
        display=display,  # type: ignore[arg-type]
    )
    return logs[0]
