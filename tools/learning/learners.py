"""Learners: the embedded encoder and a language model's adapter behind one protocol."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.lora import LoraSettings, train_adapter
from triplewise.tools.learning.policies import Json, Progress
from triplewise.tools.learning.serving import serve_adapter
from triplewise.tools.learning.trajectory import Trajectory

DONE = "learned.json"
"""Written last: an update's folder that holds it is complete."""


def finished(folder: Path) -> dict[str, Any] | None:
    """The settings that a finished update led to; None where it was not finished."""
    path = folder / DONE
    if not path.is_file():
        return None
    settings: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return settings


def finish(folder: Path, settings: Mapping[str, Json]) -> dict[str, Json]:
    """Note that an update is complete; its settings."""
    beside = folder / f"{DONE}.part"
    beside.write_text(json.dumps(dict(settings), indent=1), encoding="utf-8")
    beside.replace(folder / DONE)
    return dict(settings)


@dataclass(frozen=True)
class EmbeddedLearner:
    """Trains the embedded encoder on relation choices: the chosen relation against those beside it.

    Minutes on two cores; a training that was killed begins anew.

    Attributes:
        kg: where relations have their words. base: the encoder before learning. seed: of the training.
    """

    kg: KnowledgeGraph
    base: str = "embedded"
    seed: int = 0

    def update(
        self,
        trajectories: Sequence[Trajectory],
        into: Path,
        iteration: int,
        *,
        settings: Mapping[str, Json],
        progress: Progress,
    ) -> dict[str, Json]:
        """Train on trajectories; {"encoder": folder of the new one}. See `Learner`."""
        if (done := finished(into)) is not None:
            return done
        from triplewise.tools.learning.embedded_training import train_encoder

        for left in (into, *into.parent.glob(f".{into.name}-*")):
            shutil.rmtree(left, ignore_errors=True)  # by a kill
        name = train_encoder(
            trajectories,
            into,
            base=str(settings.get("encoder", self.base)),
            kg=self.kg,
            seed=self.seed + iteration,
            progress=progress,
        )
        return finish(into, {"encoder": name})


@dataclass(frozen=True)
class ModelLearner:
    """Trains a LoRA adapter of a language model, and has the server that the agent asks serve it.

    Attributes:
        base: what is trained, by hub name or folder: the model that the server serves.
        url, key: of the server. settings: of LoRA.
    """

    base: str
    url: str
    key: str | None = None
    settings: LoraSettings = field(default_factory=LoraSettings)

    def update(
        self,
        trajectories: Sequence[Trajectory],
        into: Path,
        iteration: int,
        *,
        settings: Mapping[str, Json],
        progress: Progress,
    ) -> dict[str, Json]:
        """Train on trajectories; {"model": "openai:NAME of the adapter"}. See `Learner`.

        Each update trains on the adapter of the one before (SymAgent 4.3.2).
        """
        if (done := finished(into)) is not None:
            return done
        before = str(settings.get("model", "")).removeprefix("openai:")
        previous = into.parent / before if before else None
        train_adapter(
            trajectories, into, base=self.base, previous=previous, settings=self.settings, progress=progress
        )
        serve_adapter(self.url, into.name, into, base=self.base, rank=self.settings.rank, key=self.key)
        return finish(into, {"model": f"openai:{into.name}"})
