"""Schema: the classes that the nouns of a question name, each with what its members have.

What a language model needs to use a class without looking at its members first: relations of both directions,
how many members have each, and a fact of it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import takewhile
from typing import NamedTuple

import numpy as np

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, Term, Triple, whole_number
from triplewise.tools.kg.protocol import Hop, KnowledgeGraph, terms_n3
from triplewise.tools.kg.vocabulary import find_classes, remembered
from triplewise.tools.language.lexicon import lexicon
from triplewise.tools.language.text import singular, tokenise, tokens
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.linking.search import classes_of
from triplewise.tools.retrieval.encoder import Encoder, vectors_of
from triplewise.tools.retrieval.surroundings import NearbyFact, closest_relations

MEMBERS, FEW, SECONDS = 500, 25, 4.0
"""Members of a class that are looked at; those over a distance, and the seconds that each look may take."""
RARE, SEVERAL = 0.05, 3
"""Share of a class's members below which a relation is rare, and values that make a class of theirs."""
CLASSES, SPAN = 3, 3  # classes of a question, and words of a class's name
COMPARED, ALIKE = 200, 0.58
"""Classes of a graph up to which a noun is compared with them by meaning, and the least cosine."""


class ClassMention(NamedTuple):
    """A class that a noun of a question names, with the characters where the noun stands."""

    node: IRI
    start: int
    end: int


class Held(NamedTuple):
    """A relation of some nodes: whether it leaves them, how many of them have it, and a value."""

    relation: IRI
    forward: bool
    members: int
    value: Term


class Schema(NamedTuple):
    """What nodes have. `members`: how many of them were looked at, all there are where `is_whole`."""

    members: int
    is_whole: bool
    held: tuple[Held, ...]


def named_classes(
    kg: KnowledgeGraph, question: str, linked: Sequence[LinkedEntity], encoder: Encoder
) -> tuple[ClassMention, ...]:
    """Return the classes that nouns of a question name, in its order, none inside a longer name.

    A noun names a class by its whole name; in a graph with few classes also by its last word ("cars": motor
    car) or by meaning ("manufacturers": car maker).
    """
    words, stop = tokenise(question), lexicon().stop
    named = [(e.start, e.end) for e in linked if e.start >= 0]
    nouns = dict[tuple[int, int], list[str]]()
    for size in range(SPAN, 0, -1):
        for run in (words[first : first + size] for first in range(len(words) - size + 1)):
            place, noun = (run[0].start, run[-1].end), [w.word for w in run]
            is_part = any(a <= place[0] and place[1] <= b and (a, b) != place for a, b in named)
            is_noun = stop.isdisjoint(noun) and all(w[0].isalpha() for w in noun)
            is_name = place in named and not question[slice(*place)].islower()
            if is_noun and not is_part and not is_name and noun[-1] not in lexicon().partitives:
                nouns[place] = [*noun[:-1], singular(noun[-1])]
    if kg.index is None:
        kg.together([partial(_asked, kg, noun) for noun in nouns.values()])
    found = list[ClassMention]()
    for (start, end), noun in nouns.items():
        if not any(start < m.end and m.start < end for m in found):
            is_linked = any(start < b and a < end for a, b in named)
            if nodes := _called(kg, noun, None if is_linked else encoder):
                found.append(ClassMention(nodes[0], start, end))
    return tuple({m.node: m for m in sorted(found, key=lambda m: m.start)}.values())[:CLASSES]


def _asked(kg: KnowledgeGraph, noun: Sequence[str]) -> Sequence[IRI]:
    """Return the classes that a graph without an index has of a name; none where it does not answer."""
    with suppress(QueryFailedError):
        return find_classes(kg, " ".join(noun))
    return ()


def _rows(kg: KnowledgeGraph, sparql: str) -> Sequence[Sequence[Term | None]]:
    """Return the rows of an answer; none of a query that fails or takes too long."""
    result = kg.query(sparql, timeout=min(kg.timeout, SECONDS))
    return result.rows if result.outcome.ok else ()


def _called(kg: KnowledgeGraph, noun: Sequence[str], encoder: Encoder | None) -> Sequence[IRI]:
    """Return the classes of a name, the one with the most members first."""
    if kg.index is None:
        return _asked(kg, noun)
    names = _class_names(kg)
    if exact := names.get(tuple(noun)):
        return exact if len(exact) == 1 else sorted(exact, key=lambda c: -schema_of(kg, c).members)
    if len(noun) > 1 or encoder is None or not 0 < len(names) <= COMPARED:
        return ()
    if heads := [c for name, of in names.items() if name[-1] == noun[0] for c in of]:
        return heads if len(heads) == 1 else ()
    vectors = vectors_of(kg, encoder).vectors([" ".join(name) for name in names], encoder)
    cosines = vectors @ encoder.encode([noun[0]])[0]
    return list(names.values())[int(np.argmax(cosines))] if cosines.max() >= ALIKE else ()


def _class_names(kg: KnowledgeGraph) -> dict[tuple[str, ...], list[IRI]]:
    """Return the classes of a graph by the words of their names, the last one in the singular."""

    def read() -> dict[tuple[str, ...], list[IRI]]:
        by_name = defaultdict[tuple[str, ...], list[IRI]](list)
        for entry in classes_of(kg):
            node, name = kg.profile.expand(entry.id), tokens(entry.names[0])
            if node is not None and name:
                by_name[*name[:-1], singular(name[-1])].append(node)
        return dict(by_name)

    return remembered(kg, "vocabulary", "classes by name", read)


