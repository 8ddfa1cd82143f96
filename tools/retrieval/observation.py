"""Observation of a knowledge graph (ODA, section 2.1, Algorithm 1): D turns of update and refine.

Update reads the facts around the entities of a turn as texts that can be compared with the question; refine
keeps the N nearest ones, and looks from the ends of their best P percent in the next turn.

The facts of a node over one relation in one direction are a bundle. Sizes of bundles are read first, then
bundles as a whole, many a query, or as a sample of a large one, alike from every SPARQL 1.1 engine.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple, TypeAlias

from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Triple, whole_number
from triplewise.tools.kg import protocol
from triplewise.tools.kg.protocol import Deadline, Hop, KnowledgeGraph, Outcome, Row, batches
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.ranking import Pair, PairRanker, tail_text, way_text

BUNDLE_CAP, SAMPLES = 50_000, 20  # Most bundles whose size one query counts, and most samples it takes
Counts: TypeAlias = "dict[Bundle, int]"  # How many facts of each bundle there are, or are read
BUNDLES, SAMPLED, MEDIATORS = 400, 40, 300
"""Bundles read where not everything can be, samples drawn, and mediators read through, at most in a turn."""


@dataclass(frozen=True, slots=True)
class ObserveSettings:
    """The parameters of an observation; the defaults are the paper's where it names them."""

    depth: int = 3  # D, turns
    width: int = 50  # N, candidates kept of a turn
    keep: float = 10.0  # P, percent of these whose ends are observed next (at least one)
    facts: int = 10_000  # read at most in a turn
    seed: int = 0  # of the samples drawn of what is larger


class ScoredFact(NamedTuple):
    """A fact of the observation subgraph and its cosine to the question; two facts where a mediator joins."""

    hops: tuple[Triple, ...]
    score: float


class Observation(NamedTuple):
    """The observation subgraph, best first, and what was left out of sight, in words."""

    facts: tuple[ScoredFact, ...] = ()
    cuts: tuple[str, ...] = ()


class Candidate(NamedTuple):
    """A fact, or two that a mediator joins; the same in an order of its own, from either end; as texts."""

    hops: tuple[Hop, ...]
    key: tuple[Triple, ...]
    pair: Pair


def observe(
    kg: KnowledgeGraph, question: str, entities: Sequence[Term], encoder: Encoder, settings: ObserveSettings
) -> Observation:
    """The observation subgraph around task-relevant entities (Algorithm 1, whose lines the comments name).

    All entities take their turns together. No fact is appended twice, and no node is observed twice.
    """
    ranker = PairRanker(kg, question, encoder)
    neighbourhood, around = _Neighbourhood(kg, ranker, settings), dict[Term, list[Candidate]]()
    subgraphs: dict[Term, dict[tuple[Triple, ...], ScoredFact]] = {entity: {} for entity in entities}
    observed: dict[Term, list[Term]] = {entity: [entity] for entity in subgraphs}  # lines 1 to 4
    visited: dict[Term, set[Term]] = {entity: set() for entity in subgraphs}
    for _ in range(settings.depth):  # lines 5 and 16
        nodes = dict.fromkeys(chain(*observed.values()))
        around |= neighbourhood.candidates([node for node in nodes if node not in around])  # lines 6 to 8
        for entity, subgraph in subgraphs.items():
            near = {c.key: c for node in observed[entity] for c in around[node] if c.key not in subgraph}
            candidates = list(near.values())
            top_n = ranker.best([c.pair for c in candidates], settings.width)  # lines 9 to 12
            for i, score in top_n:  # line 13
                fact = tuple(hop.triple for hop in candidates[i].hops)
                subgraph[candidates[i].key] = ScoredFact(fact, score)
            top_p = top_n[: max(1, round(len(top_n) * settings.keep / 100))]  # line 14
            visited[entity].update(observed[entity])
            tails = dict.fromkeys(candidates[i].hops[-1].far for i, _ in top_p)  # line 15
            observed[entity] = [t for t in tails if isinstance(t, IRI) and t not in visited[entity]]
    facts = dict[tuple[Triple, ...], ScoredFact]()
    for subgraph in subgraphs.values():
        facts = subgraph | facts
    return Observation(tuple(sorted(facts.values(), key=lambda f: -f.score)), tuple(neighbourhood.cuts))


