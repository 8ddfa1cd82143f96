"""The grid of all tasks: what is run, what is kept, and the file that is made from the logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from typer.testing import CliRunner

from tests.evals.reported import films_task
from tests.support.opened import close_all
from triplewise.evals import evaluation
from triplewise.evals.command import app
from triplewise.evals.grids.grid import cells_of, load_grid
from triplewise.evals.tasks import TASKS
from triplewise.tools.core.errors import ConfigurationError, DataError


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Puts films in the place of the shipped tasks, one of which lacks its data; what was made."""
    made: list[str] = []

    def make(name: str, given: dict[str, Any]) -> Task:
        made.append(f"{name} {given['n']}")
        if name == "grailqa":
            raise DataError("missing; get it", tmp_path / "grailqa.jsonl")
        return films_task(tmp_path, "agent" if name == "cwq" else "oda")

    monkeypatch.setattr(evaluation, "make_task", make)
    return made


def test_every_task_is_run_and_those_that_need_a_model_are_skipped() -> None:
    cells = cells_of(load_grid("results"))
    assert {cell.spec.task for cell in cells} == set(TASKS)
    assert [cell.spec.set["hops"] for cell in cells if cell.spec.task == "metaqa"] == [1, 2, 3]
    assert [cell.column for cell in cells if cell.why_not] == ["wikisql"]


def test_results_are_written_and_what_is_finished_is_kept(made: list[str], tmp_path: Path) -> None:
    out = tmp_path / "RESULTS.md"
    tasks = ["--only", "*/cwq", "--only", "*/creak", "--only", "*/grailqa"]
    given = ["grid", "results", *tasks, "--limit", "11", "--log-dir", str(tmp_path / "logs")]
    report = ["report", str(tmp_path / "logs"), "--markdown", str(out)]
    first = CliRunner().invoke(app, given)
    assert "grailqa: failed: " in (failed := " ".join(first.stderr.split()))
    assert "missing; get it" in failed
    CliRunner().invoke(app, report)
    close_all()
    assert first.exit_code == 3, first.output  # one task has no data
    assert made == ["creak 11", "cwq 11", "grailqa 11"]
    text = out.read_text(encoding="utf-8")
    for words in (
        "some facts made from gold answers",
        "a question that crashed counts as wrong",
        "commit 1234567",
        "CRASHED, and counted as wrong",
        "the graph fell over",
    ):
        assert words in text
    again = CliRunner().invoke(app, given)
    assert "asks again what crashed: " in again.stderr
    assert len(list((tmp_path / "logs").rglob("*.eval"))) == 2
    CliRunner().invoke(app, report)
    assert out.read_text(encoding="utf-8") == text


def test_what_other_code_measured_is_run_again(
    made: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = []
    for code in ("one", "one", "two"):
        monkeypatch.setattr(evaluation, "code_checksum", lambda code=code: code)
        given = ["--only", "*/cwq", "--limit", "11", "--log-dir", str(tmp_path / "logs")]
        CliRunner().invoke(app, ["grid", "results", *given])
        logs.append(len(list((tmp_path / "logs").rglob("*.eval"))))
        close_all()
    assert logs == [1, 1, 2]


def test_impossible_arguments_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for given, kind, message in (
        (["--only", "triviaqa"], ConfigurationError, "no cell matches --only triviaqa; there are: "),
    ):
        result = CliRunner().invoke(app, ["grid", "results", *given])
        with pytest.raises(kind, match=message):
            raise result.exception or AssertionError(result.output)
