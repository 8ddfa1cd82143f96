"""What the phases of self-learning share: the configuration, what a run is given, and the state it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from triplewise.nodes.context import Context
from triplewise.nodes.models import api_key_for, base_url_for, is_openai, split_model
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.learner import (
    POLICIES,
    Json,
    Learner,
    Policy,
    encoder_learner,
    model_learner,
)
from triplewise.tools.learning.model_training import LoraSettings
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.trajectory import Journal

JOBS = {"embedded": 1, "model": 8}
TRAJECTORIES, VALIDATED = "trajectories.jsonl", "validated.jsonl"

Recipe = Literal["full", "no-refine", "no-merge", "distilled"]
"""How the training set is made (SymAgent, table 4).

`full`: explored and refined trajectories, merged. `no-refine`: nothing is refined; the explored ones by
rejection sampling, which keeps those with a reward. `no-merge`: the refined ones directly, with a reward,
whatever the explored ones were worth. `distilled`: another model's, with a reward.
"""
RECIPES: tuple[Recipe, ...] = ("full", "no-refine", "no-merge", "distilled")

BuildAgent: TypeAlias = Callable[..., Any]
"""`build_graph`: preset and swapped phases to an agent. It is handed in, since graphs stand above nodes."""
Update = dict[str, Any]
"""What a phase changes in the state."""


@dataclass(frozen=True, slots=True)
class LearningConfig:
    """What is to be learned, all plain JSON: kept in the folder, so that a run can go on from it alone.

    Attributes:
        questions: JSON lines to explore. validation: JSON lines to validate on; "" holds out `share` of them.
        policy: what learns. preset, context: the agent, as `build_graph` and `Context` take them.
        recipe: how the training set is made (table 4). distill: trajectories of another model, for that one.
        iterations: most rounds (table 6: 2). epsilon: a gain in mean F1 on the validation questions below
            this is negligible and ends the run; 0.001 is less than one question in most sets.
        attempts: a language model's attempts at each question when exploring, of which the best is kept.
        jobs: questions at a time; 0 is the policy's own number. Results do not depend on it.
        learner: settings of what updates the policy, e.g. those of LoRA.
    """

    questions: str
    validation: str = ""
    share: float = 0.1
    policy: Policy = "embedded"
    preset: str = "agent"
    context: dict[str, Json] = field(default_factory=dict)
    recipe: Recipe = "full"
    distill: str = ""
    iterations: int = 2
    epsilon: float = 0.001
    attempts: int = 1
    jobs: int = 0
    seed: int = 0
    learner: dict[str, Json] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.policy not in POLICIES:
            raise ConfigurationError.unknown("policy", self.policy, POLICIES)
        if self.recipe not in RECIPES:
            raise ConfigurationError.unknown("variant", self.recipe, RECIPES)
        if (self.recipe == "distilled") != bool(self.distill):
            raise ConfigurationError("variant distilled goes with a file of another model's trajectories")
        if self.iterations < 1 or self.attempts < 1:
            raise ConfigurationError("iterations and attempts must be 1 at least")

    @property
    def rounds(self) -> int:
        """Most iterations: another model's trajectories are the same each time, so once is enough."""
        return 1 if self.recipe == "distilled" else self.iterations


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase is.

    `reward` is the mean so far, where the phase has rewards; `doing` says more, where there is more to say.
    """

    phase: str
    iteration: int
    done: int
    total: int | None
    reward: float | None = None
    doing: str = ""


@dataclass(frozen=True)
class LearningContext:
    """What a run of self-learning is given.

    Attributes:
        config: what is to be learned. folder: where everything is kept.
        questions, validation: read from the configuration's files.
        journal: explored, refined and distilled trajectories. validated: attempts at validation questions.
        learner: updates the policy.
        build: makes agents. defaults: settings of the configuration's preset.
        report: called with the progress of a phase.
    """

    config: LearningConfig
    folder: Path
    questions: Sequence[Question]
    validation: Sequence[Question]
    journal: Journal
    validated: Journal
    learner: Learner
    build: BuildAgent
    defaults: Mapping[str, Any]
    report: Callable[[Progress], object] = lambda progress: None

    def training_file(self, iteration: int) -> Path:
        """Return where the training set of an iteration lies."""
        return self.folder / f"training-{iteration + 1}.jsonl"


class LearningState(BaseModel):
    """The state of self-learning, plain JSON. What is large (trajectories, weights) lies in the folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    iteration: int = Field(default=0, description="Updates of the policy so far.")
    settings: dict[str, Any] = Field(
        default_factory=dict, description="Settings of a run that the newest policy needs."
    )
    best: dict[str, Any] = Field(
        default_factory=dict, description="The same of the policy that validated best."
    )
    scores: list[dict[str, Any]] = Field(
        default_factory=list, description="Validation of each policy, the one before learning first."
    )
    rounds: list[dict[str, Any]] = Field(
        default_factory=list, description="What each iteration explored, refined, kept and trained."
    )
    stopped: str = Field(default="", description="Why the run ended, in words; empty while it goes on.")

    def with_figures(self, **figures: Json) -> list[dict[str, Any]]:
        """Return the rounds with figures added to the present one."""
        earlier, present = self.rounds[: self.iteration], self.rounds[self.iteration :]
        return [*earlier, {"iteration": self.iteration, **(present[0] if present else {}), **figures}]


def learner_for(config: LearningConfig, context: Context, kg: KnowledgeGraph) -> Learner:
    """Return what updates the policy. Raises `ConfigurationError` on settings that cannot work."""
    if config.policy == "embedded":
        return encoder_learner(kg, context.encoder, config.seed)
    if context.calling != "react" or context.history != "chat":
        raise ConfigurationError(
            "the model policy learns from conversations of Thought and Action texts: it needs the settings "
            "calling=react and history=chat"
        )
    lora = {"seed": config.seed, **config.learner}
    provider, name = split_model(context.model)
    if provider != "openai":
        raise ConfigurationError(f"the model policy needs openai:NAME, served by vLLM, got {context.model!r}")
    base = str(lora.pop("base_model", "") or name)
    url = base_url_for(context.base_url)
    if is_openai(url):
        raise ConfigurationError(
            "the model policy needs --base-url: the server (vLLM) that serves the model and its adapters"
        )
    return model_learner(base, url, api_key_for(context.api_key_env, url), LoraSettings.of(lora))
