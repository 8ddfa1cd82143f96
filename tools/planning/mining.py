"""Mine rule bodies from seed questions: closed paths from topic to answers, generalised and scored.

SymAgent, section 4.1 and equation 1. A body that reaches the answers and little else beats one that
merely reaches them: each is run from the topic entity, and its precision and recall are measured.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import TypeVar

from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.protocol import Direction, KnowledgeGraph, Outcome
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import (
    Body,
    Signature,
    answers_in,
    ground,
    grow,
    meeting,
    node_form,
    relation_form,
    rename,
    run,
    signature,
    without_topic,
)
from triplewise.tools.planning.lexical.constraints import Constraints
from triplewise.tools.planning.lexical.question import view
from triplewise.tools.planning.seeds import (
    Caps,
    Match,
    Mined,
    MinedSeeds,
    Quality,
    Seed,
    SeedIndex,
    SeedTerms,
    same_as,
)
from triplewise.tools.retrieval.encoder import Encoder

Item = TypeVar("Item")

LEAST_F1 = 0.25
"""Bodies that reproduce less than this share of a seed's answers are no rule for it."""
BETTER = 0.05  # By how much F1 a condition, or a second topic, must do better than the chain without
SHARPNESS = 4.0  # How fast the weight of a seed falls with its BM25 score: the power it is raised to
EXACTNESS = 2.0  # How fast the evidence of a body falls with its F1: the power it is raised to
DOUBT = 0.5  # Seeds whose evidence is withheld: one seed may be met by chance
UNLIKE = 0.25  # Seeds whose similarity with the question is below this say nothing about it
ONE_TOPIC = 1.25  # How many times better than a rule of two topics one must do that leaves out one of them
CHECKED = 3  # Rules of seeds asked whether they come back to their topic
JOINED = 6  # Chains of each topic of a seed that are tried together


@dataclass(frozen=True, slots=True)
class MinedBody:
    """A body with its means over the seeds it was found for; `condition`, `other`: what most have besides.

    `keeps_topic`: where it comes back to the topic entity, seeds count the topic among the answers.
    """

    signature: Signature
    support: int
    precision: float
    recall: float
    f1: float
    keeps_topic: bool = False
    condition: str = ""
    other: Signature = ()


