"""Mine rules from seed questions: closed paths from topic to answers, generalised and scored.

SymAgent, section 4.1. A seed question with topic e_q and answer e_a is a closed path

    r_1(e_q, e_1) ∧ r_2(e_1, e_2) ∧ ... ∧ r_L(e_{L-1}, e_a)

in the graph; with variables in place of its entities it is the path of a rule (equation 1)

    r_h(x, y) ← r_1(x, z_1) ∧ r_2(z_1, z_2) ∧ ... ∧ r_L(z_{L-1}, y)

whose head r_h is what the question asks. A path that reaches the answers and little else beats one that
merely reaches them: each is run from the topic entity, and its precision and recall are measured.
"""

from __future__ import annotations

import random
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import chain
from typing import TypeVar

from triplewise.tools.core.rules import Atom, DroppedRule, Path, Rule, path_text
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, text
from triplewise.tools.kg.protocol import Direction, KnowledgeGraph, Outcome
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning import paths
from triplewise.tools.planning.seeds import Match, Mined, Quality, Seed, SeedIndex

Item = TypeVar("Item")

GAP = "with a gap in the graph"  # how the provenance of a rule ends that only documents can complete
LEAST_F1 = 0.25  # of the answers of a seed that a path reproduces, to be a rule for it
LEAST_SIMILARITY = 0.25  # of seeds that say anything about a question
SIMILARITY_POWER, F1_POWER = 4.0, 2.0  # of the BM25 score in a seed's weight, of F1 in a path's evidence
PRIOR_SUPPORT = 0.5  # seeds whose evidence is withheld: one may be met by chance
SAMPLES, ANSWERS = 4, 2  # seeds mined of one masked text; answers of each that closed paths lead to
FRONTIER = 4_000  # most nodes of a half path
HALVES, PATHS = 200, 24  # half paths of each length that grow on; closed paths evaluated a seed
_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_DATE = re.compile(r"-?\d{4,}-\d\d(?:-\d\d)?(?:T[\d:.]+(?:Z|[-+]\d\d:\d\d)?)?")
_NUMERIC = ("integer", "decimal", "double", "float", "gYear", "string")
_TEMPORAL = ("date", "dateTime", "gYearMonth", "string")


@dataclass(frozen=True, slots=True)
class PlanSettings:
    """Sizes of a plan."""

    seed_count: int = 5  # groups of seeds that are read
    rules: int = 8
    hops: int = 3  # relations of the longest path
    documents: bool = False  # whether they may fill a gap: a rule that leads nowhere then stays a plan


@dataclass(frozen=True, slots=True)
class Plan:
    """The rules of a question, best first, and those that were dropped, with the reasons."""

    rules: tuple[Rule, ...] = ()
    dropped: tuple[DroppedRule, ...] = ()


