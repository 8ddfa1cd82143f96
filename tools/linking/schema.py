"""Schema: the classes that the nouns of a question name, each with what its members have.

What a model needs to use a class: relations of both directions, how many members have each, and a fact of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from operator import itemgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, RDF, XSD, Term, Triple, whole_number
from triplewise.tools.kg.protocol import Hop, KnowledgeGraph, Outcome, Result, terms_n3
from triplewise.tools.kg.vocabulary import find_classes, remembered
from triplewise.tools.language.lexicon import lexicon
from triplewise.tools.language.text import singular, tokenise, tokens
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.linking.search import classes_of
from triplewise.tools.retrieval.encoder import Encoder, vectors_of
from triplewise.tools.retrieval.surroundings import NearbyFact, closest_relations

MEMBERS, FEW, SECONDS = 500, 25, 4.0  # members looked at; over a distance; seconds of a look
RARE, SEVERAL = 0.05, 3  # share of members below which a relation is rare; values that make a class of theirs
CLASSES, SPAN = 3, 3  # classes of a question, and words of a class's name
# Not the IRI of a datatype, which some graphs hold in place of a value.
_IS_VALUE = f"!(isIRI(?_y) && (STRSTARTS(STR(?_y), '{XSD}') || ?_y = <{RDF}langString>))"
COMPARED, ALIKE = 200, 0.58  # classes of a graph up to which nouns are compared by meaning; the least cosine


class Held(NamedTuple):
    """A relation of some nodes: whether it leaves them, how many of them have it, and a value."""

    relation: IRI
    forward: bool
    members: int
    value: Term


class Schema(NamedTuple):
    """What nodes have: `members` of them were looked at, at most; `is_whole` if these were all."""

    members: int
    held: tuple[Held, ...]
    is_whole: bool = False


Side: TypeAlias = tuple[IRI, bool]
"""A relation, and whether it leaves the nodes that are spoken of."""


def named_classes(
    kg: KnowledgeGraph, question: str, linked: Sequence[LinkedEntity], encoder: Encoder
) -> dict[IRI, tuple[int, int]]:
    """Return the classes that nouns of a question name, in its order, with the places of the nouns.

    A noun names a class by its whole name; in a graph with few classes also by its last word ("cars": motor
    car) or by meaning ("manufacturers": car maker).
    """
    words, stop, nouns = tokenise(question), lexicon().stop, dict[tuple[int, int], list[str]]()
    named = [(e.start, e.end) for e in linked if e.start >= 0]
    for size in range(SPAN, 0, -1):
        for run in (words[first : first + size] for first in range(len(words) - size + 1)):
            place, noun = (run[0].start, run[-1].end), [w.word for w in run]
            is_part = any(a <= place[0] and place[1] <= b and (a, b) != place for a, b in named)
            is_noun = stop.isdisjoint(noun) and all(w[0].isalpha() for w in noun)
            is_name = place in named and not question[slice(*place)].islower()
            if is_noun and not is_part and not is_name and noun[-1] not in lexicon().partitives:
                nouns[place] = [*noun[:-1], singular(noun[-1])]
    if kg.index is None:
        kg.together([partial(_called, kg, noun, None) for noun in nouns.values()])  # kept for what follows
    found = dict[tuple[int, int], IRI]()
    for (start, end), noun in nouns.items():
        if not any(start < b and a < end for a, b in found):
            is_linked = any(start < b and a < end for a, b in named)
            if nodes := _called(kg, noun, None if is_linked else encoder):
                found[start, end] = nodes[0]
    return {node: place for place, node in sorted(found.items(), key=itemgetter(0))[:CLASSES]}


def _called(kg: KnowledgeGraph, noun: Sequence[str], encoder: Encoder | None) -> Sequence[IRI]:
    """Return the classes of a name, the one with the most members first."""
    if kg.index is None:
        with suppress(QueryFailedError):
            return find_classes(kg, " ".join(noun))
        return ()

    def read() -> list[tuple[list[str], IRI]]:
        named = ((tokens(entry.names[0]), kg.profile.expand(entry.id)) for entry in classes_of(kg))
        return [([*name[:-1], singular(name[-1])], node) for name, node in named if name and node is not None]

    names = remembered(kg, "vocabulary", "classes by name", read)
    if exact := [node for name, node in names if name == noun]:
        return exact if len(exact) == 1 else sorted(exact, key=lambda c: -schema_of(kg, c).members)
    if len(noun) > 1 or encoder is None or not 0 < len(names) <= COMPARED:
        return ()
    if heads := [node for name, node in names if name[-1] == noun[0]]:
        return heads if len(heads) == 1 else ()
    vectors = vectors_of(kg, encoder).vectors([" ".join(name) for name, _ in names], encoder)
    cosines = vectors @ encoder.encode([noun[0]])[0]
    return [names[int(np.argmax(cosines))][1]] if cosines.max() >= ALIKE else ()


def schema_of(kg: KnowledgeGraph, node: IRI) -> Schema:
    """Return what the members of a class have; nothing where the graph takes too long to say it."""

    def read() -> Schema:
        found, links = held_by(kg, "?x", members_of(kg, node)), kg.profile.type_predicates
        return found._replace(held=tuple(h for h in found.held if h.relation.value not in links))

    return remembered(kg, "schemas", node, read)


def held_by(kg: KnowledgeGraph, variable: str, pattern: str) -> Schema:
    """Return what nodes have that a variable of a SPARQL pattern stands for; two queries to an endpoint."""
    most = FEW if kg.is_remote else MEMBERS
    nodes = f"{{ SELECT DISTINCT {variable} WHERE {{ {pattern} }} LIMIT {most} }}"
    select = f"SELECT ?_d ?_r (COUNT(DISTINCT {variable}) AS ?_n) (SAMPLE(?_y) AS ?_v)"
    leaving = f"{variable} ?_r ?_y FILTER({_IS_VALUE})"
    parts = [f"{{ {nodes} BIND(0 AS ?_d) }}", f"{{ {nodes} {leaving} BIND(1 AS ?_d) }}"]
    arriving = f"{{ {nodes} ?_y ?_r {variable} BIND(2 AS ?_d) }}"
    unions = [parts, [arriving]] if kg.is_remote else [[*parts, arriving]]
    asked = (f"{select} WHERE {{ {' UNION '.join(of)} }} GROUP BY ?_d ?_r" for of in unions)
    results = kg.together([partial(_asked, kg, sparql) for sparql in asked])
    found = [row for result in results if result.outcome.ok for row in result.rows]
    counted = [(whole_number(d), r, whole_number(n) or 0, v) for d, r, n, v in sorted(found, key=str)]
    members, excludes = max((n for _, _, n, _ in counted), default=0), kg.profile.excludes
    held = (Held(r, d == 1, n, v) for d, r, n, v in counted if isinstance(r, IRI) and v is not None)
    is_whole = members < most and all(r.outcome in (Outcome.ROWS, Outcome.EMPTY) for r in results)
    return Schema(members, tuple(h for h in held if not excludes(h.relation)), is_whole)


def _asked(kg: KnowledgeGraph, sparql: str) -> Result:
    return kg.query(sparql, timeout=min(kg.timeout, SECONDS))


def _rows(kg: KnowledgeGraph, sparql: str) -> Sequence[Sequence[Term | None]]:
    """Return the rows of an answer; none of a query that fails or takes too long."""
    result = _asked(kg, sparql)
    return result.rows if result.outcome.ok else ()


def members_of(kg: KnowledgeGraph, node: IRI) -> str:
    """Return the SPARQL pattern of the members ?x of a class: its own, else those of its subclasses."""
    links, below = kg.profile.type_links, "|".join(IRI(p).n3() for p in kg.profile.subclass_predicates)
    own = f"?x {links} {node.n3()}"
    some = f"SELECT ?x WHERE {{ {own} }} LIMIT 1"
    if not below or remembered(kg, "own members", node, lambda: len(_rows(kg, some))):
        return own
    return f"?x ({links})/({below})* {node.n3()}"


def class_facts(kg: KnowledgeGraph, node: IRI, sides: Sequence[Side]) -> Iterator[tuple[Triple, Triple]]:
    """Give a fact of each of some relations of a class's members, behind that which makes it a member's."""
    member, parts = members_of(kg, node), list[str]()
    for i, (relation, forward) in enumerate(sides):
        fact = f"?x {relation.n3()} ?y" if forward else f"?y {relation.n3()} ?x"
        parts.append(f"{{ SELECT ({i} AS ?i) ?x ?y WHERE {{ {member} . {fact} }} LIMIT 1 }}")
    rows = _rows(kg, f"SELECT ?i ?x ?y WHERE {{ {' UNION '.join(parts)} }}") if parts else ()
    for number, x, y in sorted(rows, key=lambda row: whole_number(row[0]) or 0):
        relation, forward = sides[whole_number(number) or 0]
        if isinstance(x, IRI) and y is not None and (forward or isinstance(y, IRI)):
            is_a = Triple(x, IRI(kg.profile.type_predicates[0]), node)
            yield is_a, Hop.between(x, relation, y, forward).triple


def fitting(kg: KnowledgeGraph, question: str, node: IRI, encoder: Encoder, most: int) -> list[Side]:
    """Return relations of a class's members, what fits a question first; rare ones last, but for two."""
    members, held, _ = schema_of(kg, node)
    rare = {h[:2] for h in held if h.members < RARE * members}
    sides = closest_relations(kg, question, [h[:2] for h in held], encoder, len(held))
    return [*sides[:2], *sorted(sides[2:], key=rare.__contains__)][:most]


