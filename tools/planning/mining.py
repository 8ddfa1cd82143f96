"""Mine rule bodies from seed questions: closed paths from topic to answers, generalised and scored.

SymAgent, section 4.1 and equation 1. A body that reaches the answers and little else beats one that
merely reaches them: each is run from the topic entity, and its precision and recall are measured.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TypeVar

from triplewise.tools.kg.base import Direction, KnowledgeGraph, Outcome
from triplewise.tools.kg.terms import IRI, Term, Triple
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
from triplewise.tools.planning.seeds import Kept, Mined, Quality, Seed, Signature

Item = TypeVar("Item")


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

    `keeps_topic`: where it comes back to the topic entity, seeds count the topic among the answers.
    """

    signature: Signature
    support: int
    precision: float
    recall: float
    f1: float
    keeps_topic: bool = False


class Miner:
    """Finds and scores closed paths; remembers every seed, so that none is mined twice.

    Args:
        caps: how far it goes. kept: seeds mined before, where they are kept.
    """

    def __init__(self, kg: KnowledgeGraph, caps: Caps | None = None, kept: Kept | None = None) -> None:
        self._kg, self.caps, self._kept = kg, caps or Caps(), kept
        self._known: dict[Seed, Mined] = {}
        self._resolved: dict[str, tuple[Term, ...]] = {}
        self._lock = Lock()

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
        """Search from the first topic that the KG knows."""
        for topic in seed.topics:
            for node in self._resolve(topic)[:1]:
                if isinstance(node, IRI):
                    anchor = node_form(self._kg, self._kg.profile.short(node))
                    return self._evaluate(anchor, self._closed(anchor, seed), seed)
        return {}

    def _resolve(self, name: str) -> tuple[Term, ...]:
        """Nodes meant by an id or a name of the seed file."""
        if name not in self._resolved:
            entries = self._kg.index.exact(name) if self._kg.index is not None else ()
            exact = tuple(e.iri for e in entries if e.label == name) or tuple(e.iri for e in entries)
            iri = self._kg.profile.expand(name)
            self._resolved[name] = exact or ((iri,) if iri is not None else ())
        return self._resolved[name]

    def _closed(self, anchor: str, seed: Seed) -> list[Signature]:
        """Signatures of closed paths from the anchor to the sampled answers, shortest first."""
        ends = self._sample([n for a in seed.answers for n in self._resolve(a)[:1]], self.caps.answers)
        if not ends:
            return []
        halves = self._forward_halves(anchor)
        found: Counter[Signature] = Counter()
        for end in ends:
            found.update(self._meet(halves, end))
        # In an incomplete graph no path may lead to all of them: then those that lead to one.
        shared = [s for s, n in found.items() if n == len(ends)] or list(found)
        return sorted(shared, key=lambda s: (len(s), s))[: self.caps.bodies * 2]

    def _forward_halves(self, anchor: str) -> dict[Signature, frozenset[Term]]:
        """Nodes reached from the anchor over each body of up to hops - 1 relations."""
        start = self._kg.profile.expand(anchor)
        assert start is not None
        reached: dict[Signature, frozenset[Term]] = {(): frozenset({start})}
        frontier: list[Body] = [()]
        for _hop in range(self.caps.hops - 1):
            grown = [b for body in frontier for b in grow(self._kg, anchor, body)]
            frontier = []
            for body in self._sample(grown, self.caps.halves):
                result = run(self._kg, ground(anchor, body), limit=self.caps.frontier)
                if result.outcome is Outcome.ROWS:
                    reached[signature(body)] = frozenset(result.column(result.variables[0]))
                    frontier.append(body)
        return reached

    def _meet(self, halves: dict[Signature, frozenset[Term]], end: Term) -> set[Signature]:
        """Signatures that reach `end`: half paths that end on it, or on one of its neighbours."""
        found = {s for s, nodes in halves.items() if s and end in nodes}
        around: dict[tuple[str, bool], set[Term]] = defaultdict(set)
        for t in self._around(end):
            name = relation_form(self._kg, self._kg.profile.short(t.relation))
            if t.object == end:
                around[(name, True)].add(t.subject)
            if t.subject == end:
                around[(name, False)].add(t.object)
        for s, nodes in halves.items():
            found |= {(*s, step) for step, near in around.items() if not nodes.isdisjoint(near)}
        return found

    def _around(self, end: Term) -> Sequence[Triple]:
        """Facts of a node; of a hub, as many of each relation."""
        near = self._kg.neighbours(end, limit=self.caps.frontier)
        if near.outcome is not Outcome.TRUNCATED:
            return near.triples
        relations = self._kg.relations(end)
        steps: list[tuple[IRI, Direction]] = [(r, "forward") for r in relations.forward]
        steps += [(r, "backward") for r in relations.backward]
        found = [self._kg.neighbours(end, r, way, limit=self.caps.frontier).triples for r, way in steps]
        return [t for triples in found for t in triples]

    def _evaluate(self, anchor: str, bodies: Iterable[Signature], seed: Seed) -> Mined:
        """Precision and recall of each body, run from the anchor."""
        gold = self._gold(seed)
        if not gold:
            return {}
        qualities: Mined = {}
        for body in list(bodies)[: self.caps.bodies]:
            cap = max(200, 20 * len(gold))
            result = run(self._kg, ground(anchor, rename(self._kg, body)), limit=cap)
            if result.outcome in (Outcome.ROWS, Outcome.TRUNCATED):
                found = set(result.column(result.variables[0]))
                topic = self._kg.profile.expand(anchor)
                qualities[body] = _quality(found, gold, result.outcome is Outcome.TRUNCATED, cap, topic)
        return qualities

    def _gold(self, seed: Seed) -> set[Term]:
        """Answers as nodes, as far as the KG has them."""
        return {n for a in seed.answers for n in self._resolve(a)[:1]}


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
