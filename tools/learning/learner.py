"""Learners, which update a policy: the embedded encoder, or the adapter of a language model."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

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

Settings: TypeAlias = Mapping[str, Json]
Learner: TypeAlias = Callable[[Sequence[Trajectory], Path, int, Settings, Progress], dict[str, Json]]
"""Updates a policy from trajectories (SymAgent 4.3.2), and returns the settings that use what was learned.

Called with the training set, a folder of this update's own, the iteration of self-learning (from 0), the
settings that earlier updates have changed, and what reports progress. Called again after a kill with the same
arguments it goes on, and trains nothing again that was trained. Raises `ConfigurationError` where the person
has to do something first; the message says what.
"""


def encoder_learner(kg: KnowledgeGraph, base: str, seed: int) -> Learner:
    """Return what trains the embedded encoder on relation choices, in minutes on two cores.

    Args:
        kg: where relations have their words. base: the encoder before learning. seed: of the training.
    """

    def update(
        trajectories: Sequence[Trajectory],
        into: Path,
        iteration: int,
        settings: Settings,
        progress: Progress,
    ) -> dict[str, Json]:
        from triplewise.tools.learning.encoder_training import train_encoder

        before = str(settings.get("encoder", base))
        train_encoder(trajectories, into, base=before, kg=kg, seed=seed + iteration, progress=progress)
        return {"encoder": str(into)}

    return update


def model_learner(base: str, url: str, key: str, lora: LoraSettings) -> Learner:
    """Return what trains a LoRA adapter of a language model, and has the server serve it that is asked.

    Each update trains on the adapter of the one before (SymAgent 4.3.2).

    Args:
        base: what is trained, by hub name or folder: the model that the server serves.
        url, key: of the server. lora: how the adapter is trained.
    """

    def update(
        trajectories: Sequence[Trajectory],
        into: Path,
        iteration: int,
        settings: Settings,
        progress: Progress,
    ) -> dict[str, Json]:
        from triplewise.tools.learning.model_training import serve_adapter, train_adapter

        before = str(settings.get("model", "")).removeprefix("openai:")
        previous = into.parent / before if before else None
        train_adapter(trajectories, into, base=base, previous=previous, settings=lora, progress=progress)
        serve_adapter(url, into.name, into, base=base, rank=lora.rank, key=key)
        return {"model": f"openai:{into.name}"}

    return update


def progress_callback(progress: Progress) -> Any:
    """Return a callback for a transformers trainer that passes on how many steps are done."""
    import transformers

    class ProgressCallback(transformers.TrainerCallback):
        """Passes on each step, and the loss on held-out examples."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            progress("training", state.global_step, state.max_steps)

        on_step_end = on_train_begin

        def on_evaluate(self, args: Any, state: Any, control: Any, **rest: Any) -> None:
            loss = rest["metrics"]["eval_loss"]
            progress(f"loss {loss:.3f} on held-out questions", state.global_step, state.max_steps)

    return ProgressCallback()
