"""The embedded encoder's learner: what it trains on, and how it goes on after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.learning.learner import DONE, EmbeddedLearner
from triplewise.tools.learning.trajectory import Trajectory

TRAJECTORIES = [Trajectory("q", "who?", {}, ("a",), reward=1.0)]
KG = cast(KnowledgeGraph, object())


class Killed(BaseException):
    """The process ends."""


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The trainings that were asked for; the first one is killed where the test says so."""
    calls: list[dict[str, Any]] = []

    def train(trajectories: Any, into: Path, **given: Any) -> str:
        assert not into.exists(), "an encoder appears complete or not at all"
        assert not list(into.parent.glob(f".{into.name}-*"))
        calls.append({"trajectories": list(trajectories), **given})
        if given["seed"] == 99 and len(calls) == 1:
            (into.parent / f".{into.name}-half").mkdir()
            raise Killed
        into.mkdir()
        return str(into)

    monkeypatch.setattr("triplewise.tools.learning.encoder_training.train_encoder", train)
    return calls


def update(learner: EmbeddedLearner, into: Path, iteration: int = 0, **settings: Any) -> dict[str, Any]:
    return learner.update(
        TRAJECTORIES, into, iteration, settings=settings, progress=lambda doing, done, total: None
    )


def test_an_update_gives_the_encoder_of_its_folder(tmp_path: Path, trained: list[dict[str, Any]]) -> None:
    into = tmp_path / "policy-1"
    assert update(EmbeddedLearner(KG, seed=3), into) == {"encoder": str(into)}
    assert trained[0]["trajectories"] == TRAJECTORIES
    assert (trained[0]["base"], trained[0]["seed"], trained[0]["kg"]) == ("embedded", 3, KG)


def test_the_next_update_goes_on_from_the_one_before(tmp_path: Path, trained: list[dict[str, Any]]) -> None:
    update(EmbeddedLearner(KG), tmp_path / "policy-2", 1, encoder="policy-1")
    assert (trained[0]["base"], trained[0]["seed"]) == ("policy-1", 1)


def test_a_killed_training_begins_anew_and_a_complete_one_does_not(
    tmp_path: Path, trained: list[dict[str, Any]]
) -> None:
    into, learner = tmp_path / "policy-1", EmbeddedLearner(KG, seed=99)
    with pytest.raises(Killed):
        update(learner, into)
    first = update(learner, into)
    assert (into / DONE).is_file()
    assert update(learner, into) == first
    assert len(trained) == 2
