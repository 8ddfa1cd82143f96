"""Exploring and refining with the embedded policy (SymAgent 4.3.1), and the choices that it learns from.

The agent's loop adds nothing where a rule is one query, so exploring thousands of questions plans and runs
rules directly. Refinement is given the attempt and its reward, never the answers: the next best bodies are
run, and the one rewarded best is kept. Recall alone (equation 6) would prefer bodies that reach everything,
so among attempts it is recall plus F1 that decides.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.questions import Question, Reward, reward_of, short_answers
from triplewise.tools.learning.trajectory import Choice, Origin, Trajectory, Turn
from triplewise.tools.linking.linker import link
from triplewise.tools.planning.bodies import answers, ground, grow, without_topic
from triplewise.tools.planning.lexical.planner import PlanSettings, make_plan, prepare
from triplewise.tools.retrieval.encoder import Encoder

ROWS = 1_000
"""Answers of a rule that are looked at."""
REFINED_BODIES = 30
"""Bodies at each topic entity that a refinement runs for their reward."""


def unrewarded(
    question: Question, iteration: int, origin: Origin, policy: str, status: str = ""
) -> Trajectory:
    """Return an attempt at a question that found nothing."""
    entities = {mention: node for mention, node in question.entities.items() if node}
    return Trajectory(
        question.id,
        question.question,
        question.answers,
        entities,
        iteration=iteration,
        origin=origin,
        policy=policy,
        status=status,
    )


@dataclass
class Explorer:
    """Makes attempts with one encoder, which is the policy; `settings` are the planner's."""

    kg: KnowledgeGraph
    encoder: Encoder
    settings: PlanSettings = field(default_factory=PlanSettings)
    iteration: int = 0

    def explore(self, question: Question) -> Trajectory:
        """Return the policy's own attempt: its first rule; a crashed one where the graph lacks an entity."""
        try:
            linked = link(question.question, self.kg, given=question.entities, encoder=self.encoder)
        except ConfigurationError as error:
            return unrewarded(question, self.iteration, "explored", self.encoder.name, f"crashed: {error}")
        plan = make_plan(question.question, linked, self.kg, self.encoder, settings=self.settings)
        if not plan.rules:
            return unrewarded(question, self.iteration, "explored", self.encoder.name)
        return self._trajectory(question, plan.rules[0], self.reward(question, plan.rules[0]), "explored")

    def refine(self, question: Question, explored: Trajectory) -> Trajectory:
        """Return the best of the next bodies, given the first attempt; that itself where it was perfect."""
        turns = tuple(t for t in explored.turns if t.call != "get_rules")
        best = replace(explored, origin="refined", turns=turns)
        if explored.f1 == 1.0 or explored.status:
            return best
        linked = link(question.question, self.kg, given=question.entities, encoder=self.encoder)
        search = prepare(question.question, linked, self.kg, self.encoder, self.settings)
        for topic in search.topics:
            for body, _score in search.bodies(topic)[:REFINED_BODIES]:
                rule = ground(topic, body)
                reward = self.reward(question, rule)
                if reward.recall + reward.f1 > best.reward + best.f1:
                    best = self._trajectory(question, rule, reward, "refined")
        return best

    def reward(self, question: Question, rule: Rule) -> Reward:
        """Return the reward of a rule's answers (equation 6)."""
        terms = answers(self.kg, without_topic(self.kg, rule), ROWS)
        labels = self.kg.labels([term for term in terms if isinstance(term, IRI)])
        values = [
            self.kg.profile.short(t) if isinstance(t, IRI) else str(getattr(t, "value", t)) for t in terms
        ]
        names = [labels.get(t, text) for t, text in zip(terms, values, strict=True)]
        return reward_of(values, names, short_answers(self.kg, question.answers))

    def _trajectory(self, question: Question, rule: Rule, reward: Reward, origin: Origin) -> Trajectory:
        """Return an attempt that follows a rule.

        The first attempt has a plan to make, a refined one knows it: so the refined is shorter (equation 7).
        """
        planned = [Turn("", "get_rules", "")] if origin == "explored" else []
        return replace(
            unrewarded(question, self.iteration, origin, self.encoder.name),
            predicted=reward.predicted,
            reward=reward.recall,
            f1=reward.f1,
            turns=(*planned, *(Turn("", a.arrow(), "") for a in rule.body), Turn("", "finish", "")),
            choices=choices_of(self.kg, rule) if reward.recall else (),
            rule=rule.text(),
        )


def choices_of(kg: KnowledgeGraph, rule: Rule) -> tuple[Choice, ...]:
    """Return the choices behind a rule: along its chain, then along each chain of a second topic entity.

    At each hop, what was taken beside what was offered: what the embedded policy learns from, as a language
    model learns from thoughts and actions. One query a hop. A hop whose relation the KG does not offer there
    (a gap) is left out.
    """
    chains = [(rule.anchor, rule.body)] if rule.anchor else []
    chains += [(c.value, c.atoms) for c in rule.constraints if c.kind == "meets"]
    choices = []
    for anchor, atoms in chains:
        before = tuple[str, ...]()
        for hop, atom in enumerate(atoms):
            offered = tuple(_step_text(kg, body[-1]) for body in grow(kg, anchor, tuple(atoms[:hop])))
            chosen = _step_text(kg, atom)
            if chosen in offered:
                choices.append(Choice(chosen, tuple(dict.fromkeys(offered)), before))
            before = (*before, chosen)
    return tuple(choices)


def _step_text(kg: KnowledgeGraph, atom: Atom) -> str:
    iri = kg.profile.expand(atom.relation, relation=True)
    short = atom.relation if iri is None else kg.profile.short(iri)
    return short if atom.forward else f"^{short}"
