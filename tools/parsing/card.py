"""The schema card of a graph: classes and relations with all names, where they lead, what values look like.

One value for whoever has to know a graph without reading it: `triplewise kg info`, the hints that a language
model is given, an MCP resource. It is made from a `GraphIndex`: of the whole graph, or of what lies around a
question.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.language.lexicon import lexicon
from triplewise.tools.parsing.facts import whole_facts
from triplewise.tools.parsing.index import GraphIndex, texts_of
from triplewise.tools.parsing.relations import Edges, Relation
from triplewise.tools.pyql.text import write_iri, write_node

SAMPLES, ENDS, NAMES = 3, 3, 5  # values, classes at either end, and names that a line shows of a relation


@dataclass(frozen=True, slots=True)
class Share:
    """How many of the members of a class take part in a relation: `height: 1 of 21 members have it`."""

    name: str
    count: int
    of: int

    def __str__(self) -> str:
        return self.name if self.count == self.of else f"{self.name} ({self.count:,} of {self.of:,})"


@dataclass(frozen=True, slots=True)
class ClassCard:
    """A class: its id, names, best first, and the number of its members."""

    id: str
    names: tuple[str, ...]
    members: int

    def __str__(self) -> str:
        also = f" ({', '.join(self.names[1:NAMES])})" if len(self.names) > 1 else ""
        return " ".join(filter(None, (self.id, f"{self.names[0]}{also}: {self.members:,}")))


@dataclass(frozen=True, slots=True)
class RelationCard:
    """A relation, or two that a mediator joins.

    Attributes:
        id: as an action takes it; `a / b` for two, with `^` before what is walked backwards.
        names, inverse: from subject to object, and back, best first.
        kind: of its values: entity, number, date, boolean or string.
        unit: of numbers, where a name says it, else "". facts: how many it has.
        domains, ranges: classes of subjects, and of entities at the other end, largest first.
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
        also = f" ({', '.join(self.names[1:NAMES])})" if len(self.names) > 1 else ""
        leads = ", ".join(share.name for share in self.ranges) if self.kind == "entity" else self.kind
        unit = f" in {self.unit}" if self.unit else ""
        of = ", ".join(map(str, self.domains)) or "anything"
        back = f"; backwards: {', '.join(self.inverse)}" if self.inverse else ""
        values = f"; e.g. {', '.join(self.samples)}" if self.samples else ""
        ends = f"{of} -> {leads or 'anything'}{unit}"
        return f"{self.id} {self.names[0]}{also}: {ends}, {self.facts:,}{back}{values}"


@dataclass(frozen=True, slots=True)
class SchemaCard:
    """Classes and relations, those with the most members and facts first.

    Attributes:
        is_whole: whether it is of the whole graph, not of the part around a question.
    """

    classes: tuple[ClassCard, ...]
    relations: tuple[RelationCard, ...]
    is_whole: bool = True

    @classmethod
    def of(cls, kg: KnowledgeGraph) -> SchemaCard | None:
        """The card of a whole KG; None of one that is too large, or of an endpoint not read yet."""
        facts = whole_facts(kg)
        return (
            None if facts is None else cls.of_index(GraphIndex(facts, kg.profile, lambda r: texts_of(kg, r)))
        )

    @classmethod
    def of_index(cls, index: GraphIndex, is_whole: bool = True) -> SchemaCard:
        """The card of what an index holds."""
        named = [c for c, of in enumerate(index.classes) if of.real and of.iri is not None]
        classes = (
            ClassCard(_id(index, index.classes[c].iri), index.classes[c].names, len(index.members[c]))
            for c in named
        )
        relations = (_relation_card(index, relation) for relation in index.rels)
        return cls(
            tuple(sorted(classes, key=lambda card: (-card.members, card.names))),
            tuple(sorted(relations, key=lambda card: (-card.facts, card.id))),
            is_whole,
        )

    def text(self, most: int = 100) -> str:
        """The card in lines, at most so many classes and so many relations."""
        lines = ["Classes, with their members:" if self.classes else "No classes."]
        lines += [f"  {card}" for card in self.classes[:most]]
        if len(self.classes) > most:
            lines.append(f"  and {len(self.classes) - most:,} more")
        lines.append("Relations, with their facts:" if self.relations else "No relations.")
        lines += [f"  {card}" for card in self.relations[:most]]
        if len(self.relations) > most:
            lines.append(f"  and {len(self.relations) - most:,} more")
        return "\n".join(lines)


def _id(index: GraphIndex, iri: IRI | None) -> str:
    return "" if iri is None else write_iri(iri, index.profile)


def _path_id(index: GraphIndex, path: Edges) -> str:
    return " / ".join(f"{'' if forward else '^'}{_id(index, iri)}" for iri, forward in path)


def _relation_card(index: GraphIndex, relation: Relation) -> RelationCard:
    subjects, objects = np.unique(relation.starts).tolist(), np.unique(relation.ends).tolist()
    is_entity = relation.kind == "entity"
    words = [word for name in relation.names for word in name.split()]
    unit = next((word for word in words if word in lexicon().units), "") if relation.kind == "number" else ""
    values = [] if is_entity else objects[:: max(1, len(objects) // SAMPLES)][:SAMPLES]
    return RelationCard(
        _path_id(index, relation.path),
        tuple(relation.names),
        tuple(relation.inverse),
        relation.kind,
        unit,
        len(relation.starts),
        _shares(index, subjects),
        _shares(index, objects) if is_entity else (),
        tuple(write_node(index.terms[i], index.profile) for i in values),
    )


def _shares(index: GraphIndex, nodes: Iterable[int]) -> tuple[Share, ...]:
    """The classes of some nodes, the largest first; those that relations imply where the graph names none."""
    counts = Counter(c for i in nodes for c in index.types[i] if index.classes[c].real)
    named = [c for c in counts if index.classes[c].iri is not None] or list(counts)
    best = sorted(named, key=lambda c: (-counts[c], c))[:ENDS]
    return tuple(Share(index.classes[c].names[0], counts[c], index.of_classes.own[c]) for c in best)
