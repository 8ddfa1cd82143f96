"""The scores of an evaluation as a table for people, with what they were measured on."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from inspect_ai.log import EvalLog, read_eval_log_sample_summaries
from rich.console import Group
from rich.table import Table
from rich.text import Text

_CRASHES_SHOWN = 10

Scores = Mapping[str, float]
"""Figures by `score.metric`: `f1.mean`, `seconds.median`, ..."""


def scores_of(log: EvalLog) -> dict[str, float]:
    """Every figure of a log as `score.metric`; none of an evaluation that did not end."""
    scores = log.results.scores if log.results else []
    return {f"{s.name}.{_plain(name)}": float(m.value) for s in scores for name, m in s.metrics.items()}


def _plain(name: str) -> str:
    """A name without the package that Inspect may put before it."""
    return name.rpartition("/")[2]


def crashes(log: EvalLog) -> list[tuple[str, str]]:
    """Id and error of every question that crashed; read from summaries, since whole samples are large."""
    return [(str(s.id), s.error) for s in read_eval_log_sample_summaries(log.location) if s.error]


def render(log: EvalLog) -> Group:
    """Table, provenance, crashes."""
    scores = scores_of(log)
    about = log.eval.metadata or {}
    table = Table(title=f"{about.get('benchmark', log.eval.task)}: {_arguments(log)}", title_justify="left")
    cells = list(_cells(scores))
    for heading, _ in cells:
        table.add_column(heading, justify="right")
    table.add_row(*(text for _, text in cells))
    return Group(table, *(Text(line) for line in [*_provenance(about), *_crash_lines(log)]))


def _cells(scores: Scores) -> Iterator[tuple[str, str]]:
    counts = (scores.get(f"{name}.count") for name in ("f1", "hits_at_1", "accuracy"))
    yield "questions", _number(next((count for count in counts if count is not None), None), 0)
    for name, heading in (("f1", "F1"), ("hits_at_1", "Hits@1"), ("exact_match", "exact match")):
        if f"{name}.mean" in scores:
            yield heading, _share(scores[f"{name}.mean"], scores.get(f"{name}.stderr"))
    yield from _lenient_cells(scores)
    if scores.get("accuracy.count", 0) > 0:  # not a number where nothing was scored
        decided = "" if "proven.mean" in scores else f" ({_number(scores['accuracy.count'], 0)} yes/no)"
        yield f"accuracy{decided}", _share(scores["accuracy.mean"], scores.get("accuracy.stderr"))
    yield from _part_cells(scores)
    if scores.get("denotation.count", 0) > 0:
        yield "denotation accuracy", _share(scores["denotation.mean"], scores.get("denotation.stderr"))
    yield from _cost_cells(scores)
    yield "not found", _share(scores.get("not_found.mean"))
    yield "crashes", _number(scores.get("crashed.total"), 0)


def _lenient_cells(scores: Scores) -> Iterator[tuple[str, str]]:
    """What published code calls Hits@1, beside the strict figure."""
    for name, heading in (("", "substring Hits@1"), ("_single", "substring Hits@1, one gold answer")):
        value = scores.get(f"substring_hits_at_1{name}.mean")
        if value is not None and (not name or scores.get(f"substring_hits_at_1{name}.count", 0) > 0):
            yield f"{heading} (lenient)", _share(value)


def _cost_cells(scores: Scores) -> Iterator[tuple[str, str]]:
    """Queries and time a question; where a model was asked, also its calls and what they cost.

    TPQ, QPQ and CPQ are the figures of QueryAgent's table 4.
    """
    if not scores.get("model_calls.mean"):
        yield "queries/question", _number(scores.get("queries.mean"), 1)
        yield "median s/question", _number(scores.get("seconds.median"), 2)
        return
    yield "TPQ (s)", _number(scores.get("seconds.mean"), 2)
    yield "QPQ", _number(scores.get("queries.mean"), 1)
    yield "CPQ ($)", _number(scores.get("cost.mean"), 4)
    yield "model calls/question", _number(scores.get("model_calls.mean"), 1)
    tokens = [scores.get(f"{name}_tokens.mean", math.nan) for name in ("input", "output")]
    yield "tokens in/out", "/".join(_number(value, 0) for value in tokens)


def _part_cells(scores: Scores) -> Iterator[tuple[str, str]]:
    """Figures over the questions that the graph can answer, and over claims it has facts for."""
    parts = (
        ("answerable_f1", "F1"),
        ("answerable_hits_at_1", "Hits@1"),
        ("answerable_accuracy", "accuracy"),
        ("proven_accuracy", "accuracy"),
        ("nontrivial_f1", "F1"),
        ("nontrivial_hits_at_1", "Hits@1"),
        ("nontrivial_accuracy", "accuracy"),
    )
    for name, heading in parts:
        if f"{name}.mean" in scores:
            which = name.partition("_")[0]
            size = scores.get(f"{name}.count", scores.get(f"{which}_f1.count"))
            yield f"{heading} ({_number(size, 0)} {which})", _share(scores[f"{name}.mean"])


def _share(value: float | None, error: float | None = None) -> str:
    if value is None or math.isnan(value):
        return "–"
    return f"{100 * value:.1f} %" + (f" ±{100 * error:.1f}" if error is not None else "")


def _number(value: float | None, digits: int) -> str:
    return "–" if value is None or math.isnan(value) else f"{value:.{digits}f}"


def _arguments(log: EvalLog) -> str:
    """Task, version and the arguments that were given."""
    given = log.eval.task_args_passed
    name = _plain(log.eval.task)
    words = ", ".join(f"{name}={value}" for name, value in given.items() if value not in (None, {}))
    return f"{name} v{log.eval.task_version}" + (f" ({words})" if words else "")


def _provenance(about: Mapping[str, Any]) -> Iterator[str]:
    parts = ", ".join(part.replace("_", "-") for part in about.get("kg_parts", ()))
    triples = f", {about['kg_triples']:,} triples" if about.get("kg_triples") else ""
    yield f"KG: {about.get('kg', 'unknown')}{triples}" + (
        f" (parts: {parts})" if about.get("kg_partial") else ""
    )
    if about.get("kg_gold_derived"):
        yield "Its part gold-derived was made from gold answers: questions are easier than on the whole KG."
    if about.get("asked"):
        share = about["answerable"] / about["asked"]
        yield (
            f"The KG can answer {about['answerable']:,} of {about['asked']:,} questions ({share:.0%}); "
            f"{about['drawn']:,} of {about['drawn_from']:,} were drawn at random."
        )
    if about.get("note"):
        yield f"Note: {about['note']}."
    if about.get("changed_files"):
        yield f"Changed files (no results of the published benchmark): {', '.join(about['changed_files'])}"
    yield "± is one standard error; scores are averages over questions, higher is better."


def _crash_lines(log: EvalLog) -> Iterator[str]:
    found = crashes(log)
    for name, message in found[:_CRASHES_SHOWN]:
        yield f"crashed: {name}: {message}"
    if len(found) > _CRASHES_SHOWN:
        yield f"... and {len(found) - _CRASHES_SHOWN} more, all in the log"