class Miner:
    """Finds and scores the closed paths of the seeds of an index, and keeps them in it."""

    def __init__(self, kg: KnowledgeGraph, seeds: SeedIndex) -> None:
        self.kg, self._hops, self._mined = kg, seeds.hops, seeds.mined
        self.resolve = cache(self._resolve)

    def mine(self, seeds: Sequence[Seed]) -> list[Rule]:
        """Return rules for seeds that share one masked text, best first; they are anchored nowhere.

        Figures are means over these seeds, the score of their F1; the topic is an answer where they count it.
        """
        mined = [found for seed in self.choose(seeds) if (found := self.of_seed(seed))]
        qualities: dict[Path, list[Quality]] = defaultdict(list)
        for path, quality in chain.from_iterable(of_seed.items() for of_seed in mined):
            qualities[path].append(quality)
        rules, n = list[Rule](), len(mined)
        for path, of in qualities.items():
            precision, recall = sum(q.precision for q in of) / n, sum(q.recall for q in of) / n
            score, keeps_topic = sum(q.f1 for q in of) / n, sum(q.returns for q in of) < 0
            rules.append(Rule("", path, keeps_topic, len(of), precision, recall, score=score))
        return sorted(rules, key=lambda rule: (-round(rule.score, 6), len(rule.path), rule.path))

    def choose(self, seeds: Sequence[Seed]) -> list[Seed]:
        """Return a few seeds of a group, drawn at random; those with several answers tell more."""
        several = [s for s in seeds if len(s.answers) > 1] or list(seeds)
        return _sample(sorted(several, key=lambda s: (s.question, s.topics)), SAMPLES)

    def of_seed(self, seed: Seed) -> Mined:
        """Return the paths of one seed, from its first topic that the KG knows, with their quality."""
        if seed not in self._mined:
            anchor = next(iter(self.anchors(seed).values()), "")
            ends = [end for answer in seed.answers for end in self.resolve(answer)[:1]]
            found = self._closed_paths(anchor, _sample(ends, ANSWERS)) if anchor and ends else ()
            qualities = {path: self._judge(anchor, path, set(ends)) for path in found}
            self._mined[seed] = {path: q for path, q in qualities.items() if q is not None}
        return self._mined[seed]

    def anchors(self, seed: Seed) -> dict[str, str]:
        """Return topic -> argument form of its node, for those topics of a seed that the KG knows."""
        nodes = {name: node for name, id_ in seed.named for node in self.resolve(id_)[:1]}
        short = self.kg.profile.short
        return {name: paths.node_form(self.kg, short(n)) for name, n in nodes.items() if isinstance(n, IRI)}

    def _resolve(self, name: str) -> tuple[Term, ...]:
        """Return nodes or literals meant by an id, a name or a value; () for what the KG cannot have."""
        kg, is_number = self.kg, bool(_NUMBER.fullmatch(name))
        is_value = is_number or bool(_DATE.fullmatch(name))
        entries = kg.index.exact(name) if kg.index is not None else ()
        terms: list[Term] = [e.iri for e in entries if e.label == name] or [e.iri for e in entries]
        iri = kg.profile.expand(name)
        # An id that reads like a value counts only if the KG has it.
        if not terms and iri is not None and (not is_value or kg.neighbours(iri, limit=1).triples):
            terms = [iri]
        if not terms and is_value:  # literals of the KG that write it
            terms += [Literal(name, XSD + kind) for kind in (_NUMERIC if is_number else _TEMPORAL)]
            if not is_number and "T" not in name:
                terms.append(Literal(f"{name}T00:00:00Z", XSD + "dateTime"))
            terms.append(text(name, kg.profile.language))
            terms = [t for t in terms if kg.query(f"ASK {{ ?s ?p {t.n3()} }}").boolean]
        return tuple(terms)

    def _closed_paths(self, anchor: str, ends: Sequence[Term]) -> list[Path]:
        """Return the paths from the anchor to the answers (equation 1), shortest first.

        Half paths of up to hops - 1 relations from the anchor meet the answers or their neighbours.
        """
        start = self.kg.profile.expand(anchor)
        assert start is not None
        reached: dict[Path, frozenset[Term]] = {(): frozenset({start})}
        frontier: list[Path] = [()]
        for _hop in range(self._hops - 1):
            grown, frontier = _sample(paths.grow(self.kg, anchor, *frontier), HALVES), []
            for path in grown:
                result = paths.run(self.kg, Rule(anchor, path, keeps_topic=True), limit=FRONTIER)
                if result.outcome is Outcome.ROWS:
                    reached[path] = frozenset(result.column(result.variables[0]))
                    frontier.append(path)
        reaching = Counter(path for end in ends for path in self._meet(reached, end))
        # In an incomplete graph no path may lead to all of them: then those that lead to one.
        shared = [path for path, n in reaching.items() if n == len(ends)] or list(reaching)
        return sorted(shared, key=lambda path: (len(path), path))[:PATHS]

    def _meet(self, halves: Mapping[Path, frozenset[Term]], end: Term) -> set[Path]:
        """Return paths that reach `end`: half paths that end on it, or on one of its neighbours."""
        near = self.kg.neighbours(end, limit=FRONTIER)
        triples = near.triples
        if near.outcome is Outcome.TRUNCATED:  # of a node with many facts, equally many of each relation
            relations = self.kg.relations(end)
            steps: list[tuple[IRI, Direction]] = [(r, "forward") for r in relations.forward]
            steps += [(r, "backward") for r in relations.backward]
            parts = (self.kg.neighbours(end, *step, limit=FRONTIER).triples for step in steps)
            triples = tuple(chain.from_iterable(parts))
        around = defaultdict[Atom, set[Term]](set)
        for t in triples:
            name = paths.node_form(self.kg, self.kg.profile.short(t.relation), True)
            if t.object == end:
                around[Atom(name, True)].add(t.subject)
            if t.subject == end:
                around[Atom(name, False)].add(t.object)
        meeting = {path for path, nodes in halves.items() if path and end in nodes}
        for path, nodes in halves.items():
            meeting |= {(*path, step) for step, others in around.items() if not nodes.isdisjoint(others)}
        return meeting

    def _judge(self, anchor: str, path: Path, gold: set[Term]) -> Quality | None:
        """Return how well a path reproduces the answers from its anchor; None where it leads nowhere.

        A result that was cut counts as large as the cap. The topic counts only where it is an answer
        (`returns` is -1; 1 where it is not).
        """
        right, cap = set(map(_comparable, gold)), max(200, 20 * len(gold))
        topic = self.kg.profile.expand(anchor)
        rule = Rule(anchor, paths.with_variables(self.kg, path), keeps_topic=True)
        result = paths.run(self.kg, rule, limit=cap)
        if result.outcome is Outcome.EMPTY:
            return None
        values, returns = set(map(_comparable, result.column(result.variables[0]))), 0
        if topic in values:
            returns = -1 if topic in right else 1
            values -= {topic} - right
        hits = len(values & right)
        size = cap if result.outcome is Outcome.TRUNCATED else len(values)
        return Quality(hits / size if size else 0.0, hits / len(right), returns)


