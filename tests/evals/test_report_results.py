"""`eval results`: what is run, what is kept, and the file that is made from the logs."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from inspect_ai import Task
from typer.testing import CliRunner

from tests.evals.reported import films_task
from triplewise.evals import evaluation
from triplewise.evals.command import app
from triplewise.evals.evaluation import TASKS
from triplewise.evals.report import command
from triplewise.evals.report.command import shipped_tasks
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.kg.open import close_all

pytestmark = pytest.mark.usefixtures("leaks_of_inspect")


@pytest.fixture
def films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Puts films in the place of the shipped tasks, one of which lacks its data; gives what was made."""
    made: list[str] = []

    def make(name: str, given: dict[str, Any]) -> Task:
        made.append(f"{name} {given['n']}")
        if name == "webqsp":
            raise DataError("missing; get it", tmp_path / "webqsp.jsonl")
        return films_task(tmp_path, "agent" if name == "metaqa" else "oda")

    names = ("metaqa", "trex", "webqsp")
    monkeypatch.setattr(command, "make_task", make)
    monkeypatch.setattr(command, "shipped_tasks", lambda: [(name, {}) for name in names])
    return lambda: made


def test_every_task_is_run_with_arguments_that_it_has() -> None:
    shipped = shipped_tasks()
    assert {task for task, _ in shipped} == set(TASKS)
    assert [given for task, given in shipped if task == "metaqa"] == [{"hops": n} for n in (1, 2, 3)]
    for task, given in shipped:
        assert set(given) <= set(inspect.signature(TASKS[task]).parameters), task


def test_results_are_written_and_what_is_finished_is_kept(
    films: Callable[[], list[str]], tmp_path: Path
) -> None:
    out = tmp_path / "RESULTS.md"
    given = ["results", "--limit", "11", "--log-dir", str(tmp_path / "logs"), "--out", str(out)]
    first = CliRunner().invoke(app, given)
    close_all()
    assert first.exit_code == 3, first.output  # one task has no data
    assert films() == ["metaqa 11", "trex 11", "webqsp 11"]
    text = out.read_text(encoding="utf-8")
    for words in (
        "NOT RUN TO ITS END: webqsp: ",
        "missing; get it",
        "some facts made from gold answers",
        "commit 1234567",
        "## Questions that failed",
        "the graph fell over",
        "--limit 11 --out evals/RESULTS.md",
    ):
        assert words in text
    again = CliRunner().invoke(app, given)
    assert "metaqa: done" in again.stderr
    assert len(list((tmp_path / "logs").rglob("*.eval"))) == 2
    assert out.read_text(encoding="utf-8") == text


def test_what_other_code_measured_is_run_again(
    films: Callable[[], list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logs = []
    for code in ("one", "one", "two"):
        monkeypatch.setattr(evaluation, "code_checksum", lambda code=code: code)
        out = ["--log-dir", str(tmp_path / "logs"), "--out", str(tmp_path / "RESULTS.md")]
        CliRunner().invoke(app, ["results", "--task", "metaqa", *out])
        logs.append(len(list((tmp_path / "logs").rglob("*.eval"))))
        close_all()
    assert logs == [1, 1, 2]


def test_impossible_arguments_are_refused_before_anything_runs(tmp_path: Path) -> None:
    for given, kind, message in (
        (["--task", "triviaqa"], ConfigurationError, "unknown task 'triviaqa'"),
        (["--out", str(tmp_path / "no" / "R.md")], DataError, "no folder .*; make it first"),
    ):
        result = CliRunner().invoke(app, ["results", *given])
        with pytest.raises(kind, match=message):
            raise result.exception or AssertionError(result.output)
