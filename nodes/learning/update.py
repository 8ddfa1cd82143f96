"""Update: the policy is trained on its training set (SymAgent 4.3.2, equation 8)."""

from __future__ import annotations

import hashlib
from pathlib import Path

from langgraph.runtime import Runtime

from triplewise.nodes.learning.course import Course, Learning, Progress, Update
from triplewise.nodes.learning.merge import training_file
from triplewise.tools.learning.journal import read_trajectories


def update(state: Learning, runtime: Runtime[Course]) -> Update:
    """The settings of the updated policy; without anything to learn from, the run ends."""
    course = runtime.context
    file = training_file(course, state.iteration)
    trajectories = read_trajectories(file)
    if not trajectories:
        return {"stopped": "no attempt found any right answer, so there is nothing to learn from"}

    def tell(doing: str, done: int, total: int | None) -> None:
        course.tell(Progress("update", state.iteration, done, total, doing=doing))

    changed = course.learner.update(
        trajectories,
        course.folder / f"policy-{state.iteration + 1}-{_digest(file, state)}",
        state.iteration,
        settings=state.settings,
        progress=tell,
    )
    settings = {**state.settings, **changed}
    return {
        "settings": settings,
        "iteration": state.iteration + 1,
        "rounds": state.noted(trained=len(trajectories)),
    }


def _digest(file: Path, state: Learning) -> str:
    """Names a policy by what it was made of: vectors and caches that go by its name are then never stale."""
    made_of = file.read_bytes() + repr(sorted(state.settings.items())).encode()
    return hashlib.sha256(made_of).hexdigest()[:8]
