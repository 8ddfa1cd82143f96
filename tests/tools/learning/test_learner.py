"""The embedded encoder's learner: what it trains on, and how it goes on after a kill."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.learning.learner import EmbeddedLearner
from triplewise.tools.learning.trajectory import Trajectory

TRAJECTORIES = [Trajectory("q", "who?", ("a",), reward=1.0)]
KG = cast(KnowledgeGraph, object())


class Killed(BaseException):
    """The process ends."""


def test_a_killed_training_begins_anew_and_a_complete_one_is_gone_on_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[dict[str, Any]] = []

    def train(trajectories: Any, into: Path, **given: Any) -> str:
        assert not list(into.parent.glob(f".{into.name}-*"))
        calls.append(given)
        if len(calls) == 1:
            (into.parent / f".{into.name}-half").mkdir()
            raise Killed
        into.mkdir()
        return str(into)

    def update(into: Path, iteration: int = 0, **settings: Any) -> dict[str, Any]:
        learner = EmbeddedLearner(KG, seed=3)
        return learner.update(
            TRAJECTORIES, into, iteration, settings=settings, progress=lambda doing, done, total: None
        )

    monkeypatch.setattr("triplewise.tools.learning.encoder_training.train_encoder", train)
    into = tmp_path / "policy-1"
    with pytest.raises(Killed):
        update(into)
    assert update(into) == update(into) == {"encoder": str(into)}
    update(tmp_path / "policy-2", 1, encoder=str(into))
    assert [(c["base"], c["seed"]) for c in calls] == [("embedded", 3), ("embedded", 3), (str(into), 4)]
