"""Runs every shipped task with the embedded default; what was run already by the same code is kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml
from inspect_ai import Task
from inspect_ai.log import list_eval_logs, read_eval_log

from triplewise.evals.running import TASKS, make_task, run
from triplewise.tools.core.errors import TriplewiseError

MARK = "results"
"""Key of a log's metadata with the digest of what it was run with."""
_CODE = ("tools", "guidelines", "nodes", "graphs", "evals")
_NO_PART = (
    "evals/report/",
    "evals/results.py",
    "evals/logged.py",
    "evals/grid",
    "evals/bench/",
    "graphs/page/",
    "graphs/cli/",
    "__pycache__",
)
_KINDS = (".py", ".yaml", ".jinja", ".gz")


@dataclass(frozen=True, slots=True)
class Shipped:
    """One run: a task by name with its arguments."""

    task: str
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The task with its arguments."""
        told = " ".join(f"{name}={str(value).lower()}" for name, value in self.arguments.items())
        return f"{self.task} {told}".strip()


@dataclass(frozen=True, slots=True)
class Done:
    """What became of a run: its log, or why there is none. `kept`: it was there already."""

    shipped: Shipped
    log: Path | None
    kept: bool = False
    why: str = ""


def all_shipped() -> list[Shipped]:
    """Every task, each with the arguments that the results are of."""
    text = (files("triplewise.evals.report") / "shipped.yaml").read_text(encoding="utf-8")
    listed: Mapping[str, list[dict[str, Any]]] = yaml.safe_load(text)
    return [Shipped(task, given) for task in TASKS for given in listed.get(task) or [{}]]


def run_shipped(
    shipped: list[Shipped], limit: int, folder: Path, *, tell: Callable[[Shipped], None] = lambda run: None
) -> Iterator[Done]:
    """Run each to its end, or take its finished log. One that cannot be run does not end the others.

    Args:
        shipped: what to run. limit: questions of each, 0 for all. folder: of the logs. tell: told what comes.
    """
    finished = _finished(folder)
    for one in shipped:
        tell(one)
        try:
            task = make_task(one.task, {**one.arguments, "n": limit})
        except TriplewiseError as error:
            yield Done(one, None, why=str(error))
            continue
        mark = _mark(one, task)
        if mark in finished:
            yield Done(one, finished[mark], kept=True)
            continue
        task.metadata = {**(task.metadata or {}), MARK: mark}
        log = run(task, log_dir=folder)
        if log.status == "cancelled":
            raise KeyboardInterrupt
        why = "" if log.status == "success" else f"it ended with status {log.status}"
        yield Done(one, Path(log.location.removeprefix("file://")), why=why)


def _finished(folder: Path) -> dict[str, Path]:
    """Digest -> log of what was run to its end in a folder."""
    found: dict[str, Path] = {}
    if not folder.is_dir():
        return found
    for info in list_eval_logs(str(folder)):
        try:
            log = read_eval_log(info, header_only=True)
        except (OSError, ValueError, KeyError):  # cut off: run again
            continue
        mark = (log.eval.metadata or {}).get(MARK)
        if mark and log.status == "success":
            found[str(mark)] = Path(info.name.removeprefix("file://"))
    return found


def _mark(one: Shipped, task: Task) -> str:
    """A digest of all that the figures depend on: code, questions, graph, arguments."""
    about = task.metadata or {}
    told = {
        "code": _code(),
        "task": [one.task, dict(one.arguments), task.version],
        "questions": [str(sample.id) for sample in task.dataset],
        "data": [about.get("data_files"), about.get("kg_checksum")],
    }
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


@cache
def _code() -> str:
    """A digest of the code and data of the packages, without what no figure depends on."""
    digest = hashlib.sha256()
    root = Path(__file__).resolve().parent.parent.parent
    for room in _CODE:
        for path in sorted((root / room).rglob("*")):
            name = path.relative_to(root).as_posix()
            if path.suffix in _KINDS and not any(part in name for part in _NO_PART):
                digest.update(f"{name}\0{hashlib.sha256(path.read_bytes()).hexdigest()}\0".encode())
    return digest.hexdigest()
