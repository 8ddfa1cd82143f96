"""The embedded policy by itself: what it answers at once, and what it finds when it looks again.

The agent's loop adds nothing to either where a rule is one query, so exploring thousands of questions plans
and runs rules directly (SymAgent 4.3.1). Refinement is given the attempt and its reward, never the answers:
the next best bodies are run, and the one rewarded best is kept. Recall alone (equation 6) would prefer
bodies that reach everything, so among attempts it is recall plus F1 that decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.choices import choices_of
from triplewise.tools.learning.questions import Question
from triplewise.tools.learning.reward import Reward, reward_of
from triplewise.tools.learning.trajectory import Origin, Trajectory, Turn
from triplewise.tools.linking.linker import LinkedEntity, link
from triplewise.tools.planning.bodies import answers, ground, signature, without_topic
from triplewise.tools.planning.lexical.planner import plan, prepare
from triplewise.tools.planning.lexical.search import PlanSettings
from triplewise.tools.retrieval.encoder import Encoder

ROWS = 1_000
"""Answers of a rule that are looked at."""


@dataclass
class Explorer:
    """Makes attempts with one encoder. Rewards of rules are kept: the graph does not change.

    Attributes:
        kg, encoder: the graph and the policy. settings: of the planner. looks: bodies run in a refinement.
        iteration: of self-learning. rewards: question and rule -> reward; may be shared by explorers.
    """

    kg: KnowledgeGraph
    encoder: Encoder
    settings: PlanSettings = field(default_factory=lambda: PlanSettings(hops=2))
    looks: int = 30
    iteration: int = 0
    rewards: dict[tuple[str, str], Reward] = field(default_factory=dict)

    def explore(self, question: Question) -> Trajectory:
        """The policy's own attempt: its first rule."""
        linked = self._linked(question)
        rules = plan(question.question, linked, self.kg, self.encoder, settings=self.settings)
        return self._trajectory(question, rules[:1], "explored")

    def refine(self, question: Question, explored: Trajectory) -> Trajectory:
        """The best of the next bodies, given the first attempt; the attempt itself where it was perfect."""
        best = self._reworded(explored)
        if explored.f1 == 1.0:
            return best
        linked = self._linked(question)
        search = prepare(question.question, linked, self.kg, self.encoder, self.settings)
        for topic in search.topics:
            for body, _score in search.bodies(topic)[: self.looks]:
                rule = ground(topic, body)
                if self.reward(question, rule).recall + self.reward(question, rule).f1 > _worth(best):
                    best = self._trajectory(question, [rule], "refined")
        return best

    def reward(self, question: Question, rule: Rule) -> Reward:
        """The reward of a rule's answers (equation 6)."""
        key = (question.id, rule.text() + str(signature(rule.body)))
        if key not in self.rewards:
            values = [self._text(v) for v in answers(self.kg, without_topic(self.kg, rule), ROWS)]
            self.rewards[key] = reward_of(values, values, question.answers)
        return self.rewards[key]

    def _text(self, value: Term) -> str:
        return self.kg.profile.short(value) if isinstance(value, IRI) else str(getattr(value, "value", value))

    def _linked(self, question: Question) -> tuple[LinkedEntity, ...]:
        """The entities of a question; () where the graph does not know those given."""
        try:
            return link(question.question, self.kg, given=question.entities, encoder=self.encoder)
        except ConfigurationError:
            return ()

    def _trajectory(self, question: Question, rules: Sequence[Rule], origin: Origin) -> Trajectory:
        """An attempt that follows a rule; without one, an attempt that failed.

        The first attempt has a plan to make, a refined one knows it: so the refined is shorter (equation 7).
        """
        ids = {m: i for m, i in question.entities.items() if i}
        if not rules:
            return Trajectory(
                question.id,
                question.question,
                ids,
                question.answers,
                iteration=self.iteration,
                origin=origin,
                policy=self.encoder.name,
            )
        rule, reward = rules[0], self.reward(question, rules[0])
        planned = [Turn("", "get_rules", "")] if origin == "explored" else []
        return Trajectory(
            question.id,
            question.question,
            ids,
            question.answers,
            predicted=reward.predicted,
            reward=reward.recall,
            f1=reward.f1,
            turns=(*planned, *(Turn("", a.arrow(), "") for a in rule.body), Turn("", "finish", "")),
            choices=choices_of(self.kg, rule) if reward.recall else (),
            iteration=self.iteration,
            origin=origin,
            policy=self.encoder.name,
            rule=rule.text(),
        )

    def _reworded(self, explored: Trajectory) -> Trajectory:
        """An attempt told again without its planning."""
        turns = tuple(t for t in explored.turns if t.call != "get_rules")
        return replace(explored, origin="refined", turns=turns)


def _worth(trajectory: Trajectory) -> float:
    return trajectory.reward + trajectory.f1
