"""Logs of evaluations read back as plain values: what reports, tables and comparisons are made from.

>>> from triplewise.evals.results import read_results
>>> [(r.task, r.system, r.mean(r.metric)) for r in read_results(["logs"])]
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

from inspect_ai.log import (
    EvalLog,
    EvalSample,
    read_eval_log,
    read_eval_log_sample_summaries,
    read_eval_log_samples_by_id,
)

from triplewise.evals.errors import error_class
from triplewise.evals.logged import EFFORT, Asked, GridCell, Provenance, Result
from triplewise.evals.record import Run
from triplewise.nodes.context import Context
from triplewise.tools.core.errors import DataError

__all__ = ["EFFORT", "Asked", "GridCell", "Provenance", "Result", "configuration", "latest", "read_results"]

SUFFIX = ".eval"
PRIMARY = ("denotation", "f1", "accuracy", "hits_at_1", "exact_match")
"""Measures by which a task is told, the first that it has."""
_BLOCK = 200
_UNUSED = {"events", "events_data", "messages", "attachments", "timelines", "output"}
_NO_VARIANT = {"n", "sample_seed", "preset", "model", "settings", "phases", "seed"}
_OF_THIS_MACHINE = {"kg", "profile", "model", "seeds", "db"}
_OLD_TAGS = {"qtype": "type", "answer_type": "type", "aggregation": "aggregation", "conditions": "conditions"}


def read_results(paths: Iterable[Path | str], *, traces: bool = False) -> list[Result]:
    """The logs at these places, the oldest first.

    Args:
        paths: logs, and folders, which are searched to their ends.
        traces: whether the runs keep their traces (large: a page shows them, figures do not need them).

    Raises:
        DataError: a path where nothing is, a folder without logs, a log that is broken or another program's.
    """
    results = [_result(path, traces) for path in _files(paths)]
    return sorted(results, key=lambda result: (result.created, result.path))


def latest(results: Sequence[Result]) -> tuple[list[Result], list[Result]]:
    """Of logs of one configuration, the one with most questions, then the newest; and those left out."""
    kept: dict[str, Result] = {}
    for result in results:
        key = configuration(result)
        if key not in kept or len(result.questions) >= len(kept[key].questions):
            kept[key] = result
    chosen = {id(result) for result in kept.values()}
    return [r for r in results if id(r) in chosen], [r for r in results if id(r) not in chosen]


def configuration(result: Result) -> str:
    """All that two runs have to share to be runs of the same, as text."""
    cell = (result.cell.name, result.cell.row, result.cell.column) if result.cell else ()
    parts = (result.task, result.version, result.arguments, result.system, result.model)
    own = (result.phases, result.settings, result.seed, cell)
    data = (result.about.files, result.about.checksum, result.about.commit)
    return json.dumps([parts, own, data], sort_keys=True, default=str)


def _files(paths: Iterable[Path | str]) -> list[Path]:
    found: dict[Path, None] = {}
    for given in paths:
        path = Path(given).expanduser()
        if not path.exists():
            raise DataError("nothing is here; give a log of `triplewise eval`, or a folder of them", path)
        inside = sorted(path.rglob(f"*{SUFFIX}")) if path.is_dir() else [path]
        if not inside:
            raise DataError(f"no log (*{SUFFIX}) in this folder; run `triplewise eval TASK` first", path)
        found.update(dict.fromkeys(file.resolve() for file in inside))
    return list(found)


def _result(path: Path, traces: bool) -> Result:
    header = _header(path)
    about = header.eval.metadata or {}
    if "benchmark" not in about or "preset" not in about:
        raise DataError(
            f"a log of another program (its task is {header.eval.task!r}), not of `triplewise eval`; "
            "leave it out",
            path,
        )
    whole = bool(about.get("asked")) and about.get("answerable") == about["asked"]
    whole = whole or header.eval.task_args.get("kg_exact") is True  # then only answerable ones are asked
    questions = tuple(_asked(sample, whole, traces) for sample in _samples(path))
    return _built(path, header, about, questions)


def _header(path: Path) -> EvalLog:
    if path.suffix != SUFFIX:
        raise DataError(f"not a log of an evaluation: those end in {SUFFIX}", path)
    try:
        return read_eval_log(str(path), header_only=True)
    except (ValueError, KeyError, OSError, BadZipFile) as error:
        raise _broken(path, error) from error


def _broken(path: Path, error: Exception) -> DataError:
    return DataError(
        f"the log cannot be read ({error}); it was cut off or changed: run its evaluation again with "
        "the same arguments, or delete it",
        path,
    )


def _samples(path: Path) -> Iterator[EvalSample]:
    """The questions that were answered so far, read some at a time."""
    try:
        known = [(s.id, s.epoch) for s in read_eval_log_sample_summaries(str(path))]
        for start in range(0, len(known), _BLOCK):
            block = known[start : start + _BLOCK]
            yield from read_eval_log_samples_by_id(str(path), block, exclude_fields=_UNUSED)
    except (ValueError, KeyError, IndexError, OSError, BadZipFile) as error:
        raise _broken(path, error) from error


def _built(path: Path, header: EvalLog, about: Mapping[str, Any], questions: tuple[Asked, ...]) -> Result:
    spec = header.eval
    given = {name: value for name, value in spec.task_args.items() if value is not None}
    cell = _cell(about.get("grid"))
    settings, phases = _tested(header)
    return Result(
        path=str(path),
        task=spec.task.rpartition("/")[2],
        version=str(spec.task_version),
        variant=_variant(spec.task_args_passed),
        system=str(about["preset"]),
        model=str(about.get("model", "")),
        phases=phases,
        settings=settings,
        seed=cell.seed if cell else int(given.get("seed", 0)),
        arguments=given,
        cell=cell,
        about=_provenance(header, about),
        created=str(spec.created),
        status=header.status,
        total=(spec.dataset.samples or 0) * (spec.config.epochs or 1),
        metric=_metric(questions),
        questions=questions,
    )


def _variant(given: Mapping[str, Any]) -> str:
    """The arguments that make another task of it."""
    told = {name: value for name, value in given.items() if name not in _NO_VARIANT}
    return " ".join(f"{name}={str(value).lower()}" for name, value in told.items() if value is not None)


def _tested(header: EvalLog) -> tuple[dict[str, Any], dict[str, Any]]:
    """Settings and swapped phases of the system, without what only this machine knows."""
    steps = header.plan.steps
    params: Mapping[str, Any] = steps[-1].params or {} if steps else {}
    settings = params.get("settings") or {}
    shown = {name: value for name, value in settings.items() if name not in _OF_THIS_MACHINE}
    return shown, dict(params.get("phases") or {})


def _cell(found: Mapping[str, Any] | None) -> GridCell | None:
    if not found:
        return None
    own = ("name", "title", "row", "column", "seed", "published")
    return GridCell(
        name=str(found.get("name", "")),
        title=str(found.get("title", "")),
        row=str(found.get("row", "")),
        column=str(found.get("column", "")),
        seed=int(found.get("seed") or 0),
        published=str(found.get("published") or ""),
        more={name: value for name, value in found.items() if name not in own},
    )


def _provenance(header: EvalLog, about: Mapping[str, Any]) -> Provenance:
    revision = header.eval.revision
    return Provenance(
        benchmark=str(about.get("benchmark", "")),
        kg=str(about.get("kg", "")),
        profile=str(about.get("kg_profile", "")),
        parts=tuple(about.get("kg_parts", ())),
        triples=int(about.get("kg_triples", 0)),
        checksum=str(about.get("kg_checksum", "")),
        partial=bool(about.get("kg_partial")),
        gold_derived=bool(about.get("kg_gold_derived")),
        files=dict(about.get("data_files", {})),
        changed=tuple(about.get("changed_files", ())),
        drawn=int(about.get("drawn", 0)),
        drawn_from=int(about.get("drawn_from", 0)),
        answerable=int(about.get("answerable", 0)),
        asked=int(about.get("asked", 0)),
        note=str(about.get("note", "")),
        licence=str(about.get("licence", "")),
        citation=str(about.get("citation", "")),
        commit=str(about.get("commit") or (revision.commit if revision else "")),
        dirty=not about["commit_clean"] if "commit_clean" in about else bool(revision and revision.dirty),
        prices=str(about.get("prices_sha256") or ""),
        packages=dict(about.get("packages") or header.eval.packages or {}),
        budgets=_budgets(about),
    )


def _budgets(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a question may take, where the log tells all settings: a preset's own come before defaults."""
    settings = {**(about.get("settings") or {})}
    for name, value in (about.get("preset_settings") or {}).items():
        if settings.get(name) in (None, Context.__dataclass_fields__[name].default):
            settings[name] = value
    return {name: value for name, value in settings.items() if name.startswith("max_") and value is not None}


