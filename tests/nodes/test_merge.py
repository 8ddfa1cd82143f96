"""Equation 7: for each question the better of two trajectories, or none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triplewise.nodes.learning import merge_pair
from triplewise.tools.learning.trajectory import Origin, Trajectory, Turn

rewards = st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1))
lengths = st.integers(0, 6)


def trajectory(reward: float, length: int, origin: Origin, name: str = "q") -> Trajectory:
    turns = tuple(Turn(f"{origin} {n}", "", "") for n in range(length))
    return Trajectory(name, "who?", ("a",), reward=reward, turns=turns, origin=origin)


def of(origin: Origin) -> st.SearchStrategy[Trajectory]:
    return st.builds(lambda reward, length: trajectory(reward, length, origin), rewards, lengths)


@given(of("explored"), of("refined"))
def test_the_four_cases(explored: Trajectory, refined: Trajectory) -> None:
    better = merge_pair(explored, refined)
    if explored.reward > refined.reward:
        assert better is explored
    elif explored.reward < refined.reward:
        assert better is refined
    elif explored.reward > 0:
        assert better in (explored, refined)
        assert better is not None
        assert len(better.turns) == min(len(explored.turns), len(refined.turns))
    else:
        assert better is None
