"""Attempts at questions: the agent is run, its answer rewarded, its steps kept as a trajectory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextvars import Context as Isolated
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.nodes.act import opening, prompt_values, turns_of
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Phase, environment
from triplewise.nodes.environment import Update as StateUpdate
from triplewise.nodes.learning.config import JOBS, LearningContext, LearningState, Progress
from triplewise.nodes.plan import settings_of
from triplewise.nodes.state import Answer, State, Step
from triplewise.tools.actions.toolset import Feedback
from triplewise.tools.core.errors import ConfigurationError, RunError, UserError
from triplewise.tools.learning.exploration import Explorer
from triplewise.tools.learning.questions import Question, reward_of, short_answers
from triplewise.tools.learning.trajectory import Journal, Origin, Trajectory
from triplewise.tools.linking.linker import link

_log = logging.getLogger(__name__)


class Attempts:
    """Makes attempts with one policy.

    Args:
        learning: the run. state: how far it is; its settings are those of the policy.
        origin: of the trajectories made.
    """

    def __init__(self, learning: LearningContext, state: LearningState, origin: Origin) -> None:
        self.learning, self.iteration, self.origin = learning, state.iteration, origin
        self.context = Context(**{**learning.config.context, **state.settings}).resolved(learning.defaults)
        self._environment = environment(self.context)

    def explorer(self) -> Explorer:
        """Return what explores with the embedded policy."""
        env = self._environment
        return Explorer(env.kg, env.encoder, settings_of(self.context), iteration=self.iteration)

    def run(self, question: Question, *, earlier: str | None = None) -> Trajectory:
        """Run the agent on a question; a model is shown `earlier`, an attempt to improve on."""
        kg = self._environment.kg
        if question.entities and self.context.db is None:
            try:
                link(question.question, kg, given=question.entities, encoder=self._environment.encoder)
            except ConfigurationError as error:  # the graph has not an entity that the question comes with
                return self._unrewarded(question, f"crashed: {error}")
        state = self._final_state(question, replace(self.context, earlier=earlier))
        answer: Answer = state.answer or Answer("not_found")
        reward = reward_of(answer.values, answer.labels, short_answers(kg, question.answers))
        trajectory = replace(
            self._unrewarded(question, answer.status),
            entities={e.mention or e.label: e.id for e in state.linked},
            predicted=reward.predicted,
            reward=reward.recall,
            f1=reward.f1,
            turns=turns_of(state.steps),
        )
        return trajectory if self.context.embedded else self._opened(trajectory, state)

    def _unrewarded(self, question: Question, status: str) -> Trajectory:
        """Return a trajectory of these attempts that found nothing."""
        return Trajectory(
            id=question.id,
            question=question.question,
            entities={m: i for m, i in question.entities.items() if i},
            answers=question.answers,
            iteration=self.iteration,
            origin=self.origin,
            policy=self.context.encoder if self.context.embedded else self.context.model,
            status=status,
        )

    def with_prompt(self, trajectory: Trajectory) -> Trajectory:
        """Return another model's trajectory with what this agent's model is shown of the question."""
        question = Question(trajectory.id, trajectory.question, dict(trajectory.entities), trajectory.answers)
        return self._opened(trajectory, self._final_state(question, self.context, act=_stop))

    def _opened(self, trajectory: Trajectory, state: State) -> Trajectory:
        """Add what a model was shown before its first step, without any earlier attempt."""
        shown = opening(self._environment.prompt, prompt_values(state, self.context))
        return replace(trajectory, system=shown.system, prompt=shown.prompt)

    def _final_state(self, question: Question, context: Context, **phases: Phase) -> State:
        # Without checkpoints: what is done is in the journal.
        agent = self.learning.build(self.learning.config.preset, checkpointer=False, **phases)
        request = {"question": question.question, "entities": dict(question.entities)}
        # In a context of its own: inside a node's, the agent would take itself for a part of this graph.
        return State.model_validate(dict(Isolated().run(agent.invoke, request, context=context)))

    def of_all(
        self, attempt: Callable[[Question], Trajectory], journal: Journal, questions: Sequence[Question]
    ) -> dict[str, float | int]:
        """Attempt every question that the journal has no trajectory of, and return the means over all.

        Every trajectory is in the journal before it counts as done. An error is kept as the status of a
        trajectory without reward, so that one question does not end the learning of thousands; not so those
        that any question would meet: `RunError`, a service failed, and `UserError`, a setting or file that
        cannot work. These are raised once the attempts under way have ended.
        """
        done = journal.of(self.iteration, self.origin)
        count, total_reward = len(done), sum(t.reward for t in done.values())

        def report() -> None:
            mean = total_reward / count if count else None
            self.learning.report(Progress(self.origin, self.iteration, count, len(questions), mean))

        def work(question: Question) -> Trajectory:
            trajectory = self._guarded(attempt, question)
            journal.append(trajectory)
            return trajectory

        report()
        config = self.learning.config
        with ThreadPoolExecutor(config.jobs or JOBS[config.policy], thread_name_prefix="attempt") as pool:
            futures = [pool.submit(work, question) for question in questions if question.id not in done]
            try:
                for future in as_completed(futures):
                    count, total_reward = count + 1, total_reward + future.result().reward
                    report()
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        return figures(journal.of(self.iteration, self.origin))

    def _guarded(self, attempt: Callable[[Question], Trajectory], question: Question) -> Trajectory:
        try:
            trajectory = attempt(question)
        except (RunError, UserError):
            raise
        except Exception as error:  # noqa: BLE001 - reported and counted
            trajectory = self._unrewarded(question, f"crashed: {error!r}")
        if trajectory.status.startswith("crashed"):
            _log.warning("question %s: %s", question.id, trajectory.status)
        return trajectory


def _stop(state: State, runtime: Runtime[Context]) -> StateUpdate:
    """End before anything is done."""
    feedback = Feedback(action="give_up", finished=True)
    return {"steps": (Step(1, "", "give_up()", feedback, ""),)}


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
