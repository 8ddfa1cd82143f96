"""Exploring and refining with the embedded policy (SymAgent 4.3.1), and the choices that it learns from.

The agent's loop adds nothing where a rule is one query, so exploring thousands of questions grows chains and
runs them as rules directly. Refinement is given the attempt and its reward, never the answers: the next best
chains are run, and the one rewarded best is kept. Recall alone (equation 6) would prefer paths that reach
everything, so among attempts it is recall plus F1 that decides.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.rules import Atom, Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.learning.questions import Question, Reward, reward_of, short_answers
from triplewise.tools.learning.trajectory import Choice, Origin, Trajectory, Turn
from triplewise.tools.parsing.chains import ChainGrower, edges_of, topics_of
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.query import Path
from triplewise.tools.parsing.reading import derive
from triplewise.tools.planning.paths import answers, grow, node_form, with_variables
from triplewise.tools.retrieval.encoder import Encoder

ROWS = 1_000
"""Answers of a rule that are looked at."""


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
    """Makes attempts with one encoder, which is the policy."""

    kg: KnowledgeGraph
    encoder: Encoder
    iteration: int = 0

    def explore(self, question: Question) -> Trajectory:
        """Return the policy's own attempt: its first rule; a crashed one where the graph lacks an entity."""
        try:
            rules = self.rules(question)
        except ConfigurationError as error:
            return unrewarded(question, self.iteration, "explored", self.encoder.name, f"crashed: {error}")
        if not rules:
            return unrewarded(question, self.iteration, "explored", self.encoder.name)
        return self._trajectory(question, rules[0], self.reward(question, rules[0]), "explored")

    def refine(self, question: Question, explored: Trajectory) -> Trajectory:
        """Return the best of the next rules, given the first attempt; that itself where it was perfect."""
        turns = tuple(t for t in explored.turns if t.call != "get_rules")
        best = replace(explored, origin="refined", turns=turns)
        if explored.f1 == 1.0 or explored.status:
            return best
        for rule in self.rules(question)[1:]:
            reward = self.reward(question, rule)
            if reward.recall + reward.f1 > best.reward + best.f1:
                best = self._trajectory(question, rule, reward, "refined")
        return best

    def rules(self, question: Question) -> list[Rule]:
        """Return the chains around the entities of a question as rules, those that fit its words best first.

        Raises `ConfigurationError` for an entity that the graph lacks.
        """
        read, _ = derive(question.question, self.kg, self.encoder, question.entities or None)
        topics, found = topics_of(read), list[tuple[float, int, Path]]()
        grower = ChainGrower(read, topics, self.kg, self.encoder)
        for topic in topics:
            (node,) = topic.mentions
            found += [(chain.score, node, chain.path) for chain in grower.chains(topic)]
        return [self._rule(read.index, node, path) for _, node, path in sorted(found, key=lambda f: -f[0])]

    def _rule(self, index: GraphIndex, node: int, path: Path) -> Rule:
        """Return a path of an index as a rule."""
        short = self.kg.profile.short
        steps = [Atom(short(iri), forward) for iri, forward in edges_of(index, path)]
        return Rule(node_form(self.kg, short(index.terms[node])), with_variables(self.kg, steps))

    def reward(self, question: Question, rule: Rule) -> Reward:
        """Return the reward of a rule's answers (equation 6)."""
        terms = answers(self.kg, rule, ROWS)
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
            turns=(*planned, *(Turn("", a.arrow(), "") for a in rule.path), Turn("", "finish", "")),
            choices=choices_of(self.kg, rule) if reward.recall else (),
            rule=rule.text(),
        )


def choices_of(kg: KnowledgeGraph, rule: Rule) -> tuple[Choice, ...]:
    """Return the choices behind a rule: at each hop, what was taken and what was offered.

    The embedded policy learns from them, as a language model learns from thoughts and actions. One query a
    hop. A hop whose relation the KG does not offer there (a gap) is left out.
    """
    choices, before = list[Choice](), tuple[str, ...]()
    for hop, atom in enumerate(rule.path):
        offered = tuple(_step_text(kg, path[-1]) for path in grow(kg, rule.anchor, rule.path[:hop]))
        chosen = _step_text(kg, atom)
        if chosen in offered:
            choices.append(Choice(chosen, tuple(dict.fromkeys(offered)), before))
        before = (*before, chosen)
    return tuple(choices)


def _step_text(kg: KnowledgeGraph, atom: Atom) -> str:
    iri = kg.profile.expand(atom.relation, relation=True)
    short = atom.relation if iri is None else kg.profile.short(iri)
    return short if atom.forward else f"^{short}"
