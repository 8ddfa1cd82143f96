"""Validate: the policy answers questions held out, and learning ends where it no longer gains (4.3.2)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.config import LearningContext, LearningState, Update


def validate(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Score the present policy, remember the best, and say whether it is time to stop.

    It is run before anything was learned too: that score is what the first gain is measured by.
    """
    learning = runtime.context
    attempts = Attempts(learning, state, "validated")
    score = {
        "iteration": state.iteration,
        **attempts.of_all(attempts.run, learning.validated, learning.validation),
    }
    scores = [*state.scores, score]
    leads = all(score["f1"] > earlier["f1"] for earlier in state.scores)
    return {
        "scores": scores,
        "best": state.settings if leads else state.best,
        "stopped": reason_to_stop(scores, learning.config.rounds, learning.config.epsilon),
    }


def reason_to_stop(scores: list[dict[str, float]], rounds: int, epsilon: float) -> str:
    """Return why to stop after these validations, in words; "" to go on."""
    if len(scores) > 1 and (gain := scores[-1]["f1"] - scores[-2]["f1"]) < epsilon:
        return f"the gain in validation F1 is negligible ({gain:+.4f}, less than {epsilon:g})"
    if len(scores) > rounds:
        return f"all {rounds} iterations are done" if rounds > 1 else "the iteration is done"
    return ""
