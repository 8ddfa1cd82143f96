"""The neighbourhood search of one question: chains, what they reach, and how well both fit the words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from triplewise.tools.core.rules import Constraint, DroppedRule, Rule, dropped
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.classes import find_classes
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.planning.bodies import Body, answers, ground, neighbourhood, node_form, without_topic
from triplewise.tools.planning.lexical.fit import BONUS, ValueFit
from triplewise.tools.planning.lexical.operations import Operations
from triplewise.tools.planning.lexical.question import QuestionView
from triplewise.tools.planning.lexical.score import Scorer
from triplewise.tools.planning.mining import Caps
from triplewise.tools.retrieval.encoder import Encoder

NOWHERE = "it leads nowhere from the entity in this graph"
"""Why a rule without a grounding is dropped."""
OPERATED = ("filter", "max", "min", "most", "least")
"""Constraints over a quantity of the answers."""
UNUSED = 0.8
"""Cost of every topic of the question that a rule leaves out."""
SUPPORTED = 0.55
"""A relation whose own word is as like it as this is what the question speaks of."""
GUESSED = 0.28
"""Below this likeness a relation has nothing to do with the question, whatever it leads to."""
SAMPLE = 60
"""Values of a rule that are looked at."""
UNSAID = "no word of the question speaks of its relations"
GUESS = f"a guess: {UNSAID}"
"""Provenance of a rule that is followed all the same (`PlanSettings.guess`)."""
FAR_BEHIND = 10.0
"""What a guess costs: more than any score, so that it comes after every rule that is spoken for."""
VALUES = 2_000
"""Most values of a body that are compared for a meeting point."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Sizes of the search.

    Attributes:
        seed_count: groups of seeds read. hops: longest body. beam: partial bodies that grow on.
        rules: rules returned. checked: rules run against the KG before they are offered.
        documents: whether documents may fill a gap of the KG: a rule that leads nowhere then stays a plan.
        guess: whether rules that no word of the question speaks for stay too, behind all others.
        caps: how far mining goes; its `hops` are overruled by these.
    """

    seed_count: int = 5
    hops: int = 3
    beam: int = 12
    rules: int = 8
    checked: int = 12
    documents: bool = False
    guess: bool = False
    caps: Caps = field(default_factory=Caps)

    @property
    def mining(self) -> Caps:
        """The caps of mining, to the same number of hops."""
        return replace(self.caps, hops=self.hops)


class Search:
    """Everything the builders of rules share for one question.

    Attributes:
        dropped: rules that were tried and are none, with the reason.
        topics: argument forms of the linked entities, in the order of the question.
        classes: nodes that the expected noun names as a class of the KG.
    """

    def __init__(
        self,
        seen: QuestionView,
        topics: Sequence[str],
        classes: Sequence[IRI],
        kg: KnowledgeGraph,
        encoder: Encoder,
        settings: PlanSettings,
    ) -> None:
        self.seen, self.topics, self.classes = seen, tuple(topics), tuple(classes)
        self.kg, self.encoder, self.settings = kg, encoder, settings
        self.operations = Operations(kg, encoder, seen)
        self.fit = ValueFit(kg, encoder, seen, classes)
        self.dropped: list[DroppedRule] = []
        self._bodies: dict[str, list[tuple[Body, float]]] = {}
        self._scorers: dict[str, Scorer] = {}
        self._reached: dict[tuple[str, Body], frozenset[Term]] = {}

    @property
    def by_class(self) -> bool:
        """Whether the question asks for members of a class of the KG ("which rivers")."""
        return bool(self.classes) and self.seen.determined

    @property
    def excluded(self) -> str:
        """The topic behind a negation ("do not border Brazil"), "" if there is none."""
        if self.seen.negated < 0:
            return ""
        behind = [i for i in range(len(self.topics)) if self.seen.mention_position(i) > self.seen.negated]
        return self.topics[behind[0]] if behind and len(behind) < len(self.topics) else ""

    def scorer(self, topic: str) -> Scorer:
        """The scorer for bodies that start at a topic."""
        if topic not in self._scorers:
            self._scorers[topic] = Scorer(self.kg, self.encoder, self.seen, topic, by_class=self.by_class)
        return self._scorers[topic]

    def bodies(self, topic: str) -> list[tuple[Body, float]]:
        """Bodies from a topic with their scores, best first."""
        if topic not in self._bodies:
            scorer = self.scorer(topic)
            found = neighbourhood(self.kg, topic, self.settings.hops, self.settings.beam, scorer.partial)
            scored = zip(found, scorer.scores(found), strict=True)
            self._bodies[topic] = sorted(scored, key=lambda x: (-x[1], len(x[0])))
        return self._bodies[topic]

    def reached(self, topic: str, body: Body) -> frozenset[Term]:
        """What a body reaches from a topic, run once."""
        key = (topic, body)
        if key not in self._reached:
            self._reached[key] = frozenset(answers(self.kg, ground(topic, body), VALUES))
        return self._reached[key]

    def chains(self, topic: str) -> list[Rule]:
        """Chains from one topic, best first."""
        best = self.bodies(topic)[: self.settings.checked]
        note = "fits the words of the question"
        return [replace(ground(topic, body), score=score, provenance=note) for body, score in best]

    def unused(self, rule: Rule) -> int:
        """Topics of the question that a rule leaves out."""
        used = {rule.anchor, *(c.value for c in rule.constraints), *(c.operator for c in rule.constraints)}
        return sum(t not in used for t in self.topics)

    def ranked(self, rules: Sequence[Rule]) -> list[Rule]:
        """Rules by their score, less what the topics they leave out cost."""
        if any(t.lower == "both" for t in self.seen.tokens) and not self.seen.boolean:
            # What is asked of both must not be answered for one of them.
            rules = [r for r in rules if len(self.topics) < 2 or _meets_in_answer(r)]
        charged = (replace(r, score=r.score - UNUSED * self.unused(r)) for r in rules)
        return sorted(charged, key=lambda r: (-r.score, len(r.body) + len(r.constraints)))

    def checked(self, rules: Sequence[Rule]) -> list[Rule]:
        """The best rules, run: those that find nothing are dropped, the others weighed by what they find."""
        kept = [
            found for rule in rules[: self.settings.checked] if (found := self._weighed(rule)) is not None
        ]
        return sorted(kept, key=lambda r: -r.score)

    def _weighed(self, rule: Rule) -> Rule | None:
        """A rule with the fit of its values, narrowed to the class asked for where its values are mixed."""
        rule = without_topic(self.kg, rule)
        values = [v for v in answers(self.kg, rule, SAMPLE) if self._form(v) != rule.anchor]
        if not values or self.fit.contradicts(values):
            asked = f"what is asked for is a {self.seen.kind}, and it leads to something else"
            return self._drop(rule, asked if values else NOWHERE)
        named = self.scorer(rule.anchor).named(rule.body) if rule.body else 0.0
        if not self.classes or not any(isinstance(v, IRI) for v in values):
            return self._supported(rule, self.fit.of(values, named))
        typed = self.operations.typed(rule, self.classes)
        found = set(answers(self.kg, typed, SAMPLE))
        members = [v for v in values if v in found]
        gain = self.fit.of([*members, *values] if members and self.seen.determined else values, named)
        others = [v for v in values if v not in members and isinstance(v, IRI)]
        mixed = bool(members) and bool(others) and self.seen.determined and self._differ(others)
        return self._supported(typed if mixed else rule, gain)

    def _supported(self, rule: Rule, gain: float) -> Rule | None:
        """The rule with what its values gain, if the question speaks of its relations.

        A weak likeness is enough only where the values are exactly of the kind asked for: what the KG does
        not hold shall end as not found, not as the next best relation.
        """
        scorer = self.scorer(rule.anchor)
        main = scorer.support(rule.body) if rule.body else 1.0
        joined = [c.atoms for c in rule.constraints if c.kind == "meets"]
        others = [scorer.support(atoms) for atoms in joined]
        surely = main >= SUPPORTED or (main >= GUESSED and gain >= BONUS)
        if rule.body and not self.seen.constrained and (left := self._left_out(rule)):
            return self._drop(rule, f"it leaves out what the question says by {', '.join(map(repr, left))}")
        if rule.anchor not in self.topics or (surely and all(o >= GUESSED for o in others)):
            return replace(rule, score=rule.score + gain)
        if self.settings.guess:
            return replace(rule, score=rule.score + gain - FAR_BEHIND, provenance=GUESS)
        return self._drop(rule, UNSAID)

    def _drop(self, rule: Rule, reason: str) -> Rule | None:
        """Note why a rule is none; gives None."""
        self.dropped.append(dropped(rule, reason))
        return None

    def _left_out(self, rule: Rule) -> tuple[str, ...]:
        """Words for relations the question speaks of and a rule leaves out; a word may name a class instead.

        Where a time is asked for, one word may name the event ("when was it founded") whose date the last
        relation gives, though another relation ("founded by") carries that word.
        """
        chains = [rule.body, *(c.atoms for c in rule.constraints if c.atoms)]
        words = self.scorer(rule.anchor).leaves_out(chains)
        left = tuple(word for word in words if not find_classes(self.kg, word))
        return left if len(left) > (self.seen.kind == "time") else ()

    def _differ(self, others: Sequence[IRI]) -> bool:
        """Whether nodes outside the class are really of another kind, by the names of their types."""
        names = self.kg.labels(self.fit.types(others[:SAMPLE])).values()
        return not any(self.fit.says(n) for n in names)

    def _form(self, value: Term) -> str:
        """The argument form of a node."""
        return node_form(self.kg, self.kg.profile.short(value)) if isinstance(value, IRI) else ""

    def finished(self, rules: Sequence[Rule]) -> list[Rule]:
        """Rules with what the cues ask for (count, superlative, comparison)."""
        if not self.seen.constrained:
            return list(rules)
        done = [f for rule in rules[: self.settings.rules] for f in self._operated(rule)]
        return sorted((self._once(r) for r in done), key=lambda r: (-r.score, len(r.body)))

    def _operated(self, rule: Rule) -> list[Rule]:
        """The rule with what the cues ask for."""
        done = self.operations.apply(rule)
        if not done:
            self._drop(rule, "its answers have nothing that could be compared or counted as asked")
        return done

    def _once(self, rule: Rule) -> Rule:
        """The rule's score with the relations of its operations: a word serves one relation only."""
        added = tuple(a for c in rule.constraints if c.kind in OPERATED for a in c.atoms)
        if not added or not rule.body:
            return rule
        scorer = self.scorer(rule.anchor)
        alone, together = scorer.partial([rule.body, (*rule.body, *added)])
        return replace(rule, score=rule.score + together - alone)


def _meets_in_answer(rule: Rule) -> bool:
    """Whether a second topic leads to the very answers."""
    return any(c.kind == "meets" and c.variable == rule.answer for c in rule.constraints)


def with_constraint(rule: Rule, *constraints: Constraint) -> Rule:
    """A rule with further constraints."""
    return replace(rule, constraints=(*rule.constraints, *constraints))
