"""WikiSQL on three tiny tables: databases, splits, the planner's answers, figures by kind of query."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from triplewise.evals import run, wikisql
from triplewise.evals.fit_sql import Choice, fit, fit_all, gold_query, gold_set, read_examples
from triplewise.evals.table import crashes, scores_of
from triplewise.evals.tasks.wikisql import split_of
from triplewise.tools.core.errors import ConfigurationError, DataError

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


@pytest.mark.usefixtures("leaks_of_inspect")
def test_the_planner_answers_and_wrong_answers_count_as_wrong(wiki: Path, tmp_path: Path) -> None:
    log = run(wikisql(n=0), log_dir=tmp_path / "logs")
    scores = scores_of(log)
    assert log.status == "success"
    assert crashes(log) == []
    assert scores["denotation.mean"] == pytest.approx(2 / 3)
    assert scores["denotation.by_aggregation_COUNT"] == 1.0
    assert scores["denotation.by_aggregation_none"] == 0.5
    assert scores["denotation.by_conditions_1"] == pytest.approx(2 / 3)
    assert scores["queries.mean"] > 0


def test_splits_share_no_table_and_never_change() -> None:
    ids = [f"2-{i}" for i in range(1_000)]
    share = sum(split_of(i) == "dev" for i in ids) / len(ids)
    assert 0.35 < share < 0.45
    assert "".join(split_of(f"1-{i}")[0] for i in range(12)) == "ttttdtttdttt"


@pytest.mark.usefixtures("wiki")
def test_an_unknown_split_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="split"):
        wikisql(split="train")  # type: ignore[arg-type]


def test_a_missing_file_is_named(data: Path) -> None:
    with pytest.raises(DataError, match="tables"):
        wikisql()


def test_weights_are_fitted_to_what_tells_right_from_wrong() -> None:
    choices = [
        Choice([{"good": 1.0, "noise": float(i % 2)}, {"bad": 1.0, "noise": 1.0}], 0) for i in range(20)
    ]
    found = fit(choices)
    assert found["good"] > 0 > found["bad"]


@pytest.mark.usefixtures("wiki")
def test_gold_queries_are_read_and_found_in_questions() -> None:
    from triplewise.evals.data import benchmark
    from triplewise.evals.tasks.wikisql import databases, questions

    own = benchmark("wikisql")
    examples = list(read_examples(questions(own, "dev"), databases(own)))
    assert all(gold_set(e.scene, e.gold) is not None for e in examples)
    assert [e.gold.aggregation for e in examples] == ["", "COUNT", ""]
    assert set(fit_all(examples)) == {"conditions", "answer", "function"}
    assert gold_query.__doc__
