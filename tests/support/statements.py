"""Slots made from the facts of a graph."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.linking.linker import LinkedEntity, link


@dataclass(frozen=True)
class Statement:
    """A slot, its subject, and the values that fill it."""

    slot: str
    subject: LinkedEntity
    values: frozenset[str]


def statements(kg: KnowledgeGraph, relation: str, count: int, seed: int = 0) -> Iterator[Statement]:
    """Slots of a relation by its own label ("Peru [SEP] capital")."""
    iri = kg.profile.expand(relation, relation=True)
    assert isinstance(iri, IRI)
    rows = kg.query(f"SELECT ?s ?o WHERE {{ ?s {iri.n3()} ?o }} ORDER BY ?s ?o").rows
    labels = kg.labels([t for row in rows for t in row if t is not None])
    subjects = [s for s, o in rows if s in labels and o in labels]
    label = relation_texts(kg, [relation])[relation].label
    draw = random.Random(f"{seed} {relation}")
    for _ in range(count):
        subject = draw.choice(subjects)
        assert isinstance(subject, IRI)
        slot = f"{labels[subject]} [SEP] {label}"
        (linked,) = link(slot, kg, given={labels[subject]: kg.profile.short(subject)})
        values = frozenset(kg.profile.short(o) for s, o in rows if s == subject and o is not None)
        yield Statement(slot, linked, values)
