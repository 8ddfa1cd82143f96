"""Logs of evaluations read into pandas: what reports, tables, plots and comparisons are made from.

>>> from triplewise.evals.logs import read_logs
>>> [(log.task, log.system, log.mean(log.metric)) for log in read_logs(["logs"])]
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import pandas as pd
from inspect_ai.log import EvalSample, read_eval_log, read_eval_log_samples

from triplewise.evals.data import catalog
from triplewise.evals.solver import Run, error_class
from triplewise.tools.core.errors import DataError

SUFFIX = ".eval"
QUALITY = ("f1", "hits_at_1", "exact_match", "accuracy", "denotation")
"""Measures of how right answers are, strictly; 1 is right."""
LENIENT = ("substring_hits_at_1", "substring_hits_at_1_single")
"""The substring matching of some published code, under its own name."""
PRIMARY = ("denotation", "f1", "accuracy", "hits_at_1", "exact_match")
"""The main measure of a task is the first of these that it has."""
FAILURES = {
    "failed_ia": ("invalid_action",),
    "failed_ea": ("argument_error",),
    "failed_ems": ("exceeded_steps",),
    "failed_re": ("reasoning_error", "not_found"),
    "failed_crashed": ("crashed",),
}
"""Measures of the questions that were not answered right alone: whether the error is of these classes.

