"""The index of a part of a large graph: what lies around the entities and classes that a question names.

Queries that do not depend on each other run together, so that an endpoint far away costs some six round
trips. Readings are programs that run on the KG itself: what a cap leaves out here costs a reading its
evidence, never an answer its values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, Literal, Term, text
from triplewise.tools.kg.protocol import KnowledgeGraph, LRUCache, batches, memory_of, terms_n3
from triplewise.tools.parsing.card import classes_called, nouns_of
from triplewise.tools.parsing.facts import Facts, Pair, is_left_out, merged, term_of, whole_facts
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.surroundings import hops_along

NODES, CLASSES = 12, 6  # entities and classes that are looked around
RELATIONS, VALUES = 80, 60  # relations of a node and direction, and facts of each of them
MEMBERS = 150  # members of a class
FAR, SPREAD = 500, 12  # neighbours that are looked around in turn: in all, and of one relation
BACK, INTO = 120, 15  # neighbours whose incoming facts are read, and facts of each relation
TOGETHER = 40  # parts of one union
PART, LABELLED = 100, 500  # nodes that one query asks for the facts of, and for classes or labels
ROWS = 10_000  # of one answer
NAMESAKES = 2  # classes of one name
REMEMBERED = 8  # questions whose index is kept

Way: TypeAlias = tuple[IRI, IRI, bool]  # A node, a relation of it, and whether the relation leaves the node


def index_for(
    kg: KnowledgeGraph, encoder: Encoder, question: str, nodes: Callable[[], Iterable[IRI]]
) -> GraphIndex:
    """The index that a question is parsed with: of the whole KG where that is small, else of a part of it.

    `nodes` finds the entities that the question may mean, best first; it is called only where needed.
    """
    return GraphIndex.whole(kg, encoder) or local_index(kg, encoder, question, nodes())


def local_index(kg: KnowledgeGraph, encoder: Encoder, question: str, nodes: Iterable[IRI]) -> GraphIndex:
    """The index of what lies within two relations of some entities, and of classes that a question names."""
    asked = question, tuple(islice(dict.fromkeys(nodes), NODES)), getattr(encoder, "shared", encoder).name
    kept: LRUCache[object, GraphIndex] = memory_of(kg, "local indexes").setdefault("", LRUCache(REMEMBERED))
    if (index := kept.get(asked)) is None:
        index = kept[asked] = GraphIndex(_facts_around(kg, question, asked[1]), kg, encoder, is_part=True)
    return index


def _facts_around(kg: KnowledgeGraph, question: str, nodes: Sequence[IRI]) -> Facts:
    """What lies around nodes; of several graphs, all of the small ones, and also around what they link to."""
    if not kg.members:
        return _Neighbourhood(kg).read(question, nodes)
    read = {name: whole_facts(member) for name, member in kg.members.items()}
    small = {name: [(r, list(pairs)) for r, pairs in facts] for name, facts in read.items() if facts}
    ends = {node.n3().encode() for node in nodes}
    met = (p for facts in small.values() for _, pairs in facts for p in pairs if not ends.isdisjoint(p))
    linked = (term_of(end) for pair in met for end in pair)
    around = list(islice(dict.fromkeys([*nodes, *(t for t in linked if isinstance(t, IRI))]), 2 * NODES))
    found: list[Facts] = list(small.values())
    for member in (member for name, member in kg.members.items() if name not in small):
        with suppress(QueryFailedError):  # the others answer
            found.append(_Neighbourhood(member).read(question, around))
    return merged(found)


class _Neighbourhood:
    """Facts around some nodes, by relation; each method but `read` is one task of a round of queries."""

    def __init__(self, kg: KnowledgeGraph) -> None:
        self._kg, self._profile = kg, kg.profile
        self._facts: dict[IRI, set[tuple[IRI, Term]]] = defaultdict(set)
        self._ways: list[Way] = []  # relations whose facts are yet to be read
        self._kinds: list[IRI] = []
        self._extra: dict[str, set[Pair]] = defaultdict(set)  # names and classes

    def read(self, question: str, nodes: Sequence[IRI]) -> Facts:
        """Return what is around some nodes and the classes of a question: six rounds of queries."""
        profile = self._profile
        together: Callable[[Sequence[Callable[[], None]]], object] = self._kg.together
        nouns = [noun for _, noun in nouns_of(question)] if profile.type_predicates else []
        around = (partial(self._look_around, node) for node in nodes)
        together([*around, *(partial(self._find, noun) for noun in nouns)])
        kinds = list(dict.fromkeys(self._kinds))[:CLASSES]
        together([*self._values(VALUES), *(partial(self._members, kind) for kind in kinds)])
        far = self._spread(nodes)
        outgoing = (partial(self._outgoing, part) for part in batches(far, PART))
        together([*outgoing, *(partial(self._incoming, part) for part in batches(far[:BACK], BACK))])
        together(self._values(INTO))
        named = _named(t for pairs in self._facts.values() for pair in pairs for t in pair)
        types = partial(self._linked, profile.type_predicates, IRI)
        together([partial(types, part) for part in batches(named, LABELLED)])
        found = list(dict.fromkeys(self._kinds))
        labels = (partial(self._label, part) for part in batches(dict.fromkeys((*named, *found)), LABELLED))
        aliased = [*nodes, *found[: LABELLED - NODES]]
        together([*labels, partial(self._linked, profile.alias_predicates, Literal, aliased)])
        facts = {p.value: {_pair(s, o) for s, o in pairs} for p, pairs in self._facts.items()}
        for relation, extra in self._extra.items():
            facts[relation] = facts.get(relation, set()) | extra
        return ((relation, sorted(pairs)) for relation, pairs in sorted(facts.items()))

    def _rows(self, sparql: str, limit: int = ROWS) -> Sequence[Sequence[Any]]:
        """The rows of an answer; none of a query that failed, for the others may do."""
        result = self._kg.query(sparql, limit=limit)
        return result.rows if result.outcome.ok else ()

    def _look_around(self, node: IRI) -> None:
        relations = self._kg.relations(node)
        for forward, side in ((True, relations.forward), (False, relations.backward)):
            kept = [r for r in side if not is_left_out(r.value, self._profile)]
            self._ways += [(node, r, forward) for r in kept[:RELATIONS]]

    def _find(self, noun: Sequence[str]) -> None:
        self._kinds += classes_called(self._kg, noun)[:NAMESAKES]

    def _values(self, most: int) -> list[Callable[[], None]]:
        """Tasks that read up to so many facts of each relation that was found."""
        ways, self._ways = sorted(self._ways), []

        def read(part: Sequence[Way]) -> None:
            for fact in (hop.triple for hop in hops_along(self._kg, part, most)):
                self._facts[fact.relation].add((fact.subject, fact.object))

        return [partial(read, part) for part in batches(ways, TOGETHER)]

    def _members(self, kind: IRI) -> None:
        below = "|".join(IRI(p).n3() for p in self._profile.subclass_predicates)
        path = f"({self._profile.type_links}){f'/({below})*' if below else ''}"
        rows = self._rows(f"SELECT DISTINCT ?x WHERE {{ ?x {path} {kind.n3()} }} LIMIT {MEMBERS}", MEMBERS)
        members = {_pair(x, kind) for (x,) in rows if isinstance(x, IRI)}
        self._extra[self._profile.type_predicates[0]] |= members

    def _spread(self, nodes: Sequence[IRI]) -> list[IRI]:
        """Neighbours that are looked around: mediators first, then some of each relation and class."""
        ends = (_named(t for pair in pairs for t in pair) for pairs in self._facts.values())
        groups = [[t for t in group if t not in nodes] for group in ends]
        joins = sorted({n for group in groups for n in group if self._profile.is_mediator(n, "")})
        turns = (group[k] for k in range(SPREAD) for group in groups if k < len(group))
        members = [IRI(s[1:-1].decode()) for pairs in self._extra.values() for s, _ in sorted(pairs)]
        return list(islice(dict.fromkeys([*joins, *turns, *members]), FAR))

    def _outgoing(self, nodes: Sequence[IRI]) -> None:
        for s, p, o in self._rows(f"SELECT ?s ?p ?o WHERE {{ VALUES ?s {{ {terms_n3(nodes)} }} ?s ?p ?o }}"):
            if isinstance(p, IRI) and not is_left_out(p.value, self._profile):
                self._facts[p].add((s, o))

    def _incoming(self, nodes: Sequence[IRI]) -> None:
        sparql = f"SELECT DISTINCT ?x ?p WHERE {{ VALUES ?x {{ {terms_n3(nodes)} }} ?y ?p ?x }}"
        rows = self._rows(sparql)
        self._ways += [(x, p, False) for x, p in rows if not is_left_out(p.value, self._profile)]

    def _linked(self, links: Sequence[str], of: type[IRI] | type[Literal], nodes: Sequence[IRI]) -> None:
        """What some relations, read as one, lead to from nodes: classes or names."""
        path = "|".join(IRI(p).n3() for p in links)
        sparql = f"SELECT ?x ?y WHERE {{ VALUES ?x {{ {terms_n3(nodes)} }} ?x {path} ?y }}"
        for x, y in self._rows(sparql) if nodes and links else ():
            if isinstance(x, IRI) and isinstance(y, of):
                self._extra[links[0]].add(_pair(x, y))
                self._kinds += [y] if isinstance(y, IRI) else []

    def _label(self, nodes: Sequence[IRI]) -> None:
        labels = self._kg.labels(nodes, partial=True).items()
        names = {_pair(node, text(label, self._profile.language)) for node, label in labels}
        self._extra[self._profile.label_predicates[0]] |= names


def _named(terms: Iterable[Term]) -> list[IRI]:
    """The nodes among some terms that a query can name, each once, in a fixed order."""
    return sorted({t for t in terms if isinstance(t, IRI) and not t.value.startswith("_:")})


def _pair(subject: Term, value: Term) -> Pair:
    return subject.n3().encode(), value.n3().encode()
