"""Self-learning (SymAgent 4.3): explore, refine, merge, update, validate.

The policy answers every question and is rewarded (explore), and makes each attempt anew (refine, 4.3.1). The
better ones become the training set (merge, equation 7), the policy is trained on it (update, equation 8), and
learning ends where it no longer gains (validate, 4.3.2).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import Context as Isolated
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from langgraph.runtime import Runtime
from pydantic import BaseModel, ConfigDict, Field

from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update
from triplewise.nodes.hints import opening, prompt_values, turns_of
from triplewise.nodes.models import find_server, split_model
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.state import Answer, State
from triplewise.tools.core.errors import ConfigurationError, RunError, UserError
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning import model_training, trajectory
from triplewise.tools.learning.encoder_training import train_encoder
from triplewise.tools.learning.exploration import Explorer, unrewarded
from triplewise.tools.learning.questions import Question, reward_of, short_answers
from triplewise.tools.learning.trajectory import Journal, Origin, Trajectory
from triplewise.tools.linking.linker import link

JOBS = {"embedded": 1, "model": 8}
TRAJECTORIES, VALIDATED = "trajectories.jsonl", "validated.jsonl"

Policy = Literal["embedded", "model"]
Learner: TypeAlias = Callable[
    [Sequence[Trajectory], Path, int, Mapping[str, Any], model_training.Progress], dict[str, Any]
]
"""Updates a policy from trajectories (SymAgent 4.3.2), and returns the settings that use what was learned.

Called with the training set, the update's own folder, the iteration (from 0), the settings that earlier
updates have changed, and what reports progress. After a kill it goes on, and trains nothing twice.
Raises `ConfigurationError` where the person has to do something first; the message says what.
"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LearningConfig:
    """What is to be learned, all plain JSON: kept in the folder, so that a run can go on from it alone.

    Attributes:
        questions: JSON lines to explore. validation: JSON lines to validate on; "" holds out `share` of them.
        policy: what learns. preset, context: the agent, as `build_graph` and `Context` take them.
        iterations: most rounds (table 6: 2). epsilon: a gain in mean F1 on the validation questions below
            this is negligible and ends the run; 0.001 is less than one question in most sets.
        jobs: questions at a time; 0 is the policy's own number. Results do not depend on it.
        learner: settings of what updates the policy, e.g. those of LoRA.
    """

    questions: str
    validation: str = ""
    share: float = 0.1
    policy: Policy = "embedded"
    preset: str = "agent"
    context: dict[str, Any] = field(default_factory=dict)
    iterations: int = 2
    epsilon: float = 0.001
    jobs: int = 0
    seed: int = 0
    learner: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.policy not in get_args(Policy):
            raise ConfigurationError.unknown("policy", self.policy, get_args(Policy))
        if self.iterations < 1:
            raise ConfigurationError("iterations must be 1 at least")


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a phase is, with the mean reward so far where it has rewards."""

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
        journal: explored and refined trajectories. validated: attempts at validation questions.
        learner: updates the policy.
        build: `build_graph`, handed in since graphs stand above nodes. defaults: settings of the preset.
        report: called with the progress of a phase.
    """

    config: LearningConfig
    folder: Path
    questions: Sequence[Question]
    validation: Sequence[Question]
    journal: Journal
    validated: Journal
    learner: Learner
    build: Callable[..., Any]
    defaults: Mapping[str, Any]
    report: Callable[[Progress], object] = lambda progress: None


