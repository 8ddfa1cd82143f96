"""D turns of update and refine (ODA, Algorithm 1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.kg.protocol import Deadline, Direction, KnowledgeGraph
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.observation.ranker import PairRanker
from triplewise.tools.retrieval.observation.reading import Candidate, Limits, Reader


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """The parameters of an observation; the defaults are the paper's where it names them.

    Attributes:
        depth: D, turns. width: N, candidates kept of a turn.
        keep: P, percent of these whose ends are observed next (at least one).
        direction: of the facts that count as neighbouring; the paper's own is `forward`.
        facts: read at most in a turn. seed: of the samples drawn of what is larger.
    """

    depth: int = 3
    width: int = 50
    keep: float = 10.0
    direction: Direction = "both"
    facts: int = 10_000
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """A fact of the observation subgraph and its cosine to the question; two facts where a mediator joins."""

    hops: tuple[Triple, ...]
    score: float


@dataclass(frozen=True, slots=True)
class Observation:
    """The observation subgraph, best first, and what was left out of sight, in words."""

    seen: tuple[Seen, ...] = ()
    cuts: tuple[str, ...] = ()


@dataclass(slots=True)
class _Turns:
    """Algorithm 1 for one task-relevant entity: where it looks from next, and what it has found."""

    frontier: list[Term]
    visited: set[Term] = field(default_factory=set)
    found: dict[tuple[Triple, ...], Seen] = field(default_factory=dict)

    def refine(self, ranked: Sequence[tuple[Candidate, float]], keep: float) -> None:
        """Append the top N, and look from the ends of their top P percent in the next turn."""
        self.visited.update(self.frontier)
        for candidate, score in ranked:
            self.found[_key(candidate)] = Seen(candidate.hops, score)
        top = ranked[: max(1, round(len(ranked) * keep / 100))]
        ends = dict.fromkeys(c.far for c, _ in top)
        self.frontier = [n for n in ends if isinstance(n, IRI) and n not in self.visited]


def observe(
    kg: KnowledgeGraph,
    question: str,
    entities: Sequence[Term],
    encoder: Encoder,
    settings: ObserveSettings | None = None,
) -> Observation:
    """The observation subgraph around task-relevant entities.

    Each entity has turns of its own, as in Algorithm 1; what they read is read together, so that the number
    of queries depends on neither entities nor nodes. A fact that was appended is no candidate again.
    """
    settings = settings or ObserveSettings()
    ranker = PairRanker(kg, question, encoder)
    limits = Limits(settings.facts, settings.direction, settings.seed)
    reader = Reader(kg, ranker.closeness, limits, Deadline(kg.timeout))
    turns = [_Turns([entity]) for entity in dict.fromkeys(entities)]
    around: dict[Term, list[Candidate]] = {}
    cuts: dict[str, None] = {}
    for _ in range(settings.depth):
        new = list(dict.fromkeys(n for t in turns for n in t.frontier if n not in around))
        reading = reader.around(new) if new else None
        for node in new:
            around[node] = reading.candidates.get(node, []) if reading else []
        cuts.update(dict.fromkeys(reading.cuts if reading else ()))
        for turn in turns:
            near = {_key(c): c for n in turn.frontier for c in around[n] if _key(c) not in turn.found}
            candidates = list(near.values())
            best = ranker.best([(c.relation, c.tail) for c in candidates], settings.width)
            turn.refine([(candidates[i], score) for i, score in best], settings.keep)
    everything: dict[tuple[Triple, ...], Seen] = {}
    for turn in turns:
        for key, seen in turn.found.items():
            everything.setdefault(key, seen)
    return Observation(tuple(sorted(everything.values(), key=lambda s: -s.score)), tuple(cuts))


def _key(candidate: Candidate) -> tuple[Triple, ...]:
    """What makes a candidate the same from either of its ends."""
    hops = candidate.hops
    return hops if len(hops) == 1 else tuple(sorted(hops, key=lambda t: t.n3()))
