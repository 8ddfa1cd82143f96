"""Reading around many nodes at once, in a few queries whatever their number (ODA, section 2.1).

What lies around a node falls into bundles: its facts of one relation in one direction. Their sizes are
asked for first, in one query for all nodes, so that a hub is known for what it is before any of its facts
is fetched. Bundles are then read whole, many a query, or, where they are too large, as a sample.

The queries are plain SPARQL 1.1 over `KnowledgeGraph.query`: every engine answers alike, samples included.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from triplewise.tools.core.terms import IRI, Literal, Term, Triple
from triplewise.tools.kg.engine import BATCH, batches
from triplewise.tools.kg.protocol import Deadline, Direction, KnowledgeGraph, Outcome, Result
from triplewise.tools.kg.queries import bundles_query, pairs_query, samples_query

BUNDLE_CAP = 50_000
"""Bundles read at most by one query."""
SAMPLES = 20
"""Samples taken by one query."""


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


@dataclass(frozen=True, slots=True)
class Fact:
    """A triple seen from one of its nodes."""

    node: Term
    triple: Triple
    forward: bool

    @property
    def far(self) -> Term:
        """The other end."""
        return self.triple.object if self.forward else self.triple.subject

    @property
    def bundle(self) -> Bundle:
        """Where it belongs."""
        return Bundle(self.node, self.triple.relation, self.forward)


def bundle_sizes(
    kg: KnowledgeGraph, nodes: Sequence[Term], direction: Direction, deadline: Deadline
) -> tuple[dict[Bundle, int], str]:
    """How many facts each bundle around the nodes has, without relations that the profile excludes.

    One query for up to 500 nodes. Returns what is known and, if that is not all, why ("" if it is).
    """
    sizes: dict[Bundle, int] = {}
    problem = ""
    for batch in batches(dict.fromkeys(nodes), BATCH):
        if not (sparql := bundles_query(batch, direction)):
            continue
        result = kg.query(sparql, timeout=deadline.left, limit=BUNDLE_CAP)
        problem = problem or _problem(result)
        given = _by_text(batch)
        for cell, out, into, size in result.rows:
            node, relation = _as_given(cell, given), out or into
            if node is None or not isinstance(relation, IRI) or not isinstance(size, Literal):
                continue
            if not kg.profile.excludes(relation):
                sizes[Bundle(node, relation, out is not None)] = int(size.value)
    return sizes, problem


def read_bundles(
    kg: KnowledgeGraph,
    counts: Mapping[Bundle, int],
    sizes: Mapping[Bundle, int],
    seed: int,
    deadline: Deadline,
) -> tuple[list[Fact], str]:
    """The facts of bundles, sorted, and why some are missing ("" if none are).

    Args:
        kg: where they are.
        counts: how many facts of each bundle. sizes: how many it has; where that is more, a sample is drawn.
        seed: of the samples. The same facts come from every engine that holds the same triples.
        deadline: of all queries together.
    """
    order = sorted(counts, key=lambda b: b.place)
    whole = [b for b in order if sizes[b] <= counts[b]]
    sampled = [b for b in order if sizes[b] > counts[b]]
    queries = [pairs_query([(b.node, b.relation, b.forward) for b in part]) for part in batches(whole, BATCH)]
    for part in batches(sampled, SAMPLES):
        queries.append(samples_query([(b.node, b.relation, b.forward, counts[b]) for b in part], seed))
    given = _by_text([end for b in order for end in (b.node, b.relation)])
    facts: set[Fact] = set()
    problem, most = "", sum(counts.values())
    for sparql in queries:
        result = kg.query(sparql, timeout=deadline.left, limit=most)
        problem = problem or _problem(result)
        facts.update(_facts(result, given))
    return sorted(facts, key=_place), problem


def _by_text(terms: Iterable[Term]) -> dict[str, IRI]:
    return {term.value: term for term in terms if isinstance(term, IRI)}


def _as_given(cell: Term | None, given: Mapping[str, IRI]) -> Term | None:
    """A term as a query was given it: Virtuoso may return the IRI of a lone VALUES row as a string."""
    return given.get(cell.value, cell) if isinstance(cell, Literal) and not cell.language else cell


def _facts(result: Result, given: Mapping[str, IRI]) -> Iterator[Fact]:
    """Rows of (node, relation out, object, relation in, subject) as facts."""
    for first, second, obj, fourth, subject in result.rows:
        node, out, into = (_as_given(cell, given) for cell in (first, second, fourth))
        if isinstance(node, IRI) and isinstance(out, IRI) and obj is not None:
            yield Fact(node, Triple(node, out, obj), True)
        elif node is not None and isinstance(into, IRI) and isinstance(subject, IRI):
            yield Fact(node, Triple(subject, into, node), False)


def _place(fact: Fact) -> tuple[str, bool, str, str, str]:
    """An order that does not depend on the engine."""
    t = fact.triple
    return fact.node.n3(), not fact.forward, t.relation.value, t.subject.value, t.object.n3()


def _problem(result: Result) -> str:
    """Why a result is not all there is."""
    if result.outcome in (Outcome.ROWS, Outcome.EMPTY):
        return ""
    return f"{result.outcome}: {result.message}" if result.message else str(result.outcome)
