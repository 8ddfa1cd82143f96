"""Grids: their files, their cells, and running, keeping and resuming them on a tiny MetaQA."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from inspect_ai.log import list_eval_logs, read_eval_log
from typer.testing import CliRunner

from tests.evals.reported import scores_of
from tests.support.openai_server import Messages, OpenAIServer
from tests.support.opened import close_all
from triplewise.evals.command import app
from triplewise.evals.evaluation import task_arguments
from triplewise.evals.grids.grid import Cell, GridFile, Outcome, cells_of, load_grid, run_grid, shipped
from triplewise.evals.report.tables import published
from triplewise.tools.core.errors import ConfigurationError, DataError

from .conftest import write_questions

PAPERS = {
    *(f"queryagent-table-{n}" for n in (3, 6, 7, 8, 9)),
    *(f"oda-table-{n}" for n in (2, 3, 4)),
    *(f"symagent-table-{n}" for n in (1, 3, 4, 5)),
    *(f"symagent-figure-{n}" for n in (3, 4)),
}
GRID = """name: tiny
title: A tiny grid
defaults: {system: agent}
columns:
  - {column: one hop, task: metaqa, set: {hops: 1}}
rows:
  - row: rules
  - {row: no plan, set: {plan: none}}
"""


def test_the_papers_tables_are_shipped() -> None:
    assert set(shipped()) == PAPERS | {"results"}
    with pytest.raises(ConfigurationError, match="queryagent-table-3"):
        load_grid("queryagent-table-33")


@pytest.mark.parametrize("name", sorted(PAPERS))
def test_a_shipped_grid_mirrors_its_table_with_legal_names(name: str) -> None:
    (file, document), table = load_grid(name), published()[name]
    assert file.name == file.published == name
    assert file.notes
    if file.layout == "cells":
        columns = [name for name in table.columns if name != "Average"]
        assert columns == [c.column for c in file.columns]
    tasks = {name: c["task"] for name, c in table.columns.items()}
    assert all(c.task in ("", tasks[c.column]) for c in file.columns)
    for model in ("embedded", "openai:any"):
        cells = cells_of((file, document), model)
        assert len(cells) == len(file.rows) * len(file.columns)
        reasons = ["needs --set ", *["needs a language model"] * (model == "embedded")]
        assert all(not c.why_not or c.why_not.startswith(tuple(reasons)) for c in cells)


def test_a_cell_may_have_documents_whose_reader_the_run_names() -> None:
    given = {"preset": "symagent", "documents": "folder"}
    assert task_arguments("metaqa", given)["settings"] == {"documents": "folder"}


def write(tmp_path: Path, text: str = GRID) -> GridFile:
    """A grid file, loaded."""
    path = tmp_path / "grid.yaml"
    path.write_text(text, encoding="utf-8")
    return load_grid(path)


WRONG = [
    ("system: agent", "system: agnet", 7, "unknown preset or baseline 'agnet'; choose one of"),
    ("task: metaqa", "task: metaq", 7, "unknown task 'metaq'; choose one of: "),
    ("{hops: 1}", "{hop: 1}", 7, "cell rules / one hop: unknown name to set 'hop'; did you mean 'hops'"),
    ("{hops: 1}", "{preset: oda}", 7, "'preset' is set by system"),
    ("{plan: none}", "{plan: noon}", 8, "unknown variant of phase plan 'noon'; choose one of: auto, for-"),
    ("{plan: none}", "{observe_depth: 0}", 8, "setting observe_depth: input should be"),
    ("set: {plan: none}", "sets: {plan: none}", 8, "rows.1.sets: unknown key"),
    ("{plan: none}}", "{plan: none}, needs: [kgs]}", 8, "unknown name in needs 'kgs'; did you mean 'kg'"),
    ("title: A tiny grid", "titel: A tiny grid", 2, "titel: unknown key; did you mean 'title'"),
    ("row: no plan", "row: rules", 8, "'rules' is there twice"),
    ("name: tiny", "name: tiny\npublished: t-3", 2, "unknown published table 't-3'; choose one of: "),
    ("task: metaqa", "limit: 3", 7, "cell rules / one hop: no task: give one"),
]


@pytest.mark.parametrize(("old", "new", "line", "message"), WRONG)
def test_what_is_wrong_is_named_with_file_line_and_legal_names(
    tmp_path: Path, old: str, new: str, line: int, message: str
) -> None:
    with pytest.raises(DataError) as caught:
        cells_of(write(tmp_path, GRID.replace(old, new)))
    assert str(caught.value).startswith(f"{tmp_path / 'grid.yaml'}:{line}: ")
    assert message in str(caught.value)


def test_a_cell_is_what_defaults_column_and_row_say_the_last_winning(tmp_path: Path) -> None:
    text = """name: order
title: Order
defaults: {system: agent, limit: 9, set: {plan_hops: 1, seed_count: 1, plan_rules: 1}}
columns:
  - {column: c, task: metaqa, set: {seed_count: 2, plan_rules: 2}}
  - {column: d, task: metaqa, limit: 8}
rows:
  - {row: r, set: {plan_rules: 3}}
