"""Runs a benchmark through Inspect: a task by name and settings; an interrupted one goes on where it was.

Every evaluation has a folder named after all that decides its results, whose log `eval_set` goes on with.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlparse

import yaml
from inspect_ai import Task, eval_set, log as logs
from inspect_ai.util import store_from_events

from triplewise.evals.baselines import find_system
from triplewise.evals.data import checksum
from triplewise.evals.scorers import plain_name
from triplewise.evals.solver import CRASHED
from triplewise.evals.tasks import ROOT, TASKS
from triplewise.graphs.presets import VARIANTS
from triplewise.nodes.context import Context
from triplewise.tools.core.addresses import hide_secrets
from triplewise.tools.core.configuration import find_part
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import exclusive, make_folder, state_folder

_ELSEWHERE = ("base_url", "api_key_env")  # settings that say where a model is, not which
_FILES = ("seeds", "examples", "prompt", "profile")  # settings that may name a file, whose content counts

LAYERS = ("tools", "guidelines", "nodes", "graphs", "evals")
PRESENTATION = (
    "evals/report/", "evals/command.py", "evals/logs.py", "evals/statistics.py", "evals/grids/",
    "evals/bench.py", "graphs/page/", "graphs/cli/", "__pycache__",
)  # fmt: skip
"""Paths that no figure depends on."""

RESUME = "the same command goes on from there"


def find_task(given: str) -> Callable[..., Task]:
    """Return the function that makes a task: see `find_part`."""
    return cast("Callable[..., Task]", find_part("task", given, TASKS, callable))


def names_of(task: str) -> list[str]:
    """Return what can be set by name: parameters of a task, phases of a system, settings of a run."""
    parameters = inspect.signature(find_task(task)).parameters
    return list(dict.fromkeys([*parameters, *VARIANTS, *Context.__dataclass_fields__]))


def task_arguments(name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a task's arguments from values by name. Raises `ConfigurationError` with the legal names."""
    own, legal = inspect.signature(find_task(name)).parameters, names_of(name)
    find_system(given.get("preset") or "agent")
    if unknown := next((key for key in given if key not in legal), ""):
        raise ConfigurationError.unknown("name to set", unknown, legal)
    arguments = {key: value for key, value in given.items() if key in own}
    phases = {key: value for key, value in given.items() if key in VARIANTS and key not in own}
    settings = {key: value for key, value in given.items() if key not in {*own, *VARIANTS}}
    for key, value in phases.items():
        find_part(f"variant of phase {key}", value, VARIANTS[key], callable)
    # Values are checked now, but the reader of documents is named by the evaluation.
    Context(**{key: value for key, value in settings.items() if key != "documents"})
    if phases:
        arguments["phases"] = {**(arguments.get("phases") or {}), **phases}
    if settings := {**(arguments.get("settings") or {}), **settings}:  # Inspect writes all into its log
        arguments["settings"] = {key: hide_secrets(value) for key, value in settings.items()}
    return arguments


def make_task(name: str, given: Mapping[str, Any]) -> Task:
    """Return a task by name; see `task_arguments`, whose errors are raised, and those of the task itself."""
    return find_task(name)(**task_arguments(name, given))


