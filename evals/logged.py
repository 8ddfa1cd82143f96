"""A log of an evaluation as plain values: its questions, its figures, and what it was measured on."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from triplewise.evals.record import Run

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
"""What a run took and how it ended, as measures of every log."""


@dataclass(frozen=True, slots=True)
class GridCell:
    """Where a log stands in a grid; `published` is a key of the published figures, or ""."""

    name: str
    title: str
    row: str
    column: str
    seed: int = 0
    published: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Provenance:
    """What a log was measured on.

    Attributes:
        benchmark: its title. kg: what graph, in words. profile, parts, triples, checksum: of the graph.
        partial: whether the graph lacks facts. gold_derived: whether some were made from gold answers.
        files: data file -> sha256. changed: files that are not the published ones.
        drawn: questions asked, of `drawn_from`. answerable: of `asked` questions, how many the graph can
            answer. note: what a reader has to know besides.
        commit: of the code; `dirty` where it had changes. prices: sha256 of the price table.
        packages: versions of what the figures depend on. budgets: what a question may take.
    """

    benchmark: str = ""
    kg: str = ""
    profile: str = ""
    parts: tuple[str, ...] = ()
    triples: int = 0
    checksum: str = ""
    partial: bool = False
    gold_derived: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    changed: tuple[str, ...] = ()
    drawn: int = 0
    drawn_from: int = 0
    answerable: int = 0
    asked: int = 0
    note: str = ""
    licence: str = ""
    citation: str = ""
    commit: str = ""
    dirty: bool = False
    prices: str = ""
    packages: Mapping[str, str] = field(default_factory=dict)
    budgets: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Asked:
    """One question of a log.

    Attributes:
        id: unique in its log. question: its text. gold: right answers as text.
        run: what was answered and what it cost. scores: measure -> value, none that did not apply.
        error: what it crashed with, "" if it did not. tags: hops, level, type, ... -> value.
        answerable: whether the graph can answer it; None where nobody said.
        error_class: why it was not answered right (`triplewise.evals.errors`), "" if it was.
    """

    id: str
    question: str
    gold: tuple[str, ...]
    run: Run
    scores: Mapping[str, float]
    error: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    answerable: bool | None = None
    error_class: str = ""

    @property
    def crashed(self) -> bool:
        """Whether it ended in an error: such a question counts as wrong."""
        return bool(self.error) or self.run.crashed


@dataclass(frozen=True, slots=True)
class Result:
    """One log.

    Attributes:
        path: the log. task: name without its package. version: of the task. variant: arguments that make
            another task of it (`hops=2`). system: preset or baseline. phases, settings: swapped in it, given
            to it.
        model: its language model, or `embedded`. seed: of the run. arguments: of the task, as given.
        cell: its place in a grid. about: what it was measured on. created: when, ISO 8601.
        status: Inspect's (`success`, `started`, `cancelled`, `error`). total: how many questions it should
            have. metric: the measure the task is told by. questions: in the order of the log.
    """

    path: str
    task: str
    version: str
    variant: str
    system: str
    model: str
    phases: Mapping[str, Any]
    settings: Mapping[str, Any]
    seed: int
    arguments: Mapping[str, Any]
    cell: GridCell | None
    about: Provenance
    created: str
    status: str
    total: int
    metric: str
    questions: tuple[Asked, ...]

    @property
    def finished(self) -> bool:
        """Whether every question was asked."""
        return self.status == "success" and len(self.questions) >= self.total

    @property
    def name(self) -> str:
        """The task with what makes it another one."""
        return f"{self.task} {self.variant}".strip()

    @property
    def crashes(self) -> tuple[Asked, ...]:
        """Questions that ended in an error."""
        return tuple(question for question in self.questions if question.crashed)

    def measures(self) -> tuple[str, ...]:
        """Names of the measures that any question has."""
        return tuple(dict.fromkeys(name for question in self.questions for name in question.scores))

    def scores(self, measure: str, *, answerable: bool = False) -> dict[str, float]:
        """Question id -> value; a question that crashed before it was scored counts as wrong.

        Args:
            measure: its name. answerable: only questions that the graph can answer.
        """
        asked = [q for q in self.questions if q.answerable or not answerable]
        if not any(measure in question.scores for question in self.questions):
            return _of_runs(measure, asked)
        return {
            q.id: q.scores.get(measure, 0.0)
            for q in asked
            if measure in q.scores or (q.crashed and not q.scores)
        }

    def mean(self, measure: str, *, answerable: bool = False) -> float:
        """The average of a measure over the questions it applies to; not a number without any."""
        values = self.scores(measure, answerable=answerable).values()
        return math.fsum(values) / len(values) if values else math.nan


def _of_runs(measure: str, asked: Iterable[Asked]) -> dict[str, float]:
    """What the runs took, where no scorer says so; questions whose cost nobody knows are left out."""
    if measure not in EFFORT:
        return {}
    found = ((q.id, EFFORT[measure](q.run)) for q in asked)
    return {name: float(value) for name, value in found if value is not None}