def _sample(items: Sequence[Item], count: int) -> list[Item]:
    """Return `count` of the items in their order: a sample that depends on them only."""
    draw = random.Random(f"1 {len(items)} {items[0]}" if items else "")
    return [items[i] for i in sorted(draw.sample(range(len(items)), min(count, len(items))))]


def _comparable(term: Term) -> object:
    """Return what equal numbers and dates share, however they are written and typed."""
    if isinstance(term, Literal) and _NUMBER.fullmatch(term.value):
        return float(term.value)
    return term.value[:10] if isinstance(term, Literal) and _DATE.fullmatch(term.value) else term


def seed_rules(
    question: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, seeds: SeedIndex, count: int
) -> list[Rule]:
    """Return the rules of the `count` groups of seeds most like a question, those with most evidence first.

    It is the mean of F1 over the groups, weighed by their similarity, times the best similarity.
    """
    miner, best = Miner(kg, seeds), dict[tuple[str, Path], Rule]()
    matches = seeds.matches(question, linked, count)
    found = [r for topic, of in matches for r in _of_topic(miner, paths.node_form(kg, topic.id), of)]
    for rule in sorted(found, key=lambda rule: -rule.evidence):
        best.setdefault(rule.key, replace(rule, path=paths.with_variables(kg, rule.path)))
    return list(best.values())


def _of_topic(miner: Miner, anchor: str, matches: Sequence[Match]) -> Iterator[Rule]:
    """Yield the rules of matched groups of seeds from one topic entity, with their evidence."""
    scores, first, total = defaultdict[Path, float](float), dict[Path, tuple[Rule, Match]](), 0.0
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
    for path, (rule, match) in first.items():
        evidence = match.similarity * scores[path] / total
        like = f'{rule.support} seed questions like "{match.text}", F1 {rule.score:.2f}'
        why = f"reproduces the answers of {like}"
        yield replace(rule, anchor=anchor, evidence=evidence, score=evidence, provenance=why)


def seed_plan(
    question: str,
    linked: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
    seeds: SeedIndex,
    settings: PlanSettings,
) -> Plan:
    """Return the first rules of seed questions that lead somewhere; with documents the others have a gap."""
    grounded, reasons = list[Rule](), list[DroppedRule]()
    for rule in seed_rules(question, linked, kg, seeds, settings.seed_count):
        if len(grounded) == settings.rules * (2 if settings.documents else 1):
            break
        if paths.answers(kg, rule, limit=1):
            grounded.append(rule)
        elif settings.documents:
            grounded.append(replace(rule, provenance=f"{rule.provenance}, {GAP}"))
        else:
            reason = f"no grounding: the graph has nothing at {path_text(rule.path)} from the entity"
            reasons.append(DroppedRule(rule.text(), reason, rule.provenance, rule.anchor, rule.relations))
    return Plan(share_places(grounded, settings.rules), tuple(reasons))


def share_places(rules: Sequence[Rule], limit: int) -> tuple[Rule, ...]:
    """Return the first rules, at most `limit`; those with a gap have half of the places, or what is left."""
    gaps, whole = ([r for r in rules if r.provenance.endswith(GAP) is gap] for gap in (True, False))
    gaps = gaps[: max(limit - len(whole), limit // 2)]
    chosen = [*gaps, *whole[: limit - len(gaps)]]
    return tuple(rule for rule in rules if rule in chosen)
