"""All facts of a KG as an index reads them: of one in this process, and of an endpoint with a small graph.

Those of an endpoint are read page by page, and kept in its cache folder for a day.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from itertools import chain
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.facts import ExtractedFact
from triplewise.tools.core.files import kept_json
from triplewise.tools.core.terms import IRI, RDF, RDFS, XSD, Literal, Term, Triple, text, whole_number
from triplewise.tools.kg.local import LocalKG
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import LONGEST_LABEL, KnowledgeGraph, Outcome, batches, memory_of, origin_of
from triplewise.tools.kg.rdf import QUESTIONS_IN, parse_term, safe_iri

Pair: TypeAlias = tuple[bytes, bytes]
"""Subject and object of a fact in N-Triples form; numbers and booleans may also stand bare."""
_Read: TypeAlias = dict[str, list[tuple[str, str]]]  # Subject and object of each fact by relation
Facts: TypeAlias = Iterable[tuple[str, Iterable[Pair]]]  # Facts by the IRI of their relation
SMALL, FAR = 400_000, 30_000  # facts up to which a graph is read whole: of this machine, of another one
PAGE = 10_000  # facts that one request asks for
LOOK = 5.0  # seconds that an endpoint has to show that its graph is small
COMPLETE = 0.98  # least share of an endpoint's facts that its pages have to give
PAUSE = 0.1  # seconds between two rounds of requests to another machine
DAYS = 1.0  # for which facts of an endpoint are kept
SCHEMA = (RDF, RDFS, "http://www.w3.org/2002/07/owl#")
"""Their classes and relations say how a graph is made, not what it tells."""
_log = logging.getLogger(__name__)


def term_of(n3: bytes) -> Term:
    """The term of an N-Triples form, or of a number or boolean as Turtle writes it."""
    if n3.startswith((b"<", b"_:")):
        return safe_iri(n3.removeprefix(b"<").removesuffix(b">").decode())
    if b"\\" in n3 or not n3.startswith(b'"'):
        return parse_term(n3)
    value, _, rest = n3[1:].rpartition(b'"')
    if rest.startswith(b"@"):
        return Literal(value.decode(), RDF + "langString", rest[1:].decode().lower())
    return Literal(value.decode(), rest[3:-1].decode() if rest else XSD + "string")


def is_left_out(relation: str, profile: Profile) -> bool:
    """Whether facts of a relation say nothing that a question could ask for, names and classes apart."""
    texts = (*profile.label_predicates, *profile.alias_predicates, *profile.description_predicates)
    is_schema = relation.startswith((*SCHEMA, "_:"))
    return is_schema or relation in texts or profile.excludes(safe_iri(relation))


def is_read(relation: str, profile: Profile) -> bool:
    """Whether an index makes anything of a relation's facts."""
    names, links = profile.label_predicates + profile.alias_predicates, profile.type_predicates
    return relation in (*names, *links, *profile.subclass_predicates) or not is_left_out(relation, profile)


class SortedFacts:
    """Facts by what they are for: names, classes, or relations between numbered nodes.

    `terms`, `is_literal`: by number; `named`: number -> names, best first.
    """

    def __init__(self, facts: Facts, profile: Profile) -> None:
        self.profile, self.ids = profile, dict[bytes, int]()  # node -> its number
        self.names: dict[bytes, list[tuple[int, str]]] = defaultdict(list)  # with their rank, lower first
        self.types: list[tuple[int, bytes]] = []  # nodes with a class of theirs
        self.parents: dict[bytes, set[bytes]] = defaultdict(set)  # class -> the classes right above it
        self.edges: dict[str, NDArray[np.int64]] = {}  # relation -> subject << 32 | object of facts, sorted
        for relation, pairs in facts:
            self._take(relation, pairs)
        # From here on nodes have a name and nothing else: a question may name them, though in vain.
        self.first_alone = len(self.ids)
        classes = {of for _, of in self.types} | set(self.parents).union(*self.parents.values())
        relations = {IRI(relation).n3().encode() for relation in self.edges}
        known = classes | relations | self.ids.keys()
        for node in self.names:
            if node not in known and node.startswith(b"<") and profile.linkable(node[1:-1].decode()):
                self.ids[node] = len(self.ids)
        self.terms = [term_of(n3) for n3 in self.ids]
        self.is_literal = np.array([isinstance(term, Literal) for term in self.terms], bool)
        self.named = {i: best_names(self.names[n3]) for n3, i in self.ids.items() if n3 in self.names}

    def _take(self, relation: str, pairs: Iterable[Pair]) -> None:
        profile, ids = self.profile, self.ids
        for predicates, rank in ((profile.label_predicates, 0), (profile.alias_predicates, 100)):
            if relation in predicates:
                self._name(pairs, rank + 3 * predicates.index(relation))
                return
        if relation in profile.type_predicates:
            self.types.extend((ids.setdefault(node, len(ids)), of) for node, of in pairs)
        elif relation in profile.subclass_predicates:
            for of, parent in pairs:
                self.parents[of].add(parent)
        elif not is_left_out(relation, profile):
            edges = [ids.setdefault(s, len(ids)) << 32 | ids.setdefault(o, len(ids)) for s, o in pairs]
            self.edges[relation] = np.unique(np.array(edges, np.int64))

    def _name(self, pairs: Iterable[Pair], rank: int) -> None:
        own = self.profile.language.partition("-")[0]
        ranks = dict.fromkeys(QUESTIONS_IN, rank + 200) | {own: rank, "": rank + 1, "mul": rank + 1}
        for subject, value in pairs:
            name = term_of(value)
            place = ranks.get(name.language.partition("-")[0]) if isinstance(name, Literal) else None
            if place is not None and name.value.strip():
                self.names[subject].append((place, name.value[:LONGEST_LABEL]))