def parse_settings(pairs: Sequence[str]) -> dict[str, Any]:
    """Read `name=value` pairs, values as YAML. Raises `ConfigurationError` on anything else."""
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
    notify: Callable[[str], None] = lambda line: None,
) -> logs.EvalLog:
    """Run one task to its end and return its log without the questions (`read_eval_log` has them).

    One that was killed goes on where it was, of one that ran to its end only what crashed is asked again.
    Raises `ConfigurationError` where another process runs it, and KeyboardInterrupt where it was interrupted;
    what is done is kept.
    """
    folder = folder_of(Path(log_dir or state_folder() / "evals"), task)
    make_folder(folder)
    busy = f"another process is running this evaluation (in {folder}); wait for it, or give another --log-dir"
    with exclusive(folder / ".lock", ConfigurationError(busy)):
        log = latest_log(folder)
        if log is not None and log.status == "started":
            log = _recover(log)
        if log is not None and log.status == "success":
            summaries = logs.read_eval_log_sample_summaries(log.location)
            failed = [summary.uuid for summary in summaries if summary.error and summary.uuid]
            if not failed:
                notify("this evaluation is finished, its results follow; another --log-dir runs it anew")
                return log
            author = logs.ProvenanceData(author="triplewise eval", reason="crashed")
            whole = logs.invalidate_samples(logs.read_eval_log(log.location), failed, author)
            logs.write_eval_log(whole, log.location)
            notify(f"asks again what crashed: {len(failed)} questions")
        elif log is not None:
            notify(f"goes on with an earlier run: {_done(log)} questions are done")
        eval_set(
            task, log_dir=str(folder), log_dir_allow_dirty=True, model=None, max_samples=jobs,
            retry_attempts=0, retry_immediate=False, score_display=False, ctl_server=False,
            log_buffer=50,  # the whole log is written each time; the rest is in Inspect's buffer on disk
            log_realtime=True, display="rich" if sys.stdout.isatty() else "none",
        )  # fmt: skip
        log = latest_log(folder)
        if log is None or log.status == "cancelled":
            if log is not None:
                notify(f"{_done(log)} of {len(task.dataset)} questions are done and kept; {RESUME}")
            raise KeyboardInterrupt
    return log


def folder_of(root: Path, task: Task) -> Path:
    """Return the folder of an evaluation's logs, named after all that decides its results.

    That is the code too, and in a grid the place there, but not where a model is served.
    """
    about = dict(task.metadata or {})
    place = [about.pop("grid", {}).get(key) for key in ("row", "column")]
    settings = {name: value for name, value in about.pop("settings", {}).items() if name not in _ELSEWHERE}
    for name in _FILES:
        if isinstance(path := settings.get(name), str) and Path(path).is_file():
            settings[name] = [path, checksum(Path(path))]
    about = {name: value for name, value in about.items() if name not in ("commit", "commit_clean")}
    asked = [[sample.id, str(sample.input), sample.target] for sample in task.dataset]
    decides = [task.name, task.version, about, settings, place, asked, task.epochs, code_checksum()]
    text = json.dumps(decides, sort_keys=True, ensure_ascii=False, default=str)
    return root / f"{plain_name(task.name)}-{hashlib.sha256(text.encode()).hexdigest()[:16]}"


@cache
def code_checksum() -> str:
    """Return a checksum of the code and data of the packages, without what no figure depends on."""
    total = hashlib.sha256()
    for path in (path for layer in LAYERS for path in sorted((ROOT / layer).rglob("*.*"))):
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in (".py", ".yaml", ".jinja", ".gz") and not any(p in name for p in PRESENTATION):
            total.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    return total.hexdigest()


def latest_log(folder: Path) -> logs.EvalLog | None:
    """Return the newest log in a folder that can be read, without its questions."""
    found = logs.list_eval_logs(str(folder)) if folder.is_dir() else []
    for info in sorted(found, key=lambda info: info.mtime or 0.0, reverse=True):
        try:
            return logs.read_eval_log(info, header_only=True)
        except (OSError, ValueError, KeyError):
            continue
    return None


def _recover(killed: logs.EvalLog) -> logs.EvalLog:
    """Complete the log of a killed run with what Inspect has on disk, where stores are kept as events."""
    try:
        log = logs.recover_eval_log(killed.location, overwrite=True, cleanup=False)
    except logs.RecoveryNotAvailable:
        return killed  # no question was done yet
    log = logs.read_eval_log(log.location, resolve_attachments="full")
    for sample in log.samples or ():
        sample.store = sample.store or dict(store_from_events(sample.events).items())
    # Questions whose run is not on disk are repeated even if they were scored.
    log.samples = [s for s in log.samples or () if s.error or s.store.get("Run:status", CRASHED) != CRASHED]
    logs.write_eval_log(log, log.location)
    return log


def _done(log: logs.EvalLog) -> int:
    return sum(not summary.error for summary in logs.read_eval_log_sample_summaries(log.location))


def crashes(log: logs.EvalLog) -> list[tuple[str, str]]:
    """Return id and error of every question that crashed."""
    summaries = logs.read_eval_log_sample_summaries(log.location)
    return [(str(summary.id), summary.error) for summary in summaries if summary.error]


def log_path(log: logs.EvalLog) -> Path:
    """Return the file of a log."""
    return Path(unquote(urlparse(log.location).path))
