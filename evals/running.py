"""Runs a benchmark: a task by name and settings, through Inspect, with small logs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import yaml
from inspect_ai import Task
from inspect_ai import eval as inspect_eval
from inspect_ai.log import EvalLog, list_eval_logs, read_eval_log
from platformdirs import user_state_path

from triplewise.evals import tasks
from triplewise.evals.journal import Journal, journaled, key_of
from triplewise.evals.systems import parts_of
from triplewise.evals.workers import workers_for, working
from triplewise.nodes.context import Context
from triplewise.tools.core.errors import ConfigurationError

TASKS: Mapping[str, Callable[..., Task]] = {name: getattr(tasks, name) for name in tasks.__all__}

GO_ON = "the same command goes on from there"


def make_task(name: str, given: Mapping[str, Any]) -> Task:
    """A task by name, with values for its own parameters, phases of the graph, or settings of the context.

    A name that is both a parameter of the baseline that is asked and a setting is the baseline's.

    Raises:
        ConfigurationError: unknown task or name; lists the legal ones.
    """
    if name not in TASKS:
        raise ConfigurationError.unknown("task", name, TASKS)
    own = set(inspect.signature(TASKS[name]).parameters)
    arguments: dict[str, Any] = {key: value for key, value in given.items() if key in own}
    rest = {key: value for key, value in given.items() if key not in own}
    parts = parts_of(str(given.get("preset", "")))
    phases = {key: rest.pop(key) for key in list(rest) if key in parts}
    if unknown := set(rest) - set(Context.__dataclass_fields__):
        legal = {*own, *parts, *Context.__dataclass_fields__}
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


def run(
    task: Task,
    *,
    jobs: int = 1,
    log_dir: Path | str | None = None,
    display: str = "none",
    fresh: bool = False,
    retry_crashed: bool = False,
    workers: int | None = None,
    told: Callable[[str], None] = lambda line: None,
) -> EvalLog:
    """Run one task with small logs; one that was killed goes on where it was.

    Args:
        task: what to run. jobs: questions in flight.
        log_dir: folder of the log (default: the user's state folder).
        display: Inspect's display (`none`, `plain`, `rich`, `full`).
        fresh: begin anew, also where an earlier run of the same evaluation left results.
        retry_crashed: take the results of an earlier run, finished or not, and ask what crashed again.
        workers: processes that the questions in flight are spread over, 0 for this one alone; by default one
            for each 16 in flight, at most one a core.
        told: gets what a person should know, a line each.

    Raises:
        ConfigurationError: another process is running the same evaluation.
        KeyboardInterrupt: it was interrupted; what is done is kept.
    """
    folder = Path(log_dir) if log_dir is not None else user_state_path("triplewise") / "evals"
    key = key_of(task)
    journal = _opened(folder, f"{plain_name(task.name)}-{key}", fresh, retry_crashed)
    if len(journal):
        told(f"goes on with an earlier run: {len(journal)} of {len(task.dataset)} questions are done")
    asked, task.solver = task.solver, journaled(task.solver, journal)
    task.metadata = {**(task.metadata or {}), "evaluation": key}
    try:
        with working(workers_for(jobs) if workers is None else workers, jobs):
            log = _through_inspect(task, folder, jobs, display)
        if log.status == "success":
            journal.finish()
            _sweep(folder, log)
    except KeyboardInterrupt:
        told(f"{len(journal)} of {len(task.dataset)} questions are done and kept; {GO_ON}")
        raise
    finally:
        task.solver = asked
        journal.close()
    return log


def _opened(folder: Path, name: str, fresh: bool, retry_crashed: bool) -> Journal:
    """The journal of the evaluation, with what may be taken from an earlier run of it."""
    journal = Journal(folder, name)
    if retry_crashed:
        journal.forget(crashed_only=True)
    elif fresh or journal.finished:
        journal.forget()
    return journal


def _through_inspect(task: Task, folder: Path, jobs: int, display: str) -> EvalLog:
    """The log of an evaluation that ended. Raises KeyboardInterrupt if it was interrupted."""
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
    if not logs or logs[0].status == "cancelled":
        raise KeyboardInterrupt
    return logs[0]


def _sweep(folder: Path, finished: EvalLog) -> None:
    """Delete the logs that earlier, killed runs of an evaluation left: this one holds it all."""
    key = (finished.eval.metadata or {})["evaluation"]

    def superseded(log: EvalLog) -> bool:
        return log.status != "success" and (log.eval.metadata or {}).get("evaluation") == key

    for info in list_eval_logs(str(folder), recursive=False):
        if info.task == plain_name(finished.eval.task):
            path = Path(unquote(urlparse(info.name).path))
            if superseded(read_eval_log(str(path), header_only=True)):
                path.unlink(missing_ok=True)


def plain_name(task: str) -> str:
    """A task's name without the package that Inspect puts before it."""
    return task.rpartition("/")[2]
