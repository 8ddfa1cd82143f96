"""Self-learning (SymAgent 4.3): explore, refine, merge, update, validate, until nothing is gained.

A run is its folder, in which every phase finds what it has done already: `learn.json` (the configuration),
`trajectories.jsonl` (all attempts), `policy-N-*` of iteration N, `report.json` (the state after each phase)
and, in the end, `settings.yaml`.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

import yaml
from pydantic import BaseModel

from triplewise.graphs.build import build_graph
from triplewise.graphs.presets import find_preset
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment
from triplewise.nodes.hints import opening, prompt_values, turns_of
from triplewise.nodes.models import split_model
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.state import Answer, State
from triplewise.tools.core.errors import ConfigurationError, DataError, QuestionError, RunError, UserError
from triplewise.tools.core.files import exclusive, make_folder, read_text, write_json, write_text
from triplewise.tools.learning import exploration, trajectory
from triplewise.tools.learning.exploration import Question
from triplewise.tools.learning.trajectory import Journal, Origin, Trajectory

CONFIG, REPORT, SETTINGS = "learn.json", "report.json", "settings.yaml"
TRAJECTORIES = "trajectories.jsonl"
JOBS = {"embedded": 1, "model": 8}  # Questions at a time, by policy

Report: TypeAlias = Callable[..., object]
"""Called with the phase and its iteration, how much is done, of how much, and maybe the mean reward."""
Learner: TypeAlias = Callable[[Sequence[Trajectory], Path, Mapping[str, Any], Report], dict[str, Any]]
"""Updates a policy from trajectories, in a folder of its own; returns the settings that use what was learned.

