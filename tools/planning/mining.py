"""Mine rule bodies from seed questions: closed paths from topic to answers, generalised and scored.

SymAgent, section 4.1 and equation 1. A body that reaches the answers and little else beats one that
merely reaches them: each is run from the topic entity, and its precision and recall are measured.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from threading import Lock
from typing import Self, TypeVar

from triplewise.tools.core.rules import Atom, Constraint, Rule
from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.kg.protocol import Direction, KnowledgeGraph, Outcome
from triplewise.tools.planning.bodies import (
    Body,
    ground,
    grow,
    node_form,
    relation_form,
    rename,
    run,
    signature,
)
from triplewise.tools.planning.lexical.conditions import Conditions
from triplewise.tools.planning.seed_terms import SeedTerms, same_as
from triplewise.tools.planning.seeds import Kept, Mined, Quality, Seed, Signature, spans_of
from triplewise.tools.retrieval.encoder import Encoder

Item = TypeVar("Item")


BETTER = 0.05
"""By how much F1 a condition, or a second topic, must do better than the chain without."""
JOINED = 6
"""Chains of each topic of a seed that are tried together."""


@dataclass(frozen=True, slots=True)
class Caps:
    """How far mining goes. What exceeds a cap is sampled by `seed`: the same questions give the same rules.

    Attributes:
        hops: longest body, in relations.
        samples: seeds mined of those that share one masked text.
        answers: answers of a seed from which closed paths are searched; all count for precision and recall.
        frontier: nodes of a half path that are kept: a larger one is skipped, since nothing precise runs
            through it.
        halves: half paths of each length that grow on.
        bodies: closed paths evaluated a seed, shortest first.
        seed: of the samples that are drawn.
    """

    hops: int = 3
    samples: int = 4
    answers: int = 2
    frontier: int = 4_000
    halves: int = 200
    bodies: int = 24
    seed: int = 1


@dataclass(frozen=True, slots=True)
class MinedBody:
    """A body with its means over the seeds it was found for, and their number.

    Attributes:
        keeps_topic: where it comes back to the topic entity, seeds count the topic among the answers.
        condition, other: what most seeds have besides the chain (see `Quality`).
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
    """Finds and scores closed paths; remembers every seed, so that none is mined twice.

    Args:
        caps: how far it goes. kept: seeds mined before, where they are kept.
        encoder: compares words with relations for conditions beyond chains; None for chains alone.
    """

    def __init__(
        self,
        kg: KnowledgeGraph,
        caps: Caps | None = None,
        kept: Kept | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        self.kg, self.caps, self._kept, self._encoder = kg, caps or Caps(), kept, encoder
        self._terms = SeedTerms(kg)
        self._known: dict[Seed, Mined] = {}
        self._lock = Lock()

    def session(self, kg: KnowledgeGraph) -> Self:
        """The same miner with what it remembers, asking the session `kg` of its graph."""
        session = copy(self)
        session.kg, session._terms = kg, self._terms.session(kg)
        return session

    def mine(self, seeds: Sequence[Seed]) -> list[MinedBody]:
        """Bodies for seeds that share one masked text, best first."""
        chosen = self.choose(seeds)
        found = [self.of_seed(s) for s in chosen]
        qualities: dict[Signature, list[Quality]] = defaultdict(list)
        for by_signature in found:
            for body, quality in by_signature.items():
                qualities[body].append(quality)
        n = sum(bool(f) for f in found) or 1
        mined = [
            MinedBody(
                b,
                len(q),
                sum(x.precision for x in q) / n,
                sum(x.recall for x in q) / n,
                sum(x.f1 for x in q) / n,
                keeps_topic=sum(x.returns for x in q) < 0,
                condition=Counter(x.condition for x in q).most_common(1)[0][0],
                other=Counter(x.other for x in q).most_common(1)[0][0],
            )
            for b, q in qualities.items()
        ]
        return sorted(mined, key=lambda m: (-round(m.f1, 6), len(m.signature), m.signature))

    def choose(self, seeds: Sequence[Seed]) -> list[Seed]:
        """A few seeds of a group, drawn at random; those with several answers tell more."""
        several = [s for s in seeds if len(s.answers) > 1] or list(seeds)
        return self._sample(sorted(several, key=_order), self.caps.samples)

    def _sample(self, items: Sequence[Item], count: int) -> list[Item]:
        """As many of the items, in their order: all, or a sample that depends on them and the seed only."""
        if len(items) <= count:
            return list(items)
        draw = random.Random(f"{self.caps.seed} {len(items)} {items[0]}")
        return [items[i] for i in sorted(draw.sample(range(len(items)), count))]

    def of_seed(self, seed: Seed) -> Mined:
        """Bodies of one seed with their precision and recall; {} if its entities are not in the KG."""
        with self._lock:
            known = self._known.get(seed)
        if known is None:
            found = self._kept.find(seed) if self._kept is not None else None
            known = self._mine(seed) if found is None else found
            with self._lock:
                self._known[seed] = known
        return known

    def _mine(self, seed: Seed) -> Mined:
        """Search from the first topic that the KG knows, and from a second one for where both meet."""
        anchors = [self._anchor(found) for _, found in seed.named]
        known = [a for a in anchors if a]
        gold = self._terms.gold(seed)
        if not known or not gold:
            return {}
        conditions = (
            Conditions(self.kg, self._encoder, seed.question, spans_of(seed)) if self._encoder else None
        )
        found = self._evaluate(known[0], self._closed(known[0], seed, conditions), gold, conditions)
        if len(known) > 1 and known[0] != known[1]:
            second = self._evaluate(known[1], self._closed(known[1], seed, None), gold, None)
            found |= self._meeting(known[0], found, known[1], second, gold)
        return found

    def _anchor(self, topic: str) -> str:
        """The argument form of the node that a topic means, "" if it means none."""
        node = next((n for n in self._terms.resolve(topic)[:1] if isinstance(n, IRI)), None)
        return node_form(self.kg, self.kg.profile.short(node)) if node is not None else ""

    def _closed(self, anchor: str, seed: Seed, conditions: Conditions | None) -> list[Signature]:
        """Signatures of closed paths from the anchor to the sampled answers, shortest first.

        Where the question asks how many, no path leads to the number: then all half paths, to be counted.
        """
        ends = self._sample([n for a in seed.answers for n in self._terms.resolve(a)[:1]], self.caps.answers)
        counted = conditions is not None and conditions.counting
        if not ends and not counted:
            return []
        halves = self._forward_halves(anchor)
        if counted:
            return sorted((s for s in halves if s), key=lambda s: (len(s), s))[: self.caps.halves]
        found: Counter[Signature] = Counter()
        for end in ends:
            found.update(self._meet(halves, end))
        # In an incomplete graph no path may lead to all of them: then those that lead to one.
        shared = [s for s, n in found.items() if n == len(ends)] or list(found)
        return sorted(shared, key=lambda s: (len(s), s))[: self.caps.bodies * 2]

    def _forward_halves(self, anchor: str) -> dict[Signature, frozenset[Term]]:
        """Nodes reached from the anchor over each body of up to hops - 1 relations."""
        start = self.kg.profile.expand(anchor)
        assert start is not None
        reached: dict[Signature, frozenset[Term]] = {(): frozenset({start})}
        frontier: list[Body] = [()]
        for _hop in range(self.caps.hops - 1):
            grown = [b for body in frontier for b in grow(self.kg, anchor, body)]
            frontier = []
            for body in self._sample(grown, self.caps.halves):
                result = run(self.kg, ground(anchor, body), limit=self.caps.frontier)
                if result.outcome is Outcome.ROWS:
                    reached[signature(body)] = frozenset(result.column(result.variables[0]))
                    frontier.append(body)
        return reached

    def _meet(self, halves: dict[Signature, frozenset[Term]], end: Term) -> set[Signature]:
        """Signatures that reach `end`: half paths that end on it, or on one of its neighbours."""
        found = {s for s, nodes in halves.items() if s and end in nodes}
        around: dict[tuple[str, bool], set[Term]] = defaultdict(set)
        for t in self._around(end):
            name = relation_form(self.kg, self.kg.profile.short(t.relation))
            if t.object == end:
                around[(name, True)].add(t.subject)
            if t.subject == end:
                around[(name, False)].add(t.object)
        for s, nodes in halves.items():
            found |= {(*s, step) for step, near in around.items() if not nodes.isdisjoint(near)}
        return found

    def _around(self, end: Term) -> Sequence[Triple]:
        """Facts of a node; of a hub, as many of each relation."""
        near = self.kg.neighbours(end, limit=self.caps.frontier)
        if near.outcome is not Outcome.TRUNCATED:
            return near.triples
        relations = self.kg.relations(end)
        steps: list[tuple[IRI, Direction]] = [(r, "forward") for r in relations.forward]
        steps += [(r, "backward") for r in relations.backward]
        found = [self.kg.neighbours(end, r, way, limit=self.caps.frontier).triples for r, way in steps]
        return [t for triples in found for t in triples]

    def _evaluate(
        self, anchor: str, bodies: Sequence[Signature], gold: set[Term], conditions: Conditions | None
    ) -> Mined:
        """Precision and recall of each body, run from the anchor; with conditions where those do better."""
        counting = conditions is not None and conditions.counting
        qualities: Mined = {}
        for body in bodies if counting else bodies[: self.caps.bodies]:
            rule = ground(anchor, rename(self.kg, body))
            plain = self._judge(rule, gold)
            best = plain
            for kind in conditions.kinds if conditions is not None else ():
                for reading in conditions.apply(rule, kind)[:1] if conditions is not None else ():
                    judged = self._judge(reading, gold)
                    if judged is not None and (best is None or judged.f1 > best.f1 + BETTER):
                        best = replace(judged, condition=kind)
            if best is not None and (best.recall or not counting):
                qualities[body] = best
        return qualities

    def _judge(self, rule: Rule, gold: set[Term]) -> Quality | None:
        """How well a rule reproduces the answers; None where the KG does not say."""
        cap = max(200, 20 * len(gold))
        result = run(self.kg, rule, limit=cap)
        if result.outcome not in (Outcome.ROWS, Outcome.TRUNCATED):
            return None
        found = same_as(gold, result.column(result.variables[0]))
        topic = self.kg.profile.expand(rule.anchor)
        return _quality(found, gold, result.outcome is Outcome.TRUNCATED, cap, topic)

    def _meeting(self, first: str, left: Mined, second: str, right: Mined, gold: set[Term]) -> Mined:
        """Chains of two topics that meet in the answers and do better together than either alone."""
        found: Mined = {}
        for body, quality in _widest(left):
            for other, alone in _widest(right):
                rule = meeting(self.kg, first, rename(self.kg, body), second, other)
                judged = self._judge(rule, gold)
                least = max(quality.f1, alone.f1, found[body].f1 if body in found else 0.0)
                if judged is not None and judged.f1 > least + BETTER:
                    found[body] = replace(judged, other=other)
        return found


def meeting(kg: KnowledgeGraph, first: str, body: Body, second: str, other: Signature) -> Rule:
    """The rule of a chain whose answers a chain from a second topic reaches too."""
    chain = rename(kg, other, [a.variable for a in body])
    chain = (*chain[:-1], Atom(chain[-1].relation, chain[-1].forward, body[-1].variable))
    return ground(first, body, (Constraint("meets", body[-1].variable, chain, value=second),))


def _widest(mined: Mined) -> list[tuple[Signature, Quality]]:
    """The bodies that miss the fewest answers, short ones first."""
    plain = [(b, q) for b, q in mined.items() if not q.condition]
    return sorted(plain, key=lambda pair: (-round(pair[1].recall, 6), len(pair[0]), pair[0]))[:JOINED]


def _order(seed: Seed) -> tuple[str, tuple[str, ...]]:
    """The order of seeds before they are drawn, whatever the order of their file."""
    return seed.question, seed.topics


def _quality(found: set[Term], gold: set[Term], cut: bool, cap: int, topic: Term | None) -> Quality:
    """Precision and recall; a result that was cut counts as large as the cap.

    The topic itself counts only where it is an answer: a closed path that comes back to its start is no path.
    """
    returns = 0
    if topic in found:
        returns = -1 if topic in gold else 1
        found = found if topic in gold else found - {topic}
    hits = len(found & gold)
    size = cap if cut else len(found)
    return Quality(hits / size if size else 0.0, hits / len(gold), returns)
