"""Logs read back: figures, crashes, tags, unfinished and broken ones."""

from __future__ import annotations

import math
import shutil
from pathlib import Path

import pytest
from inspect_ai.log import read_eval_log, write_eval_log

from tests.evals.reported import CRASHING, cell, logs_in, run_films
from triplewise.evals.evaluation import scores_of
from triplewise.evals.logs import Log, configuration, latest, read_logs
from triplewise.tools.core.errors import DataError


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("films")
    run_films(folder)
    run_films(folder, "oda", **cell("Ours", 2, extra="kept"))
    return folder / "logs"


@pytest.fixture(scope="module")
def results(logs: Path) -> list[Log]:
    return read_logs([logs])


pytestmark = pytest.mark.usefixtures("leaks_of_inspect")


def test_figures_are_those_of_the_log(logs: Path, results: list[Log]) -> None:
    scores = scores_of(read_eval_log(str(logs_in(logs)[0])))
    first = results[0]
    for name in ("f1", "hits_at_1", "exact_match", "queries"):
        assert first.mean(name) == pytest.approx(scores[f"{name}.mean"])
    assert len(first.scores("f1")) == 11
    assert first.metric == "f1"
    assert math.isnan(first.mean("nothing"))


def test_a_crash_counts_as_wrong_and_is_listed(results: list[Log]) -> None:
    (crash,) = (row for _, row in results[0].crashes.iterrows())
    assert (crash["id"], crash["error"]) == (CRASHING, "RuntimeError('the graph fell over')")
    assert results[0].scores("f1")[CRASHING] == 0.0
    assert crash["gold"] == ("Alfred Hitchcock",)


def test_a_log_says_what_it_was_measured_on(results: list[Log]) -> None:
    first, second = results
    assert (first.task, first.version, first.system, first.model) == ("films", "3", "agent", "embedded")
    assert (first.partial, first.gold_derived, first.commit, first.dirty) == (True, True, "1234567890", False)
    assert not first.cell
    assert (second.cell["row"], second.cell["column"], second.seed) == ("Ours", "GrailQA", 2)
    assert "kg" not in first.settings  # a path of the machine it ran on


def test_tags_and_what_the_graph_can_answer(results: list[Log]) -> None:
    asked = results[0].questions
    assert asked.loc["Jaws", "tags"] == {"hops": "1", "level": "iid"}
    assert not asked.loc["none", "answerable"]
    whole, part = results[0].scores("f1"), results[0].scores("f1", answerable=True)
    assert set(whole.index) - set(part.index) == {"none"}
    assert set(whole.index) - set(results[0].scores("f1", trivial=False).index) == {"none"}
    assert asked.loc["Jaws", "run"].labels == ["Steven Spielberg"]


def test_traces_are_read_only_where_they_are_wanted(logs: Path, results: list[Log]) -> None:
    traced = read_logs([logs], traces=True)
    assert any(run.trace for run in traced[0].questions["run"])
    assert not any(run.trace for run in results[0].questions["run"])


def test_of_the_same_configuration_the_latest_is_kept(results: list[Log]) -> None:
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
    (result,) = read_logs([tmp_path])
    assert (result.finished, len(result.questions), result.total) == (False, 4, 11)


def test_a_question_that_crashed_before_it_was_scored_counts_as_wrong(logs: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(logs_in(logs)[0]))
    assert log.samples is not None
    for sample in log.samples:
        if sample.id == CRASHING:
            sample.scores = None
    write_eval_log(log, str(tmp_path / "unscored.eval"))
    (result,) = read_logs([tmp_path])
    assert result.scores("f1")[CRASHING] == 0.0
    assert len(result.scores("hits_at_1")) == 11


def test_what_is_no_log_is_named_with_what_to_do(logs: Path, tmp_path: Path) -> None:
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
            read_logs([path])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no log \(\*\.eval\) in this folder"):
        read_logs([tmp_path / "empty"])


def test_a_log_of_another_program_is_refused(logs: Path, tmp_path: Path) -> None:
    log = read_eval_log(str(logs_in(logs)[0]))
    log.eval.metadata = {"about": "something else"}
    write_eval_log(log, str(tmp_path / "other.eval"))
    with pytest.raises(DataError, match=r"other\.eval: a log of another program \(its task is 'films'\)"):
        read_logs([tmp_path])


def test_a_log_given_twice_is_read_once(logs: Path, tmp_path: Path) -> None:
    copied = tmp_path / "runs"
    shutil.copytree(logs, copied)
    assert len(read_logs([copied, *logs_in(copied)])) == 2