def _metric(questions: Sequence[Asked]) -> str:
    known = dict.fromkeys(name for question in questions for name in question.scores)
    return next((name for name in PRIMARY if name in known), next(iter(known), PRIMARY[1]))


def _asked(sample: EvalSample, whole: bool, traces: bool) -> Asked:
    """A question; `whole`: the graph can answer all of the task's."""
    about = sample.metadata or {}
    target = [sample.target] if isinstance(sample.target, str) else sample.target
    if not traces:
        sample.store.pop("Run:told", None)
    error = (sample.error.message if sample.error else "") or _limit(sample)
    run, scores = sample.store_as(Run), _flat(sample)
    return Asked(
        id=f"{sample.id}" if sample.epoch == 1 else f"{sample.id} (epoch {sample.epoch})",
        question=sample.input if isinstance(sample.input, str) else json.dumps(str(sample.input)),
        gold=tuple(about.get("gold_labels") or target),
        run=run,
        scores=scores,
        error=error,
        tags=_tags(about),
        answerable=True if whole else about.get("answerable"),
        error_class="crashed" if error else error_class(run, _main(scores)),
    )


def _main(scores: Mapping[str, float]) -> float:
    """What says whether a question was answered right; wrong without any."""
    return next((scores[name] for name in PRIMARY if name in scores), 0.0)


def _limit(sample: EvalSample) -> str:
    """A limit of Inspect's that ended the question, in words."""
    return f"stopped by the limit on {sample.limit.type} ({sample.limit.limit})" if sample.limit else ""


def _flat(sample: EvalSample) -> dict[str, float]:
    """Every number that any scorer gave, by its own name; where two scorers share one, the first has it."""
    found: dict[str, float] = {}
    for scorer, score in (sample.scores or {}).items():
        values = score.value if isinstance(score.value, Mapping) else {scorer: score.value}
        for name, value in values.items():
            key = name if name not in found else f"{scorer}.{name}"
            if isinstance(value, int | float) and not math.isnan(value):
                found[key] = float(value)
    return found


def _tags(about: Mapping[str, Any]) -> dict[str, str]:
    given = about.get("tags") or {}
    if not isinstance(given, Mapping):
        given = {"tag": ", ".join(map(str, given))}
    older = {tag: about[key] for key, tag in _OLD_TAGS.items() if about.get(key)}
    return {str(name): str(value) for name, value in {**older, **given}.items() if value not in (None, "")}