def schema_of(kg: KnowledgeGraph, node: IRI) -> Schema:
    """Return what the members of a class have; nothing where the graph takes too long to say it."""

    def read() -> Schema:
        found = held_by(kg, "?x", members_of(kg, node))
        return found._replace(held=tuple(h for h in found.held if not _is_schema(kg, h.relation)))

    return remembered(kg, "schemas", node, read)


def held_by(kg: KnowledgeGraph, variable: str, pattern: str) -> Schema:
    """Return what the nodes have that a variable of a SPARQL pattern stands for.

    In one query; over a distance in two, since what arrives at nodes may take too long.
    """
    most = FEW if kg.is_remote else MEMBERS
    nodes = f"{{ SELECT DISTINCT {variable} WHERE {{ {pattern} }} LIMIT {most} }}"
    select = f"SELECT ?_d ?_r (COUNT(DISTINCT {variable}) AS ?_n) (SAMPLE(?_y) AS ?_v)"
    parts = [f"{{ {nodes} BIND(0 AS ?_d) }}", f"{{ {nodes} {variable} ?_r ?_y BIND(1 AS ?_d) }}"]
    arriving = f"{{ {nodes} ?_y ?_r {variable} BIND(2 AS ?_d) }}"
    unions = [parts, [arriving]] if kg.is_remote else [[*parts, arriving]]
    asked = (f"{select} WHERE {{ {' UNION '.join(of)} }} GROUP BY ?_d ?_r" for of in unions)
    members, held = 0, list[Held]()
    for rows in kg.together([partial(_rows, kg, sparql) for sparql in asked]):
        for side, relation, number, value in sorted(rows, key=str):
            way, n = whole_number(side), whole_number(number) or 0
            members = max(members, n)
            if isinstance(relation, IRI) and value is not None:
                held.append(Held(relation, way == 1, n, value))
    return Schema(members, members < most, tuple(held))


def members_of(kg: KnowledgeGraph, node: IRI) -> str:
    """Return the SPARQL pattern of the members ?x of a class: its own, else those of its subclasses."""
    links, below = kg.profile.type_links, "|".join(IRI(p).n3() for p in kg.profile.subclass_predicates)
    own = f"?x {links} {node.n3()}"
    some = f"SELECT ?x WHERE {{ {own} }} LIMIT 1"
    if not below or remembered(kg, "own members", node, lambda: len(_rows(kg, some))):
        return own
    return f"?x ({links})/({below})* {node.n3()}"


def _is_schema(kg: KnowledgeGraph, relation: IRI) -> bool:
    profile = kg.profile
    links = (*profile.type_predicates, *profile.label_predicates, *profile.description_predicates)
    return relation.value in links or profile.excludes(relation)


def class_facts(
    kg: KnowledgeGraph, node: IRI, sides: Sequence[tuple[IRI, bool]]
) -> Iterator[tuple[Triple, Triple]]:
    """Give a fact of each of some relations of a class's members.

    Each comes behind the one that makes its subject or object a member.
    """
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


def fitting_relations(
    kg: KnowledgeGraph, question: str, node: IRI, encoder: Encoder, most: int
) -> list[tuple[IRI, bool]]:
    """Return the relations of a class's members that fit a question best, each with its direction.

    Behind the first two, those that few members have come last.
    """
    schema = schema_of(kg, node)
    rare = {held[:2] for held in schema.held if held.members < RARE * schema.members}
    sides = closest_relations(kg, question, [held[:2] for held in schema.held], encoder, len(schema.held))
    return [*sides[:2], *sorted(sides[2:], key=rare.__contains__)][:most]


def next_class(
    kg: KnowledgeGraph, question: str, facts: Sequence[NearbyFact], encoder: Encoder, most: int
) -> tuple[IRI, list[tuple[IRI, bool]]] | None:
    """Return the class of most of what some entities are linked to, and relations of its members.

    They are those that fit a question better than all of the entities' own; None where there are none.
    """
    own = {fact.triple.relation for fact in facts if fact.through is None}
    ends = {n for f in facts if f.through is None for n in (f.triple.subject, f.triple.object)}
    links, nodes = kg.profile.type_links, terms_n3(sorted(n for n in ends if isinstance(n, IRI)))
    if not links or not nodes:
        return None
    pattern = f"VALUES ?x {{ {nodes} }} ?x {links} ?c"
    rows = _rows(kg, f"SELECT ?c (COUNT(?x) AS ?n) WHERE {{ {pattern} }} GROUP BY ?c")
    counts = {c: whole_number(n) or 0 for c, n in rows if isinstance(c, IRI)}
    node = max(counts, key=lambda c: (counts[c], c.value), default=None)
    if node is None or counts[node] < SEVERAL:
        return None
    held = [held[:2] for held in schema_of(kg, node).held]
    ranked = closest_relations(
        kg, question, [*((r, True) for r in own), *held], encoder, len(own) + len(held)
    )
    better = list(takewhile(lambda side: side[0] not in own, ranked))[:most]
    return (node, better) if better else None
