"""The update step: the facts around the entities of a turn, as texts that can be compared with a question."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from triplewise.tools.core.terms import IRI, Literal, Term, Triple
from triplewise.tools.kg.frontier import Bundle, Fact, bundle_sizes, read_bundles
from triplewise.tools.kg.literals import readable
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import Deadline, Direction, KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts

BUNDLES = 400
"""Bundles (facts of one node over one relation) read at most where not everything can be read."""
SAMPLED = 40
"""Samples drawn at most in a turn: each is a query of its own inside a larger one."""
MEDIATORS = 300
"""Mediators read through at most in a turn."""

RelationScores = Callable[[Sequence[str]], np.ndarray]
"""How close relation texts are to the question, float32 of shape (n,)."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """What one turn may add to the observation: one fact, or two that a mediator joins.

    Attributes:
        hops: the facts, in the order they are walked from `node`.
        node: the entity of the turn. far: where the last fact leads.
        relation, tail: how the way and its end read.
    """

    hops: tuple[Triple, ...]
    node: Term
    far: Term
    relation: str
    tail: str


@dataclass(slots=True)
class Reading:
    """Candidates of one turn by the entity they were found from, and what was left out, in words."""

    candidates: dict[Term, list[Candidate]] = field(default_factory=dict)
    cuts: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Limits:
    """What a turn may read: facts altogether, in which direction, and the seed of samples."""

    facts: int
    direction: Direction
    seed: int


class Reader:
    """Reads around entities; a few queries a turn, whatever their number.

    Args:
        kg: what is read. closeness: of relation texts to the question; decides what is cut.
        limits: what a turn may read. deadline: of everything that is read.
    """

    def __init__(
        self, kg: KnowledgeGraph, closeness: RelationScores, limits: Limits, deadline: Deadline
    ) -> None:
        self._kg, self._closeness, self._limits, self._deadline = kg, closeness, limits, deadline

    def around(self, nodes: Sequence[Term]) -> Reading:
        """The candidates around each of the nodes."""
        reading = Reading()
        facts = self.facts(nodes, reading.cuts)
        labels = self._kg.labels(f.far for f in facts)
        joins = [f for f in facts if self._kg.profile.is_mediator(f.far, labels.get(f.far))]
        beyond = self._beyond(joins, reading.cuts)
        labels |= self._kg.labels(f.far for found in beyond.values() for f in found)
        ways = [w for fact in facts for w in self._ways(fact, beyond, labels)]
        names = relation_texts(self._kg, [self._short(f) for way in ways for f in way])
        for way in ways:
            text = " ".join(way_text(names[self._short(f)], f.forward) for f in way)
            last = way[-1].far
            hops, node = tuple(f.triple for f in way), way[0].node
            found = Candidate(hops, node, last, text, tail_text(self._kg, last, labels))
            reading.candidates.setdefault(node, []).append(found)
        return reading

    def facts(self, nodes: Sequence[Term], cuts: list[str]) -> list[Fact]:
        """Facts around nodes: all of them, or those of the closest relations, large bundles as samples.

        What is left out is appended to `cuts`.
        """
        most = self._limits.facts
        sizes, trouble = bundle_sizes(self._kg, nodes, self._limits.direction, self._deadline)
        wanted: Mapping[Bundle, int] = sizes
        if sum(sizes.values()) > most:
            wanted = self._chosen(sizes, most)
            cuts += self._said(sizes, wanted)
        facts, worse = read_bundles(self._kg, wanted, sizes, self._limits.seed, self._deadline)
        if trouble := trouble or worse:
            cuts.append(f"not all facts could be read ({trouble})")
        return facts

    def _chosen(self, sizes: Mapping[Bundle, int], most: int) -> dict[Bundle, int]:
        """Relation-first expansion: the bundles of the closest relations, cut to a common size."""
        close = self._by_closeness(sizes)
        order = sorted(sizes, key=lambda b: (-close[b.relation], b.place))[: min(BUNDLES, most)]
        level = _level([sizes[b] for b in order], most)
        large = [b for b in order if sizes[b] > level]
        dropped = set(large[SAMPLED:])
        return {b: min(sizes[b], level) for b in order if b not in dropped}

    def _by_closeness(self, sizes: Iterable[Bundle]) -> dict[IRI, float]:
        relations = sorted({b.relation for b in sizes})
        texts = relation_texts(self._kg, [self._kg.profile.short(r) for r in relations])
        scores = self._closeness([texts[self._kg.profile.short(r)].label for r in relations])
        return dict(zip(relations, scores.tolist(), strict=True))

    def _said(self, sizes: Mapping[Bundle, int], wanted: Mapping[Bundle, int]) -> list[str]:
        """What a cut left out, in words: one line for the relations and one for the samples."""
        lines = []
        far = [b for b in sizes if b not in wanted]
        if far:
            relations = len({b.relation for b in far} - {b.relation for b in wanted})
            lines.append(
                f"{sum(sizes[b] for b in far):,} facts of relations far from the question were left out "
                f"({relations} relations altogether)"
            )
        drawn = sorted((b for b in wanted if wanted[b] < sizes[b]), key=lambda b: (-sizes[b], b.place))
        if drawn:
            named = ", ".join(f"{self._kg.profile.short(b.relation)} {sizes[b]:,}" for b in drawn[:3])
            more = f" and {len(drawn) - 3} more" if len(drawn) > 3 else ""
            lines.append(
                f"of large relations {wanted[drawn[0]]:,} facts each were drawn by seed {self._limits.seed}: "
                f"{named}{more}"
            )
        return lines

    def _beyond(self, joins: Sequence[Fact], cuts: list[str]) -> dict[Term, list[Fact]]:
        """The facts behind mediators, by mediator."""
        mediators = list(dict.fromkeys(f.far for f in joins))
        if not mediators:
            return {}
        if len(mediators) > MEDIATORS:
            close = self._by_closeness(f.bundle for f in joins)
            order = sorted(joins, key=lambda f: (-close[f.triple.relation], f.far.n3()))
            mediators = list(dict.fromkeys(f.far for f in order))
            cuts.append(f"{MEDIATORS} of {len(mediators):,} nodes that only join others were read through")
        found: dict[Term, list[Fact]] = {}
        for fact in self.facts(mediators[:MEDIATORS], cuts):
            found.setdefault(fact.node, []).append(fact)
        return found

    def _ways(
        self, fact: Fact, beyond: Mapping[Term, Sequence[Fact]], labels: Mapping[Term, str]
    ) -> list[tuple[Fact, ...]]:
        """A fact, or, where it leads to a mediator, the ways through it to what is not the node again."""
        ways = [
            (fact, onward)
            for onward in beyond.get(fact.far, ())
            if onward.far != fact.node
            and not self._kg.profile.is_mediator(onward.far, labels.get(onward.far))
        ]
        return [*ways] or [(fact,)]

    def _short(self, fact: Fact) -> str:
        return self._kg.profile.short(fact.triple.relation)


def way_text(text: RelationText, forward: bool) -> str:
    """How a relation reads on the way from subject to object, or back."""
    return text.label if forward else text.inverse or text.label


def tail_text(kg: KnowledgeGraph, far: Term, labels: Mapping[Term, str]) -> str:
    """How an end reads: its label, a literal as people write it, else its short form."""
    if isinstance(far, Literal):
        return readable(far)
    return labels.get(far) or kg.profile.short(far)


def _level(sizes: Sequence[int], most: int) -> int:
    """The largest common cap under which sizes add up to at most `most`; at least 1."""
    low, high = 1, max(max(sizes, default=1), 1)
    while low < high:
        middle = (low + high + 1) // 2
        if sum(min(s, middle) for s in sizes) <= most:
            low = middle
        else:
            high = middle - 1
    return low
