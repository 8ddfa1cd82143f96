"""`triplewise learn` as a person sees it, and `ask --config` with what it leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.graphs.conftest import Cli
from tests.support.films import iri, write_graph, write_questions
from tests.support.learning_kills import NoteLearner


@pytest.fixture
def films(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Questions, a graph, and a learner that takes no time."""
    write_graph(tmp_path / "films.nt")
    write_questions(tmp_path / "questions.jsonl")
    monkeypatch.setattr("triplewise.graphs.learning.learner_for", lambda *given: NoteLearner())
    return tmp_path


def command(films: Path, *more: str) -> list[str]:
    kg = ("--kg", str(films / "films.nt"))
    return ["learn", str(films / "questions.jsonl"), *kg, "--into", str(films / "run"), *more]


def test_figures_and_settings_are_left(films: Path, cli: Cli) -> None:
    done = cli(*command(films, "--validation", "0.3", "--set", "plan_hops=2"))
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert [line.split(":")[0] for line in lines if line.startswith("iteration")] == ["iteration 1"]
    assert "0.667 -> 0.667" in done.out
    assert "is negligible (+0.0000, less than 0.001); settings of the best" in " ".join(done.err.split())

    config = films / "run" / "settings.yaml"
    assert "plan_hops: 2" in config.read_text()
    asked = ("ask", "who directed Ran?", "--entity", f"Ran={iri('Ran')}", "--config", str(config))
    answer = json.loads(cli(*asked, "--json").out)
    assert answer["labels"] == ["Akira Kurosawa"]


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["learn", "q.jsonl", "--into", "x", "--set", "hops=2"], "unknown setting 'hops'"),
        (["ask", "who?", "--config", "none.yaml"], "none.yaml: cannot be read"),
        (["ask", "who?", "--config", "list.yaml"], "must map settings to values"),
        (["ask", "who?", "--config", "odd.yaml"], "unknown setting in odd.yaml 'hops'"),
        (["ask", "--resume", "--config", "odd.yaml"], "leave them out"),
    ],
)
def test_errors_come_without_a_traceback(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], part: str
) -> None:
    monkeypatch.chdir(tmp_path)
    write_questions(tmp_path / "q.jsonl")
    (tmp_path / "list.yaml").write_text("- a\n")
    (tmp_path / "odd.yaml").write_text("hops: 2\n")
    done = cli(*arguments)
    assert done.code == 2
    assert part in done.err.replace("\n", " ")
    assert "Traceback" not in done.err


def test_ctrl_c_leaves_a_run_that_can_be_gone_on_with(tmp_path: Path) -> None:
    write_graph(tmp_path / "films.nt")
    write_questions(tmp_path / "questions.jsonl")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path), "XDG_CACHE_HOME": str(tmp_path)}
    arguments = [sys.executable, "-m", "triplewise.graphs", *command(tmp_path, "--validation", "0.3")]
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, env=environment)
    journal = tmp_path / "run" / "trajectories.jsonl"
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and not (journal.is_file() and journal.stat().st_size):
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "goes on" in errors
    assert "Traceback" not in errors
    assert journal.read_bytes().endswith(b"\n")
