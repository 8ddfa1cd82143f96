"""Questions with answers: the forms that data sets have, and what is held out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg import open_kg
from triplewise.tools.learning.exploration import Question, read_questions, rewarded, split


def written(path: Path, *records: Any) -> Path:
    path.write_text("".join(json.dumps(r) + "\n" for r in records))
    return path


def test_forms_of_data_sets(tmp_path: Path) -> None:
    path = written(
        tmp_path / "q.jsonl",
        {"id": "a", "question": "who?", "entities": {"Alien": "Q1", "Ripley": None}, "answers": ["Q2"]},
        {"question": "what?", "topic_entity": "Alien", "answers": [1979, True]},
        {"id": "c", "question": "where?", "entities": ["Alien", "Ripley"], "answers": ["x", None]},
        {"id": "d", "question": "nothing known", "answers": [None]},
    )
    assert read_questions(path) == [
        Question("a", "who?", {"Alien": "Q1", "Ripley": None}, ("Q2",)),
        Question("line-2", "what?", {"Alien": None}, ("1979", "true")),
        Question("c", "where?", {"Alien": None, "Ripley": None}, ("x",)),
    ]
    packed = tmp_path / "q.jsonl.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    assert read_questions(packed) == read_questions(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"question": "who?"}\n', "q.jsonl:1: not a question"),
        ('{"question": "who?", "answers": "a"}\n', "q.jsonl:1: not a question"),
        ('{"id": 1, "question": "q", "answers": ["a"]}\n' * 2, "q.jsonl:2: the id '1' stands twice"),
        ('{"question": "who?", "answers": []}\n', "no question with answers"),
    ],
)
def test_errors_name_file_line_and_reason(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "q.jsonl"
    with pytest.raises(DataError, match="cannot be read"):
        read_questions(path)
    path.write_text(text)
    with pytest.raises(DataError, match=message):
        read_questions(path)


QUESTIONS = [Question(str(n), f"who is {n}?", {}, ("a",)) for n in range(20)]


def test_the_held_out_share_is_the_same_and_in_order() -> None:
    learned, held = split(QUESTIONS, 0.25)
    assert (len(learned), len(held)) == (15, 5)
    assert sorted([*learned, *held], key=QUESTIONS.index) == QUESTIONS
    assert held == sorted(held, key=QUESTIONS.index)
    assert split(QUESTIONS, 0.25) == (learned, held)


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_share_that_leaves_nothing_is_refused(share: float) -> None:
    with pytest.raises(ConfigurationError, match="leaves nothing on one side"):
        split(QUESTIONS, share)


@pytest.mark.parametrize(
    ("gold", "recall", "f1", "predicted"),
    [
        (["Q1", "Q2", "Q3", "Q4"], 0.25, 1 / 3, ("Q1", "Q9")),
        (["alaska"], 1.0, 2 / 3, ("Alaska", "Yukon")),
    ],
)
def test_the_reward_is_recall_of_ids_or_names(
    gold: list[str], recall: float, f1: float, predicted: tuple[str, ...]
) -> None:
    blank = Question("q", "which?", {}, tuple(gold)).attempt()
    attempt = rewarded(open_kg("demo"), blank, ["Q1", "Q9"], ["Alaska", "Yukon"])
    assert (attempt.reward, attempt.predicted) == (recall, predicted)
    assert attempt.f1 == pytest.approx(f1)
