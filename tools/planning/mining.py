"""Mine rules from seed questions: closed paths from topic to answers, generalised and scored.

SymAgent, section 4.1. A seed question with topic e_q and answer e_a is a closed path

    r_1(e_q, e_1) ∧ r_2(e_1, e_2) ∧ ... ∧ r_L(e_{L-1}, e_a)

in the graph; with variables in place of its entities it is the body of a rule (equation 1)

    r_h(x, y) ← r_1(x, z_1) ∧ r_2(z_1, z_2) ∧ ... ∧ r_L(z_{L-1}, y)

whose head r_h is what the question asks. A path that reaches the answers and little else beats one that
merely reaches them: each is run from the topic entity, and its precision and recall are measured.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TypeVar

from triplewise.tools.core.rules import Atom, DroppedRule, Path, Rule, dropped, path_text
from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.protocol import Direction, KnowledgeGraph, Outcome
from triplewise.tools.language.lexicon import lexicon
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.parsing.chains import SeedChain
from triplewise.tools.planning.paths import (
    answers_in,
    grow,
    leads_somewhere,
    node_form,
    relation_form,
    run,
    with_variables,
)  # fmt: skip
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
)  # fmt: skip

Item = TypeVar("Item")

GAP = "with a gap in the graph"
"""How the provenance of a rule ends that only documents can complete."""
LEAST_F1 = 0.25
"""Paths that reproduce less than this share of a seed's answers are no rule for it."""
SIMILARITY_POWER, F1_POWER = 4.0, 2.0
"""How fast the weight of a seed falls with its BM25 score, and the evidence of a path with its F1."""
PRIOR_SUPPORT = 0.5
"""Seeds whose evidence is withheld: one seed may be met by chance."""
LEAST_SIMILARITY = 0.25
"""Seeds that are less similar to the question say nothing about it."""


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Sizes of a plan.

    Attributes:
        seed_count: groups of seeds read. rules: rules returned.
        documents: whether documents may fill a gap of the KG: a rule that leads nowhere then stays a plan.
        caps: the longest path, and how far mining goes.
    """

    seed_count: int = 5
    rules: int = 8
    documents: bool = False
    caps: Caps = field(default_factory=Caps)


@dataclass(frozen=True, slots=True)
class Plan:
    """The rules of a question, best first, and those that were thought of and dropped, with the reasons."""

    rules: tuple[Rule, ...] = ()
    dropped: tuple[DroppedRule, ...] = ()


class Miner:
    """Finds and scores closed paths.

    Args:
        caps: how far it goes. memory: what seeds gave before, so that none is mined twice.
    """

    def __init__(
        self, kg: KnowledgeGraph, caps: Caps | None = None, memory: MinedSeeds | None = None
    ) -> None:
        self.kg, self.caps = kg, caps or Caps()
        self._memory, self._terms = {} if memory is None else memory, SeedTerms(kg)

    def mine(self, seeds: Sequence[Seed]) -> list[Rule]:
        """Return rules for seeds that share one masked text, best first; they are anchored nowhere.

        Figures are means over these seeds, the score of their F1; the topic is an answer where they count it.
        """
        mined = [found for seed in self.choose(seeds) if (found := self.of_seed(seed))]
        qualities: dict[Path, list[Quality]] = defaultdict(list)
        for of_seed in mined:
            for path, quality in of_seed.items():
                qualities[path].append(quality)
        rules = [
            Rule(
                "",
                path,
                keeps_topic=sum(q.returns for q in of_path) < 0,
                support=len(of_path),
                precision=sum(q.precision for q in of_path) / len(mined),
                recall=sum(q.recall for q in of_path) / len(mined),
                score=sum(q.f1 for q in of_path) / len(mined),
            )
            for path, of_path in qualities.items()
        ]
        return sorted(rules, key=lambda rule: (-round(rule.score, 6), len(rule.path), rule.path))

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
        """Return the paths of one seed with their quality; {} if its entities are not in the KG.

        The search starts at the first topic that the KG knows.
        """
        if (known := self._memory.get(seed.digest)) is not None:
            return known
        mined: Mined = {}
        anchor, gold = next(iter(self.anchors(seed).values()), ""), self._terms.gold(seed)
        if anchor and gold:
            counts = any(phrase in seed.question.lower() for phrase in lexicon().counting)
            for path in self._closed_paths(anchor, seed, counts):
                if (quality := self._judge(anchor, path, gold, counts)) is not None:
                    mined[path] = quality
        self._memory[seed.digest] = mined
        return mined

    def anchors(self, seed: Seed) -> dict[str, str]:
        """Return topic -> argument form of its node, for those topics of a seed that the KG knows."""
        nodes = {name: node for name, id_ in seed.named for node in self._terms.resolve(id_)[:1]}
        short = self.kg.profile.short
        return {name: node_form(self.kg, short(n)) for name, n in nodes.items() if isinstance(n, IRI)}

    def _closed_paths(self, anchor: str, seed: Seed, counts: bool) -> list[Path]:
        """Return the paths from the anchor to the sampled answers (equation 1), shortest first.

        They are searched from both ends. Where the question asks how many, no path leads to the number: then
        all half paths, to be counted.
        """
        ends = self._sample([n for a in seed.answers for n in self._terms.resolve(a)[:1]], self.caps.answers)
        if not ends and not counts:
            return []
        halves = self._forward_halves(anchor)
        if counts:
            return sorted((p for p in halves if p), key=lambda p: (len(p), p))[: self.caps.halves]
        reaching = Counter(path for end in ends for path in self._meet(halves, end))
        # In an incomplete graph no path may lead to all of them: then those that lead to one.
        shared = [path for path, n in reaching.items() if n == len(ends)] or list(reaching)
        return sorted(shared, key=lambda path: (len(path), path))[: self.caps.paths]

    def _forward_halves(self, anchor: str) -> dict[Path, frozenset[Term]]:
        """Return the nodes reached from the anchor over each path of up to hops - 1 relations."""
        start = self.kg.profile.expand(anchor)
        assert start is not None
        reached: dict[Path, frozenset[Term]] = {(): frozenset({start})}
        frontier: list[Path] = [()]
        for _hop in range(self.caps.hops - 1):
            grown = self._sample(grow(self.kg, anchor, *frontier), self.caps.halves)
            frontier = []
            for path in grown:
                result = run(self.kg, Rule(anchor, path, keeps_topic=True), limit=self.caps.frontier)
                if result.outcome is Outcome.ROWS:
                    reached[path] = frozenset(answers_in(result))
                    frontier.append(path)
        return reached

    def _meet(self, halves: Mapping[Path, frozenset[Term]], end: Term) -> set[Path]:
        """Return paths that reach `end`: half paths that end on it, or on one of its neighbours."""
        meeting = {path for path, nodes in halves.items() if path and end in nodes}
        around, limit = defaultdict[Atom, set[Term]](set), self.caps.frontier
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
                around[Atom(name, True)].add(t.subject)
            if t.subject == end:
                around[Atom(name, False)].add(t.object)
        for path, nodes in halves.items():
            meeting |= {(*path, step) for step, ends in around.items() if not nodes.isdisjoint(ends)}
        return meeting

    def _judge(self, anchor: str, path: Path, gold: set[Term], counts: bool) -> Quality | None:
        """Return how well a path reproduces the answers from its anchor; None where it leads nowhere.

        A result that was cut counts as large as the cap. The topic itself counts only where it is an answer:
        a closed path that comes back to its start is no path. `counts`: the answer is the number of values.
        """
        cap = max(200, 20 * len(gold))
        rule = Rule(anchor, with_variables(self.kg, path), keeps_topic=True)
        result = run(self.kg, rule, limit=cap)
        if result.outcome is Outcome.EMPTY:
            return None
        values = same_as(gold, answers_in(result))
        topic, returns = self.kg.profile.expand(anchor), 0
        if topic in values:
            returns = -1 if topic in gold else 1
            values = values if topic in gold else values - {topic}
        if counts:
            is_right = {str(len(values))} == {v.value for v in gold if isinstance(v, Literal)}
            return Quality(1.0, 1.0, returns) if is_right else None
        hits = len(values & gold)
        size = cap if result.outcome is Outcome.TRUNCATED else len(values)
        return Quality(hits / size if size else 0.0, hits / len(gold), returns)


def seed_rules(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    seeds: SeedIndex,
    caps: Caps,
    count: int,
) -> list[Rule]:
    """Return the rules of the `count` groups of seeds most like a question, those with most evidence first.

    The evidence of a rule is the mean over the groups of its F1 on them, each weighed by how like the
    question it is, times the similarity of the most similar group that has it.
    """
    miner, best = Miner(kg, caps, seeds.mined(caps)), dict[tuple[str, Path], Rule]()
    matches = seeds.matches(question, linked, count)
    found = [r for topics, of in matches for r in _of_topic(miner, node_form(kg, topics[0].id), of)]
    for rule in sorted(found, key=lambda rule: -rule.evidence):
        best.setdefault(rule.key, replace(rule, path=with_variables(kg, rule.path)))
    return list(best.values())


def _of_topic(miner: Miner, anchor: str, matches: Sequence[Match]) -> list[Rule]:
    """Return the rules of matched groups of seeds from one topic entity, with their evidence."""
    scores: dict[Path, float] = defaultdict(float)
    first: dict[Path, tuple[Rule, Match]] = {}
    total = 0.0
    for match in (m for m in matches if m.similarity >= LEAST_SIMILARITY):
        mined = miner.mine(match.seeds)
        weight = match.similarity * match.score**SIMILARITY_POWER if mined else 0.0
        total += weight
        for rule in (r for r in mined if r.score >= LEAST_F1):
            share = rule.support / (rule.support + PRIOR_SUPPORT)
            scores[rule.path] += weight * rule.score**F1_POWER * share
            if rule.path not in first or match.similarity > first[rule.path][1].similarity:
                first[rule.path] = rule, match
        if mined and match.score == 1.0 and mined[0].score > 0.9 and mined[0].support > 2:
            break
    rules = []
    for path, (rule, match) in first.items():
        evidence = match.similarity * scores[path] / total
        like = f'{rule.support} seed questions like "{match.text}", F1 {rule.score:.2f}'
        why = f"reproduces the answers of {like}"
        rules.append(replace(rule, anchor=anchor, evidence=evidence, score=evidence, provenance=why))
    return rules


def seed_chains(
    kg: KnowledgeGraph, seeds: SeedIndex, caps: Caps, count: int
) -> Callable[[str, Sequence[LinkedEntity]], Sequence[SeedChain]]:
    """Return what gives the parser the chains that seeds show for a question and its entities."""

    def chains(question: str, linked: Sequence[LinkedEntity]) -> Sequence[SeedChain]:
        found = []
        for rule in seed_rules(question, linked, kg, seeds, caps, count):
            steps = [(kg.profile.expand(atom.relation, relation=True), atom.forward) for atom in rule.path]
            edges = tuple((iri, forward) for iri, forward in steps if iri is not None)
            node = kg.profile.expand(rule.anchor)
            if node is not None and len(edges) == len(steps):
                found.append(SeedChain(node, edges, rule.evidence, rule.support, rule.keeps_topic))
        return found

    return chains


def seed_plan(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    seeds: SeedIndex,
    settings: PlanSettings,
) -> Plan:
    """Return the first rules of seed questions that lead somewhere from their topic, and those that do not.

    With documents the latter stay where they are, marked as having a gap, and do not take the places of the
    others. One query a rule.
    """
    grounded, reasons = list[Rule](), list[DroppedRule]()
    for rule in seed_rules(question, linked, kg, seeds, settings.caps, settings.seed_count):
        if len(grounded) == settings.rules * (2 if settings.documents else 1):
            break
        if leads_somewhere(kg, rule):
            grounded.append(rule)
        elif settings.documents:
            grounded.append(replace(rule, provenance=f"{rule.provenance}, {GAP}"))
        else:
            parts = (Rule(rule.anchor, rule.path[:n]) for n in range(1, len(rule.path)))
            empty = next((part for part in parts if not leads_somewhere(kg, part)), rule)
            reason = f"no grounding: the graph has nothing at {path_text(empty.path)} from the entity"
            reasons.append(dropped(rule, reason))
    return Plan(tuple(share_places(grounded, settings.rules)), tuple(reasons))


def has_gap(rule: Rule) -> bool:
    """Return whether only documents can complete a rule."""
    return rule.provenance.endswith(GAP)


def share_places(rules: Sequence[Rule], limit: int) -> list[Rule]:
    """Return the first rules, in order, at most `limit`, where neither kind takes the place of the other.

    Rules with a gap have half of the places, more where there are not enough others.
    """
    gaps, whole = ([r for r in rules if has_gap(r) is gap] for gap in (True, False))
    gaps = gaps[: max(limit - len(whole), limit // 2)]
    chosen = [*gaps, *whole[: limit - len(gaps)]]
    return [rule for rule in rules if rule in chosen]
