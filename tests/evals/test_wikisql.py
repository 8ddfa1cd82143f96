"""WikiSQL on three tiny tables: databases, splits, a model's answers, figures by kind of query."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.evals.reported import scores_of
from tests.support.openai_server import OpenAIServer
from triplewise.evals import run, wikisql
from triplewise.evals.evaluation import crashes
from triplewise.evals.tasks import split_of
from triplewise.tools.core.errors import ConfigurationError

HEADER = ["player", "club", "", "goals", "Goals"]
ROWS = [
    ["ana peña", "red lions", "x", "3", "30"],
    ["bo li", "red lions", "y", "5", "50"],
    ["cid ahn", "blue foxes", "z", "4", "40"],
]
QUESTIONS = [
    (
        "Which player is with the club Blue Foxes?",
        {"sel": 0, "agg": "", "conds": [[1, "=", "blue foxes"]]},
        ["cid ahn"],
    ),
    (
        "How many players are with the club Red Lions?",
        {"sel": 0, "agg": "COUNT", "conds": [[1, "=", "red lions"]]},
        [2],
    ),
    (
        "Which club has Ana Peña?",
        {"sel": 1, "agg": "", "conds": [[0, "=", "ana peña"]]},
        ["wrong on purpose"],
    ),
]


ACTIONS = {
    QUESTIONS[0][0]: ("add_condition(club, =, blue foxes)", "set_answer(player, None)"),
    QUESTIONS[1][0]: ("add_condition(club, =, red lions)", "set_answer(player, COUNT)"),
    QUESTIONS[2][0]: ("add_condition(player, =, ana peña)", "set_answer(club, None)"),
}


@pytest.fixture
def wiki(data: Path) -> Path:
    """The data folder with one table, and the same questions on it, for each split."""
    folder = data / "wikisql"
    folder.mkdir()
    ids = [f"1-{i}" for i in range(60)]
    chosen = {split: next(i for i in ids if split_of(i) == split) for split in ("dev", "test")}
    write(folder / "tables.jsonl.gz", [{"id": i, "header": HEADER, "rows": ROWS} for i in chosen.values()])
    write(folder / "questions_with_tables.jsonl.gz", [r for i in chosen.values() for r in records(i)])
    return data


def records(table: str) -> list[dict[str, Any]]:
    return [
        {"id": f"{table}-{n}", "table_id": table, "question": text, "sql": sql, "answers": answers}
        for n, (text, sql, answers) in enumerate(QUESTIONS)
    ]


def write(path: Path, found: list[dict[str, Any]]) -> None:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in found)


@pytest.mark.usefixtures("wiki")
def test_a_model_answers_and_wrong_answers_count_as_wrong(
    tmp_path: Path, openai_server: Callable[..., OpenAIServer]
) -> None:
    def reply(messages: list[dict[str, Any]]) -> str:
        """The next action of the question that is asked."""
        asked = messages[-1]["content"]
        actions = next(made for question, made in ACTIONS.items() if question in asked)
        return f"Thought: go on\nAction: {next((a for a in actions if a not in asked), 'execute()')}"

    server = openai_server(reply)
    task = wikisql(n=0, model="openai:scripted", settings={"base_url": server.url, "api_key_env": ""})
    log = run(task, log_dir=tmp_path / "logs")
    scores = scores_of(log)
    assert log.status == "success"
    assert crashes(log) == []
    assert scores["exact_match.mean"] == pytest.approx(2 / 3)
    assert scores["queries.mean"] > 0


def test_splits_share_no_table_and_never_change() -> None:
    ids = [f"2-{i}" for i in range(1_000)]
    share = sum(split_of(i) == "dev" for i in ids) / len(ids)
    assert 0.35 < share < 0.45
    assert "".join(split_of(f"1-{i}")[0] for i in range(12)) == "ttttdtttdttt"


def test_a_model_is_needed() -> None:
    with pytest.raises(ConfigurationError, match="needs a language model"):
        wikisql()
