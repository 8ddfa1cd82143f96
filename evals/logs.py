"""Logs of evaluations read into pandas: what reports, tables, plots and comparisons are made from.

>>> from triplewise.evals.logs import read_logs
>>> [(log.task, log.system, log.mean(log.metric)) for log in read_logs(["logs"])]
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import pandas as pd
from inspect_ai.log import (
    EvalLog,
    EvalSample,
    read_eval_log,
    read_eval_log_sample_summaries,
    read_eval_log_samples_by_id,
)

from triplewise.evals.record import Run, error_class
from triplewise.nodes.context import Context
from triplewise.tools.core.errors import DataError

SUFFIX = ".eval"
PRIMARY = ("denotation", "f1", "accuracy", "hits_at_1", "exact_match")
"""Main measures of tasks, the first that a task has."""

EFFORT: Mapping[str, Callable[[Run], float | None]] = {
    "seconds": lambda run: run.seconds,
    "queries": lambda run: run.queries,
    "steps": lambda run: run.steps,
    "model_calls": lambda run: run.model_calls,
    "tokens": lambda run: run.input_tokens + run.output_tokens,
    "input_tokens": lambda run: run.input_tokens,
    "output_tokens": lambda run: run.output_tokens,
    "cost": lambda run: run.cost,
    "corrections": lambda run: len(run.corrections),
    "not_found": lambda run: run.status == "not_found",
    "budget_spent": lambda run: run.status == "budget_spent",
    "proven": lambda run: run.proof > 0,
}
"""What a run took and how it ended: measures of every log, read from the runs."""

_FIXED = ("id", "question", "gold", "run", "error", "tags", "answerable", "trivial", "error_class")
"""Columns of `Log.questions` before its measures."""
_BLOCK = 200
_UNUSED_FIELDS = {"events", "events_data", "messages", "attachments", "timelines", "output"}
_NO_VARIANT = {"n", "sample_seed", "preset", "model", "settings", "phases", "seed"}
_OF_THIS_MACHINE = {"kg", "profile", "model", "seeds", "db"}


@dataclass(frozen=True)
class Log:
    """One log.

    Attributes:
        path: the log. header: it without its questions.
        questions: one a row, by id: question, gold (texts), run (`Run`), error ("" if it did not crash), tags
            (mapping), answerable (whether the graph can answer it; None where nobody said), trivial (whether
            an empty graph would be right), error_class (see `record`; "" if it was answered
            right), and a column for each measure, NaN where it does not apply.
    """

    path: str
    header: EvalLog
    questions: pd.DataFrame

    @property
    def about(self) -> Mapping[str, Any]:
        """What it was measured on and with: the metadata of the task."""
        return self.header.eval.metadata or {}

    @property
    def cell(self) -> Mapping[str, Any]:
        """Its place in a grid (name, title, row, column, seed, ...); empty outside of grids."""
        return self.about.get("grid") or {}

    @property
    def task(self) -> str:
        """The task's name without its package."""
        return self.header.eval.task.rpartition("/")[2]

    @property
    def version(self) -> str:
        """The task's version."""
        return str(self.header.eval.task_version)

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The arguments of the task that have a value."""
        return {name: value for name, value in self.header.eval.task_args.items() if value is not None}

    @property
    def name(self) -> str:
        """The task with the arguments that make another task of it: `metaqa hops=2`."""
        given = self.header.eval.task_args_passed.items()
        parts = (f"{n}={str(v).lower()}" for n, v in given if n not in _NO_VARIANT and v is not None)
        return " ".join([self.task, *parts])

    @property
    def system(self) -> str:
        """Preset or baseline."""
        return str(self.about.get("preset", ""))

    @property
    def model(self) -> str:
        """Its language model, or `embedded`."""
        return str(self.about.get("model", ""))

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.cell.get("seed") or self.arguments.get("seed") or 0)

    @property
    def settings(self) -> dict[str, Any]:
        """Settings that were given to the system, without what only the machine knows that it ran on."""
        given = self._solver.get("settings") or {}
        return {name: value for name, value in given.items() if name not in _OF_THIS_MACHINE}

    @property
    def phases(self) -> dict[str, Any]:
        """Phases that were swapped in the system."""
        return dict(self._solver.get("phases") or {})

    @property
    def _solver(self) -> Mapping[str, Any]:
        steps = self.header.plan.steps
        return steps[-1].params or {} if steps else {}

    @property
    def created(self) -> str:
        """When, as ISO 8601."""
        return str(self.header.eval.created)

    @property
    def commit(self) -> str:
        """The commit of the code, "" where nobody knows it."""
        revision = self.header.eval.revision
        return str(self.about.get("commit") or (revision.commit if revision else ""))

    @property
    def dirty(self) -> bool:
        """Whether the code was changed since its commit."""
        revision = self.header.eval.revision
        return not self.about.get("commit_clean", not (revision and revision.dirty))

    @property
    def partial(self) -> bool:
        """Whether the graph lacks facts."""
        return bool(self.about.get("kg_partial"))

    @property
    def gold_derived(self) -> bool:
        """Whether some facts of the graph were made from gold answers."""
        return bool(self.about.get("kg_gold_derived"))

    @property
    def budgets(self) -> dict[str, Any]:
        """What a question may take; a preset's own settings come before defaults."""
        settings = dict(self.about.get("settings") or {})
        for name, value in (self.about.get("preset_settings") or {}).items():
            if settings.get(name) in (None, Context.__dataclass_fields__[name].default):
                settings[name] = value
        return {n: value for n, value in settings.items() if n.startswith("max_") and value is not None}

    @property
    def total(self) -> int:
        """How many questions it should have."""
        return (self.header.eval.dataset.samples or 0) * (self.header.eval.config.epochs or 1)

    @property
    def finished(self) -> bool:
        """Whether every question was asked."""
        return self.header.status == "success" and len(self.questions) >= self.total

    @property
    def measures(self) -> list[str]:
        """Names of the measures that scorers gave."""
        return [name for name in self.questions.columns[len(_FIXED) :] if name not in EFFORT]

    @property
    def metric(self) -> str:
        """The main measure of the task."""
        measures = self.measures
        return next((name for name in PRIMARY if name in measures), [*measures, "f1"][0])

    @property
    def crashes(self) -> pd.DataFrame:
        """The questions that ended in an error; they count as wrong."""
        return self.questions[self.questions["error_class"] == "crashed"]

    def scores(self, measure: str, *, answerable: bool = False, trivial: bool = True) -> pd.Series[float]:
        """Return question id -> value of a measure, where it applies.

        Args:
            measure: its name. answerable: only questions that the graph can answer.
            trivial: also questions that an empty graph would answer right.
        """
        rows = self.questions
        if measure not in rows:
            return pd.Series(dtype=float)
        if answerable:
            rows = rows[rows["answerable"].eq(True)]
        if not trivial:
            rows = rows[~rows["trivial"].eq(True)]
        return rows[measure].dropna()

    def mean(self, measure: str) -> float:
        """Return the average of a measure over the questions it applies to; NaN without any."""
        return float(self.scores(measure).mean())


