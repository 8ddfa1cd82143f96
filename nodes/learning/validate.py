"""Validate: the policy answers questions held out, and learning ends where it no longer gains (4.3.2)."""

from __future__ import annotations

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.course import Course, Learning, Update
from triplewise.nodes.learning.pool import attempt_all, figures
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.trajectory import Trajectory


def validate(state: Learning, runtime: Runtime[Course]) -> Update:
    """Score the present policy, remember the best, and say whether it is time to stop.

    It is run before anything was learned too: that score is what the first gain is measured by.
    """
    course = runtime.context
    attempts = Attempts(course, state.settings, state.iteration, "validated")

    def attempt(question: Question) -> Trajectory:
        return attempts.run(question).trajectory

    safely = attempts.guarded(attempt)
    found = attempt_all(course, course.validated, course.validation, state.iteration, "validated", safely)
    score = {"iteration": state.iteration, **figures(list(found.values()))}
    scores = [*state.scores, score]
    leads = all(score["f1"] > earlier["f1"] for earlier in state.scores)
    return {
        "scores": scores,
        "best": state.settings if leads else state.best,
        "stopped": verdict(scores, course.order.rounds, course.order.epsilon),
    }


def verdict(scores: list[dict[str, float]], rounds: int, epsilon: float) -> str:
    """Why to stop after these validations, in words; "" to go on."""
    if len(scores) > 1 and (gain := scores[-1]["f1"] - scores[-2]["f1"]) < epsilon:
        return f"the gain in validation F1 is negligible ({gain:+.4f}, less than {epsilon:g})"
    if len(scores) > rounds:
        return f"all {rounds} iterations are done" if rounds > 1 else "the iteration is done"
    return ""
