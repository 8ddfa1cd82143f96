"""Update: the policy is trained on its training set (SymAgent 4.3.2, equation 8)."""

from __future__ import annotations

import hashlib

from langgraph.runtime import Runtime

from triplewise.nodes.learning.config import LearningContext, LearningState, Progress, Update
from triplewise.nodes.learning.merge import training_file
from triplewise.tools.learning.journal import read_trajectories


def update(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Return the settings of the updated policy; without anything to learn from, the run ends."""
    learning = runtime.context
    file = training_file(learning, state.iteration)
    trajectories = read_trajectories(file)
    if not trajectories:
        return {"stopped": "no attempt found any right answer, so there is nothing to learn from"}

    def report(doing: str, done: int, total: int | None) -> None:
        learning.report(Progress("update", state.iteration, done, total, doing=doing))

    # A policy is named by what it is made of: vectors and caches that go by its name are never stale.
    ingredients = file.read_bytes() + repr(sorted(state.settings.items())).encode()
    digest = hashlib.sha256(ingredients).hexdigest()[:8]
    changed = learning.learner.update(
        trajectories,
        learning.folder / f"policy-{state.iteration + 1}-{digest}",
        state.iteration,
        settings=state.settings,
        progress=report,
    )
    return {
        "settings": {**state.settings, **changed},
        "iteration": state.iteration + 1,
        "rounds": state.with_figures(trained=len(trajectories)),
    }
