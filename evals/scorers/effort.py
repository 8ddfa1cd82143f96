"""What a question cost, how it ended, and what became of its corrections."""

from __future__ import annotations

import math
from collections.abc import Mapping

from inspect_ai.scorer import Score, Scorer, Target, mean, scorer
from inspect_ai.solver import TaskState

from triplewise.evals.record import ERROR_CLASSES, Run, error_class
from triplewise.evals.scorers.answers import UNSCORED
from triplewise.evals.scorers.metrics import by_guideline, median, total

MAIN = ("denotation", "accuracy", "f1", "hits_at_1")
"""Figures that say whether a question was answered right; the first that was scored counts."""


COUNTS = ("queries", "steps", "model_calls", "input_tokens", "output_tokens", "rolled_back", "hallucinated")
"""Attributes of a run that are figures as they are."""
MEANS = (*COUNTS, "corrections", "notes", "not_found", "budget_spent")


@scorer(
    metrics={
        "seconds": [median(), mean()],
        **{name: [mean()] for name in MEANS},
        "cost": [mean(), total()],
        "corrected": [total(), by_guideline()],
        "corrected_right": [total(), by_guideline()],
        "crashed": [total()],
        **{f"error_{name}": [total()] for name in ERROR_CLASSES},
    }
)
def effort() -> Scorer:
    """What a question cost, how it ended, and of which kind its error was; goes behind the other scorers.

    `seconds`, `queries` and `cost` are TPQ, QPQ and CPQ of QueryAgent's table 4: wall-clock seconds, queries
    that reached the graph, and USD for model calls at list price (not scored for a model without a known
    price), each per question. `corrected` counts questions with a correction, `corrected_right` those of
    them that were answered right, both also by guideline. Errors are classed as in SymAgent's table 5 (see
    `error_class`, which is also in the score's metadata). Right is what the scorers before this one give 1.
    """

    async def score(state: TaskState, target: Target) -> Score:
        run, main = state.store_as(Run), main_figure(state.scores or {})
        error, corrected = error_class(run, main), bool(run.corrections)
        return Score(
            value={
                "seconds": run.seconds,
                **{name: getattr(run, name) for name in COUNTS},
                "cost": UNSCORED if run.cost is None else run.cost,
                "corrections": len(run.corrections),
                "corrected": float(corrected),
                "corrected_right": float(corrected and main == 1.0),
                "notes": len(run.notes),
                "not_found": float(run.status == "not_found"),
                "budget_spent": float(run.status == "budget_spent"),
                "crashed": float(run.crashed),
                **{f"error_{name}": float(error == name) for name in ERROR_CLASSES},
            },
            metadata={"error_class": error, "guidelines": list(dict.fromkeys(run.corrections))},
        )

    return score


def main_figure(scores: Mapping[str, Score]) -> float:
    """The figure that says whether a question was answered right, 0 to 1; 0 without one."""
    figures: dict[str, float] = {}
    for name, score in scores.items():
        if isinstance(score.value, Mapping):
            figures.update({key: float(v) for key, v in score.value.items() if isinstance(v, int | float)})
        elif isinstance(score.value, int | float):
            figures[name.rpartition("/")[2]] = float(score.value)
    main = (figures[name] for name in MAIN if name in figures and not math.isnan(figures[name]))
    return next(main, 0.0)
