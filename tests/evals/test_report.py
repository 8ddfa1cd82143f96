"""Tables and pages of reports, from logs of real runs on the graph of films."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.markdown import Markdown
from typer.testing import CliRunner

from tests.evals.reported import CRASHING, logs_in
from triplewise.evals.command import app
from triplewise.evals.logs import Log, read_logs
from triplewise.evals.report.tables import (
    NO_TABLE,
    Table,
    cell_tables,
    markdown,
    notes,
    report_tables,
    system_labels,
    task_tables,
)
from triplewise.tools.core.errors import DataError, UserError


@pytest.fixture(scope="module")
def ran(film_logs: Path) -> list[Log]:
    return read_logs([film_logs])


@pytest.fixture
def agent(ran: list[Log]) -> Log:
    return ran[0]


@pytest.fixture
def oda(ran: list[Log]) -> Log:
    return with_about(ran[1], grid=None)


def test_a_table_of_few_rows_is_turned_and_breaks_no_name(agent: Log) -> None:
    logs, file = [with_about(agent, str(n), preset=f"system-{n}") for n in range(3)], io.StringIO()
    Console(width=80, file=file).print(Markdown(markdown(logs)))
    lines = file.getvalue().splitlines()
    assert any(all(f"system-{n} " in line for n in range(3)) for line in lines)
    assert max(map(len, lines)) <= 80


def grid_tables(logs: Sequence[Log]) -> list[Table]:
    """The tables of one grid's logs."""
    return report_tables(logs)


def column(table: Table, name: str) -> list[str]:
    at = list(table.columns).index(name)
    return [row[at] for row in table.rows]


def with_about(log: Log, path: str = "", **about: Any) -> Log:
    """The same log with other metadata."""
    about = {**log.about, **about}
    own = {"system": about["preset"], "cell": about.get("grid") or {}, "path": path or log.path}
    return replace(log, about=about, **own)


def with_scores(log: Log, scores: Sequence[float], system: str = "agent", path: str = "") -> Log:
    """The same log with other values of F1 and no other scores."""
    rows = log.questions.drop(columns=["hits_at_1", "exact_match"]).assign(f1=scores, error_class="")
    return replace(with_about(log, path, preset=system), questions=rows)


def in_grid(log: Log, row: str, column: str = "GrailQA", **more: Any) -> Log:
    cell: dict[str, Any] = {"name": "modes", "title": "Ways of correcting", "row": row, "column": column}
    cell |= {"table": "queryagent-table-3", "layout": "cells", "metrics": ["f1"], **more}
    return with_about(log, f"{row}-{column}", grid=cell)


def test_a_figure_has_its_interval_and_the_questions_it_is_of(agent: Log, oda: Log) -> None:
    table = task_tables([agent, oda])[0]
    figures = re.fullmatch(r"([\d.]+) \(([\d.]+)–([\d.]+)\)", column(table, "F1")[0])
    assert figures is not None
    mean, low, high = map(float, figures.groups())
    assert mean == pytest.approx(100 * agent.mean("f1"), abs=0.05)
    assert low <= mean <= high
    assert column(table, "Questions")[0] == "11 (of 40)"
    assert column(table, "Answerable %")[0] == "75.0 (of 40)"
    assert "F1, n = 10" in column(table, "Answerable only")[0]


def test_graph_gold_derived_facts_and_commit_are_named(agent: Log, oda: Log) -> None:
    said = " ".join(notes([agent, oda]))
    for words in ("1234567", "ten films", "partial", "made from gold answers", "films.jsonl 01234567"):
        assert words in said
    for table in (
        *task_tables([agent, oda])[:2],
        cell_tables("modes", [in_grid(agent, "Ours")], NO_TABLE)[0],
    ):
        cells = " ".join(cell for row in table.rows for cell in row)
        assert "partial KG, some facts made from gold answers" in cells, table.title


def test_failed_questions_are_listed(agent: Log) -> None:
    (line,) = (line for line in notes([agent]) if line.startswith("CRASHED"))
    assert f"films, agent: {CRASHING}: " in line
    assert "the graph fell over" in line


def test_the_difference_of_two_systems_has_an_interval(agent: Log) -> None:
    good = with_scores(agent, [1.0] * 11, "good", "good")
    bad = with_scores(agent, [0.0] * 10 + [1.0], "bad", "bad")
    differences = task_tables([good, bad])[2]
    (row,) = differences.rows
    assert row[:5] == ["films", "bad", "good", "F1", "11"]
    assert row[5] == "**-90.9**"
    assert re.fullmatch(r"-\d+\.\d to -\d+\.\d", row[6])


def test_systems_of_different_questions_are_not_paired(agent: Log) -> None:
    oda = with_about(agent, "other", preset="oda")
    others = replace(oda, questions=oda.questions.rename(index="other {}".format))
    assert task_tables([agent, others])[2].rows == []
    half = replace(oda, questions=oda.questions[:5])
    (row,) = task_tables([agent, half])[2].rows
    assert row[4] == "5 (6 asked of one only)"


def test_unfinished_logs_are_marked(agent: Log) -> None:
    cut = replace(agent, status="started", questions=agent.questions[:4])
    assert "UNFINISHED" in task_tables([cut])[0].rows[0][0]
    assert "UNFINISHED: films" in " ".join(notes([cut]))