class Miner:
    """Finds and scores closed paths.

    Args:
        caps: how far it goes. memory: what seeds gave before, so that none is mined twice.
        encoder: compares words with relations for conditions beyond chains; None for chains alone.
    """

    def __init__(
        self,
        kg: KnowledgeGraph,
        caps: Caps | None = None,
        memory: MinedSeeds | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        self.kg, self.caps, self._encoder = kg, caps or Caps(), encoder
        self._memory, self._terms = {} if memory is None else memory, SeedTerms(kg)

    def mine(self, seeds: Sequence[Seed]) -> list[MinedBody]:
        """Return bodies for seeds that share one masked text, best first."""
        mined = [self.of_seed(s) for s in self.choose(seeds)]
        qualities: dict[Signature, list[Quality]] = defaultdict(list)
        for of_seed in mined:
            for body, quality in of_seed.items():
                qualities[body].append(quality)
        n = sum(map(bool, mined)) or 1
        bodies = [
            MinedBody(
                body,
                len(q),
                sum(x.precision for x in q) / n,
                sum(x.recall for x in q) / n,
                sum(x.f1 for x in q) / n,
                keeps_topic=sum(x.returns for x in q) < 0,
                condition=Counter(x.condition for x in q).most_common(1)[0][0],
                other=Counter(x.other for x in q).most_common(1)[0][0],
            )
            for body, q in qualities.items()
        ]
        return sorted(bodies, key=lambda m: (-round(m.f1, 6), len(m.signature), m.signature))

    def choose(self, seeds: Sequence[Seed]) -> list[Seed]:
        """Return a few seeds of a group, drawn at random; those with several answers tell more."""
        several = [s for s in seeds if len(s.answers) > 1] or list(seeds)
        return self._sample(sorted(several, key=lambda s: (s.question, s.topics)), self.caps.samples)

    def _sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """Return `count` of the items in their order: a sample that depends on them and the seed only."""
        if len(items) <= count:
            return list(items)
        draw = random.Random(f"{self.caps.seed} {len(items)} {items[0]}")
        return [items[i] for i in sorted(draw.sample(range(len(items)), count))]

    def of_seed(self, seed: Seed) -> Mined:
        """Return the bodies of one seed with their quality; {} if its entities are not in the KG.

        The search starts at the first topic that the KG knows, and at a second one for where both meet.
        """
        if (known := self._memory.get(seed.digest)) is not None:
            return known
        mined: Mined = {}
        anchors, gold = list(dict.fromkeys(self.anchors(seed).values())), self._terms.gold(seed)
        if anchors and gold:
            constraints = None
            if self._encoder is not None:
                constraints = Constraints(self.kg, self._encoder, view(seed.question, seed.spans))
            first, *others = anchors
            mined = self._evaluate(first, self._closed(first, seed, constraints), gold, constraints)
            for second in others[:1]:
                alone = self._evaluate(second, self._closed(second, seed, None), gold, None)
                mined |= self._meeting(first, mined, second, alone, gold)
        self._memory[seed.digest] = mined
        return mined

    def anchors(self, seed: Seed) -> dict[str, str]:
        """Return topic -> argument form of its node, for those topics of a seed that the KG knows."""
        nodes = {name: node for name, id_ in seed.named for node in self._terms.resolve(id_)[:1]}
        short = self.kg.profile.short
        return {name: node_form(self.kg, short(n)) for name, n in nodes.items() if isinstance(n, IRI)}

    def rule(
        self, anchors: Sequence[str], body: Signature, quality: Quality | MinedBody, constraints: Constraints
    ) -> Rule | None:
        """Return a mined body at some topics; None where a second topic or a quantity is missing."""
        atoms = rename(self.kg, body)
        if quality.other:
            other = quality.other
            return meeting(self.kg, anchors[0], atoms, anchors[1], other) if len(anchors) > 1 else None
        rule = ground(anchors[0], atoms)
        return next(iter(constraints.read(rule, quality.condition)), None) if quality.condition else rule

    def _closed(self, anchor: str, seed: Seed, constraints: Constraints | None) -> list[Signature]:
        """Return signatures of closed paths from the anchor to the sampled answers, shortest first.

        Where the question asks how many, no path leads to the number: then all half paths, to be counted.
        """
        ends = self._sample([n for a in seed.answers for n in self._terms.resolve(a)[:1]], self.caps.answers)
        counting = constraints is not None and constraints.view.counting
        if not ends and not counting:
            return []
        halves = self._forward_halves(anchor)
        if counting:
            return sorted((s for s in halves if s), key=lambda s: (len(s), s))[: self.caps.halves]
        reaching: Counter[Signature] = Counter()
        for end in ends:
            reaching.update(self._meet(halves, end))
        # In an incomplete graph no path may lead to all of them: then those that lead to one.
        shared = [s for s, n in reaching.items() if n == len(ends)] or list(reaching)
        return sorted(shared, key=lambda s: (len(s), s))[: self.caps.bodies * 2]

    def _forward_halves(self, anchor: str) -> dict[Signature, frozenset[Term]]:
        """Return the nodes reached from the anchor over each body of up to hops - 1 relations."""
        start = self.kg.profile.expand(anchor)
        assert start is not None
        reached: dict[Signature, frozenset[Term]] = {(): frozenset({start})}
        frontier: list[Body] = [()]
        for _hop in range(self.caps.hops - 1):
            grown = self._sample(grow(self.kg, anchor, *frontier), self.caps.halves)
            frontier = []
            for body in grown:
                result = run(self.kg, ground(anchor, body), limit=self.caps.frontier)
                if result.outcome is Outcome.ROWS:
                    reached[signature(body)] = frozenset(answers_in(result))
                    frontier.append(body)
        return reached

    def _meet(self, halves: dict[Signature, frozenset[Term]], end: Term) -> set[Signature]:
        """Return signatures that reach `end`: half paths that end on it, or on one of its neighbours."""
        meeting = {s for s, nodes in halves.items() if s and end in nodes}
        around: dict[tuple[str, bool], set[Term]] = defaultdict(set)
        limit = self.caps.frontier
        near = self.kg.neighbours(end, limit=limit)
        triples = near.triples
        if near.outcome is Outcome.TRUNCATED:  # of a hub, as many of each relation
            relations = self.kg.relations(end)
            steps: list[tuple[IRI, Direction]] = [(r, "forward") for r in relations.forward]
            steps += [(r, "backward") for r in relations.backward]
            parts = (self.kg.neighbours(end, r, way, limit=limit).triples for r, way in steps)
            triples = tuple(chain.from_iterable(parts))
        for t in triples:
            name = relation_form(self.kg, self.kg.profile.short(t.relation))
            if t.object == end:
                around[(name, True)].add(t.subject)
            if t.subject == end:
                around[(name, False)].add(t.object)
        for s, nodes in halves.items():
            meeting |= {(*s, step) for step, ends in around.items() if not nodes.isdisjoint(ends)}
        return meeting

    def _evaluate(
        self, anchor: str, bodies: Sequence[Signature], gold: set[Term], constraints: Constraints | None
    ) -> Mined:
        """Return the quality of each body, run from the anchor; with conditions where those do better."""
        counting = constraints is not None and constraints.view.counting
        qualities: Mined = {}
        for body in bodies if counting else bodies[: self.caps.bodies]:
            rule = ground(anchor, rename(self.kg, body))
            best = self._judge(rule, gold)
            for reading in constraints.readings if constraints is not None else ():
                for read in constraints.read(rule, reading)[:1] if constraints is not None else ():
                    judged = self._judge(read, gold)
                    if judged is not None and (best is None or judged.f1 > best.f1 + BETTER):
                        best = replace(judged, condition=reading)
            if best is not None and (best.recall or not counting):
                qualities[body] = best
        return qualities

    def _judge(self, rule: Rule, gold: set[Term]) -> Quality | None:
        """Return how well a rule reproduces the answers; None where it leads nowhere.

        A result that was cut counts as large as the cap. The topic itself counts only where it is an answer:
        a closed path that comes back to its start is no path.
        """
        cap = max(200, 20 * len(gold))
        result = run(self.kg, rule, limit=cap)
        if result.outcome is Outcome.EMPTY:
            return None
        values = same_as(gold, answers_in(result))
        topic, returns = self.kg.profile.expand(rule.anchor), 0
        if topic in values:
            returns = -1 if topic in gold else 1
            values = values if topic in gold else values - {topic}
        hits = len(values & gold)
        size = cap if result.outcome is Outcome.TRUNCATED else len(values)
        return Quality(hits / size if size else 0.0, hits / len(gold), returns)

    def _meeting(self, first: str, left: Mined, second: str, right: Mined, gold: set[Term]) -> Mined:
        """Return chains of two topics that meet in the answers and do better together than either alone."""

        def widest(mined: Mined) -> list[tuple[Signature, Quality]]:
            """Return the bodies that miss the fewest answers, short ones first."""
            plain = [(b, q) for b, q in mined.items() if not q.condition]
            return sorted(plain, key=lambda pair: (-round(pair[1].recall, 6), len(pair[0]), pair[0]))[:JOINED]

        mined: Mined = {}
        for body, quality in widest(left):
            for other, alone in widest(right):
                rule = meeting(self.kg, first, rename(self.kg, body), second, other)
                judged = self._judge(rule, gold)
                least = max(quality.f1, alone.f1, mined[body].f1 if body in mined else 0.0)
                if judged is not None and judged.f1 > least + BETTER:
                    mined[body] = replace(judged, other=other)
        return mined


def seed_rules(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    encoder: Encoder,
    seeds: SeedIndex,
    caps: Caps,
    count: int,
) -> list[Rule]:
    """Return rules from seed questions; their evidence is their F1 by how like the question the seeds are.

    The `count` groups of seeds most like it are read. Where seeds show that two topics meet, a rule that
    leaves out one of the question's has to do better.
    """
    miner = Miner(kg, caps, seeds.mined(caps, encoder.name), encoder)
    best: list[Rule] = []
    least = 0.0
    for topics, matches in seeds.matches(question, linked, count):
        constraints = Constraints(kg, encoder, view(question, [(e.start, e.end) for e in topics]))
        rules = _rules_of(miner, matches, [node_form(kg, e.id) for e in topics], constraints)
        if rules and rules[0].evidence > least:
            best, least = rules, rules[0].evidence * (ONE_TOPIC if len(topics) > 1 else 1.0)
    return best


def _rules_of(
    miner: Miner, matches: Sequence[Match], anchors: Sequence[str], constraints: Constraints
) -> list[Rule]:
    """Return the rules of matched groups of seeds for one topic entity, or for two that meet, best first."""
    scores: dict[Rule, float] = defaultdict(float)
    similarity: dict[Rule, float] = defaultdict(float)
    reported: dict[Rule, Rule] = {}
    returning: set[Rule] = set()
    total = 0.0
    for match in (m for m in matches if m.similarity >= UNLIKE):
        mined = miner.mine(match.seeds)
        weight = match.similarity * match.score**SHARPNESS if mined else 0.0
        total += weight
        for body in (m for m in mined if m.f1 >= LEAST_F1):
            rule = miner.rule(anchors, body.signature, body, constraints)
            if rule is None:
                continue
            rule = replace(rule, score=0.0)
            similarity[rule] = max(similarity[rule], match.similarity)
            scores[rule] += weight * (body.f1**EXACTNESS * body.support / (body.support + DOUBT))
            returning |= {rule} if body.keeps_topic else set()
            like = f'{body.support} seed questions like "{match.text}", F1 {body.f1:.2f}'
            figures = replace(rule, support=body.support, precision=body.precision, recall=body.recall)
            reported.setdefault(rule, replace(figures, provenance=f"reproduces the answers of {like}"))
        if mined and match.score == 1.0 and mined[0].f1 > 0.9 and mined[0].support > 2:
            break
    ranked = sorted(scores, key=lambda r: (-scores[r], len(r.body)))
    rules = [replace(reported[r], evidence=similarity[r] * scores[r] / total) for r in ranked]
    for i, rule in enumerate(ranked[:CHECKED]):
        rules[i] = rules[i] if rule in returning else without_topic(miner.kg, rules[i])
    return rules
