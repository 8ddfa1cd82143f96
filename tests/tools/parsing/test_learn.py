"""Learning to rank derivations: shares of answers, and weights from answers alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core.errors import DataError
from triplewise.tools.kg import open_kg
from triplewise.tools.parsing import learn
from triplewise.tools.parsing.learn import Vocabulary, example, shares, train, weights_for


@given(st.lists(st.tuples(st.floats(-50, 50), st.integers(0, 4)), min_size=1, max_size=20))
def test_shares_are_a_distribution_over_answers(found: list[tuple[float, int]]) -> None:
    scores, answers = [score for score, _ in found], [answer for _, answer in found]
    ranked = shares(scores, answers)
    assert sum(share.probability for share in ranked) == pytest.approx(1.0)
    assert [s.probability for s in ranked] == sorted((s.probability for s in ranked), reverse=True)
    assert {answers[share.best] for share in ranked} == set(answers)
    for share in ranked:
        same = [score for score, answer in found if answer == answers[share.best]]
        assert scores[share.best] == max(same)


def test_no_derivation_has_no_share() -> None:
    assert shares([], []) == []


def test_several_derivations_of_an_answer_add_up() -> None:
    ranked = shares([1.0, 1.0, 1.5], ["a", "a", "b"])
    assert ranked[0].best == 0
    assert ranked[0].probability == pytest.approx(2 / (2 + np.exp(0.5)))


def test_weights_move_to_what_right_derivations_have_and_no_further_than_the_prior_lets_them() -> None:
    names = Vocabulary()
    rows = [{"name": 1.0, "length": 2.0}, {"similar": 1.0, "length": 2.0}, {"length": 1.0}]
    examples = [example(g, rows, ["x", "y", "z"], [True, False, False], names) for g in ("a", "b")]
    prior = {"name": 0.5, "unseen": -1.0}
    weights = train(examples, names, prior)
    assert weights["name"] > 0.5 > 0 > weights["similar"]
    assert weights["unseen"] == pytest.approx(-1.0)


def test_a_question_without_a_right_derivation_teaches_nothing() -> None:
    names, prior = Vocabulary(), {"name": 1.0}
    nothing = example("a", [{"name": 1.0}, {"other": 1.0}], ["x", "y"], [False, False], names)
    assert train([nothing], names, prior) == prior


def test_examples_keep_features_and_score_them() -> None:
    names = Vocabulary()
    rows = [{"one": 1.0, "two": 0.5}, {}, {"two": 2.0}]
    kept = example("a", rows, ["x", "x", "y"], [False, False, True], names)
    assert kept.features(list(names)) == rows
    assert kept.answers.tolist() == [0, 0, 1]
    assert kept.scores(np.array([1.0, 2.0])).tolist() == [2.0, 0.0, 4.0]
    assert kept.scores(np.array([1.0, 2.0, 5.0])).tolist() == [2.0, 0.0, 4.0]  # a name that came later


def test_a_graph_without_weights_of_its_own_has_the_shipped_ones() -> None:
    assert weights_for(open_kg("demo")) == learn.shipped_weights()


def test_broken_weights_of_a_graph_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / learn.FILE
    monkeypatch.setattr(learn, "own_file", lambda _: path)
    learn.write_weights({"name": 0.12345}, path)
    assert weights_for(open_kg("demo"))["name"] == 0.1235
    path.write_text("[]")
    with pytest.raises(DataError, match="no weights"):
        weights_for(open_kg("demo"))