"""
    cells = cells_of(write(tmp_path, text))
    assert [(c.column, c.spec.limit) for c in cells] == [("c", 9), ("d", 8)]
    plan = [tuple(c.spec.set[n] for n in ("plan_hops", "seed_count", "plan_rules")) for c in cells]
    assert plan == [(1, 2, 3), (1, 1, 3)]


def test_choices_of_the_command_line_win(tmp_path: Path) -> None:
    file = write(tmp_path)
    given = {"plan": "proposed", "hops": 3, "max_steps": 5}
    first, second = cells_of(file, limit=4, given=given)
    assert first.spec.limit == 4
    assert first.spec.set.items() >= given.items()
    assert second.spec.set["plan"] == "proposed"
    with pytest.raises(ConfigurationError, match="unknown name in --set 'planner'; did you mean 'plan'"):
        cells_of(file, given={"planner": 1})
    with pytest.raises(ConfigurationError, match="--set: unknown variant of phase plan 'x'"):
        cells_of(file, given={"plan": "x"})
    with pytest.raises(ConfigurationError, match="unknown name in --set 'model'"):
        cells_of(file, given={"model": "openai:x"})


@pytest.mark.parametrize(
    ("pattern", "rows"),
    [
        ("w*", ["w/o RR", "w/o RR", "w HS", "w HS"]),
        ("W/O RR/b", ["w/o RR"]),
        ("w/o RR", ["w/o RR", "w/o RR"]),
        ("*/b", ["w/o RR", "w HS"]),
        ("w hs/*", ["w HS", "w HS"]),
    ],
)
def test_only_takes_rows_with_slashes_in_them(tmp_path: Path, pattern: str, rows: list[str]) -> None:
    text = """name: only
title: Only
defaults: {system: agent, task: metaqa}
columns: [{column: a}, {column: b}]
rows: [{row: w/o RR}, {row: w HS}]
"""
    file = write(tmp_path, text)
    assert [c.row.row for c in cells_of(file, only=[pattern])] == rows
    with pytest.raises(ConfigurationError, match="no cell matches --only x/y; there are: w/o RR/a, "):
        cells_of(file, only=["x/y"])


def test_what_a_row_and_its_column_need_has_to_be_given(tmp_path: Path) -> None:
    text = GRID.replace("set: {hops: 1}", "set: {hops: 1}, needs: [kg]").replace(
        "row: rules", "{row: rules, needs: [documents]}"
    )
    file = write(tmp_path, text)
    assert [c.why_not for c in cells_of(file)] == ["needs --set kg=..."] * 2
    assert [c.why_not for c in cells_of(file, given={"kg": "x"})] == ["needs --set documents=...", ""]
    assert not any(c.why_not for c in cells_of(file, given={"kg": "x", "documents": "y"}))


@pytest.fixture
def closed(data: Path) -> Iterator[Path]:
    """The tiny MetaQA; its graph is closed afterwards."""
    yield data
    close_all()


def run(file: GridFile, folder: Path, cells: list[Cell] | None = None, **more: Any) -> list[Outcome]:
    """All outcomes of a grid."""
    return list(run_grid(file[0], cells or cells_of(file), log_dir=folder, **more))


def f1(outcome: Outcome) -> float:
    """The F1 of a cell."""
    assert outcome.log is not None, outcome.why
    return scores_of(outcome.log)["f1.mean"]


def about(outcome: Outcome) -> dict[str, Any]:
    """What a cell was measured on."""
    assert outcome.log is not None, outcome.why
    return outcome.log.eval.metadata or {}


def test_a_grid_runs_is_kept_and_runs_again_where_something_changed(closed: Path, tmp_path: Path) -> None:
    file, logs, stages = write(tmp_path), tmp_path / "logs", list[str]()
    first = run(file, logs, notify=stages.append)
    assert [(o.cell.row.row, o.state) for o in first] == [("rules", "done"), ("no plan", "done")]
    assert f1(first[0]) == 1.0
    assert stages == []
    place = {"name": "tiny", "title": "A tiny grid", "row": "no plan", "column": "one hop"}
    assert about(first[1])["grid"].items() >= place.items()
    again = run(file, logs)
    assert [o.state for o in again] == ["complete before"] * 2
    assert [o.log and o.log.location for o in again] == [o.log and o.log.location for o in first]
    changed = write(tmp_path, GRID.replace("{plan: none}", "{plan: proposed}"))
    assert [o.state for o in run(changed, logs)] == ["complete before", "done"]
    write_questions(closed / "metaqa" / "test_1hop.jsonl.gz", "other")
    assert [o.state for o in run(file, logs)] == ["done", "done"]
    assert len(list_eval_logs(str(logs))) == 5


def test_a_failing_cell_is_listed_and_the_grid_goes_on(closed: Path, tmp_path: Path) -> None:
    text = GRID.replace("set: {plan: none}", "set: {hops: 9}").replace("  - row: rules\n", "")
    text += "  - {row: without, needs: [documents]}\n  - row: rules\n"
    outcomes = run(write(tmp_path, text), tmp_path / "logs")
    assert [o.state for o in outcomes] == ["failed", "skipped", "done"]
    assert "unknown hops '9'; choose one of: 1, 2, 3" in outcomes[0].why.replace(" 9;", " '9';")
    assert outcomes[1].why == "needs --set documents=..."


def test_crashes_are_counted_and_a_cell_of_nothing_else_has_failed(
    closed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    text = GRID.replace("system: agent", "system: direct").replace(
        "  - {row: no plan, set: {plan: none}}\n", ""
    )
    file = write(tmp_path, text)

    def asked(server: OpenAIServer) -> Outcome:
        given = {"base_url": server.url}
        (outcome,) = run(file, tmp_path / "logs", cells_of(file, "openai:scripted", given=given))
        return outcome

    with OpenAIServer(lambda messages: "Ridley Scott", models=["another"]) as server:
        failed = asked(server)
    assert failed.state == "failed"
    assert failed.why.startswith("every question crashed: ")
    with OpenAIServer(["Ridley Scott"]) as server:
        some = asked(server)
    assert some.state == "done"
    assert some.log is not None
    assert scores_of(some.log)["crashed.mean"] == 0.75


@pytest.mark.usefixtures("closed")
def test_questions_that_crash_are_named_and_fail_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    with OpenAIServer(["Ridley Scott"]) as server:
        asked = ["run", "metaqa", "--set", "hops=1", "--system", "direct", "--model", "openai:scripted"]
        done = CliRunner().invoke(app, [*asked, "--base-url", server.url, "--log-dir", str(tmp_path)])
    assert done.exit_code == 3
    assert "3 questions crashed and count as wrong (first " in " ".join(done.stderr.split())
    assert "the same command asks them again" in " ".join(done.stderr.split())


SCRIPT = """
import sys
from pathlib import Path
from triplewise.evals.grids.grid import cells_of, load_grid, run_grid