class LearningState(BaseModel):
    """The state of self-learning, plain JSON. What is large (trajectories, weights) lies in the folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    iteration: int = Field(0, description="Updates of the policy so far.")
    settings: dict[str, Any] = Field({}, description="Settings of a run that the newest policy needs.")
    best: dict[str, Any] = Field({}, description="The same of the policy that validated best.")
    scores: list[dict[str, Any]] = Field(
        [], description="Validation of each policy, the one before learning first."
    )
    rounds: list[dict[str, Any]] = Field(
        [], description="What each iteration explored, refined, kept and trained."
    )
    stopped: str = Field("", description="Why the run ended, in words; empty while it goes on.")

    def with_figures(self, **figures: Any) -> list[dict[str, Any]]:
        """Return the rounds with figures added to the present one."""
        earlier, present = self.rounds[: self.iteration], self.rounds[self.iteration :]
        return [*earlier, {"iteration": self.iteration, **(present[0] if present else {}), **figures}]


def learner_for(config: LearningConfig, context: Context, kg: KnowledgeGraph) -> Learner:
    """Return what updates the policy. Raises `ConfigurationError` on settings that cannot work."""
    if config.policy == "embedded":
        return partial(train_encoder, kg=kg, base=context.encoder, seed=config.seed)
    if context.calling != "react" or context.history != "chat":
        raise ConfigurationError(
            "the model policy learns from conversations of Thought and Action texts: it needs the settings "
            "calling=react and history=chat"
        )
    provider, name = split_model(context.model)
    if provider != "openai":
        raise ConfigurationError(f"the model policy needs openai:NAME, served by vLLM, got {context.model!r}")
    server = find_server(name, context.base_url, context.api_key_env)
    if server.is_openai:
        raise ConfigurationError(
            "the model policy needs --base-url: the server (vLLM) that serves the model and its adapters"
        )
    lora = {"seed": config.seed, **config.learner}
    base = str(lora.pop("base_model", "") or name)
    url, key = server.base_url, server.api_key
    settings = model_training.LoraSettings.of(lora)
    return partial(model_training.train_served_adapter, base=base, url=url, key=key, lora=settings)


class Attempts:
    """Makes attempts of one origin with the policy that a state's settings name."""

    def __init__(self, learning: LearningContext, state: LearningState, origin: Origin) -> None:
        self.learning, self.iteration, self.origin = learning, state.iteration, origin
        self.context = Context(**{**learning.config.context, **state.settings}).resolved(learning.defaults)
        self._env = Environment(self.context)

    def explorer(self) -> Explorer:
        """Return what explores with the embedded policy."""
        return Explorer(self._env.kg, self._env.encoder, self.iteration)

    def run(self, question: Question, *, earlier: str | None = None) -> Trajectory:
        """Run the agent on a question; a model is shown `earlier`, an attempt to improve on."""
        kg = self._env.kg
        if question.entities and self.context.db is None:
            try:
                link(question.question, kg, given=question.entities, encoder=self._env.encoder)
            except ConfigurationError as error:  # the graph has not an entity that the question comes with
                return self._unrewarded(question, f"crashed: {error}")
        # Without checkpoints: what is done is in the journal.
        agent = self.learning.build(self.learning.config.preset, checkpointer=False)
        request = {"question": question.question, "entities": dict(question.entities)}
        # In a context of its own: inside a node's, the agent would take itself for a part of this graph.
        context = replace(self.context, earlier=earlier)
        state = State.model_validate(dict(Isolated().run(agent.invoke, request, context=context)))
        answer: Answer = state.answer or Answer("not_found")
        reward = reward_of(answer.values, answer.labels, short_answers(kg, question.answers))
        made = replace(
            self._unrewarded(question, answer.status),
            entities={e.mention or e.label: e.id for e in state.linked},
            predicted=reward.predicted,
            reward=reward.recall,
            f1=reward.f1,
            turns=turns_of(state.steps),
        )
        if self.context.embedded:
            return made
        # What the model was shown before its first step, without any earlier attempt.
        shown = opening(self._env.prompt, prompt_values(state, self._env))
        return replace(made, system=shown.system, prompt=shown.prompt)

    def _unrewarded(self, question: Question, status: str) -> Trajectory:
        policy = self.context.encoder if self.context.embedded else self.context.model
        return unrewarded(question, self.iteration, self.origin, policy, status)

    def of_all(
        self, attempt: Callable[[Question], Trajectory], journal: Journal, questions: Sequence[Question]
    ) -> dict[str, float | int]:
        """Attempt every question that the journal has no trajectory of, and return the means over all.

        Every trajectory is in the journal before it counts as done. An error is kept as the status of a
        trajectory without reward, so that one question does not end the learning of thousands; not so those
        that any question would meet (`RunError`, `UserError`): they are raised once the attempts under way
        have ended.
        """
        done = journal.of(self.iteration, self.origin)
        config, rewards = self.learning.config, [t.reward for t in done.values()]

        def work(question: Question) -> Trajectory:
            try:
                made = attempt(question)
            except (RunError, UserError):
                raise
            except Exception as error:  # noqa: BLE001 - reported and counted
                made = self._unrewarded(question, f"crashed: {error!r}")
            if made.status.startswith("crashed"):
                _log.info("question %s: %s", question.id, made.status)
            journal.append(made)
            return made

        def report() -> None:
            mean = sum(rewards) / len(rewards) if rewards else None
            self.learning.report(Progress(self.origin, self.iteration, len(rewards), len(questions), mean))

        report()
        with ThreadPoolExecutor(config.jobs or JOBS[config.policy], thread_name_prefix="attempt") as pool:
            futures = [pool.submit(work, question) for question in questions if question.id not in done]
            try:
                for future in as_completed(futures):
                    rewards.append(future.result().reward)
                    report()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return figures(journal.of(self.iteration, self.origin))


def figures(trajectories: Mapping[str, Trajectory]) -> dict[str, float | int]:
    """Return means over trajectories (0 without any): reward, F1, share with a reward; and their number."""
    count = len(trajectories) or 1
    return {
        "questions": len(trajectories),
        "reward": sum(t.reward for t in trajectories.values()) / count,
        "f1": sum(t.f1 for t in trajectories.values()) / count,
        "rewarded": sum(t.reward > 0 for t in trajectories.values()) / count,
        "crashed": sum(t.status.startswith("crashed") for t in trajectories.values()),
    }


