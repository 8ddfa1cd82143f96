"""Bridges: nodes of two sources that are one thing, since a source says so (`owl:sameAs`) or since they alone
have one name in classes of one name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Term, Triple
from triplewise.tools.kg.profile import local_name, split_words
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, batches, terms_n3

SAME_AS = IRI("http://www.w3.org/2002/07/owl#sameAs")
SAME_NAME = IRI("urn:triplewise:bridge:same_name")
STATED, NAMED, BATCH = 20_000, 5_000, 100  # links and named nodes of a source up to which all are read


@dataclass(frozen=True, slots=True)
class Bridge:
    """Nodes of two sources that are one thing; `link` says why. The first one's id is that of both."""

    sources: tuple[str, str]
    nodes: tuple[IRI, IRI]
    link: IRI

    @property
    def triple(self) -> Triple:
        """The bridge as a fact."""
        return Triple(self.nodes[1], self.link, self.nodes[0])


def find_bridges(kgs: Mapping[str, KnowledgeGraph], here: Collection[str]) -> tuple[Bridge, ...]:
    """The bridges from graphs in this process (`here`) to those before them, one a node.

    A graph that does not answer has none.
    """
    rows = {row for kg in kgs.values() for row in _rows(kg, f"SELECT ?a ?b WHERE {{ ?a {SAME_AS.n3()} ?b }}")}
    stated = defaultdict[Term, set[Term]](set)
    for a, b in rows:
        stated[a].add(b)
        stated[b].add(a)
    held, labels = dict[str, set[Term]](), dict[str, dict[Term, str]]()
    for name, kg in kgs.items():
        pattern = f"?x ?p ?o FILTER(?p != {SAME_AS.n3()})"
        held[name] = {x for x, *_ in _about(kg, stated, pattern)}
        links = "|".join(f"<{p}>" for p in kg.profile.label_predicates)
        named = [s for (s,) in _rows(kg, f"SELECT DISTINCT ?s WHERE {{ ?s {links} ?l }}", NAMED)]
        labels[name] = {
            n: label for n, label in kg.labels(named, partial=True).items() if kg.profile.linkable(n.value)
        }
    found = dict[tuple[str, Term], Bridge]()
    for one, other in (pair for pair in combinations(kgs, 2) if pair[1] in here):
        pairs = [(a, b, SAME_AS) for a in held[one] for b in stated[a] if b in held[other]]
        small, large = (other, one) if labels[other] else (one, other)
        with suppress(QueryFailedError):
            same = _namesakes(kgs[small], labels[small], kgs[large])
            pairs += [(*((a, b) if small == one else (b, a)), SAME_NAME) for a, b in same]
        for a, b, link in pairs:
            if isinstance(a, IRI) and isinstance(b, IRI) and (other, b) not in found and a != b:
                found[other, b] = Bridge((one, other), (a, b), link)
    return tuple(sorted(found.values(), key=lambda bridge: bridge.nodes))


def ids_of(bridges: Iterable[Bridge]) -> dict[Term, IRI]:
    """The one id of each node that bridges join: that of the source that comes first."""
    ids = dict[Term, IRI]()
    for bridge in bridges:
        one, other = (ids.get(node, node) for node in bridge.nodes)
        ids |= dict.fromkeys((*bridge.nodes, *(n for n, i in ids.items() if i == other)), one)
    return ids


def _rows(kg: KnowledgeGraph, sparql: str, limit: int = STATED) -> tuple[tuple[Term, ...], ...]:
    """The rows of an answer, none where there are too many or it fails."""
    result = kg.query(sparql, limit=limit)
    return result.rows if result.outcome is Outcome.ROWS else ()  # type: ignore[return-value]


def _about(kg: KnowledgeGraph, nodes: Iterable[Term], pattern: str) -> Iterator[tuple[Term, ...]]:
    """Rows of a node and what a pattern finds of it, as ?y."""
    for batch in batches(sorted(nodes, key=lambda node: node.value), BATCH):
        yield from _rows(kg, f"SELECT DISTINCT ?x ?y WHERE {{ VALUES ?x {{ {terms_n3(batch)} }} {pattern} }}")


def _namesakes(
    kg: KnowledgeGraph, labels: Mapping[Term, str], other: KnowledgeGraph
) -> Iterator[tuple[Term, Term]]:
    """Pairs of a node and the one node of its name and class in another graph."""
    by_name, classes = defaultdict[str, set[Term]](set), dict[Term, set[str]]()
    for batch in batches(labels.values(), BATCH):
        for entry in other.names.exact(*batch):
            if not entry.alias:
                by_name[normalise(entry.text)].add(entry.iri)
    for graph, nodes in ((kg, labels), (other, set().union(*by_name.values()))):
        rows = (
            list(_about(graph, nodes, f"?x {graph.profile.type_links} ?y"))
            if graph.profile.type_links
            else []
        )
        names = graph.labels({c for _, c in rows}, partial=True)
        for x, c in rows:
            classes.setdefault(x, set()).add(normalise(names.get(c) or split_words(local_name(c.value))))
    alone = Counter(map(normalise, labels.values()))
    for node, label in labels.items():
        same = [n for n in by_name[normalise(label)] if classes.get(n, set()) & classes.get(node, set())]
        if len(same) == alone[normalise(label)] == 1:
            yield node, same[0]
