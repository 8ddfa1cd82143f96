"""What learns: one protocol for a language model's adapter and for the embedded encoder."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias

from triplewise.tools.learning.trajectory import Trajectory

Policy = Literal["embedded", "model"]
POLICIES: tuple[Policy, ...] = ("embedded", "model")

Json: TypeAlias = Any
"""A value that JSON can hold."""

Progress: TypeAlias = Callable[[str, int, int | None], object]
"""Told what is being done, how much of it is done, and of how much (None where that is unknown)."""


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
        """Train on trajectories; the settings of a run that use what was learned.

        Must be able to go on after a kill when it is called again with the same arguments, and return at
        once where it was done before.

        Args:
            trajectories: the training set. into: a folder of this update's own, made by the learner.
            iteration: of self-learning, from 0.
            settings: those that the updates before have changed, e.g. {"encoder": ".../policy-1"}.
            progress: is told how far the training is.

        Returns:
            Changed settings of a `Context`, e.g. {"encoder": ".../policy-2"}.

        Raises:
            ConfigurationError: something the person has to do first; the message says what.
        """
        ...