def explore(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Make self-explored trajectories with their rewards (equation 6), one a question.

    The embedded policy follows its first rule; a language model runs as the agent.
    """
    learning = runtime.context
    attempts = Attempts(learning, state, "explored")
    make = attempts.explorer().explore if learning.config.policy == "embedded" else attempts.run
    figures = attempts.of_all(make, learning.journal, learning.questions)
    return {"rounds": state.with_figures(explored=figures)}


def refine(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Make refined trajectories, one for every explored one, given that one and its reward.

    The policy is never shown a gold answer. A language model reads its earlier attempt in the prompt. The
    embedded policy has no words to reflect on, so it does what they would come to: it follows rules that it
    had not chosen.
    """
    learning = runtime.context
    explored = learning.journal.of(state.iteration, "explored")
    attempts = Attempts(learning, state, "refined")
    explorer = attempts.explorer() if learning.config.policy == "embedded" else None
    prompt = load_prompt("_refine")

    def attempt(question: Question) -> Trajectory:
        earlier = explored[question.id]
        if explorer is not None:
            return explorer.refine(question, earlier)
        text = prompt.render(
            "earlier", turns=earlier.turns, answers=list(earlier.predicted), reward=earlier.reward
        )
        return attempts.run(question, earlier=text)

    figures = attempts.of_all(attempt, learning.journal, learning.questions)
    return {"rounds": state.with_figures(refined=figures)}


def merge_pair(explored: Trajectory, refined: Trajectory) -> Trajectory | None:
    """Return the better of two attempts at one question; None is `filtered` (equation 7).

    The higher reward; of equal rewards above 0 the shorter trajectory. The equation does not say which if
    they are as long: the one of higher F1, since a recall of 1 is also had by answering everything.
    """
    if explored.reward > refined.reward:
        return explored
    if explored.reward < refined.reward:
        return refined
    if explored.reward > 0:
        return min(explored, refined, key=lambda t: (len(t.turns), -t.f1))
    return None


def merge(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Write the training set of this iteration (equation 7), in the order of the questions."""
    learning = runtime.context
    explored, refined = (learning.journal.of(state.iteration, o) for o in ("explored", "refined"))
    pairs = (merge_pair(explored[q.id], refined[q.id]) for q in learning.questions)
    training = [better for better in pairs if better is not None]
    trajectory.write_trajectories(learning.folder / f"training-{state.iteration + 1}.jsonl", training)
    count = sum(t.origin == "refined" for t in training)
    return {"rounds": state.with_figures(kept=len(training), kept_refined=count)}


def update(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Train the policy on its training set (equation 8); without anything to learn from, the run ends."""
    learning = runtime.context
    file = learning.folder / f"training-{state.iteration + 1}.jsonl"
    trajectories = trajectory.read_trajectories(file)
    if not trajectories:
        return {"stopped": "no attempt found any right answer, so there is nothing to learn from"}

    def report(doing: str, done: int, total: int | None) -> None:
        learning.report(Progress("update", state.iteration, done, total, doing=doing))

    # A policy is named by what it is made of: vectors and caches that go by its name are never stale.
    ingredients = file.read_bytes() + repr(sorted(state.settings.items())).encode()
    digest = hashlib.sha256(ingredients).hexdigest()[:8]
    changed = learning.learner(
        trajectories,
        learning.folder / f"policy-{state.iteration + 1}-{digest}",
        state.iteration,
        state.settings,
        report,
    )
    return {
        "settings": {**state.settings, **changed},
        "iteration": state.iteration + 1,
        "rounds": state.with_figures(trained=len(trajectories)),
    }


def validate(state: LearningState, runtime: Runtime[LearningContext]) -> Update:
    """Score the present policy on questions held out, remember the best, and say whether it is time to stop.

    It is run before anything was learned too: that score is what the first gain is measured by.
    """
    learning = runtime.context
    attempts = Attempts(learning, state, "validated")
    figures = attempts.of_all(attempts.run, learning.validated, learning.validation)
    scores = [*state.scores, {"iteration": state.iteration, **figures}]
    leads = all(figures["f1"] > earlier["f1"] for earlier in state.scores)
    return {
        "scores": scores,
        "best": state.settings if leads else state.best,
        "stopped": reason_to_stop(scores, learning.config.iterations, learning.config.epsilon),
    }


def reason_to_stop(scores: list[dict[str, float]], rounds: int, epsilon: float) -> str:
    """Return why to stop after these validations, in words; "" to go on."""
    if len(scores) > 1 and (gain := scores[-1]["f1"] - scores[-2]["f1"]) < epsilon:
        return f"the gain in validation F1 is negligible ({gain:+.4f}, less than {epsilon:g})"
    if len(scores) > rounds:
        return f"all {rounds} iterations are done" if rounds > 1 else "the iteration is done"
    return ""