file = load_grid(sys.argv[1])
cells = cells_of(file, "openai:scripted", given={"base_url": sys.argv[3]})
for outcome in run_grid(file[0], cells, log_dir=Path(sys.argv[2])):
    print(outcome.cell.row.row, outcome.state, flush=True)
"""


def test_the_command_lists_shows_runs_and_tells_what_failed(closed: Path, tmp_path: Path) -> None:
    asked = CliRunner(env={"COLUMNS": "160"})
    assert all(name in asked.invoke(app, ["grid"]).output for name in PAPERS)
    text = GRID + "  - {row: no hops, set: {hops: 9}}\n  - {row: words, system: direct}\n"
    path = str(write(tmp_path, text)[1].path)
    shown = asked.invoke(app, ["grid", path, "--dry-run", "--limit", "2", "--set", "plan_hops=2"])
    assert shown.exit_code == 0
    plan = " ".join(shown.output.split())
    for words in (
        "3 of 4 cells to run",
        "agent on metaqa",
        "plan=none, plan_hops=2",
        "needs a language model",
    ):
        assert words in plan
    ran = asked.invoke(app, ["grid", path, "--limit", "2", "--log-dir", str(tmp_path / "logs")])
    assert ran.exit_code == 3
    said = " ".join(ran.output.split())
    assert "no hops / one hop: failed: unknown hops 9" in said
    assert "skipped: words / one hop: needs a language model: --model openai:NAME" in said
    assert "A tiny grid" in said
    assert "n = 2" in said
    again = [*("grid", path, "--limit", "2", "--only", "rules"), "--log-dir", str(tmp_path / "logs")]
    assert "rules / one hop: complete before" in asked.invoke(app, again).output


def test_a_killed_grid_goes_on_where_it_was(closed: Path, tmp_path: Path) -> None:
    text = GRID.replace("system: agent", "system: direct").replace(", set: {plan: none}", "")
    file, logs = write(tmp_path, text), tmp_path / "logs"
    broken_off(file, logs)
    with OpenAIServer(lambda messages: "Ridley Scott") as server:
        cells = cells_of(file, "openai:scripted", given={"base_url": server.url})
        outcomes = run(file, logs, cells)
        assert [o.state for o in outcomes] == ["complete before", "done"]
        assert 1 <= len(server.chats) <= 4
    finished = [read_eval_log(log, header_only=True).status for log in list_eval_logs(str(logs))]
    assert finished.count("success") == 2


def broken_off(file: GridFile, logs: Path) -> None:
    """Run a grid in a process of its own, which is killed in the middle of its second cell."""

    def answer(messages: Messages) -> str:
        if len(server.chats) > 6:
            server.closing.wait(60)
        return "Ridley Scott"

    with OpenAIServer(answer) as server:
        command = [sys.executable, "-c", SCRIPT, str(file[1].path), str(logs), server.url]
        environment = {**os.environ, "OPENAI_API_KEY": "x"}
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
            assert process.stdout is not None
            assert process.stdout.readline() == "rules done\n"
            until = time.monotonic() + 60
            while len(server.chats) < 7 and time.monotonic() < until:
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
            server.closing.set()
            assert process.wait(60) != 0
            assert process.stdout.read() == ""
