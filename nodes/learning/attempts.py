"""One attempt at a question: the agent is run, its answer rewarded, its steps kept as a trajectory."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context as Isolated
from dataclasses import replace
from typing import Any, NamedTuple

from langgraph.runtime import Runtime

from triplewise.nodes.act import prompt_values
from triplewise.nodes.answer import labels_of
from triplewise.nodes.context import Context
from triplewise.nodes.conversation import opening
from triplewise.nodes.environment import environment
from triplewise.nodes.learning.course import Agent, Course
from triplewise.nodes.phase import Phase
from triplewise.nodes.phase import Update as StateUpdate
from triplewise.nodes.state import Answer, State, Step
from triplewise.tools.core.call import Feedback
from triplewise.tools.core.errors import ConfigurationError, RunError, UserError
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.learning.beyond import rules_beyond
from triplewise.tools.learning.choices import choices_of
from triplewise.tools.learning.dialogue import Opening
from triplewise.tools.learning.policies import Json
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.reward import reward_of
from triplewise.tools.learning.trajectory import Origin, Trajectory, Turn
from triplewise.tools.linking.linker import link
from triplewise.tools.planning.bodies import answers, without_topic

_log = logging.getLogger(__name__)


class Attempt(NamedTuple):
    """A trajectory, and the agent's final state."""

    trajectory: Trajectory
    state: State