SymAgent's (table 5), where nothing found is a reasoning error, and crashes.
"""

_FIXED = ("id", "question", "gold", "run", "error", "tags", "answerable", "trivial", "error_class")
"""Columns of `Log.questions` before its measures."""
_UNUSED_FIELDS = {"events", "events_data", "messages", "attachments", "timelines", "output"}
NO_VARIANT = {"n", "sample_seed", "preset", "model", "settings", "phases", "seed"}
"""Parameters of a task that make no other task of it."""
_OF_THIS_MACHINE = {"kg", "profile", "model", "seeds", "db"}


@dataclass(frozen=True)
class Log:
    """One log.

    Attributes:
        path: the log. task: the task's name without its package. version: of the task.
        name: the task with the arguments that make another task of it: `metaqa hops=2`.
        arguments: of the task, those that have a value.
        phases, settings: given to the system, without what only the machine knows that it ran on.
        about: what it was measured on and with: the metadata of the task.
        created: when, as ISO 8601. status: how it ended, as Inspect says it. total: questions it should have.
        questions: one a row, by id: question, gold (texts), run (`Run`), error ("" if it did not crash), tags
            (mapping), answerable (whether the graph can answer it; None where nobody said), trivial (whether
            an empty graph would be right), error_class (see `record`; "" if it was answered right), and a
            column for each measure that a scorer gave, NaN where it does not apply.
    """

    path: str
    task: str
    version: str
    name: str
    arguments: Mapping[str, Any]
    phases: Mapping[str, Any]
    settings: Mapping[str, Any]
    about: Mapping[str, Any]
    created: str
    status: str
    total: int
    questions: pd.DataFrame

    @property
    def cell(self) -> Mapping[str, Any]:
        """Its place in a grid (name, title, row, column, seed, ...); empty outside of grids."""
        return self.about.get("grid") or {}

    @property
    def system(self) -> str:
        """Preset or baseline."""
        return str(self.about["preset"])

    @property
    def model(self) -> str:
        """Its language model, or `embedded`."""
        return str(self.about.get("model", ""))

    @property
    def seed(self) -> int:
        """The seed of the run."""
        return int(self.cell.get("seed") or self.arguments.get("seed") or 0)

    @property
    def commit(self) -> str:
        """The commit of the code in short, and whether the code was changed since."""
        changed = "" if self.about.get("commit_clean") else " with changes"
        return f"{self.about.get('commit', '')[:7] or 'unknown'}{changed}"

    @property
    def finished(self) -> bool:
        """Whether every question was asked."""
        return self.status == "success" and len(self.questions) >= self.total

    @property
    def metric(self) -> str:
        """The main measure of the task."""
        return next((name for name in PRIMARY if name in self.questions), "f1")

    @property
    def crashes(self) -> pd.DataFrame:
        """The questions that ended in an error; they count as wrong."""
        return self.questions[self.questions["error_class"] == "crashed"]

    def scores(self, measure: str, *, answerable: bool = False, trivial: bool = True) -> pd.Series[float]:
        """Return question id -> value of a measure, where it applies.

        With `answerable` only of questions that the graph can answer; without `trivial`, of none that an
        empty graph would answer right.
        """
        rows = self.questions
        if answerable:
            rows = rows[rows["answerable"].eq(True)]
        if not trivial:
            rows = rows[~rows["trivial"].eq(True)]
        if measure in FAILURES:
            classes = rows["error_class"]
            return classes[classes != ""].isin(FAILURES[measure]).astype(float)
        return rows[measure].dropna() if measure in rows else pd.Series(dtype=float)

    def mean(self, measure: str) -> float:
        """Return the average of a measure over the questions it applies to; NaN without any."""
        return float(self.scores(measure).mean())


def read_logs(paths: Iterable[Path | str], *, traces: bool = False) -> list[Log]:
    """Return the logs at these places, and in all folders below, the oldest first.

    `traces` says whether the runs have their traces (large: a page shows them, figures do not need them).

    Raises:
        DataError: a path where nothing is, a folder without logs, a log that is broken or another program's.
    """
    files: set[Path] = set()
    for path in (Path(given).expanduser() for given in paths):
        if not path.exists():
            raise DataError("nothing is here; give a log of `triplewise eval`, or a folder of them", path)
        inside = {file.resolve() for file in (path.rglob(f"*{SUFFIX}") if path.is_dir() else [path])}
        if not inside:
            raise DataError(f"no log (*{SUFFIX}) in this folder; run `triplewise eval TASK` first", path)
        files |= inside
    logs = [read_log(path, traces=traces) for path in files]
    return sorted(logs, key=lambda log: (log.created, log.path))


def read_log(path: Path, *, traces: bool = False) -> Log:
    """Return one log; see `read_logs`."""
    if path.suffix != SUFFIX:
        raise DataError(f"not a log of an evaluation: those end in {SUFFIX}", path)
    try:
        header = read_eval_log(str(path), header_only=True)
        spec, about = header.eval, header.eval.metadata or {}
        if "benchmark" not in about or "preset" not in about:
            raise DataError(
                f"a log of another program (its task is {spec.task!r}), not of `triplewise eval`; "
                "leave it out",
                path,
            )
        # Where only answerable questions are asked, none of them says so.
        whole = bool(about.get("asked")) and about.get("answerable") == about["asked"]
        whole = whole or spec.task_args.get("kg_exact") is True
        samples = read_eval_log_samples(str(path), all_samples_required=False, exclude_fields=_UNUSED_FIELDS)
        rows = [_question(sample, whole, traces) for sample in samples]
    except (ValueError, LookupError, RuntimeError, OSError, BadZipFile) as error:
        raise DataError(
            f"the log cannot be read ({error}); it was cut off or changed: run its evaluation again with "
            "the same arguments, or delete it",
            path,
        ) from error
    columns = dict.fromkeys([*_FIXED, *(name for row in rows for name in row)])
    frame = pd.DataFrame(rows, columns=list(columns)).set_index("id", drop=False)
    scored = [name for name in (*QUALITY, *LENIENT) if name in frame]
    unscored = frame["error_class"].eq("crashed") & frame[scored].isna().all(axis=1)
    frame.loc[unscored, scored] = 0.0  # it crashed before it was scored
    task = spec.task.rpartition("/")[2]
    of = catalog().benchmarks.get(task)
    parts = {key.partition("=")[0] for key in of.counts} if of else set()  # named also by default: hops=1
    variant = [
        f"{name}={str(value).lower().rpartition('/')[2]}"  # of a file its name
        for name, value in spec.task_args.items()
        if value is not None and name not in NO_VARIANT and (name in parts or name in spec.task_args_passed)
    ]
    solver = header.plan.steps[-1].params if header.plan.steps else {}
    settings = solver.get("settings") or {}
    return Log(
        path=str(path),
        task=task,
        version=str(spec.task_version),
        name=" ".join([task, *variant]),
        arguments={name: value for name, value in spec.task_args.items() if value is not None},
        phases=solver.get("phases") or {},
        settings={name: value for name, value in settings.items() if name not in _OF_THIS_MACHINE},
        about=about,
        created=str(spec.created),
        status=header.status,
        total=(spec.dataset.samples or 0) * (spec.config.epochs or 1),
        questions=frame,
    )


def _question(sample: EvalSample, whole: bool, traces: bool) -> dict[str, Any]:
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
        for name, value in values.items():  # of two with one name the first has it
            if isinstance(value, int | float) and not math.isnan(value) and name not in scores:
                scores[name] = float(value)
    if "input_tokens" in scores:
        scores["tokens"] = scores["input_tokens"] + scores["output_tokens"]
    primary = next((scores[name] for name in PRIMARY if name in scores), 0.0)
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
        **scores,
    }
