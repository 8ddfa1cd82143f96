"""Merge: explored and refined trajectories become the training set (SymAgent, equation 7 and table 4)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.config import LearningContext, LearningState, Update
from triplewise.tools.learning.journal import read_trajectories, write_trajectories
from triplewise.tools.learning.merge import merge as merge_collections
from triplewise.tools.learning.merge import rewarded
from triplewise.tools.learning.reward import reward_of
from triplewise.tools.learning.trajectory import Origin, Trajectory


def merge(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Write the training set of this iteration, in the order of the questions."""
    learning, recipe = runtime.context, runtime.context.config.recipe

    def collection(origin: Origin) -> dict[str, Trajectory]:
        made = learning.journal.of(state.iteration, origin)  # in any order: threads finish so
        return {q.id: made[q.id] for q in learning.questions}

    if recipe == "distilled":
        training = rewarded(_distilled(learning, state))
    elif recipe == "no-refine":
        training = rewarded(collection("explored").values())
    elif recipe == "no-merge":
        training = rewarded(collection("refined").values())
    else:
        training = merge_collections(collection("explored"), collection("refined"))
    write_trajectories(training_file(learning, state.iteration), training)
    refined = sum(t.origin == "refined" for t in training)
    return {"rounds": state.with_figures(kept=len(training), kept_refined=refined)}


def training_file(learning: LearningContext, iteration: int) -> Path:
    """Return where the training set of an iteration lies."""
    return learning.folder / f"training-{iteration + 1}.jsonl"


def _distilled(learning: LearningContext, state: LearningState) -> list[Trajectory]:
    """Return another model's trajectories as this policy's training set.

    The reward is what their answers are worth; the one they came with where they do not say these.
    """
    trajectories = []
    for given in read_trajectories(Path(learning.config.distill)):
        trajectory = replace(given, origin="distilled", iteration=state.iteration)
        if given.predicted:
            reward = reward_of(given.predicted, given.predicted, given.answers)
            trajectory = replace(trajectory, reward=reward.recall, f1=reward.f1)
        trajectories.append(trajectory)
    if learning.config.policy == "embedded":
        return trajectories
    attempts = Attempts(learning, state, "distilled")
    return [t if t.prompt else attempts.with_prompt(t) for t in trajectories]