class Attempts:
    """Makes attempts with one policy.

    Args:
        course: the run. settings: what earlier updates changed in the order's settings.
        iteration, origin: of the trajectories made.
        **changed: further settings of these attempts alone.
    """

    def __init__(
        self,
        course: Course,
        settings: Mapping[str, Json],
        iteration: int,
        origin: Origin,
        **changed: Json,
    ) -> None:
        self.course, self.iteration, self.origin = course, iteration, origin
        given = {**course.order.context, **settings, **changed}
        self.context = Context(**given).resolved(course.defaults)
        self._agent = self._build()

    def _build(self, **phases: Phase) -> Agent:
        """An agent that keeps no checkpoints: what is done is in the journal."""
        return self.course.build(self.course.order.preset, checkpointer=False, **phases)

    def run(self, question: Question, *, rule: Rule | None = None, earlier: str | None = None) -> Attempt:
        """One attempt.

        Args:
            question: what is asked.
            rule: the only rule to follow, instead of a plan.
            earlier: an attempt to improve on, as a model is shown it.
        """
        agent = self._agent if rule is None else self._build(plan=following(rule))
        state = self._state(agent, question, replace(self.context, earlier=earlier))
        return Attempt(self._rewarded(question, state), state)

    def guarded(self, attempt: Callable[[Question], Trajectory]) -> Callable[[Question], Trajectory]:
        """What attempts a question, so that one question does not end the learning of thousands.

        An error is kept as the status of a trajectory without reward, but for those that any question would
        meet: `RunError`, a service failed, and `UserError`, a setting or file that cannot work.
        """

        def guard(question: Question) -> Trajectory:
            try:
                if unknown := self._unknown(question):
                    _log.warning("question %s: %s", question.id, unknown)
                    return self._trajectory(question, status=f"crashed: {unknown}")
                return attempt(question)
            except (RunError, UserError):
                raise
            except Exception as error:  # noqa: BLE001 - told and counted
                _log.warning("question %s broke the agent: %r", question.id, error)
                return self._trajectory(question, status=f"crashed: {error!r}")

        return guard

    def _unknown(self, question: Question) -> str:
        """What is wrong with the entities that a question comes with; "" if nothing is."""
        given = dict(question.entities)
        if not given or self.context.db is not None:
            return ""
        try:
            link(
                question.question,
                environment(self.context).kg,
                given=given,
                encoder=environment(self.context).encoder,
            )
        except ConfigurationError as error:
            return str(error)
        return ""

    def rules(self, state: State, count: int) -> list[Rule]:
        """The rules planned in a run, then `count` beyond the plan, each once."""
        context = self.context
        further = rules_beyond(
            state.question,
            state.linked,
            environment(context).kg,
            environment(context).encoder,
            hops=context.plan_hops,
            beam=context.plan_beam,
            count=count,
        )
        return list({rule.text(): rule for rule in (*further[::-1], *state.rules[::-1])}.values())[::-1]

    def worth(self, question: Question, rule: Rule) -> float:
        """Recall plus F1 of what a rule's query finds (0 to 2)."""
        kg = environment(self.context).kg
        found = answers(kg, without_topic(kg, rule), self.context.row_limit)
        values = [kg.profile.short(value) for value in found]
        reward = reward_of(values, labels_of(kg, values), self._gold(question))
        return reward.recall + reward.f1

    def planned(self, question: Question) -> State:
        """The state before the first step: entities linked, rules planned, nothing done."""
        return self._state(self._build(act=_stop), question, self.context)

    def _state(self, agent: Agent, question: Question, context: Context) -> State:
        """The final state of a run."""
        asked = {"question": question.question, "entities": dict(question.entities)}

        def invoke() -> State:
            return State.model_validate(dict(agent.invoke(asked, context=context)))

        # In a context of its own: inside a node's, the agent would take itself for a part of this graph.
        return Isolated().run(invoke)

    def _trajectory(self, question: Question, **values: Any) -> Trajectory:
        """A trajectory of these attempts."""
        context = self.context
        return Trajectory(
            id=question.id,
            question=question.question,
            entities=values.pop("entities", {m: i for m, i in question.entities.items() if i}),
            answers=question.answers,
            iteration=self.iteration,
            origin=self.origin,
            policy=context.encoder if context.embedded else context.model,
            **values,
        )

    def _rewarded(self, question: Question, state: State) -> Trajectory:
        """The trajectory of a run with its reward."""
        answer: Answer = state.answer or Answer("not_found")
        reward = reward_of(answer.values, answer.labels, self._gold(question))
        return self._trajectory(
            question,
            entities={e.mention or e.label: e.id for e in state.linked},
            predicted=reward.predicted,
            reward=reward.recall,
            f1=reward.f1,
            turns=tuple(_turn(s) for s in state.steps),
            status=answer.status,
            **(
                self._followed(state, reward.recall) if self.context.embedded else self.shown(state)._asdict()
            ),
        )

    def _gold(self, question: Question) -> list[str]:
        """The gold answers; full IRIs in the short form that the agent answers in."""
        short = environment(self.context).kg.profile.short
        return [short(IRI(a)) if a.startswith(("http://", "https://")) else a for a in question.answers]

    def _followed(self, state: State, reward: float) -> dict[str, Any]:
        """The rule that led to the answer with its choices, and all rules that were tried."""
        tried = tuple(r.text() for r in state.rules[: state.attempt + 1])
        if not reward or state.attempt >= len(state.rules):
            return {"tried": tried}
        rule = state.rules[state.attempt]
        return {
            "tried": tried,
            "rule": rule.text(),
            "choices": choices_of(environment(self.context).kg, rule),
        }

    def shown(self, state: State) -> Opening:
        """What a model was shown before its first step, without any earlier attempt."""
        return opening(environment(self.context).prompt, prompt_values(state, self.context))


def following(rule: Rule) -> Phase:
    """A plan of one rule."""

    def followed(state: State, runtime: Runtime[Context]) -> StateUpdate:
        """The rule that is to be tried."""
        return {"rules": (rule,)}

    return followed


def _stop(state: State, runtime: Runtime[Context]) -> StateUpdate:
    """End before anything is done."""
    feedback = Feedback(action="give_up", finished=True)
    return {"steps": (Step(1, "", "give_up()", feedback, ""),)}


def _turn(step: Step) -> Turn:
    """A step as a trajectory keeps it."""
    return Turn(step.thought, step.call, step.observation)


def best_of(trajectories: Sequence[Trajectory]) -> Trajectory:
    """The best attempt: by reward, then F1, then length; the earliest of equals."""
    return max(trajectories, key=lambda t: (t.reward, t.f1, -len(t.turns)))