def next_class(
    kg: KnowledgeGraph, question: str, facts: Sequence[NearbyFact], encoder: Encoder, most: int
) -> dict[IRI, list[Side]]:
    """Return the class of most of what some entities are linked to, with relations of its members.

    They are those that fit a question better than all of the entities' own; without any, there is no class.
    """
    own, links = {f.triple.relation for f in facts if f.through is None}, kg.profile.type_links
    ends = {n for f in facts if f.through is None for n in (f.triple.subject, f.triple.object)}
    values = terms_n3(sorted(n for n in ends if isinstance(n, IRI)))
    sparql = f"SELECT ?c (COUNT(?x) AS ?n) WHERE {{ VALUES ?x {{ {values} }} ?x {links} ?c }} GROUP BY ?c"
    rows = _rows(kg, sparql) if links and values else ()
    counts = {c: whole_number(n) or 0 for c, n in rows if isinstance(c, IRI)}
    node = max(counts, key=lambda c: (counts[c], c.value), default=None)
    if node is None or counts[node] < SEVERAL:
        return {}
    sides = [*((r, True) for r in own), *(h[:2] for h in schema_of(kg, node).held)]
    ranked = closest_relations(kg, question, sides, encoder, len(sides))
    better = list(takewhile(lambda side: side[0] not in own, ranked))[:most]
    return {node: better} if better else {}
