"""Logs read back: figures, crashes, unfinished and broken ones."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
from inspect_ai.log import read_eval_log, write_eval_log

from tests.evals.reported import CRASHING, logs_in, scores_of
from triplewise.evals.logs import Log, read_logs
from triplewise.tools.core.errors import DataError


@pytest.fixture(scope="module")
def results(film_logs: Path) -> list[Log]:
    return read_logs([film_logs])


def test_figures_are_those_of_the_log(film_logs: Path, results: list[Log]) -> None:
    scores = scores_of(read_eval_log(str(logs_in(film_logs)[0])))
    first = results[0]
    for name in ("f1", "hits_at_1", "exact_match", "queries"):
        assert first.mean(name) == pytest.approx(scores[f"{name}.mean"])
    assert len(first.scores("f1")) == 11
    assert first.metric == "f1"
    assert math.isnan(first.mean("nothing"))


def test_a_crash_counts_as_wrong_and_is_listed(results: list[Log]) -> None:
    crash = results[0].questions.loc[CRASHING]
    assert crash["error_class"] == "crashed"
    assert crash["error"] == ("RuntimeError('the graph fell over')")
    assert results[0].scores("f1")[CRASHING] == 0.0


def test_a_log_says_what_it_was_measured_on(results: list[Log]) -> None:
    first, second = results
    assert (first.task, first.system, first.model) == ("films", "agent", "embedded")
    assert first.commit == "1234567"
    assert not first.cell
    assert (second.cell["row"], second.cell["column"]) == ("w/o ERASER", "GrailQA")
    assert "kg" not in first.swapped  # a path of the machine it ran on


def test_what_the_graph_can_answer(results: list[Log]) -> None:
    asked = results[0].questions
    assert not asked.loc["none", "answerable"]
    whole, part = results[0].scores("f1"), results[0].scores("f1", answerable=True)
    assert set(whole.index) - set(part.index) == {"none"}


def test_a_log_given_twice_is_read_once(film_logs: Path) -> None:
    assert len(read_logs([film_logs, *logs_in(film_logs)])) == 2


def test_a_log_cut_off_is_marked_and_a_crash_before_scoring_counts_as_wrong(
    film_logs: Path, tmp_path: Path
) -> None:
    log = read_eval_log(str(logs_in(film_logs)[0]))
    assert log.samples is not None
    for sample in log.samples:
        if sample.id == CRASHING:
            sample.scores = None
    write_eval_log(log, str(tmp_path / "unscored.eval"))
    log.status, log.samples = "started", log.samples[:4]
    write_eval_log(log, str(tmp_path / "cut.eval"))
    (unscored,) = read_logs([tmp_path / "unscored.eval"])
    assert unscored.scores("f1")[CRASHING] == 0.0
    assert len(unscored.scores("hits_at_1")) == 11
    (cut,) = read_logs([tmp_path / "cut.eval"])
    assert (cut.finished, len(cut.questions), cut.total) == (False, 4, 11)


def test_what_is_no_log_is_named_with_what_to_do(film_logs: Path, tmp_path: Path) -> None:
    whole = logs_in(film_logs)[0]
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
    log = read_eval_log(str(whole))
    log.eval.metadata = {"about": "something else"}
    write_eval_log(log, str(tmp_path / "other.eval"))
    with pytest.raises(DataError, match=r"other\.eval: a log of another program \(its task is 'films'\)"):
        read_logs([tmp_path / "other.eval"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no log \(\*\.eval\) in this folder"):
        read_logs([tmp_path / "empty"])
