"""The heuristic merge of explored and refined trajectories (SymAgent, equation 7), and its ablations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal

from triplewise.tools.learning.trajectory import Trajectory

Recipe = Literal["full", "no-refine", "no-merge", "distilled"]
"""How the training set is made (SymAgent, table 4).

`full`: explored and refined trajectories, merged. `no-refine`: nothing is refined; the explored ones by
rejection sampling, which keeps those with a reward. `no-merge`: the refined ones directly, with a reward,
whatever the explored ones were worth. `distilled`: another model's, with a reward.
"""

RECIPES: tuple[Recipe, ...] = ("full", "no-refine", "no-merge", "distilled")


def merge_pair(explored: Trajectory, refined: Trajectory) -> Trajectory | None:
    """The better of two attempts at one question; None is `filtered` (equation 7).

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


def merge(explored: Mapping[str, Trajectory], refined: Mapping[str, Trajectory]) -> list[Trajectory]:
    """Equation 7 over two collections, question id -> trajectory, in the order of the first.

    Raises:
        ValueError: the collections are not about the same questions; equation 7 has them of equal size.
    """
    if explored.keys() != refined.keys():
        odd = sorted(explored.keys() ^ refined.keys())
        raise ValueError(f"both collections must be about the same questions; only one has {odd[:5]}")
    merged = (merge_pair(explored[key], refined[key]) for key in explored)
    return [t for t in merged if t is not None]


def rewarded(trajectories: Iterable[Trajectory]) -> list[Trajectory]:
    """Rejection sampling: the trajectories with a reward above 0."""
    return [t for t in trajectories if t.reward > 0]