def best_names(names: Iterable[tuple[int, str]]) -> list[str]:
    """Names in order of preference, each once."""
    return list(dict.fromkeys(name for _, name in sorted(names)))


def whole_facts(kg: KnowledgeGraph) -> Facts | None:
    """All facts of a KG that an index is made from, in a fixed order; None where they are too many to get."""
    kg = origin_of(kg)
    if kg.members:
        every = [whole_facts(member) for member in kg.members.values()]
        return None if None in every else merged(every)  # type: ignore[arg-type]
    if isinstance(kg, LocalKG):
        if kg.size(SMALL) > SMALL:
            return None
        own = kg.facts_by_relation(lambda relation: is_read(relation, kg.profile))
        return ((r, (line.split(b"\t", 1) for line in sorted(lines))) for r, lines in own)  # type: ignore[misc]
    memory, folders = memory_of(kg, "facts"), () if kg.is_local else kg.cache_dirs
    name = f"facts-{zlib.crc32(repr(kg.profile).encode()):08x}.json"
    found = None if "unread" in memory else kept_json(folders, name, DAYS, _Read, partial(_read_all, kg))
    if found is None:
        memory["unread"] = True
        return None
    return ((r, [(s.encode(), o.encode()) for s, o in pairs]) for r, pairs in sorted(found.items()))


def with_laid(facts: Facts, laid: Mapping[Triple, ExtractedFact], profile: Profile) -> Facts:
    """The facts of a KG with those laid over it, and the names of the nodes that these add."""
    extra: dict[str, list[Pair]] = defaultdict(list)
    for triple in laid:
        extra[triple.relation.value].append((triple.subject.n3().encode(), triple.object.n3().encode()))
    for name_of in profile.label_predicates[:1]:
        for node, label in (pair for fact in laid.values() for pair in fact.labels.items()):
            extra[name_of].append((IRI(node).n3().encode(), text(label).n3().encode()))
    return merged([facts, extra.items()])


def merged(graphs: Iterable[Facts]) -> Facts:
    """The facts of several graphs."""
    facts = defaultdict[str, list[Pair]](list)
    for relation, pairs in chain.from_iterable(graphs):
        facts[relation] += pairs
    return sorted(facts.items())


def _read_all(kg: KnowledgeGraph) -> _Read | None:
    """All facts of an endpoint with a small graph."""
    most = SMALL if kg.is_local else FAR
    some = f"SELECT (COUNT(*) AS ?n) WHERE {{ {{ SELECT ?s WHERE {{ ?s ?p ?o }} LIMIT {most + 1} }} }}"
    result = kg.query(some, timeout=LOOK)
    size = whole_number(result.rows[0][0]) if result.outcome is Outcome.ROWS else None
    if not size or size > most:
        return None
    read: set[tuple[str, str, str]] = set()
    try:
        for offsets in batches(range(0, size, PAGE), kg.connections):
            for page in kg.together([partial(_page, kg, offset) for offset in offsets]):
                read.update(page)
            time.sleep(0 if kg.is_local else PAUSE)
    except QueryFailedError as error:
        _log.info("the graph of %s cannot be read whole: %s", kg.name, error)
        return None
    if len(read) < COMPLETE * size:
        _log.info("%s gives other facts on each page: its graph is not read whole", kg.name)
        return None
    facts: _Read = {}
    for relation, subject, value in sorted(read):
        if is_read(relation, kg.profile):
            facts.setdefault(relation, []).append((subject, value))
    return facts


def _page(kg: KnowledgeGraph, offset: int) -> list[tuple[str, str, str]]:
    """Some facts: relation, subject, value. Blank nodes have the names that the page gives them."""
    rows = kg.query(f"SELECT ?s ?p ?o WHERE {{ ?s ?p ?o }} LIMIT {PAGE} OFFSET {offset}", limit=PAGE).rows
    return [(p.value, s.n3(), o.n3()) for s, p, o in rows if isinstance(p, IRI) and s and o]
