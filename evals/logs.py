"""Logs of evaluations as dataframes: what reports and comparisons are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import pandas as pd
from inspect_ai.log import EvalSample, read_eval_log

from triplewise.evals.data import catalog
from triplewise.evals.scorers import MAIN, figures_of, plain_name
from triplewise.evals.solver import CRASHED, Run, error_class
from triplewise.tools.core.errors import DataError
from triplewise.tools.core.files import packaged

SUFFIX = ".eval"
MEASURES: Mapping[str, Mapping[str, Any]] = packaged("triplewise.evals", "report/measures.yaml")
QUALITY, FAILURES = MEASURES["quality"], MEASURES["failures"]
"""Measures of how right answers are (1 is right), and of why they were not."""
NO_VARIANT = {"n", "sample_seed", "preset", "model", "settings", "phases"}  # make no other task of it
_OF_THIS_MACHINE = {"kg", "profile", "model", "seeds", "examples", "db"}
_UNUSED = {"events", "events_data", "messages", "attachments", "timelines", "output"}


@dataclass(frozen=True)
class Log:
    """One log.

    `questions` has one a row, by id: answerable (None where nobody judged), error, its class, guidelines, and
    each measure (NaN where it does not apply).
    """

    path: str
    task: str
    name: str  # the task with what makes another task of it, as `metaqa hops=2`
    system: str
    model: str
    arguments: Mapping[str, Any]
    swapped: Mapping[str, Any]  # phases and settings given to the system
    about: Mapping[str, Any]  # the metadata of the task
    cell: Mapping[str, Any]  # the place in a grid, {} outside
    created: str
    status: str
    total: int
    questions: pd.DataFrame

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
        return next((name for name in MAIN if name in self.questions), "f1")

    @property
    def crashed(self) -> pd.DataFrame:
        """The questions that crashed."""
        return self.questions[self.questions["error_class"].eq(CRASHED)]

    def scores(self, measure: str, *, answerable: bool = False) -> pd.Series[float]:
        """Return question id -> value of a measure, where it applies; perhaps of `answerable` ones alone."""
        rows = self.questions[self.questions["answerable"].eq(True)] if answerable else self.questions
        if measure in FAILURES:
            classes = rows["error_class"]
            return classes[classes != ""].isin(FAILURES[measure]["classes"]).astype(float)
        return rows[measure].dropna() if measure in rows else pd.Series(dtype=float)

    def mean(self, measure: str) -> float:
        """Return the average of a measure over the questions it applies to; NaN without any."""
        return float(self.scores(measure).mean())


def read_logs(paths: Iterable[Path | str]) -> list[Log]:
    """Return logs at these places and below, oldest first. Raises `DataError` for none or a broken one."""
    files: set[Path] = set()
    for path in (Path(given).expanduser() for given in paths):
        if not path.exists():
            raise DataError("nothing is here; give a log of `triplewise eval`, or a folder of them", path)
        inside = {file.resolve() for file in (path.rglob(f"*{SUFFIX}") if path.is_dir() else [path])}
        if not inside:
            raise DataError(f"no log (*{SUFFIX}) in this folder; run `triplewise eval TASK` first", path)
        files |= inside
    return sorted((_read(path) for path in files), key=lambda log: (log.created, log.path))


def _read(path: Path) -> Log:
    if path.suffix != SUFFIX:
        raise DataError(f"not a log of an evaluation: those end in {SUFFIX}", path)
    try:
        header = read_eval_log(path, exclude_fields=_UNUSED)
        spec, about = header.eval, header.eval.metadata or {}
        if not {"benchmark", "preset"} <= about.keys():
            message = f"a log of another program (its task is {spec.task!r}), not of `triplewise eval`"
            raise DataError(f"{message}; leave it out", path)
        questions = pd.DataFrame(map(_row, header.samples or ())).set_index("id", drop=False)
    except (ValueError, LookupError, RuntimeError, OSError, BadZipFile) as error:
        fix = "run its evaluation again with the same arguments, or delete it"
        why = f"the log cannot be read ({error}); it was cut off or changed"
        raise DataError(f"{why}: {fix}", path) from error
    # Where only answerable questions are asked, none of them is marked.
    if (about.get("asked") and about.get("answerable") == about["asked"]) or spec.task_args.get("kg_exact"):
        questions["answerable"] = True
    scored = [name for name in QUALITY if name in questions]
    unscored = questions["error_class"].eq(CRASHED) & questions[scored].isna().all(axis=1)
    questions.loc[unscored, scored] = 0.0  # it crashed before it was scored
    solver = header.plan.steps[-1].params if header.plan.steps else {}
    swapped = {**(solver.get("phases") or {}), **(solver.get("settings") or {})}
    task, arguments = plain_name(spec.task), {n: v for n, v in spec.task_args.items() if v is not None}
    return Log(
        path=str(path),
        task=task,
        name=_name_of(task, arguments, spec.task_args_passed),
        system=str(about["preset"]),
        model=str(about.get("model", "")),
        arguments=arguments,
        swapped={name: value for name, value in swapped.items() if name not in _OF_THIS_MACHINE},
        about=about,
        cell=about.get("grid") or {},
        created=str(spec.created),
        status=header.status,
        total=spec.dataset.samples or 0,
        questions=questions,
    )


def _name_of(task: str, arguments: Mapping[str, Any], passed: Iterable[str]) -> str:
    """The task with what makes another task of it: `hops=1` also by default, a file by its name."""
    of = catalog().benchmarks.get(task)
    named = {key.partition("=")[0] for key in (of.counts if of else ())} | (set(passed) - NO_VARIANT)
    variant = [f"{n}={str(v).lower().rpartition('/')[2]}" for n, v in arguments.items() if n in named]
    return " ".join([task, *variant])


def _row(sample: EvalSample) -> dict[str, Any]:
    """A sample as a row of `Log.questions`."""
    run, figures = sample.store_as(Run), figures_of(sample.scores or {})
    error = sample.error.message if sample.error else ""
    main = next((figures[name] for name in MAIN if name in figures), 0.0)
    if "input_tokens" in figures:
        figures["tokens"] = figures["input_tokens"] + figures["output_tokens"]
    return {
        "id": str(sample.id),
        "answerable": sample.metadata.get("answerable"),
        "error": error,
        "error_class": CRASHED if error else error_class(run, main),
        "guidelines": run.corrections,
        **figures,
    }