def read_logs(paths: Iterable[Path | str], *, traces: bool = False) -> list[Log]:
    """Return the logs at these places, the oldest first.

    Args:
        paths: logs, and folders, which are searched to their ends.
        traces: whether the runs have their traces (large: a page shows them, figures do not need them).

    Raises:
        DataError: a path where nothing is, a folder without logs, a log that is broken or another program's.
    """
    files: set[Path] = set()
    for path in (Path(given).expanduser() for given in paths):
        if not path.exists():
            raise DataError("nothing is here; give a log of `triplewise eval`, or a folder of them", path)
        inside = path.rglob(f"*{SUFFIX}") if path.is_dir() else [path]
        logs_inside = {file.resolve() for file in inside}
        if not logs_inside:
            raise DataError(f"no log (*{SUFFIX}) in this folder; run `triplewise eval TASK` first", path)
        files |= logs_inside
    logs = [read_log(path, traces=traces) for path in files]
    return sorted(logs, key=lambda log: (log.created, log.path))


def read_log(path: Path, *, traces: bool = False) -> Log:
    """Return one log; see `read_logs`."""
    if path.suffix != SUFFIX:
        raise DataError(f"not a log of an evaluation: those end in {SUFFIX}", path)
    try:
        header = read_eval_log(str(path), header_only=True)
        about = header.eval.metadata or {}
        if "benchmark" not in about or "preset" not in about:
            raise DataError(
                f"a log of another program (its task is {header.eval.task!r}), not of `triplewise eval`; "
                "leave it out",
                path,
            )
        whole = bool(about.get("asked")) and about.get("answerable") == about["asked"]
        whole = whole or header.eval.task_args.get("kg_exact") is True  # then only answerable ones are asked
        asked = [(s.id, s.epoch) for s in read_eval_log_sample_summaries(str(path))]
        rows = [
            _row(sample, whole, traces)
            for start in range(0, len(asked), _BLOCK)
            for sample in read_eval_log_samples_by_id(
                str(path), asked[start : start + _BLOCK], exclude_fields=_UNUSED_FIELDS
            )
        ]
    except (ValueError, KeyError, IndexError, OSError, BadZipFile) as error:
        raise DataError(
            f"the log cannot be read ({error}); it was cut off or changed: run its evaluation again with "
            "the same arguments, or delete it",
            path,
        ) from error
    columns = dict.fromkeys([*_FIXED, *(name for row in rows for name in row)])
    frame = pd.DataFrame(rows, columns=list(columns)).set_index("id", drop=False)
    # A question that crashed before it was scored has 0 in every measure of a scorer.
    scored = [name for name in frame.columns[len(_FIXED) :] if name not in EFFORT]
    unscored = frame["error_class"].eq("crashed") & frame[scored].isna().all(axis=1)
    frame.loc[unscored, scored] = 0.0
    return Log(str(path), header, frame)


