"""Logs read back: figures, crashes, tags, unfinished and broken ones."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from inspect_ai.log import read_eval_log, write_eval_log

from tests.evals.reported import CRASHING, cell, logs_in, run_films
from triplewise.evals.results import Result, configuration, latest, read_results
from triplewise.evals.table import scores_of
from triplewise.tools.core.errors import DataError


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    run_films(folder)
    run_films(folder, "oda", **cell("Ours", 2, extra="kept"))
    return folder / "logs"


@pytest.fixture(scope="module")
def results(logs: Path) -> list[Result]:
    return read_results([logs])


pytestmark = pytest.mark.usefixtures("leaks_of_inspect")


def test_figures_are_those_of_the_log(logs: Path, results: list[Result]) -> None:
    scores = scores_of(read_eval_log(str(logs_in(logs)[0])))
    first = results[0]
    for name in ("f1", "hits_at_1", "exact_match", "queries"):
        assert first.mean(name) == pytest.approx(scores[f"{name}.mean"])
    assert len(first.scores("f1")) == 11
    assert first.metric == "f1"
    assert math.isnan(first.mean("nothing"))


def test_a_crash_counts_as_wrong_and_is_told(results: list[Result]) -> None:
    (crash,) = results[0].crashes
    assert (crash.id, crash.error, crash.error_class) == (
        CRASHING,
        "RuntimeError('the graph fell over')",
        "crashed",
    )
    assert results[0].scores("f1")[CRASHING] == 0.0
    assert crash.gold == ("Alfred Hitchcock",)


def test_a_log_tells_what_it_was_measured_on(results: list[Result]) -> None:
    first, second = results
    about = first.about
    assert (first.task, first.version, first.system, first.model) == ("films", "3", "agent", "embedded")
    assert (about.partial, about.gold_derived, about.commit, about.dirty) == (True, True, "1234567890", False)
    assert (about.answerable, about.asked, about.drawn_from) == (30, 40, 40)
    assert first.cell is None
    assert second.cell is not None
    assert (second.cell.row, second.cell.column, second.seed) == ("Ours", "GrailQA", 2)
    assert second.cell.more == {"extra": "kept"}
    assert "kg" not in first.settings  # a path of the machine it ran on


def test_tags_and_what_the_graph_can_answer(results: list[Result]) -> None:
    asked = {question.id: question for question in results[0].questions}
    assert asked["Jaws"].tags == {"hops": "1", "level": "iid"}
    assert not asked["none"].answerable
    whole, part = results[0].scores("f1"), results[0].scores("f1", answerable=True)
    assert set(whole) - set(part) == {"none"}
    assert asked["Jaws"].run.labels == ["Steven Spielberg"]


def test_traces_are_read_only_where_they_are_wanted(logs: Path, results: list[Result]) -> None:
    traced = read_results([logs], traces=True)
    assert any(question.run.trace for question in traced[0].questions)
    assert not any(question.run.trace for question in results[0].questions)


def test_of_the_same_configuration_the_latest_is_kept(results: list[Result]) -> None:
    first, second = results
    kept, earlier = latest([first, second, first])
    assert configuration(first) != configuration(second)
    assert len(kept) + len(earlier) == 3
    assert second in kept


def test_an_unfinished_log_is_read_with_a_mark(logs: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(logs_in(logs)[0]))
    assert log.samples is not None
    log.status, log.samples = "started", log.samples[:4]
    write_eval_log(log, str(tmp_path / "cut.eval"))
    (result,) = read_results([tmp_path])
    assert (result.finished, len(result.questions), result.total) == (False, 4, 11)


def test_a_question_that_crashed_before_it_was_scored_counts_as_wrong(logs: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(logs_in(logs)[0]))
    assert log.samples is not None
    for sample in log.samples:
        if sample.id == CRASHING:
            sample.scores = None
    write_eval_log(log, str(tmp_path / "unscored.eval"))
    (result,) = read_results([tmp_path])
    assert result.scores("f1")[CRASHING] == 0.0
    assert len(result.scores("hits_at_1")) == 11


def test_what_is_no_log_is_named_with_the_mend(logs: Path, tmp_path: Path) -> None:
    whole = logs_in(logs)[0]
    cut = tmp_path / "cut.eval"
    cut.write_bytes(whole.read_bytes()[:2_000])
    text = tmp_path / "notes.txt"
    text.write_text("no log", encoding="utf-8")
    for path, message in (
        (cut, r"cut\.eval: the log cannot be read .* run its evaluation again"),
        (text, r"notes\.txt: not a log of an evaluation: those end in \.eval"),
        (tmp_path / "nowhere", "nothing is here"),
    ):
        with pytest.raises(DataError, match=message):
            read_results([path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no log \(\*\.eval\) in this folder"):
        read_results([tmp_path / "empty"])


def test_a_log_of_another_program_is_refused(logs: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(logs_in(logs)[0]))
    log.eval.metadata = {"about": "something else"}
    write_eval_log(log, str(tmp_path / "other.eval"))
    with pytest.raises(DataError, match=r"other\.eval: a log of another program \(its task is 'films'\)"):
        read_results([tmp_path])


def test_a_log_given_twice_is_read_once(logs: Path, tmp_path: Path) -> None:
    copied = tmp_path / "runs"
    shutil.copytree(logs, copied)
    assert len(read_results([copied, *logs_in(copied)])) == 2