class _Neighbourhood:
    """Reads what is around entities, within the KG's own time-out; `cuts` says what was left out."""

    def __init__(self, kg: KnowledgeGraph, ranker: PairRanker, settings: ObserveSettings) -> None:
        self._kg, self._ranker, self._settings = kg, ranker, settings
        self._deadline = Deadline(kg.timeout)
        self.cuts: dict[str, None] = {}

    def candidates(self, nodes: Sequence[Term]) -> dict[Term, list[Candidate]]:
        """The candidates around each of the nodes (the update step)."""
        candidates: dict[Term, list[Candidate]] = {node: [] for node in nodes}
        short, is_mediator = self._kg.profile.short, self._kg.profile.is_mediator
        facts = self._facts(nodes)
        labels = self._kg.labels(f.far for f in facts)
        beyond: dict[Term, list[Hop]] = {}
        for fact in self._facts(self._mediators([f for f in facts if is_mediator(f.far, labels.get(f.far))])):
            beyond.setdefault(fact.near, []).append(fact)
        labels |= self._kg.labels(f.far for onward in beyond.values() for f in onward)
        ways: list[tuple[Hop, ...]] = []
        for fact in facts:
            # Where a fact leads to a mediator: the ways through it to what is not the node again.
            onward = [f for f in beyond.get(fact.far, ()) if f.far != fact.near]
            ways += [(fact, f) for f in onward if not is_mediator(f.far, labels.get(f.far))] or [(fact,)]
        texts = relation_texts(self._kg, [short(f.triple.relation) for way in ways for f in way])
        for way in ways:
            relation = " ".join(way_text(texts[short(f.triple.relation)], f.forward) for f in way)
            pair = relation, tail_text(self._kg, way[-1].far, labels)
            key = tuple(sorted((f.triple for f in way), key=Triple.n3))
            candidates[way[0].near].append(Candidate(way, key, pair))
        return candidates

    def _mediators(self, joins: Sequence[Hop]) -> list[Term]:
        """The mediators that facts lead to; of very many, those of the closest relations."""
        mediators = list(dict.fromkeys(f.far for f in joins))
        if len(mediators) <= MEDIATORS:
            return mediators
        self.cuts[f"{MEDIATORS} of {len(mediators):,} nodes that only join others were read through"] = None
        close = self._closeness({f.triple.relation for f in joins})
        order = sorted(joins, key=lambda f: (-close[f.triple.relation], f.far.n3()))
        return list(dict.fromkeys(f.far for f in order))[:MEDIATORS]

    def _facts(self, nodes: Sequence[Term]) -> list[Hop]:
        """Facts around nodes: all, or those of the closest relations, large bundles as samples."""
        most, seed = self._settings.facts, self._settings.seed
        sizes, trouble = bundle_sizes(self._kg, nodes, self._deadline)
        counts = sizes
        if sum(sizes.values()) > most:
            close = self._closeness({b.relation for b in sizes})
            order = sorted(sizes, key=lambda b: (-close[b.relation], b.place))[: min(BUNDLES, most)]
            # The largest common size with which the bundles have at most `most` facts; at least 1.
            caps = range(1, max((sizes[b] for b in order), default=1) + 1)
            level = max(1, bisect_right(caps, most, key=lambda cap: sum(min(sizes[b], cap) for b in order)))
            dropped = set([b for b in order if sizes[b] > level][SAMPLED:])
            counts = {b: min(sizes[b], level) for b in order if b not in dropped}
            if left_out := sum(size for b, size in sizes.items() if b not in counts):
                self.cuts[f"{left_out:,} facts of relations far from the question were left out"] = None
            if sampled := sorted((b for b in counts if counts[b] < sizes[b]), key=lambda b: -sizes[b]):
                named = ", ".join(f"{self._kg.profile.short(b.relation)} {sizes[b]:,}" for b in sampled[:3])
                more = f" and {len(sampled) - 3} more" if len(sampled) > 3 else ""
                drawn = f"of large relations {level:,} facts each were drawn by seed {seed}: {named}{more}"
                self.cuts[drawn] = None
        facts, worse = read_bundles(self._kg, counts, sizes, seed, self._deadline)
        if trouble := trouble or worse:
            self.cuts[f"not all facts could be read ({trouble})"] = None
        return facts

    def _closeness(self, relations: Iterable[IRI]) -> dict[IRI, float]:
        """How like the question the texts of relations are."""
        names = {relation: self._kg.profile.short(relation) for relation in sorted(relations)}
        texts = relation_texts(self._kg, names.values())
        scores = self._ranker.closeness([texts[name].label for name in names.values()])
        return dict(zip(names, scores.tolist(), strict=True))


@dataclass(frozen=True, slots=True)
class Bundle:
    """The facts of one node over one relation: `forward` where the node is their subject."""

    node: Term
    relation: IRI
    forward: bool

    @property
    def place(self) -> tuple[str, str, bool]:
        """An order that does not depend on the engine."""
        return self.node.n3(), self.relation.value, not self.forward