def latest(logs: Sequence[Log]) -> tuple[list[Log], list[Log]]:
    """Split logs into the best of each configuration (most questions, then the newest) and the rest."""
    best: dict[str, Log] = {}
    for log in logs:
        key = configuration(log)
        if key not in best or len(log.questions) >= len(best[key].questions):
            best[key] = log
    chosen = {id(log) for log in best.values()}
    return [log for log in logs if id(log) in chosen], [log for log in logs if id(log) not in chosen]


def configuration(log: Log) -> str:
    """Return all that two runs have to share to be runs of the same, as text."""
    cell = [log.cell.get(key) for key in ("name", "row", "column")]
    own = (log.task, log.version, log.arguments, log.system, log.model, log.phases, log.settings, log.seed)
    data = (log.about.get("data_files"), log.about.get("kg_checksum"), log.commit)
    return json.dumps([own, cell, data], sort_keys=True, default=str)


def _row(sample: EvalSample, whole: bool, traces: bool) -> dict[str, Any]:
    """Return a question as a row; `whole`: the graph can answer all of the task's."""
    about = sample.metadata or {}
    if not traces:
        sample.store.pop("Run:trace_json", None)
    run = sample.store_as(Run)
    error = sample.error.message if sample.error else ""
    if sample.limit:
        error = error or f"stopped by the limit on {sample.limit.type} ({sample.limit.limit})"
    target = [sample.target] if isinstance(sample.target, str) else sample.target
    scores: dict[str, float] = {}
    for scorer, score in (sample.scores or {}).items():
        values = score.value if isinstance(score.value, Mapping) else {scorer: score.value}
        for name, value in values.items():
            if isinstance(value, int | float) and not math.isnan(
                value
            ):  # of two with one name the first has it
                scores[name if name not in scores else f"{scorer}.{name}"] = float(value)
    primary = next((scores[name] for name in PRIMARY if name in scores), 0.0)
    effort = {name: value for name, of in EFFORT.items() if (value := of(run)) is not None}
    return {
        "id": f"{sample.id}" if sample.epoch == 1 else f"{sample.id} (epoch {sample.epoch})",
        "question": sample.input if isinstance(sample.input, str) else json.dumps(str(sample.input)),
        "gold": tuple(about.get("gold_labels") or target),
        "run": run,
        "error": error,
        "tags": {str(n): str(v) for n, v in (about.get("tags") or {}).items() if v not in (None, "")},
        "answerable": True if whole else about.get("answerable"),
        "trivial": bool(about.get("trivial")),
        "error_class": "crashed" if error else error_class(run, primary),
        **{name: float(value) for name, value in {**effort, **scores}.items()},
    }
