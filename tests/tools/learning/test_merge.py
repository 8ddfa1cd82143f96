"""Equation 7: for each question the better of two trajectories, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.tools.learning.merge import merge, merge_pair, rewarded
from triplewise.tools.learning.trajectory import Origin, Trajectory, Turn

rewards = st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1))
lengths = st.integers(0, 6)


def trajectory(reward: float, length: int, origin: Origin, name: str = "q") -> Trajectory:
    turns = tuple(Turn(f"{origin} {n}", "", "") for n in range(length))
    return Trajectory(name, "who?", {}, ("a",), reward=reward, turns=turns, origin=origin)


def of(origin: Origin) -> st.SearchStrategy[Trajectory]:
    return st.builds(lambda reward, length: trajectory(reward, length, origin), rewards, lengths)


@given(of("explored"), of("refined"))
def test_the_four_cases(explored: Trajectory, refined: Trajectory) -> None:
    kept = merge_pair(explored, refined)
    if explored.reward > refined.reward:
        assert kept is explored
    elif explored.reward < refined.reward:
        assert kept is refined
    elif explored.reward > 0:
        assert kept in (explored, refined)
        assert kept is not None
        assert len(kept.turns) == min(len(explored.turns), len(refined.turns))
    else:
        assert kept is None


collections = st.lists(st.tuples(rewards, lengths, rewards, lengths), max_size=8)


@given(collections)
def test_a_merged_collection_is_never_worse(pairs: list[tuple[float, int, float, int]]) -> None:
    explored = {str(i): trajectory(p[0], p[1], "explored", str(i)) for i, p in enumerate(pairs)}
    refined = {str(i): trajectory(p[2], p[3], "refined", str(i)) for i, p in enumerate(pairs)}
    merged = merge(explored, refined)
    best = [max(p[0], p[2]) for p in pairs]
    assert [t.reward for t in merged] == [b for b in best if b > 0]
    assert [t.id for t in merged] == [str(i) for i, b in enumerate(best) if b > 0]
    assert all(t in (explored[t.id], refined[t.id]) for t in merged)
    assert len(merged) >= max(len(rewarded(explored.values())), len(rewarded(refined.values())))


@given(collections)
def test_merging_with_what_was_kept_changes_nothing(pairs: list[tuple[float, int, float, int]]) -> None:
    explored = {str(i): trajectory(p[0], p[1], "explored", str(i)) for i, p in enumerate(pairs)}
    refined = {str(i): trajectory(p[2], p[3], "refined", str(i)) for i, p in enumerate(pairs)}
    kept = {t.id: t for t in merge(explored, refined)}
    assert merge(kept, kept) == list(kept.values())


@pytest.mark.parametrize("change", [lambda d: d.pop("1"), lambda d: d.update({"9": d["1"]})])
def test_collections_about_other_questions_are_refused(
    change: Callable[[dict[str, Trajectory]], None],
) -> None:
    explored = {str(i): trajectory(1.0, 1, "explored", str(i)) for i in range(3)}
    refined = dict(explored)
    change(refined)
    with pytest.raises(ValueError, match="the same questions"):
        merge(explored, refined)
