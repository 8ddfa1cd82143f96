"""Questions that a graph cannot answer: a relation or an entity of the right reading is taken away.

A plausible neighbour is usually left: the second-best relation, a part of the name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pyoxigraph as ox

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.protocol import origin_of
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.query import Nodes, Query
from triplewise.tools.parsing.reading import parts_of

ENTITIES = 3  # one in so many questions loses an entity, the others a relation
MOST_TRIPLES = 50_000  # nothing is taken from larger graphs


class Taken(NamedTuple):
    """What is taken from a graph: a relation with all of its facts, or an entity with all facts about it."""

    iri: IRI
    is_relation: bool


def needed(query: Query, index: GraphIndex) -> tuple[Taken, ...]:
    """Return the relations and the named entities without which a query has another answer, or none."""
    found: dict[Taken, None] = {}
    for node in parts_of(query):
        for relation, _ in getattr(node, "path", ()):
            path = index.rels[relation].path
            found.setdefault(Taken(path[-1][0], True))
        if isinstance(node, Nodes) and len(node.nodes) == 1:
            (number,) = node.nodes
            if isinstance(term := index.terms[number], IRI):
                found.setdefault(Taken(term, False))
    return tuple(found)


def without(kg: KnowledgeGraph, taken: Taken) -> EmbeddedKG | None:
    """Return a copy of a graph without something; None for one that is too large or not in this process."""
    origin = origin_of(kg)
    if not isinstance(origin, EmbeddedKG):
        return None
    quads = list(origin.quads())
    if len(quads) > MOST_TRIPLES:
        return None
    node = ox.NamedNode(taken.iri.value)
    rest = ox.Store()
    rest.bulk_extend(
        quad
        for quad in quads
        if (quad.predicate != node if taken.is_relation else node not in (quad.subject, quad.object))
    )
    return EmbeddedKG(rest, origin.profile, f"{origin.name} without {taken.iri.value}")


def chosen(uses: Sequence[tuple[Taken, ...]], count: int) -> Mapping[Taken, list[int]]:
    """Return what to take, with the numbers of the questions, some `count`, that are then asked."""
    made: dict[Taken, list[int]] = defaultdict(list)
    usable = [(number, options) for number, options in enumerate(uses) if options]
    for turn, (number, options) in enumerate(usable[:count]):
        wanted = turn % ENTITIES != 0
        made[next((taken for taken in options if taken.is_relation is wanted), options[0])].append(number)
    return made
