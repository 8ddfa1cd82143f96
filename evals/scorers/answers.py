"""Scorers of sets of answers: strict figures per question, and accuracy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from triplewise.evals.record import Run
from triplewise.evals.scorers.lenient import substring_figures
from triplewise.evals.scorers.metrics import count
from triplewise.evals.scorers.names import names_for
from triplewise.evals.values import NOTHING, Compare, Overlap, best_overlap, overlap, same_multiset

UNSCORED = float("nan")
"""What a figure is for a question that it is not taken of: Inspect leaves it out of averages."""
MACRO = [mean(), stderr()]
PART = [mean(), stderr(), count()]
_SHOWN = 20


@scorer(
    metrics={
        "f1": PART,
        "hits_at_1": MACRO,
        "exact_match": MACRO,
        "precision": [mean()],
        "recall": [mean()],
        "substring_hits_at_1": MACRO,
        "substring_hits_at_1_single": PART,
    }
)
def strict(compare: Compare = "ids") -> Scorer:
    """F1 of the answer set, Hits@1 and exact match, each per question, macro-averaged.

    The gold answers are the sample's target, or `gold_sets` of its metadata where several sets are right
    (the best one counts). Ids are compared with ids, and with names by their labels and aliases, which come
    from the graph and from `gold_names` of the metadata (id -> names). A question that crashed scores 0.
    Beside them what published code would call Hits@1, under its own name: see `substring_figures`.

    Args:
        compare: `ids` compares answer values, `names` their labels as texts.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        found = await strict_overlap(state, list(target), compare)
        loose = substring_figures(run, state.metadata, _gold(state, list(target)), found.hits_at_1 == 1.0)
        return Score(
            value={**found._asdict(), **loose},
            answer=listed(run.labels or run.values),
            explanation=why(run),
        )

    return score


async def strict_overlap(state: TaskState, target: Sequence[str], compare: Compare = "ids") -> Overlap:
    """How the answers of a question agree with its gold answers; nothing of a question that crashed."""
    run = state.store_as(Run)
    if run.crashed:
        return NOTHING
    names = await names_for(state, _gold(state, target), compare)
    answers = run.labels if compare == "names" else run.values
    return best_overlap(answers, _gold_sets(state, target), compare, names)


def _gold_sets(state: TaskState, target: Sequence[str]) -> Sequence[Sequence[Any]]:
    """The sets of gold answers, any of which is right."""
    sets: Sequence[Sequence[Any]] = state.metadata.get("gold_sets") or [list(target)]
    return sets


def _gold(state: TaskState, target: Sequence[str]) -> list[str]:
    """All gold answers, as texts."""
    return list(dict.fromkeys(str(value) for values in _gold_sets(state, target) for value in values))


@scorer(metrics={"answerable_f1": PART, "answerable_hits_at_1": MACRO})
def answerable(compare: Compare = "ids") -> Scorer:
    """What `strict` says of the questions that the graph can answer (`answerable` of the metadata).

    Args:
        compare: as for `strict`.
    """

    async def score(state: TaskState, target: Target) -> Score:
        if not state.metadata.get("answerable"):
            return Score(value={"answerable_f1": UNSCORED, "answerable_hits_at_1": UNSCORED})
        found = await strict_overlap(state, list(target), compare)
        return Score(value={"answerable_f1": found.f1, "answerable_hits_at_1": found.hits_at_1})

    return score


@scorer(metrics=PART)
def accuracy() -> Scorer:
    """Share of yes/no questions that were answered right; other questions are not scored."""

    async def score(state: TaskState, target: Target) -> Score:
        gold = list(target)
        if gold not in (["true"], ["false"]):
            return Score.unscored(reason="not a yes/no question")
        run = state.store_as(Run)
        return Score(value=float(is_verdict(run, gold)), answer=listed(run.values))

    return score


def is_verdict(run: Run, gold: Sequence[str]) -> bool:
    """Whether a run says true or false, whichever the gold answer is ("yes" is true, "1" is not)."""
    return not run.crashed and len(run.values) == 1 and overlap(run.values, gold).exact_match == 1.0


def denotation_of(run: Run, gold: Sequence[str]) -> dict[str, float]:
    """Denotation accuracy of one question: are the answers the gold answers, as sets, and as multisets?"""
    right = not run.crashed and overlap(run.values, gold).exact_match == 1.0
    return {
        "denotation": float(right),
        "multiset": float(not run.crashed and same_multiset(run.values, gold)),
    }


@scorer(metrics={"denotation": PART, "multiset": [mean()]})
def denotation() -> Scorer:
    """Denotation accuracy: the answers are the gold answers, as sets, and as multisets.

    Numbers are compared with a tolerance, texts without case and spacing.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        return Score(value=denotation_of(run, list(target)), explanation=run.sparql)

    return score


def listed(values: Sequence[str]) -> str:
    """The first answers in one line."""
    more = len(values) - _SHOWN
    return "; ".join(values[:_SHOWN]) + (f"; and {more} more" if more > 0 else "")


def why(run: Run) -> str:
    """How a run ended, in words."""
    return f"{run.status}: {run.reason}" if run.reason else run.status