It is given the settings that earlier updates have changed, and what reports progress.
"""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class LearningConfig:
    """What is to be learned, plain JSON: from `questions`, of which a `share` is held out to validate."""

    questions: str
    share: float = 0.1
    policy: Literal["embedded", "model"] = "embedded"
    preset: str = "agent"
    context: dict[str, Any] = field(default_factory=dict)
    iterations: int = 2  # at most (table 6)
    epsilon: float = 0.001  # a gain in validation F1 below it ends the run


class LearningState(BaseModel):
    """How far a run is: updates so far, settings of the newest and of the best policy, and why it ended."""

    iteration: int = 0
    settings: dict[str, Any] = {}
    best: dict[str, Any] = {}
    scores: list[dict[str, int | float]] = []  # of validations, the one before learning first
    rounds: list[dict[str, Any]] = []  # the figures of each iteration
    stopped: str = ""


def learn(
    config: LearningConfig,
    folder: Path,
    *,
    learner: Learner | None = None,
    report: Report = lambda phase, done, total, note="": None,
) -> LearningState:
    """Run self-learning to its end, or go on with what the folder holds of this run; return how it ended.

    Raises `ConfigurationError` on a configuration that cannot work, or a folder that holds another one,
    `DataError` on a file that cannot be read, and `RunError` where a service failed.
    """
    make_folder(folder)
    path, text = folder / CONFIG, json.dumps(asdict(config), indent=1, ensure_ascii=False)
    busy = ConfigurationError(f"another process is learning in {folder}; wait for it to end")
    with exclusive(folder / "lock", busy):
        if path.is_file() and read_text(path) != text:
            raise ConfigurationError(f"{folder} holds a run with other settings; name another folder")
        with closing(Journal(folder / TRAJECTORIES)) as journal:
            run = SelfLearning(config, folder, journal, learner, report)
            # Stored once everything that it names could be opened.
            write_text(path, text, private=True)
            while not run.state.stopped:
                if len(run.state.scores) == run.state.iteration:
                    run.validate()
                else:
                    explored = run.explore()
                    run.update(explored, run.refine(explored))
                write_json(folder / REPORT, run.state.model_dump(), indent=1)
        settings = {"preset": config.preset, **config.context, **run.state.best}
        # Private: the URL of a server may hold a password.
        write_text(folder / SETTINGS, yaml.safe_dump(settings, sort_keys=False), private=True)
        return run.state


def learner_for(config: LearningConfig, context: Context, opened: Environment) -> Learner:
    """Return what updates the policy. Raises `ConfigurationError` on settings that cannot work."""
    try:
        if config.policy == "embedded":
            from triplewise.tools.learning.encoder_training import train_encoder

            return partial(train_encoder, kg=opened.kg, base=context.encoder)
        from triplewise.tools.learning.model_training import train_adapter
    except ImportError as error:
        fix = "install it with pip install 'triplewise[learn]'"
        raise ConfigurationError(f"training needs {error.name}: {fix}") from error
    provider, name = split_model(context.model)
    if provider != "openai" or not context.base_url:
        server = "--base-url: the server (vLLM) that serves the model and its adapters"
        raise ConfigurationError(f"the model policy needs openai:NAME, got {context.model!r}, and {server}")
    if context.calling != "react" or context.history != "chat":
        policy = "the model policy learns from conversations of Thought and Action texts"
        raise ConfigurationError(f"{policy}: it needs the settings calling=react and history=chat")
    return partial(train_adapter, base=name)


class SelfLearning:
    """The phases of a run of self-learning, which move its state on."""

    def __init__(
        self, config: LearningConfig, folder: Path, journal: Journal, learner: Learner | None, report: Report
    ) -> None:
        self.config, self.folder, self.journal, self.report = config, folder, journal, report
        self.state, path = LearningState(), folder / REPORT
        if path.is_file():
            try:
                self.state = LearningState.model_validate_json(path.read_bytes())
            except ValueError as error:
                raise DataError("holds no state of learning; name another folder", path) from error
        self._use_policy()
        if self.context.offline != (config.policy == "embedded"):
            why = "the offline policy acts without a language model, the model policy with one"
            policy = f"policy {config.policy} cannot learn with --model {self.context.model}"
            raise ConfigurationError(f"{policy}: {why}")
        if not self.context.offline:
            _ = self.env.model  # opened before anything is done
        questions = exploration.read_questions(Path(config.questions))
        self.questions, self.validation = exploration.split(questions, config.share)
        self.learner = learner or learner_for(config, self.context, self.env)

    def _use_policy(self) -> None:
        """Open what the newest policy acts with."""
        context = Context(**{**self.config.context, **self.state.settings})
        self.context = context.resolved(find_preset(self.config.preset).settings)
        self.env = Environment(self.context)

    def explore(self) -> dict[str, Trajectory]:
        """Return trajectories with rewards (equation 6): the offline policy follows its first rule."""
        policy = partial(exploration.explore, self.env.kg, self.env.encoder)
        return self.attempt_all("explored", policy if self.context.offline else self.run, self.questions)

    def refine(self, explored: Mapping[str, Trajectory]) -> dict[str, Trajectory]:
        """Return trajectories made anew (4.3.1), given earlier ones and rewards, never a gold answer."""
        prompt = load_prompt("_refine")

        def attempt(question: Question, blank: Trajectory) -> Trajectory:
            earlier = explored[question.id]
            if self.context.offline:
                return exploration.refine(self.env.kg, self.env.encoder, question, earlier)
            answers, reward = list(earlier.predicted), earlier.reward
            shown = prompt.render("earlier", turns=earlier.turns, answers=answers, reward=reward)
            return self.run(question, blank, shown)

        return self.attempt_all("refined", attempt, self.questions)

    def update(self, explored: Mapping[str, Trajectory], refined: Mapping[str, Trajectory]) -> None:
        """Merge attempts (equation 7) and train the policy on them (8); without any, the run ends."""
        state = self.state
        pairs = [trajectory.merge_pair(explored[q.id], refined[q.id]) for q in self.questions]
        training = [better for better in pairs if better is not None]
        found = {"explored": figures(explored), "refined": figures(refined), "kept": len(training)}
        state.rounds = [*state.rounds[: state.iteration], found]
        if not training:
            state.stopped = "no attempt found any right answer, so there is nothing to learn from"
            return
        # A policy is named by what it is made of: vectors and caches that go by its name are never stale.
        lines = map(trajectory.write_line, training)
        ingredients = b"".join(lines) + repr(sorted(state.settings.items())).encode()
        into = self.folder / f"policy-{state.iteration + 1}-{hashlib.sha256(ingredients).hexdigest()[:8]}"
        state.iteration += 1
        state.settings |= self.learner(training, into, dict(state.settings), self.report)
        self._use_policy()

    def validate(self) -> None:
        """Score the policy on questions held out (4.3.2), also before it learned, and see whether to stop."""
        state = self.state
        found = figures(self.attempt_all("validated", self.run, self.validation))
        if all(found["f1"] > earlier["f1"] for earlier in state.scores):
            state.best = dict(state.settings)
        state.scores.append({"iteration": state.iteration, **found})
        state.stopped = reason_to_stop(state.scores, self.config.iterations, self.config.epsilon)

    def run(self, question: Question, blank: Trajectory, earlier: str | None = None) -> Trajectory:
        """Run the agent on a question; a model is shown `earlier`, an attempt to improve on."""
        agent = build_graph(self.config.preset, checkpointer=False)
        request = {"question": question.question, "entities": dict(question.entities)}
        state = State.model_validate(agent.invoke(request, context=replace(self.context, earlier=earlier)))
        answer = state.answer or Answer("not_found")
        entities = {e.mention or e.label: e.id for e in state.linked}
        acted = replace(blank, status=answer.status, entities=entities, turns=turns_of(state.steps))
        if not self.context.offline:  # what the model was shown first, without any earlier attempt
            system, prompt = opening(self.env.prompt, prompt_values(state, self.env))
            acted = replace(acted, system=system, prompt=prompt)
        return exploration.rewarded(self.env.kg, acted, answer.values, answer.labels)

    def attempt_all(
        self,
        origin: Origin,
        attempt: Callable[[Question, Trajectory], Trajectory],
        questions: Sequence[Question],
    ) -> dict[str, Trajectory]:
        """Attempt every question that the journal has no trajectory of, and return those of all, by id.

        An error is the status of a trajectory without reward, but one that any question would meet
        (`RunError`, `UserError`) is raised.
        """
        iteration, done = self.state.iteration, self.journal.of(self.state.iteration, origin)
        policy = self.context.encoder if self.context.offline else self.context.model
        rewards = [t.reward for t in done.values()]

        def work(question: Question) -> float:
            blank = question.attempt(iteration=iteration, origin=origin, policy=policy)
            try:
                made = attempt(question, blank)
            except Exception as error:  # whatever breaks one question must not end the others
                if isinstance(error, RunError | UserError) and not isinstance(error, QuestionError):
                    raise
                made = replace(blank, status=f"crashed: {error!r}")
                _log.info("question %s: %s", question.id, made.status)
            self.journal.append(made)
            return made.reward

        def report() -> None:
            mean = sum(rewards) / max(len(rewards), 1)
            note = f"{len(rewards)} of {len(questions)}  mean reward {mean:.3f}"
            self.report(f"{origin} {iteration + (origin != 'validated')}", len(rewards), len(questions), note)

        report()
        with ThreadPoolExecutor(JOBS[self.config.policy], thread_name_prefix="attempt") as pool:
            futures = [pool.submit(work, question) for question in questions if question.id not in done]
            try:
                for future in as_completed(futures):
                    rewards.append(future.result())
                    report()
            finally:  # where one has failed, those that have not begun are left out
                pool.shutdown(wait=False, cancel_futures=True)
        return self.journal.of(iteration, origin)


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


def reason_to_stop(scores: Sequence[Mapping[str, float]], rounds: int, epsilon: float) -> str:
    """Return why to stop after these validations, in words; "" to go on."""
    if len(scores) > 1 and (gain := scores[-1]["f1"] - scores[-2]["f1"]) < epsilon:
        return f"the gain in validation F1 is negligible ({gain:+.4f}, less than {epsilon:g})"
    if len(scores) > rounds:
        return f"all {rounds} iterations are done" if rounds > 1 else "the iteration is done"
    return ""