def bundle_sizes(kg: KnowledgeGraph, nodes: Sequence[Term], deadline: Deadline) -> tuple[Counts, str]:
    """How many facts each bundle around the nodes has, and, if not all is known, why ("" if it is)."""
    queries, nodes = [], list(dict.fromkeys(nodes))
    for batch in batches(nodes, protocol.BATCH):
        sides = [f"{{ VALUES ?n {{ {protocol.terms_n3(batch)} }} ?s ?q ?n }}"]
        if subjects := [n for n in batch if isinstance(n, IRI)]:  # no fact leaves a literal
            sides.append(f"{{ VALUES ?n {{ {protocol.terms_n3(subjects)} }} ?n ?p ?o }}")
        where = " UNION ".join(sides)
        queries.append(f"SELECT ?n ?p ?q (COUNT(*) AS ?c) WHERE {{ {where} }} GROUP BY ?n ?p ?q")
    rows, problem = _rows(kg, queries, BUNDLE_CAP, deadline)
    sizes, given = dict[Bundle, int](), {n.value: n for n in nodes if isinstance(n, IRI)}
    for cell, out, into, size in rows:
        node, relation, count = _as_given(cell, given), out or into, whole_number(size)
        if node is None or not isinstance(relation, IRI) or count is None or kg.profile.excludes(relation):
            continue
        sizes[Bundle(node, relation, out is not None)] = count
    return sizes, problem


def read_bundles(
    kg: KnowledgeGraph, counts: Counts, sizes: Counts, seed: int, deadline: Deadline
) -> tuple[list[Hop], str]:
    """The facts of bundles as hops from their nodes, sorted, and why some are missing ("" if none are).

    `counts` facts of each bundle are read; where its size is more, a sample drawn by the seed.
    """
    order, queries = sorted(counts, key=lambda b: b.place), list[str]()
    head = "SELECT ?n ?p ?o ?q ?s WHERE"
    for part in batches([b for b in order if sizes[b] <= counts[b]], protocol.BATCH):
        ways = ([f"({b.node.n3()} {b.relation.n3()})" for b in part if b.forward == w] for w in (True, False))
        forward, backward = map(" ".join, ways)
        sides = [f"{{ VALUES (?n ?p) {{ {forward} }} ?n ?p ?o }}"] if forward else []
        sides += [f"{{ VALUES (?n ?q) {{ {backward} }} ?s ?q ?n }}"] if backward else []
        queries.append(f"{head} {{ {' UNION '.join(sides)} }}")
    # Samples are drawn by a digest of seed and far end: an engine's own order would be another one in each.
    prefix = Literal(f"{seed} ", XSD + "string").n3()
    for part in batches([b for b in order if sizes[b] > counts[b]], SAMPLES):
        sides = []
        for b in part:
            n, r = b.node.n3(), b.relation.n3()
            far, fact, names = ("?o", f"{n} {r} ?o", "?n ?p") if b.forward else ("?s", f"?s {r} {n}", "?n ?q")
            digest = f"ORDER BY MD5(CONCAT({prefix}, STR({far}))) {far}"
            drawn = f"{{ SELECT {far} WHERE {{ {fact} }} {digest} LIMIT {counts[b]} }}"
            sides.append(f"{{ {drawn} VALUES ({names}) {{ ({n} {r}) }} }}")
        queries.append(f"{head} {{ {' UNION '.join(sides)} }}")
    rows, problem = _rows(kg, queries, sum(counts.values()), deadline)
    return _hops(rows, order), problem


def _hops(rows: Iterable[Row], bundles: Iterable[Bundle]) -> list[Hop]:
    """The facts of bundles in rows (node, relation out, object, relation in, subject), sorted."""
    hops = set[Hop]()
    given = {end.value: end for b in bundles for end in (b.node, b.relation) if isinstance(end, IRI)}
    for near, leaving, obj, arriving, subject in rows:
        node, out, into = (_as_given(cell, given) for cell in (near, leaving, arriving))
        if isinstance(node, IRI) and isinstance(out, IRI) and obj is not None:
            hops.add(Hop.between(node, out, obj, True))
        elif node is not None and isinstance(into, IRI) and isinstance(subject, IRI):
            hops.add(Hop.between(node, into, subject, False))
    # An order that does not depend on the engine: IRIs by their text, literals as they are written.
    return sorted(hops, key=lambda h: (h.near.n3(), not h.forward, h.triple.relation, h.far.n3()))


def _rows(kg: KnowledgeGraph, queries: list[str], limit: int, deadline: Deadline) -> tuple[list[Row], str]:
    """The rows of some queries, and why they are not all there are."""
    rows, problem = list[Row](), ""
    for sparql in queries:
        result = kg.query(sparql, timeout=deadline.left, limit=limit)
        if result.outcome not in (Outcome.ROWS, Outcome.EMPTY):
            problem = problem or f"{result.outcome}{': ' if result.message else ''}{result.message}"
        if result.outcome is not Outcome.TIMEOUT:
            rows += result.rows
    return rows, problem


def _as_given(cell: Term | None, given: Mapping[str, IRI]) -> Term | None:
    """A term as a query was given it: Virtuoso may return the IRI of a lone VALUES row as a string."""
    return given.get(cell.value, cell) if isinstance(cell, Literal) and not cell.language else cell
