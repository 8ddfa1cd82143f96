"""Learners, which update a policy: the embedded encoder, or the adapter of a language model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias

from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.trajectory import Trajectory

if TYPE_CHECKING:
    from triplewise.tools.learning.model_training import LoraSettings

Policy = Literal["embedded", "model"]
POLICIES: tuple[Policy, ...] = ("embedded", "model")

Json: TypeAlias = Any
"""A value that JSON can hold."""

Progress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with what is being done, how much of it is done, and of how much (None where that is unknown)."""


class Learner(Protocol):
    """Updates a policy from trajectories (SymAgent 4.3.2)."""

    def update(
        self,
        trajectories: Sequence[Trajectory],
        into: Path,
        iteration: int,
        *,
        settings: Mapping[str, Json],
        progress: Progress,
    ) -> dict[str, Json]:
        """Train on trajectories and return the settings of a run that use what was learned.

        Must be able to go on after a kill when it is called again with the same arguments, and train nothing
        again that was trained.

        Args:
            trajectories: the training set. into: a folder of this update's own, made by the learner.
            iteration: of self-learning, from 0.
            settings: those that the updates before have changed, e.g. {"encoder": ".../policy-1"}.
            progress: called with the progress of the training.

        Returns:
            Changed settings of a `Context`, e.g. {"encoder": ".../policy-2"}.

        Raises:
            ConfigurationError: something the person has to do first; the message says what.
        """
        ...


@dataclass(frozen=True)
class EmbeddedLearner:
    """Trains the embedded encoder on relation choices: the chosen path against those beside it.

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
        if into.is_dir():  # An encoder's folder appears complete or not at all.
            return {"encoder": str(into)}
        from triplewise.tools.learning.encoder_training import train_encoder

        for left_by_kill in into.parent.glob(f".{into.name}-*"):
            shutil.rmtree(left_by_kill, ignore_errors=True)
        name = train_encoder(
            trajectories,
            into,
            base=str(settings.get("encoder", self.base)),
            kg=self.kg,
            seed=self.seed + iteration,
            progress=progress,
        )
        return {"encoder": name}


@dataclass(frozen=True)
class ModelLearner:
    """Trains a LoRA adapter of a language model, and has the server that the agent asks serve it.

    Attributes:
        base: what is trained, by hub name or folder: the model that the server serves.
        url, key: of the server. lora: how the adapter is trained.
    """

    base: str
    url: str
    lora: LoraSettings
    key: str = field(repr=False)

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
        from triplewise.tools.learning.model_training import train_adapter
        from triplewise.tools.learning.serving import serve_adapter

        before = str(settings.get("model", "")).removeprefix("openai:")
        previous = into.parent / before if before else None
        train_adapter(
            trajectories, into, base=self.base, previous=previous, settings=self.lora, progress=progress
        )
        serve_adapter(self.url, into.name, into, base=self.base, rank=self.lora.rank, key=self.key)
        return {"model": f"openai:{into.name}"}


def progress_callback(progress: Progress) -> Any:
    """Return a callback for a transformers trainer that passes on how many steps are done."""
    import transformers

    class ProgressCallback(transformers.TrainerCallback):
        """Passes on each step, and the loss on held-out examples."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            progress("training", state.global_step, state.max_steps)

        def on_step_end(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            progress("training", state.global_step, state.max_steps)

        def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            loss = rest["metrics"]["eval_loss"]
            progress(f"loss {loss:.3f} on held-out questions", state.global_step, state.max_steps)

    return ProgressCallback()
