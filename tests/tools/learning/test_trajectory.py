"""Trajectories on disk: what is appended stays, what was cut short goes, and every text comes back."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from triplewise.tools.core.errors import DataError
from triplewise.tools.learning.trajectory import (
    Choice,
    Journal,
    Origin,
    Trajectory,
    Turn,
    merge_pair,
    read_trajectories,
    write_line,
)

texts = st.text(max_size=20)
some = st.lists(texts, max_size=3).map(tuple)
trajectories = st.builds(
    Trajectory,
    id=texts,
    question=texts,
    entities=st.dictionaries(texts, texts, max_size=2),
    answers=some,
    predicted=some,
    reward=st.floats(0, 1),
    f1=st.floats(0, 1),
    turns=st.lists(st.builds(Turn, texts, texts, texts), max_size=3).map(tuple),
    choices=st.lists(st.builds(Choice, texts, some, some), max_size=2).map(tuple),
    prompt=texts,
    iteration=st.integers(0, 3),
    status=texts,
    rule=texts,
)


def made(name: str, iteration: int = 0) -> Trajectory:
    turns = (Turn("think", "act()", "see\u2028more"),)
    return Trajectory(name, "who?", ("a",), turns=turns, iteration=iteration)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(trajectories, max_size=4))
def test_a_file_of_trajectories_comes_back(tmp_path: Path, many: list[Trajectory]) -> None:
    (tmp_path / "t.jsonl").write_bytes(b"".join(map(write_line, many)))
    assert read_trajectories(tmp_path / "t.jsonl") == many


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    with closing(Journal(tmp_path / "j.jsonl")) as opened:
        yield opened


def test_what_is_appended_is_there_for_the_next_process(journal: Journal, tmp_path: Path) -> None:
    for trajectory in (made("a"), made("b"), made("a", iteration=1)):
        journal.append(trajectory)
    with closing(Journal(tmp_path / "j.jsonl")) as again:
        assert list(again.of(0, "explored")) == ["a", "b"]
        assert list(again.of(1, "explored")) == ["a"]
        assert again.of(0, "refined") == {}
        assert again.of(0, "explored")["b"] == made("b")


def test_every_cut_loses_the_last_line_only(tmp_path: Path) -> None:
    """Wherever in the last line a kill falls, the lines before it stay and the next one is whole."""
    path = tmp_path / "j.jsonl"
    whole, last = write_line(made("a")), write_line(made("é"))
    for length in range(len(last)):
        path.write_bytes(whole + last[:length])
        with closing(Journal(path)) as journal:
            assert list(journal.of(0, "explored")) == ["a"]
            journal.append(made("c"))
        assert path.read_bytes() == whole + write_line(made("c"))


def test_no_question_is_explored_twice(journal: Journal) -> None:
    journal.append(made("a"))
    with pytest.raises(ValueError, match="already"):
        journal.append(replace(made("a"), reward=1.0))


def test_threads_do_not_mix_lines(journal: Journal, tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: journal.append(made(str(n))), range(200)))
    assert {t.id for t in read_trajectories(tmp_path / "j.jsonl")} == {str(n) for n in range(200)}


@pytest.mark.parametrize(
    ("line", "wrong"),
    [
        ("{", "not JSON"),
        ("[]", "expected a JSON object"),
        ('{"id": "a", "question": "q"}', "not a trajectory: answers: Field required"),
        ('{"id": "a", "question": "q", "answers": [], "price": 1}', "not a trajectory: price: "),
        (
            '{"id": "a", "question": "q", "answers": [], "turns": [{"said": 1}]}',
            r"not a trajectory: turns\.0\.",
        ),
        ('{"id": "a", "question": "q", "answers": [], "reward": "much"}', "not a trajectory: reward: "),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, wrong: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_bytes(write_line(made("a")) + line.encode() + b"\n")
    with pytest.raises(DataError, match=f"t.jsonl:2: {wrong}"):
        read_trajectories(path)


def test_only_three_keys_are_needed(tmp_path: Path) -> None:
    (tmp_path / "t.jsonl").write_text('{"id": 7, "question": "who?", "answers": ["x", 1979]}\n')
    assert read_trajectories(tmp_path / "t.jsonl") == [Trajectory("7", "who?", ("x", "1979"))]


rewards = st.one_of(st.just(0.0), st.just(1.0), st.floats(0, 1))
lengths = st.integers(0, 6)


def attempt(reward: float, length: int, origin: Origin) -> Trajectory:
    turns = tuple(Turn(f"{origin} {n}", "", "") for n in range(length))
    return Trajectory("q", "who?", ("a",), reward=reward, turns=turns, origin=origin)


def of(origin: Origin) -> st.SearchStrategy[Trajectory]:
    return st.builds(lambda reward, length: attempt(reward, length, origin), rewards, lengths)


@given(of("explored"), of("refined"))
def test_the_better_of_two_attempts_is_kept(explored: Trajectory, refined: Trajectory) -> None:
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