def test_systems_are_called_by_what_tells_them_apart(agent: Log) -> None:
    plain = replace(agent, path="a")
    swapped = replace(agent, path="b", swapped={"correct": "raw"})
    assert list(system_labels([plain, swapped]).values()) == ["agent (correct=none)", "agent (correct=raw)"]
    assert list(system_labels([agent]).values()) == ["agent"]
    again = with_about(agent, "c", commit="abcdef999")
    assert list(system_labels([agent, again]).values()) == [
        "agent (commit=1234567)",
        "agent (commit=abcdef9)",
    ]


def test_a_grid_has_the_layout_of_the_published_table(agent: Log, oda: Log) -> None:
    cells = [in_grid(agent, "Ours"), in_grid(oda, "w/o ERASER"), in_grid(oda, "our own way")]
    table = grid_tables(cells)[0]
    assert list(table.columns) == ["Method", "Figures", "GrailQA", "GraphQ"]
    assert [(row[0].partition(" (")[0], row[1].partition(" (")[0]) for row in table.rows] == [
        ("Ours", "ours"),
        ("*Ours*", "*published*"),
        ("w/o ERASER", "ours"),
        ("*w/o ERASER*", "*published*"),
        ("*w/ zero-shot SC*", "*published*"),
        ("*w/ few-shot SC*", "*published*"),
        ("our own way", "ours"),
    ]
    ours, printed = table.rows[:2]
    assert ours[2].startswith(f"{100 * agent.mean('f1'):.1f} (")
    assert (ours[3], printed[2], printed[3]) == ("–", "*60.5*", "*50.8*")
    assert "gpt-3.5-turbo" in printed[1]
    assert "2024-03" in printed[1]
    assert "no comparison of systems" in table.note


def test_errors_are_shares_of_the_failed_questions(agent: Log) -> None:
    metrics = ["failed_ia", "failed_re", "failed_crashed"]
    cells = in_grid(agent, "WebQSP", "SymAgent", table="symagent-table-5", metrics=metrics)
    table = grid_tables([cells])[0]
    assert list(table.columns)[2:] == [f"SymAgent {name}" for name in ("IA", "EA", "EMS", "RE", "Crashed")]
    ours, printed = table.rows[:2]
    failed = sum(map(bool, agent.questions["error_class"]))
    assert ours[-1].startswith(f"{100 / failed:.1f}")
    assert f"n = {failed}" in ours[-1]
    assert printed[2:] == ["*3.77*", "*0*", "*1.89*", "*94.34*", "–"]


@pytest.mark.parametrize(("layout", "table"), [("guidelines", 9), ("guideline-sources", 8)])
def test_grids_of_guidelines_count_what_corrected(agent: Log, layout: str, table: int) -> None:
    first, *rest = agent.questions["guidelines"]
    ids = [[*first, "other_error", "other_error"], *rest]
    fired = replace(agent, questions=agent.questions.assign(guidelines=ids))
    (shown,) = grid_tables([in_grid(fired, "QueryAgent", table=f"queryagent-table-{table}", layout=layout)])
    name = "other_error" if layout == "guidelines" else "Python"
    ours = next(row for row in shown.rows if row[0] == name)
    assert [*ours[1:3], ours[4]] == ["ours", "Python", "2"]
    assert any(row[4] in ("*204*", "*2867*") for row in shown.rows)


def test_a_grid_without_a_published_table_is_a_table_too(agent: Log) -> None:
    metrics = ["f1", "hits_at_1"]
    (table,) = grid_tables([in_grid(agent, "a", "films", name="mine", table="", metrics=metrics)])
    assert list(table.columns) == ["Method", "Figures", "films F1", "films Hits@1"]
    assert len(table.rows) == 1


def test_markdown_is_stable_and_harmless(ran: list[Log]) -> None:
    cells = [ran[0], in_grid(ran[0], "Ours")]
    first, again = (markdown(cells) for _ in range(2))
    assert first == again
    assert "*60.5*" in first  # a published figure
    evil = with_about(ran[0], kg="<script>|x|\n[1](http://x)", benchmark="*b*")
    text = markdown([evil])
    assert "<script>" not in text
    assert r"&lt;script&gt;\|x\| \[1\](http://x)" in text


def test_the_command_prints_and_writes_markdown(film_logs: Path, tmp_path: Path) -> None:
    text = tmp_path / "report.md"
    result = CliRunner().invoke(app, ["report", str(film_logs), "--markdown", str(text)])
    assert result.exit_code == 0, result.output
    written = text.read_text(encoding="utf-8")
    assert "## Answers by task and system" in written
    assert "## Ways of correcting" in written
    shown = CliRunner().invoke(app, ["report", *map(str, logs_in(film_logs))])
    assert "Cost of a question" in shown.output


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["nowhere"], "nowhere: nothing is here"),
        (["LOGS", "--markdown", "no/folder/report.md"], "no folder .*; make it first"),
        (["LOGS", "--markdown", "."], "is a folder; name a file in it"),
    ],
)
def test_what_cannot_be_read_or_written_is_named_first(
    film_logs: Path, given: list[str], message: str
) -> None:
    arguments = [str(film_logs) if word == "LOGS" else word for word in given]
    result = CliRunner().invoke(app, ["report", *arguments])
    assert isinstance(result.exception, UserError)
    with pytest.raises(DataError, match=message):
        raise result.exception
