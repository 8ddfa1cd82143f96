"""Merge: explored and refined trajectories become the training set (SymAgent, equation 7 and table 4)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from langgraph.runtime import Runtime

from triplewise.nodes.learning.attempts import Attempts
from triplewise.nodes.learning.course import Course, Learning, Update
from triplewise.tools.learning.journal import read_trajectories, write_trajectories
from triplewise.tools.learning.merge import merge as merge_collections
from triplewise.tools.learning.merge import rewarded
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.reward import reward_of
from triplewise.tools.learning.trajectory import Trajectory


def merge(state: Learning, runtime: Runtime[Course]) -> Update:
    """Write the training set of this iteration."""
    course = runtime.context
    kept = training_set(course, state)
    write_trajectories(training_file(course, state.iteration), kept)
    refined = sum(t.origin == "refined" for t in kept)
    return {"rounds": state.noted(kept=len(kept), kept_refined=refined)}


def training_file(course: Course, iteration: int) -> Path:
    """Where the training set of an iteration lies."""
    return course.folder / f"training-{iteration + 1}.jsonl"


def training_set(course: Course, state: Learning) -> list[Trajectory]:
    """What is trained on, in the order of the questions."""
    recipe = course.order.recipe
    if recipe == "distilled":
        return rewarded(_distilled(course, state))
    explored = _ordered(course, state, refined=False)
    if recipe == "no-refine":
        return rewarded(explored.values())
    refined = _ordered(course, state, refined=True)
    return rewarded(refined.values()) if recipe == "no-merge" else merge_collections(explored, refined)


def _ordered(course: Course, state: Learning, *, refined: bool) -> dict[str, Trajectory]:
    """A collection of this iteration, in the order of the questions: threads finish in any order."""
    found = course.journal.of(state.iteration, "refined" if refined else "explored")
    return {q.id: found[q.id] for q in course.questions}


def _distilled(course: Course, state: Learning) -> list[Trajectory]:
    """Another model's trajectories as this policy's training set."""
    given = read_trajectories(Path(course.order.distill))
    made = [_judged(replace(t, origin="distilled", iteration=state.iteration)) for t in given]
    if course.order.policy == "embedded":
        return made
    agent = Attempts(course, state.settings, state.iteration, "distilled")
    return [t if t.prompt else _prompted(agent, t) for t in made]


def _judged(trajectory: Trajectory) -> Trajectory:
    """The reward that its answers are worth; the one it came with where it does not tell them."""
    if not trajectory.predicted:
        return trajectory
    reward = reward_of(trajectory.predicted, trajectory.predicted, trajectory.answers)
    return replace(trajectory, reward=reward.recall, f1=reward.f1)


def _prompted(agent: Attempts, trajectory: Trajectory) -> Trajectory:
    """With what this agent's model is shown of the question."""
    asked = Question(trajectory.id, trajectory.question, dict(trajectory.entities), trajectory.answers)
    begin = agent.shown(agent.planned(asked))
    return replace(trajectory, system=begin.system, prompt=begin.prompt)
