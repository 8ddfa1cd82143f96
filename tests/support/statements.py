"""Claims and slots made from the facts of a graph, true ones and ones with another fact's object."""

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
    """A claim about a subject, whether it is true, and the slot that it would fill."""

    text: str
    slot: str
    subject: LinkedEntity
    relation: str
    truth: bool
    values: frozenset[str]


def statements(kg: KnowledgeGraph, relation: str, count: int, seed: int = 0) -> Iterator[Statement]:
    """As many true claims of a relation as false ones, by its own label ("The capital of Peru is Lima.")."""
    iri = kg.profile.expand(relation, relation=True)
    assert isinstance(iri, IRI)
    rows = kg.query(f"SELECT ?s ?o WHERE {{ ?s {iri.n3()} ?o }} ORDER BY ?s ?o").rows
    labels = kg.labels([t for row in rows for t in row if t is not None])
    facts = [(s, o) for s, o in rows if s in labels and o in labels]
    label = relation_texts(kg, [relation])[relation].label
    draw = random.Random(f"{seed} {relation}")
    for number in range(2 * count):
        subject, value = draw.choice(facts)
        own = frozenset(o for s, o in rows if s == subject)
        truth = number % 2 == 0
        if not truth:
            names = {labels[o] for o in own if o in labels}
            value = draw.choice([o for _, o in facts if o not in own and labels[o] not in names])
        name, text = labels[subject], f"The {label} of {labels[subject]} is {labels[value]}."
        assert isinstance(subject, IRI)
        (linked,) = link(text, kg, given={name: kg.profile.short(subject)})
        values = frozenset(kg.profile.short(o) for o in own if o is not None)
        yield Statement(text, f"{name} [SEP] {label}", linked, relation, truth, values)
