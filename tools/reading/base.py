"""What a reader is asked, and how the texts of a KG's relations are put as statements."""

from __future__ import annotations

from dataclasses import dataclass

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph


@dataclass(frozen=True, slots=True)
class Asked:
    """What is looked for in passages: the facts of one relation about one entity, in either direction.

    Attributes:
        name: of the entity. relation: of the KG.
        entity: the node, where the KG has it. aliases: other names of it.
        question: that the facts are for.
    """

    name: str
    relation: IRI
    entity: IRI | None = None
    aliases: tuple[str, ...] = ()
    question: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """Name and aliases, each once, none of them blank."""
        return tuple(dict.fromkeys(n for n in (self.name, *self.aliases) if n.strip()))


def known_as(kg: KnowledgeGraph, node: IRI, limit: int = 8) -> tuple[str, tuple[str, ...]]:
    """Label and aliases of a node; its short id where it has no label."""
    label = kg.labels([node]).get(node) or kg.profile.short(node)
    predicates = [IRI(p).n3() for p in kg.profile.alias_predicates]
    if not predicates:
        return label, ()
    result = kg.query(f"SELECT ?a WHERE {{ {node.n3()} {'|'.join(predicates)} ?a }}", limit=4 * limit)
    tongues = ("", "mul", kg.profile.language)
    aliases = (a for row in result.rows for a in row if a is not None)
    kept = [a.value for a in aliases if getattr(a, "language", "").partition("-")[0] in tongues]
    return label, tuple(dict.fromkeys(a for a in kept if a != label))[:limit]


def statements(text: RelationText, forward: bool) -> list[str]:
    """A relation as short statements about X and Y; X is its subject, or its object if not `forward`."""
    x, y = ("X", "Y") if forward else ("Y", "X")
    readings = dict.fromkeys(r for r in (text.label, *text.aliases, text.description) if r)
    made = [form for r in readings for form in (f"{x} {r} {y}", f"the {r} of {x} is {y}")]
    if text.inverse:
        made += [f"{text.inverse} {y} {x}", f"{y} {text.inverse} {x}"]
    return made
