"""Update and validate: the policy is trained, and learning ends where it no longer gains (SymAgent 4.3.2)."""

from __future__ import annotations

import hashlib

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.config import LearningContext, LearningState, Progress, Update
from triplewise.tools.learning.trajectory import read_trajectories


def update(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Train the policy on its training set (equation 8); without anything to learn from, the run ends."""
    learning = runtime.context
    file = learning.training_file(state.iteration)
    trajectories = read_trajectories(file)
    if not trajectories:
        return {"stopped": "no attempt found any right answer, so there is nothing to learn from"}

    def report(doing: str, done: int, total: int | None) -> None:
        learning.report(Progress("update", state.iteration, done, total, doing=doing))

    # A policy is named by what it is made of: vectors and caches that go by its name are never stale.
    ingredients = file.read_bytes() + repr(sorted(state.settings.items())).encode()
    digest = hashlib.sha256(ingredients).hexdigest()[:8]
    changed = learning.learner(
        trajectories,
        learning.folder / f"policy-{state.iteration + 1}-{digest}",
        state.iteration,
        state.settings,
        report,
    )
    return {
        "settings": {**state.settings, **changed},
        "iteration": state.iteration + 1,
        "rounds": state.with_figures(trained=len(trajectories)),
    }


def validate(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Score the present policy on questions held out, remember the best, and say whether it is time to stop.

    It is run before anything was learned too: that score is what the first gain is measured by.
    """
    learning = runtime.context
    attempts = Attempts(learning, state, "validated")
    figures = attempts.of_all(attempts.run, learning.validated, learning.validation)
    scores = [*state.scores, {"iteration": state.iteration, **figures}]
    leads = all(figures["f1"] > earlier["f1"] for earlier in state.scores)
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
