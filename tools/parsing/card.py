"""The schema card of a graph: classes and relations with all names, where they lead, what values look like.

It is for whoever has to know a graph without reading it: `triplewise kg info`, the hints that a language
model is given, an MCP resource.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.language.lexicon import lexicon
from triplewise.tools.parsing.facts import whole_facts
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.relations import Relation
from triplewise.tools.pyql.text import write_iri, write_node

SAMPLES, ENDS, NAMES = 3, 3, 5  # values, classes at either end, and names that a line shows of a relation


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the members of a class take part in a relation: `height (1 of 21)`."""

    name: str
    count: int
    of: int

    def __str__(self) -> str:
        return self.name if self.count == self.of else f"{self.name} ({self.count:,} of {self.of:,})"


@dataclass(frozen=True, slots=True)
class ClassCard:
    """A class: its id, names, best first, how many members it has, and one of them as an action takes it."""

    id: str
    names: tuple[str, ...]
    members: int
    sample: str = ""

    def __str__(self) -> str:
        return f"{self.id} {_names(self.names)}: {self.members:,}".strip()


@dataclass(frozen=True, slots=True)
class RelationCard:
    """A relation, or two that a mediator joins.

    Attributes:
        id: as an action takes it; `a / b` for two, with `^` before what is walked backwards.
        names, inverse: from subject to object, and back, best first.
        kind: of its values: entity, number, date, boolean or string. unit: of numbers, where a name says it.
        facts: how many it has. domains, ranges: classes of subjects and of entities at the other end.
        samples: some values in the form that an action takes (`"1999-01-01"^^xsd:date`).
    """

    id: str
    names: tuple[str, ...]
    inverse: tuple[str, ...]
    kind: str
    unit: str
    facts: int
    domains: tuple[Share, ...]
    ranges: tuple[Share, ...]
    samples: tuple[str, ...]

    def __str__(self) -> str:
        leads = ", ".join(share.name for share in self.ranges) if self.kind == "entity" else self.kind
        ends = f"{', '.join(map(str, self.domains)) or 'anything'} -> {leads or 'anything'}"
        unit = f" in {self.unit}" if self.unit else ""
        back = f"; backwards: {', '.join(self.inverse)}" if self.inverse else ""
        values = f"; e.g. {', '.join(self.samples)}" if self.samples else ""
        return f"{self.id} {_names(self.names)}: {ends}{unit}, {self.facts:,}{back}{values}"


@dataclass(frozen=True, slots=True)
class SchemaCard:
    """Classes and relations, those with the most members and facts first; `is_whole`: not of a sample."""

    classes: tuple[ClassCard, ...]
    relations: tuple[RelationCard, ...]
    is_whole: bool = True

    @classmethod
    def of(cls, kg: KnowledgeGraph) -> SchemaCard | None:
        """The card of a whole KG; None of one that is too large, or of an endpoint not read yet."""
        facts = whole_facts(kg)
        return None if facts is None else cls.of_index(GraphIndex(facts, kg))

    @classmethod
    def of_index(cls, index: GraphIndex) -> SchemaCard:
        """The card of what an index holds."""
        classes = list[ClassCard]()
        for c, of in enumerate(index.classes):
            if of.real and of.iri is not None:
                members, iri = index.members[c], write_iri(of.iri, index.profile)
                sample = next((write_node(index.terms[i], index.profile) for i in members), "")
                classes.append(ClassCard(iri, of.names, len(members), sample))
        relations = (_relation_card(index, relation) for relation in index.rels)
        return cls(
            tuple(sorted(classes, key=lambda card: (-card.members, card.names))),
            tuple(sorted(relations, key=lambda card: (-card.facts, card.id))),
        )

    def text(self, most: int = 100) -> str:
        """The card in lines, at most so many classes and so many relations."""
        lines: list[str] = []
        for title, cards in (("Classes, with their members", self.classes),
                             ("Relations, with their facts", self.relations)):  # fmt: skip
            lines.append(f"{title}:" if cards else f"No {title.partition(',')[0].lower()}.")
            lines += [f"  {card}" for card in cards[:most]]
            lines += [f"  and {len(cards) - most:,} more"] if len(cards) > most else []
        return "\n".join(lines)


def _names(names: tuple[str, ...]) -> str:
    return f"{names[0]} ({', '.join(names[1:NAMES])})" if len(names) > 1 else names[0]


def _relation_card(index: GraphIndex, relation: Relation) -> RelationCard:
    subjects, objects = np.unique(relation.starts).tolist(), np.unique(relation.ends).tolist()
    words = [word for name in relation.names for word in name.split() if relation.kind == "number"]
    values = objects[:: max(1, len(objects) // SAMPLES)][:SAMPLES]
    steps = ((write_iri(iri, index.profile), forward) for iri, forward in relation.path)
    return RelationCard(
        " / ".join(f"{'' if forward else '^'}{iri}" for iri, forward in steps),
        tuple(relation.names),
        tuple(relation.inverse),
        relation.kind,
        next((word for word in words if word in lexicon().units), ""),
        len(relation.starts),
        _shares(index, subjects),
        _shares(index, objects) if relation.kind == "entity" else (),
        tuple(write_node(index.terms[i], index.profile) for i in values),
    )


def _shares(index: GraphIndex, nodes: Iterable[int]) -> tuple[Share, ...]:
    """The classes of some nodes, the largest first; those that relations imply where the graph names none."""
    counts = Counter(c for i in nodes for c in index.types[i] if index.classes[c].real)
    named = [c for c in counts if index.classes[c].iri is not None] or list(counts)
    best = sorted(named, key=lambda c: (-counts[c], c))[:ENDS]
    return tuple(Share(index.classes[c].names[0], counts[c], index.of_classes.own[c]) for c in best)
