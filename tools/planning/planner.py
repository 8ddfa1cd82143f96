"""Plan: the rules that may answer a question, best first (SymAgent 4.1).

Where a KG has seed questions, rules come from the closed paths of the seeds most like the question.
Without seeds they come from the neighbourhood of the linked entities, ranked by how well they fit the words.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.encoder import Encoder
from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.kg.terms import IRI, Term
from triplewise.tools.linking import LinkedEntity
from triplewise.tools.planning.bodies import Body, ground, neighbourhood, node_form, rename, run
from triplewise.tools.planning.fit import ValueFit
from triplewise.tools.planning.mining import Miner
from triplewise.tools.planning.operations import Operations
from triplewise.tools.planning.question import QuestionView, view
from triplewise.tools.planning.score import Scorer
from triplewise.tools.planning.seeds import Match, SeedIndex
from triplewise.tools.planning.structures import boolean_rules, class_rules, meeting_rules
from triplewise.tools.rules import Rule

LEAST_F1 = 0.25
"""Bodies that reproduce less than this share of a seed's answers are no rule for it."""
SHARPNESS = 4.0
"""How fast a seed's say falls with its BM25 score: the power it is raised to."""

_miners: WeakKeyDictionary[KnowledgeGraph, dict[int, Miner]] = WeakKeyDictionary()
_lock = Lock()


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Sizes of the search.

    Attributes:
        seed_count: groups of seeds read. hops: longest body. beam: partial bodies that grow on.
        rules: rules returned. checked: rules run against the KG before they are offered.
    """

    seed_count: int = 5
    hops: int = 3
    beam: int = 12
    rules: int = 8
    checked: int = 6


def miner_of(kg: KnowledgeGraph, hops: int) -> Miner:
    """The miner of a KG, shared by all questions so that no seed is mined twice."""
    with _lock:
        return _miners.setdefault(kg, {}).setdefault(hops, Miner(kg, hops))


def plan(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex | None = None,
    settings: PlanSettings | None = None,
) -> tuple[Rule, ...]:
    """Rules for a question with linked entities, best first; () where nothing fits."""
    settings = settings or PlanSettings()
    spans = [(e.start, e.end) for e in linked]
    rules: list[Rule] = []
    if seeds is not None and linked:
        rules = seed_rules(question, linked, kg, seeds, settings)
    if not rules or rules[0].score < LEAST_F1:
        rules += neighbourhood_rules(view(question, spans), linked, kg, encoder, settings)
    return tuple(_distinct(rules)[: settings.rules])


def _distinct(rules: Sequence[Rule]) -> list[Rule]:
    """Each rule once, in order."""
    return list({(r.anchor, r.body, r.constraints): r for r in reversed(rules)}.values())[::-1]


def seed_rules(
    question: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, seeds: SeedIndex, settings: PlanSettings
) -> list[Rule]:
    """Rules from seed questions: each body weighs its F1 by how like its seeds are to the question."""
    best: list[Rule] = []
    for entity in linked:
        matches = seeds.search(question, [(entity.start, entity.end)], settings.seed_count)
        found = _weigh(matches, entity, kg, settings)
        if found and (not best or found[0].score > best[0].score):
            best = found
    return best


def _weigh(
    matches: Sequence[Match], entity: LinkedEntity, kg: KnowledgeGraph, settings: PlanSettings
) -> list[Rule]:
    """Rules of the matched groups for one topic entity."""
    miner, total = miner_of(kg, settings.hops), 0.0
    scores: dict[Body, float] = {}
    notes: dict[Body, Rule] = {}
    anchor = node_form(kg, entity.id)
    for match in matches:
        weight = match.score**SHARPNESS
        mined = miner.mine(match.seeds)
        if not mined:
            continue
        total += weight
        for m in mined:
            if m.f1 < LEAST_F1:
                continue
            body = rename(kg, m.signature)
            scores[body] = scores.get(body, 0.0) + weight * m.f1
            note = f'reproduces the answers of {m.support} seed questions like "{match.text}", F1 {m.f1:.2f}'
            rule = replace(ground(anchor, body), support=m.support, precision=m.precision, recall=m.recall)
            notes.setdefault(body, replace(rule, provenance=note))
        if match.score == 1.0 and mined[0].f1 > 0.9 and mined[0].support > 2:
            break
    ranked = sorted(scores, key=lambda b: (-scores[b], len(b)))
    return [replace(notes[b], score=scores[b] / total) for b in ranked]


def neighbourhood_rules(
    seen: QuestionView,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    settings: PlanSettings,
) -> list[Rule]:
    """Rules from the neighbourhood of the linked entities, fitted to the words of the question."""
    search = _Search(seen, kg, encoder, settings)
    topics = [node_form(kg, e.id) for e in linked]
    if seen.boolean:
        return boolean_rules(search.context(topics))
    rules = [r for t in topics for r in search.around(t)]
    if len(topics) > 1:
        rules += meeting_rules(search.context(topics))
    if not topics or seen.superlative or seen.most or seen.comparison or seen.counting:
        rules += class_rules(search.context(topics))
    rules.sort(key=lambda r: -r.score)
    return search.check(rules)


class _Search:
    """Neighbourhood search for one question."""

    def __init__(self, seen: QuestionView, kg: KnowledgeGraph, encoder: Encoder, settings: PlanSettings) -> None:
        self.seen, self.kg, self.encoder, self.settings = seen, kg, encoder, settings
        self.operations = Operations(kg, encoder, seen)
        self._bodies: dict[str, list[tuple[Body, float]]] = {}
        self._scorers: dict[str, Scorer] = {}

    def context(self, topics: Sequence[str]) -> Context:
        """What the builders of larger structures need."""
        return Context(self, tuple(topics))

    def scorer(self, topic: str) -> Scorer:
        """The scorer for bodies that start at a topic."""
        if topic not in self._scorers:
            self._scorers[topic] = Scorer(self.kg, self.encoder, self.seen, topic)
        return self._scorers[topic]

    def bodies(self, topic: str) -> list[tuple[Body, float]]:
        """Bodies from a topic with their scores, best first."""
        if topic not in self._bodies:
            scorer = self.scorer(topic)
            found = neighbourhood(self.kg, topic, self.settings.hops, self.settings.beam, scorer.partial)
            scored = zip(found, scorer.scores(found), strict=True)
            self._bodies[topic] = sorted(scored, key=lambda x: (-x[1], len(x[0])))
        return self._bodies[topic]

    def around(self, topic: str) -> list[Rule]:
        """Chains from one topic, with what the cues ask for."""
        best = self.bodies(topic)[: self.settings.rules]
        rules = []
        for body, score in best:
            rule = replace(ground(topic, body), score=score, provenance="fits the words of the question")
            rules += self.operations.apply(rule)
        return rules

    def check(self, rules: Sequence[Rule]) -> list[Rule]:
        """Run the best rules: drop those that find nothing, weigh what the others find by the kind asked for."""
        fit = ValueFit(self.kg, self.encoder, self.seen)
        kept = []
        for rule in rules[: self.settings.checked]:
            result = run(self.kg, rule, limit=60)
            values: tuple[Term, ...] = result.column(result.variables[0]) if result.rows else ()
            others = [v for v in values if not (isinstance(v, IRI) and node_form(self.kg, self.kg.profile.short(v)) == rule.anchor)]
            if others:
                kept.append(self._narrowed(replace(rule, score=rule.score + fit.of(others)), fit))
        kept.sort(key=lambda r: -r.score)
        return [*kept, *rules[self.settings.checked :]]

    def _narrowed(self, rule: Rule, fit: ValueFit) -> Rule:
        """The rule, kept to the type the question names where its answers are mixed."""
        if any(c.kind in ("count", "max", "min", "most", "least", "type") for c in rule.constraints):
            return rule
        return self.operations.typed(rule, fit.classes()) or rule


@dataclass(frozen=True)
class Context:
    """A search and its topics, as the builders in `structures` see them."""

    search: _Search
    topics: tuple[str, ...]
