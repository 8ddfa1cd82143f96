"""Trajectories on disk: what is appended stays, what was cut short goes, and every text comes back."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from triplewise.tools.core.errors import DataError
from triplewise.tools.learning.journal import (
    Journal,
    read_line,
    read_trajectories,
    write_line,
    write_trajectories,
)
from triplewise.tools.learning.trajectory import Choice, Trajectory, Turn

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
    return Trajectory(
        name, "who?", {}, ("a",), turns=(Turn("think", "act()", "see\u2028more"),), iteration=iteration
    )


@given(trajectories)
def test_a_trajectory_is_one_line_and_comes_back(trajectory: Trajectory) -> None:
    line = write_line(trajectory)
    assert line.count("\n") == 1
    assert read_line(line) == trajectory


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(trajectories, max_size=4))
def test_a_file_of_trajectories_comes_back(tmp_path: Path, many: list[Trajectory]) -> None:
    write_trajectories(tmp_path / "t.jsonl", many)
    assert read_trajectories(tmp_path / "t.jsonl") == many


def test_what_is_appended_is_there_for_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "j.jsonl"
    journal = Journal(path)
    for name in "ab":
        journal.append(made(name))
    journal.append(made("a", iteration=1))
    again = Journal(path)
    assert (0, "explored", "a") in again
    assert (0, "refined", "a") not in again
    assert list(again.of(0, "explored")) == ["a", "b"]
    assert list(again.of(1, "explored")) == ["a"]
    assert again.of(0, "explored")["b"] == made("b")
    journal.close()
    again.close()


def test_every_cut_loses_the_last_line_only(tmp_path: Path) -> None:
    """Wherever in the last line a kill falls, the lines before it stay and the next one is whole."""
    path = tmp_path / "j.jsonl"
    whole, last = write_line(made("a")).encode(), write_line(made("é")).encode()
    for length in range(len(last)):
        path.write_bytes(whole + last[:length])
        notes: list[str] = []
        journal = Journal(path, notes.append)
        assert list(journal.of(0, "explored")) == ["a"]
        assert len(notes) == (length > 0)
        journal.append(made("c"))
        journal.close()
        assert path.read_bytes() == whole + write_line(made("c")).encode()


def test_no_question_is_explored_twice(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    journal.append(made("a"))
    with pytest.raises(ValueError, match="already"):
        journal.append(replace(made("a"), reward=1.0))
    journal.close()


def test_threads_do_not_mix_lines(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "j.jsonl")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: journal.append(made(str(n))), range(200)))
    journal.close()
    assert {t.id for t in read_trajectories(tmp_path / "j.jsonl")} == {str(n) for n in range(200)}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "not JSON"),
        ("[]", "is no object"),
        ('{"id": "a", "question": "q"}', "lacks answers"),
        ('{"id": "a", "question": "q", "answers": [], "price": 1}', "unknown keys price"),
        ('{"id": "a", "question": "q", "answers": [], "turns": [{"said": 1}]}', "not a trajectory"),
        ('{"id": "a", "question": "q", "answers": [], "reward": "much"}', "not a trajectory"),
    ],
)
def test_a_broken_line_is_named(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text(write_line(made("a")) + line + "\n")
    with pytest.raises(DataError, match=f"t.jsonl:2: .*{said}"):
        read_trajectories(path)


def test_only_three_keys_are_needed() -> None:
    found = read_line(json.dumps({"id": "a", "question": "who?", "answers": ["x"]}))
    assert found == Trajectory("a", "who?", {}, ("x",))
