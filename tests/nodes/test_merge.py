"""Equation 7: for each question the better of two trajectories, or none."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from triplewise.nodes.learning import merge_collections, merge_pair
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


@given(st.lists(st.tuples(rewards, lengths, rewards, lengths), max_size=8))
def test_a_merged_collection_is_never_worse(pairs: list[tuple[float, int, float, int]]) -> None:
    explored = {str(i): trajectory(p[0], p[1], "explored", str(i)) for i, p in enumerate(pairs)}
    refined = {str(i): trajectory(p[2], p[3], "refined", str(i)) for i, p in enumerate(pairs)}
    merged = merge_collections(explored, refined)
    best = {str(i): max(p[0], p[2]) for i, p in enumerate(pairs)}
    assert {t.id: t.reward for t in merged} == {i: b for i, b in best.items() if b > 0}
    assert all(t in (explored[t.id], refined[t.id]) for t in merged)
    assert len(merged) >= max(sum(t.reward > 0 for t in made.values()) for made in (explored, refined))
    same = {t.id: t for t in merged}
    assert merge_collections(same, same) == merged
