"""Bridges: nodes of two sources that are one thing, since a source says so (`owl:sameAs`) or since they alone
have one name in classes of one name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import combinations
from typing import Any, NamedTuple

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import local_name, split_words
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, batches, terms_n3

SAME_AS = IRI("http://www.w3.org/2002/07/owl#sameAs")
BRIDGE = "urn:triplewise:bridge:"
SAME_NAME = IRI(f"{BRIDGE}same_name")
STATED, NAMED, BATCH = 20_000, 5_000, 100  # links and named nodes of a source up to which all are read


class Bridge(NamedTuple):
    """A node that has the id of another one, which is the same thing; `link` says why."""

    node: IRI
    link: IRI
    one: IRI


def find_bridges(kgs: Mapping[str, KnowledgeGraph], here: Collection[str]) -> dict[IRI, Bridge]:
    """Nodes of some graphs (`here`) that are known in graphs before them, as far as these answer."""
    found, stated, rank = dict[IRI, Bridge](), defaultdict[Any, set[Any]](set), dict[Any, int]()
    for kg in kgs.values():
        for a, b in _rows(kg, f"SELECT ?a ?b WHERE {{ ?a {SAME_AS.n3()} ?b }}"):
            stated[a].add(b)
            stated[b].add(a)
    for place, name in reversed(list(enumerate(here))):
        facts = f"?x ?p ?o FILTER(?p != {SAME_AS.n3()})"
        rank |= {node: place for node, _ in _about(kgs[name], stated, facts)}

    def join(node: IRI, link: IRI, same: IRI) -> None:
        found.setdefault(node, Bridge(node, link, found[same].one if same in found else same))

    for node in sorted(rank, key=lambda node: (rank[node], node.value)):
        if earlier := [n for n in stated[node] if rank.get(n, -1) < rank[node]]:
            join(node, SAME_AS, min(earlier, key=lambda n: n.value))
    for one, other in (pair for pair in combinations(kgs, 2) if pair[1] in here):
        with suppress(QueryFailedError):
            for node, same in _namesakes(kgs[other], kgs[one]):
                if node != same:
                    join(node, SAME_NAME, same)
    return found


def _rows(kg: KnowledgeGraph, sparql: str, limit: int = STATED) -> tuple[tuple[Any, ...], ...]:
    """The rows of an answer, none where there are too many or it fails."""
    result = kg.query(sparql, limit=limit)
    return result.rows if result.outcome is Outcome.ROWS else ()


def _about(kg: KnowledgeGraph, nodes: Iterable[Any], pattern: str) -> Iterator[tuple[Any, Any]]:
    """Nodes with what a pattern finds of them, as ?y."""
    for batch in batches(sorted(nodes, key=lambda node: node.value), BATCH):
        yield from _rows(kg, f"SELECT DISTINCT ?x ?y WHERE {{ VALUES ?x {{ {terms_n3(batch)} }} {pattern} }}")


def _namesakes(kg: KnowledgeGraph, other: KnowledgeGraph) -> Iterator[tuple[Any, Any]]:
    """Pairs of a node and the one node of its name and class in another graph."""
    links, linkable = "|".join(f"<{p}>" for p in kg.profile.label_predicates), kg.profile.linkable
    by_name, classes = defaultdict[str, set[Any]](set), defaultdict[Any, set[str]](set)
    named = kg.labels(n for (n,) in _rows(kg, f"SELECT DISTINCT ?s WHERE {{ ?s {links} ?l }}", NAMED))
    labels = {node: normalise(label) for node, label in named.items() if linkable(node.value)}
    for batch in batches(kg.labels(labels).values(), BATCH):
        for entry in other.names.exact(*batch):
            by_name[normalise(entry.text)] |= set() if entry.alias else {entry.iri}
    for graph, nodes in ((kg, labels), (other, set().union(*by_name.values()))):
        links = graph.profile.type_links
        rows = list(_about(graph, nodes, f"?x {links} ?y")) if links else []
        names = graph.labels({of for _, of in rows}, partial=True)
        for x, of in rows:
            classes[x].add(normalise(names.get(of) or split_words(local_name(of.value))))
    alone = Counter(labels.values())
    for node, label in labels.items():
        same = [n for n in by_name[label] if classes[n] & classes[node]]
        if len(same) == alone[label] == 1:
            yield node, same[0]
