"""Reading around many nodes at once, in a few queries whatever their number (ODA, section 2.1).

What lies around a node falls into bundles: its facts of one relation in one direction. Their sizes are
asked for first, in one query for all nodes, so that a hub is known for what it is before any of its facts
is fetched. Bundles are then read whole, many a query, or, where they are too large, as a sample.

The queries are plain SPARQL 1.1 over `KnowledgeGraph.query`: every engine answers alike, samples included.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from triplewise.tools.core.terms import IRI, XSD, Literal, Term
from triplewise.tools.kg.protocol import (
    BATCH,
    Deadline,
    Direction,
    Hop,
    KnowledgeGraph,
    Outcome,
    Result,
    batches,
    terms_n3,
)

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


def hop_order(hop: Hop) -> tuple[str, bool, str, str, str]:
    """An order of hops from several nodes that does not depend on the engine."""
    triple = hop.triple
    return hop.near.n3(), not hop.forward, triple.relation.value, triple.subject.value, triple.object.n3()


def bundle_sizes(
    kg: KnowledgeGraph, nodes: Sequence[Term], direction: Direction, deadline: Deadline
) -> tuple[dict[Bundle, int], str]:
    """How many facts each bundle around the nodes has, without relations that the profile excludes.

    One query for up to 500 nodes. Returns what is known and, if that is not all, why ("" if it is).
    """
    sizes: dict[Bundle, int] = {}
    problem = ""
    for batch in batches(dict.fromkeys(nodes), BATCH):
        sides = []
        subjects = [n for n in batch if isinstance(n, IRI)]  # no fact leaves a literal
        if direction != "backward" and subjects:
            sides.append(f"{{ VALUES ?n {{ {terms_n3(subjects)} }} ?n ?p ?o }}")
        if direction != "forward":
            sides.append(f"{{ VALUES ?n {{ {terms_n3(batch)} }} ?s ?q ?n }}")
        if not sides:
            continue
        sparql = f"SELECT ?n ?p ?q (COUNT(*) AS ?c) WHERE {{ {' UNION '.join(sides)} }} GROUP BY ?n ?p ?q"
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
) -> tuple[list[Hop], str]:
    """The facts of bundles as hops from their nodes, sorted, and why some are missing ("" if none are).

    Args:
        kg: where they are.
        counts: how many facts of each bundle. sizes: how many it has; where that is more, a sample is drawn.
        seed: of the samples. The same facts come from every engine that holds the same triples.
        deadline: of all queries together.
    """
    order = sorted(counts, key=lambda b: b.place)
    whole = [b for b in order if sizes[b] <= counts[b]]
    sampled = [b for b in order if sizes[b] > counts[b]]
    queries = [_whole_query(part) for part in batches(whole, BATCH)]
    queries += [_samples_query(part, counts, seed) for part in batches(sampled, SAMPLES)]
    given = _by_text([end for b in order for end in (b.node, b.relation)])
    hops: set[Hop] = set()
    problem, most = "", sum(counts.values())
    for sparql in queries:
        result = kg.query(sparql, timeout=deadline.left, limit=most)
        problem = problem or _problem(result)
        for near, leaving, obj, arriving, subject in result.rows:
            node, out, into = (_as_given(cell, given) for cell in (near, leaving, arriving))
            if isinstance(node, IRI) and isinstance(out, IRI) and obj is not None:
                hops.add(Hop.between(node, out, obj, True))
            elif node is not None and isinstance(into, IRI) and isinstance(subject, IRI):
                hops.add(Hop.between(node, into, subject, False))
    return sorted(hops, key=hop_order), problem


def _by_text(terms: Iterable[Term]) -> dict[str, IRI]:
    return {term.value: term for term in terms if isinstance(term, IRI)}


def _as_given(cell: Term | None, given: Mapping[str, IRI]) -> Term | None:
    """A term as a query was given it: Virtuoso may return the IRI of a lone VALUES row as a string."""
    return given.get(cell.value, cell) if isinstance(cell, Literal) and not cell.language else cell


def _problem(result: Result) -> str:
    """Why a result is not all there is."""
    if result.outcome in (Outcome.ROWS, Outcome.EMPTY):
        return ""
    return f"{result.outcome}: {result.message}" if result.message else str(result.outcome)


def _whole_query(bundles: Sequence[Bundle]) -> str:
    """All facts of some bundles: node, relation out, object, relation in, subject."""
    out = " ".join(f"({b.node.n3()} {b.relation.n3()})" for b in bundles if b.forward)
    into = " ".join(f"({b.node.n3()} {b.relation.n3()})" for b in bundles if not b.forward)
    sides = [f"{{ VALUES (?n ?p) {{ {out} }} ?n ?p ?o }}"] if out else []
    sides += [f"{{ VALUES (?n ?q) {{ {into} }} ?s ?q ?n }}"] if into else []
    return f"SELECT ?n ?p ?o ?q ?s WHERE {{ {' UNION '.join(sides)} }}"


def _samples_query(bundles: Sequence[Bundle], counts: Mapping[Bundle, int], seed: int) -> str:
    """So many facts of each bundle, in the same columns.

    Drawn by a digest of seed and far end: an engine's own order would be another one in each engine.
    """
    sides = []
    for b in bundles:
        n, r = b.node.n3(), b.relation.n3()
        far, pattern, names = ("?o", f"{n} {r} ?o", "?n ?p") if b.forward else ("?s", f"?s {r} {n}", "?n ?q")
        order = f"ORDER BY MD5(CONCAT({Literal(f'{seed} ', XSD + 'string').n3()}, STR({far}))) {far}"
        drawn = f"{{ SELECT {far} WHERE {{ {pattern} }} {order} LIMIT {counts[b]} }}"
        sides.append(f"{{ {drawn} VALUES ({names}) {{ ({n} {r}) }} }}")
    return f"SELECT ?n ?p ?o ?q ?s WHERE {{ {' UNION '.join(sides)} }}"
