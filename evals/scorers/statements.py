"""Scorers of slot filling and of fact checking."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from triplewise.evals.record import Run
from triplewise.evals.scorers.answers import MACRO, PART, UNSCORED, is_verdict, shown
from triplewise.evals.scorers.names import names_for
from triplewise.evals.scorers.substring import substring_figures
from triplewise.tools.core.values import normal_text, read_value, same


@scorer(
    metrics={
        "hits_at_1": PART,
        "any_right": [mean()],
        "all_right": [mean()],
        "answerable_hits_at_1": PART,
        "substring_hits_at_1": MACRO,
        "substring_hits_at_1_single": PART,
    }
)
def slot() -> Scorer:
    """Hits@1 of slot filling: is the first value one of the accepted ones (the answer and its aliases)?

    Names are compared strictly (case, spacing and Unicode composition apart), also the graph's other names of
    the answer; dates and numbers by value. `any_right` and `all_right` look at all values given. A question
    that crashed scores 0. `substring_hits_at_1` is what published code would call Hits@1.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run = state.store_as(Run)
        names = {} if run.crashed else await names_for(state, list(target), "names")
        given = [] if run.crashed else list(zip(run.values, run.labels, strict=True))
        right = [is_accepted(pair, list(target), names.get(pair[1], ())) for pair in given]
        first = float(bool(right) and right[0])
        value = {
            "hits_at_1": first,
            "any_right": float(any(right)),
            "all_right": float(bool(right) and all(right)),
            "answerable_hits_at_1": first if state.metadata.get("answerable") else UNSCORED,
            **substring_figures(run, state.metadata, list(target), first == 1.0),
        }
        return Score(value=value, answer=shown(run.labels), explanation=run.ending)

    return score


def is_accepted(answer: tuple[str, str], accepted: Sequence[str], aliases: Collection[str] = ()) -> bool:
    """Whether an answer (value, label) is one of the accepted texts: by a name, or that date or number.

    Args:
        aliases: other names of the answer.
    """
    value, label = answer
    given = read_value(value)
    dated = given.number is not None or given.date
    names = {normal_text(name) for name in (label, *aliases)}
    return any(normal_text(text) in names or (dated and same(given, read_value(text))) for text in accepted)


@scorer(
    metrics={
        "accuracy": PART,
        "answerable_accuracy": PART,
        "proven_accuracy": PART,
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
        right = float(is_verdict(run, list(target)))
        value = {
            "accuracy": right,
            "answerable_accuracy": right if state.metadata.get("answerable") else UNSCORED,
            "proven_accuracy": right if run.proof else UNSCORED,
            "proven": float(run.proof > 0),
            "majority": float([state.metadata.get("majority")] == list(target)),
        }
        return Score(value=value, answer=shown(run.values), explanation=run.ending)

    return score
