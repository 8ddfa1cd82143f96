"""Runs a benchmark through Inspect: a task by name and settings; an interrupted one goes on where it was.

Every evaluation has a folder of its own, named after all that decides its results. Inspect's `eval_set` goes
on with the log that it finds there: finished questions are never asked twice, also after `kill -9`.
"""

from __future__ import annotations

import fcntl
import hashlib
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlparse

import yaml
from inspect_ai import Task, eval_set
from inspect_ai.log import (
    EvalLog,
    ProvenanceData,
    RecoveryNotAvailable,
    invalidate_samples,
    list_eval_logs,
    read_eval_log,
    read_eval_log_sample_summaries,
    recover_eval_log,
    write_eval_log,
)
from inspect_ai.util import store_from_events
from platformdirs import user_state_path

from triplewise.evals import tasks
from triplewise.evals.provenance import code_checksum
from triplewise.evals.record import CRASHED
from triplewise.evals.systems import parts_of
from triplewise.nodes.context import Context
from triplewise.tools.core.errors import ConfigurationError

TASKS: Mapping[str, Callable[..., Task]] = {name: getattr(tasks, name) for name in tasks.__all__}

RESUME = "the same command goes on from there"


def make_task(name: str, given: Mapping[str, Any]) -> Task:
    """Return a task by name, with values for its own parameters, phases of the graph, or settings of a run.

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
    display: str = "none",
    fresh: bool = False,
    retry_crashed: bool = False,
    identity: str = "",
    samples: bool = True,
    notify: Callable[[str], None] = lambda line: None,
) -> EvalLog:
    """Run one task to its end and return its log; one that was killed goes on where it was.

    An evaluation that is finished is not run again: its log is returned.

    Args:
        task: what to run. jobs: questions in flight.
        log_dir: folder in which the evaluation has its own (default: the user's state folder).
        display: Inspect's display (`none`, `plain`, `rich`, `full`).
        fresh: begin anew, in another folder, also where an earlier run of the same evaluation left results.
        retry_crashed: keep the results of an earlier run, finished or not, and ask only what crashed again.
        identity: what tells this evaluation from others (default: `identity_of`).
        samples: whether the returned log holds the questions. notify: gets what a person should know.

    Raises:
        ConfigurationError: another process is running the same evaluation.
        KeyboardInterrupt: it was interrupted; what is done is kept.
    """
    root = Path(log_dir) if log_dir is not None else default_log_dir()
    folder = _folder(root / f"{plain_name(task.name)}-{identity or identity_of(task)}", fresh)
    folder.mkdir(parents=True, exist_ok=True)
    with _locked(folder):
        if (earlier := latest_log(folder)) is not None and _is_finished(earlier, retry_crashed, notify):
            return read_eval_log(earlier.location) if samples else earlier
        _, logs = eval_set(
            task,
            log_dir=str(folder),
            log_dir_allow_dirty=True,
            model=None,
            retry_attempts=0,
            retry_immediate=False,
            max_samples=jobs,
            log_buffer=50,  # what is not in the log yet is in Inspect's buffer on disk
            log_realtime=True,
            score_display=False,
            ctl_server=False,
            display=display,  # type: ignore[arg-type]
        )
        log = latest_log(folder)
        if not logs or log is None or log.status == "cancelled":
            if log is not None:
                notify(f"{_done(log)} of {len(task.dataset)} questions are done and kept; {RESUME}")
            raise KeyboardInterrupt
        if log.status == "success":
            for path in folder.glob("*.eval"):  # the finished log holds all that earlier attempts' do
                if path.resolve() != log_path(log).resolve():
                    path.unlink()
    return read_eval_log(log.location) if samples else log


def default_log_dir() -> Path:
    """Return the folder of logs in the user's state folder."""
    return user_state_path("triplewise") / "evals"


def identity_of(task: Task) -> str:
    """Return a checksum of everything that decides an evaluation's results, the code included."""
    volatile = ("commit", "commit_clean")
    about = {name: value for name, value in (task.metadata or {}).items() if name not in volatile}
    asked = [[sample.id, str(sample.input), sample.target] for sample in task.dataset]
    return digest([task.name, task.version, about, asked, task.epochs, code_checksum()])


def digest(value: Any) -> str:
    """Return the first 16 digits of a value's checksum."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def find_log(log_dir: Path, task: Task, identity: str) -> EvalLog | None:
    """Return the newest log of an evaluation without its questions, None where there is none."""
    return latest_log(_folder(log_dir / f"{plain_name(task.name)}-{identity}", fresh=False))


def latest_log(folder: Path) -> EvalLog | None:
    """Return the header of the newest log in a folder that can be read."""
    if not folder.is_dir():
        return None
    for info in sorted(list_eval_logs(str(folder)), key=lambda info: info.mtime or 0.0, reverse=True):
        try:
            return read_eval_log(info, header_only=True)
        except (OSError, ValueError, KeyError):
            continue
    return None


def plain_name(task: str) -> str:
    """Return a task's name without the package that Inspect puts before it."""
    return task.rpartition("/")[2]


def scores_of(log: EvalLog) -> dict[str, float]:
    """Return every figure of a log as `score.metric`; none of an evaluation that did not end."""
    scores = log.results.scores if log.results else []
    return {f"{s.name}.{plain_name(name)}": float(m.value) for s in scores for name, m in s.metrics.items()}


def crashes(log: EvalLog) -> list[tuple[str, str]]:
    """Return id and error of every question that crashed."""
    return [(str(s.id), s.error) for s in read_eval_log_sample_summaries(log.location) if s.error]


def log_path(log: EvalLog) -> Path:
    """Return the file of a log."""
    return Path(unquote(urlparse(log.location).path))


def _folder(base: Path, fresh: bool) -> Path:
    """The folder of the latest start of an evaluation (`NAME`, `NAME.2`, ...), or of one more."""
    number, folder = 1, base
    while (following := base.with_name(f"{base.name}.{number + 1}")).is_dir():
        number, folder = number + 1, following
    return following if fresh and folder.is_dir() else folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold a folder; the lock goes with the process, however that ends."""
    with (folder / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise ConfigurationError(
                f"another process is running this evaluation (in {folder}); wait for it, or give another "
                "--log-dir"
            ) from error
        yield


def _is_finished(earlier: EvalLog, retry_crashed: bool, notify: Callable[[str], None]) -> bool:
    """Whether an earlier run left nothing to ask; with `retry_crashed`, its crashed questions are invalid."""
    if earlier.status == "started":
        earlier = _recover(earlier)
    if earlier.status != "success":
        notify(f"goes on with an earlier run: {_done(earlier)} questions are done")
    elif retry_crashed and (failed := [s.uuid for s in _summaries(earlier) if s.error and s.uuid]):
        author = ProvenanceData(author="triplewise eval --retry-crashed", reason="crashed")
        write_eval_log(invalidate_samples(read_eval_log(earlier.location), failed, author), earlier.location)
        notify(f"asks again what crashed: {len(failed)} questions")
    else:
        notify("this evaluation is finished, its results follow; --fresh runs it anew")
        return True
    return False


def _recover(killed: EvalLog) -> EvalLog:
    """Complete the log of a killed run with what Inspect has on disk, where stores are kept as events."""
    try:
        log = recover_eval_log(killed.location, overwrite=True, cleanup=False)
    except RecoveryNotAvailable:
        return killed  # no question was done yet
    log = read_eval_log(log.location, resolve_attachments="full")
    for sample in log.samples or ():
        sample.store = sample.store or dict(store_from_events(sample.events).items())
    # What was scored but whose run is not on disk is asked again.
    log.samples = [
        sample
        for sample in log.samples or ()
        if sample.error or sample.store.get("Run:status", CRASHED) != CRASHED
    ]
    write_eval_log(log, log.location)
    return log


def _done(log: EvalLog) -> int:
    """How many questions of a log need not be asked again when it goes on."""
    return sum(not summary.error for summary in _summaries(log))


def _summaries(log: EvalLog) -> list[Any]:
    return list(read_eval_log_sample_summaries(log.location))
