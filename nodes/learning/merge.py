"""Merge: explored and refined trajectories become the training set (SymAgent, equation 7 and table 4)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.config import LearningContext, LearningState, Update
from triplewise.tools.learning.questions import reward_of
from triplewise.tools.learning.trajectory import Origin, Trajectory, read_trajectories, write_trajectories


def merge_pair(explored: Trajectory, refined: Trajectory) -> Trajectory | None:
    """Return the better of two attempts at one question; None is `filtered` (equation 7).

    The higher reward; of equal rewards above 0 the shorter trajectory. The equation does not say which if
    they are as long: the one of higher F1, since a recall of 1 is also had by answering everything.
    """
    if explored.reward > refined.reward:
        return explored
    if explored.reward < refined.reward:
        return refined
    if explored.reward > 0:
        return min(explored, refined, key=lambda t: (len(t.turns), -t.f1))
    return None


def merge_collections(
    explored: Mapping[str, Trajectory], refined: Mapping[str, Trajectory]
) -> list[Trajectory]:
    """Equation 7 over two collections about the same questions, question id -> trajectory."""
    merged = (merge_pair(explored[key], refined[key]) for key in explored)
    return [t for t in merged if t is not None]


def rewarded(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Rejection sampling: the trajectories with a reward above 0."""
    return [t for t in trajectories if t.reward > 0]


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
    write_trajectories(learning.training_file(state.iteration), training)
    refined = sum(t.origin == "refined" for t in training)
    return {"rounds": state.with_figures(kept=len(training), kept_refined=refined)}


def _distilled(learning: LearningContext, state: LearningState) -> list[Trajectory]:
    """Return another model's trajectories as this policy's training set.

    The reward is what their answers are worth; the one they came with where they do not say these.
    """
    attempts = Attempts(learning, state, "distilled")
    trajectories = []
    for given in read_trajectories(Path(learning.config.distill)):
        trajectory = replace(given, origin="distilled", iteration=state.iteration)
        if given.predicted:
            reward = reward_of(given.predicted, given.predicted, given.answers)
            trajectory = replace(trajectory, reward=reward.recall, f1=reward.f1)
        if learning.config.policy == "model" and not given.prompt:
            trajectory = attempts.with_prompt(trajectory)
        trajectories.append(trajectory)
    return trajectories
