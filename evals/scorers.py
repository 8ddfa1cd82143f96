"""Scorers and metrics of question answering over knowledge graphs, named as the field names them."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from inspect_ai.scorer import Metric, SampleScore, Score, Scorer, Target, mean, metric, scorer, stderr
from inspect_ai.solver import TaskState

from triplewise.evals.record import Run
from triplewise.evals.values import NOTHING, Compare, best_overlap, normal_text, read_value, same

_SHOWN = 20


def _numbers(scores: Sequence[SampleScore]) -> list[float]:
    return [score.score.as_float() for score in scores]


@metric
def median() -> Metric:
    """The median over questions; 0 without any."""

    def middle(scores: list[SampleScore]) -> float:
        return statistics.median(_numbers(scores)) if scores else 0.0

    return middle


@metric
def total() -> Metric:
    """The sum over questions."""

    def add(scores: list[SampleScore]) -> float:
        return float(sum(_numbers(scores)))

    return add


@metric
def count() -> Metric:
    """How many questions were scored."""

    def n(scores: list[SampleScore]) -> int:
        return len(scores)

    return n


_MACRO = [mean(), stderr()]


@scorer(
    metrics={
        "f1": [*_MACRO, count()],
        "hits_at_1": _MACRO,
        "exact_match": _MACRO,
        "precision": [mean()],
        "recall": [mean()],
    }
)
def strict(compare: Compare = "ids") -> Scorer:
    """F1 of the answer set, Hits@1 and exact match, each per question, macro-averaged.

    The gold answers are the sample's target, or `gold_sets` of its metadata where several sets are right
    (the best one counts). A question that crashed scores 0.

    Args:
        compare: `ids` compares answer values, `names` their labels as texts.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        answers = run.labels if compare == "names" else run.values
        gold_sets: list[list[Any]] = state.metadata.get("gold_sets") or [list(target)]
        found = NOTHING if run.crashed else best_overlap(answers, gold_sets, compare)
        return Score(value=found._asdict(), answer=_listed(run.labels or run.values), explanation=_why(run))

    return score


@scorer(metrics=[mean(), stderr(), count()])
def accuracy() -> Scorer:
    """Share of yes/no questions that were answered right; other questions are not scored."""

    async def score(state: TaskState, target: Target) -> Score:
        gold = list(target)
        if gold not in (["true"], ["false"]):
            return Score.unscored(reason="not a yes/no question")
        run = state.store_as(Run)
        return Score(value=float(list(run.values) == gold), answer=_listed(run.values))

    return score


_PART = [mean(), stderr(), count()]
_UNSCORED = float("nan")


@scorer(metrics={"answerable_f1": _PART, "answerable_hits_at_1": [mean(), stderr()]})
def answerable(compare: Compare = "ids") -> Scorer:
    """What `strict` says of the questions that the graph can answer (`answerable` of the metadata).

    Args:
        compare: as for `strict`.
    """
    whole = strict(compare)

    async def score(state: TaskState, target: Target) -> Score:
        found = await whole(state, target)
        if found is None or not state.metadata.get("answerable"):
            return Score(value={"answerable_f1": _UNSCORED, "answerable_hits_at_1": _UNSCORED})
        value = found.as_dict()
        return Score(value={f"answerable_{name}": value[name] for name in ("f1", "hits_at_1")})

    return score


@scorer(
    metrics={
        "hits_at_1": [mean(), stderr(), count()],
        "any_right": [mean()],
        "all_right": [mean()],
        "answerable_hits_at_1": _PART,
    }
)
def slot() -> Scorer:
    """Hits@1 of slot filling: is the first value one of the accepted ones (the answer and its aliases)?

    Names are compared strictly (case, spacing and Unicode composition apart), dates and numbers by value.
    `any_right` and `all_right` look at all values given. A question that crashed scores 0.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        given = [] if run.crashed else list(zip(run.values, run.labels, strict=True))
        right = [is_accepted(pair, list(target)) for pair in given]
        first = float(bool(right) and right[0])
        value = {
            "hits_at_1": first,
            "any_right": float(any(right)),
            "all_right": float(bool(right) and all(right)),
            "answerable_hits_at_1": first if state.metadata.get("answerable") else _UNSCORED,
        }
        return Score(value=value, answer=_listed(run.labels), explanation=_why(run))

    return score


@scorer(
    metrics={
        "accuracy": _PART,
        "answerable_accuracy": _PART,
        "proven_accuracy": _PART,
        "proven": [mean()],
        "majority": [mean()],
    }
)
def verdict() -> Scorer:
    """Accuracy of fact checking. What is neither true nor false is wrong, and so is a claim that crashed.

    `proven` is the share of the claims for which facts of the graph were given, `proven_accuracy` that of
    these that were judged right. `majority` is what one gets who always says the set's commoner verdict.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        right = float(not run.crashed and list(run.values) == list(target))
        value = {
            "accuracy": right,
            "answerable_accuracy": right if state.metadata.get("answerable") else _UNSCORED,
            "proven_accuracy": right if run.proof else _UNSCORED,
            "proven": float(run.proof > 0),
            "majority": float([state.metadata.get("majority")] == list(target)),
        }
        return Score(value=value, answer=_listed(run.values), explanation=_why(run))

    return score


@scorer(
    metrics={
        "seconds": [median(), mean()],
        "queries": [mean()],
        "steps": [mean()],
        "model_calls": [mean()],
        "input_tokens": [mean()],
        "output_tokens": [mean()],
        "corrections": [mean()],
        "not_found": [mean()],
        "budget_spent": [mean()],
        "crashed": [total()],
    }
)
def effort() -> Scorer:
    """What a question cost, and how it ended (seconds: wall-clock time of the question)."""

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        return Score(
            value={
                "seconds": run.seconds,
                "queries": run.queries,
                "steps": run.steps,
                "model_calls": run.model_calls,
                "input_tokens": run.input_tokens,
                "output_tokens": run.output_tokens,
                "corrections": len(run.corrections),
                "not_found": float(run.status == "not_found"),
                "budget_spent": float(run.status == "budget_spent"),
                "crashed": float(run.crashed),
            }
        )

    return score


def is_accepted(answer: tuple[str, str], accepted: Sequence[str]) -> bool:
    """Whether an answer (value, label) is one of the accepted texts: the name, or that date or number."""
    value, label = answer
    given = read_value(value)
    dated = given.number is not None or given.date
    return any(
        normal_text(label) == normal_text(text) or (dated and same(given, read_value(text)))
        for text in accepted
    )


def _listed(values: Sequence[str]) -> str:
    """The first answers in one line."""
    more = len(values) - _SHOWN
    return "; ".join(values[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def _why(run: Run) -> str:
    return f"{run.status}: {run.reason}" if run.reason else run.status
