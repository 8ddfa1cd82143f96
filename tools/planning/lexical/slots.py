"""Slot filling: which relation of the KG a named relation is, and the rule that fills the slot.

A slot is an entity and a relation in words (T-REx, Zero-Shot RE). The name is matched exactly first, since
slots mostly use the KG's own labels; where the KG calls the relation otherwise, by the encoder.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.core.terms import text as literal
from triplewise.tools.kg.cardinality import is_mutual
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import Body, grow, node_form, run
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import vectors_of

ALIKE = 0.75
"""Cosine from which on two names are taken for one relation; most relations are less alike than that."""
CLOSE = 0.05
"""Relations this much less alike than the best one are tried after it."""
SAMPLE = 20
"""Values looked at to see whether a relation leads to mediators."""


@dataclass(frozen=True, slots=True)
class _Match:
    """A relation in one direction that the name may mean; `likeness` 1 for the very name."""

    body: Body
    name: str
    likeness: float


def slot_rules(
    relation: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, encoder: Encoder
) -> tuple[Rule, ...]:
    """Rules that fill a slot, best first; () where the KG has no such relation of the entity.

    Args:
        relation: its name, as the slot has it. linked: the slot's entity.
        kg: asked for the relations of the entity (one query), and whether they lead to mediators.
        encoder: compares names where none is the very same.
    """
    rules = [rule for e in linked for rule in _of_entity(relation, node_form(kg, e.id), kg, encoder)]
    return tuple(sorted(rules, key=lambda r: -r.score))


def _of_entity(relation: str, anchor: str, kg: KnowledgeGraph, encoder: Encoder) -> Iterator[Rule]:
    grown = grow(kg, anchor, ())
    texts = relation_texts(kg, [b[0].relation for b in grown])
    for match in _matches(relation, grown, texts, kg, encoder):
        told = f'the relation "{match.name}"' + (
            "" if match.likeness == 1 else f", likeness {match.likeness:.2f}"
        )
        body = _through_mediator(match, relation, anchor, kg, encoder)
        yield Rule(anchor, body, score=match.likeness, provenance=told)


def _names(text: RelationText, forward: bool) -> tuple[str, ...]:
    """What a relation is called in a direction; backward, only if it has a name of its own that way."""
    return (text.label, *text.aliases) if forward else (text.inverse,) if text.inverse else ()


def _matches(
    relation: str,
    grown: Sequence[Body],
    texts: Mapping[str, RelationText],
    kg: KnowledgeGraph,
    encoder: Encoder,
) -> list[_Match]:
    """The relations of that very name, else those with names like it, each once.

    A name that the KG has for a relation of other entities means that one: "capital" is not "capital of".
    """
    names = [(b, name) for b in grown for name in _names(texts[b[0].relation], b[0].forward)]
    wanted = normalise(relation)
    same = {body: _Match(body, name, 1.0) for body, name in names if normalise(name) == wanted}
    if same or not grown or _is_known(kg, relation):
        return list(same.values()) or _mutual_matches(wanted, grown, texts, kg)
    if not names:
        return []
    likeness = vectors_of(kg, encoder).vectors([name for _, name in names]) @ encoder.encode([relation])[0]
    found: dict[Body, _Match] = {}
    for i in sorted(range(len(names)), key=lambda i: -float(likeness[i])):
        body, name = names[i]
        if likeness[i] >= max(ALIKE, float(likeness.max()) - CLOSE):
            found.setdefault(body, _Match(body, name, float(likeness[i])))
    return list(found.values())


def _mutual_matches(
    wanted: str, grown: Sequence[Body], texts: Mapping[str, RelationText], kg: KnowledgeGraph
) -> list[_Match]:
    """Relations of that name that arrive at the entity and go both ways, as "spouse" does."""
    found = []
    for body in grown:
        name, iri = texts[body[0].relation].label, kg.profile.expand(body[0].relation, relation=True)
        if not body[0].forward and normalise(name) == wanted and iri is not None and is_mutual(kg, iri):
            found.append(_Match(body, f"{name} (of the other one)", 1.0))
    return found


def _through_mediator(
    match: _Match, relation: str, anchor: str, kg: KnowledgeGraph, encoder: Encoder
) -> Body:
    """The body, one relation longer where it leads to mediators: the one most like the slot's name."""
    rows = run(kg, Rule(anchor, match.body), SAMPLE).rows
    ends = [row[0] for row in rows if row[0] is not None]
    labels = kg.labels(ends)
    if not ends or not all(kg.profile.is_mediator(end, labels.get(end)) for end in ends):
        return match.body
    longer = [b for b in grow(kg, anchor, match.body) if b[-1].forward]
    if not longer:
        return match.body
    texts = relation_texts(kg, [b[-1].relation for b in longer])
    vectors = vectors_of(kg, encoder).vectors([texts[b[-1].relation].label for b in longer])
    return longer[int((vectors @ encoder.encode([relation])[0]).argmax())]


def _is_known(kg: KnowledgeGraph, name: str) -> bool:
    """Whether a relation of the KG, of whatever entity, has that very label."""
    labels = "|".join(IRI(p).n3() for p in kg.profile.label_predicates)
    if not labels:
        return False
    texts = " ".join(t.n3() for t in (literal(name, kg.profile.language), literal(name)))
    found = kg.query(f"SELECT DISTINCT ?r WHERE {{ VALUES ?l {{ {texts} }} ?r {labels} ?l }}", limit=SAMPLE)
    named = [r for r in (found.column("r") if found.rows else ()) if isinstance(r, IRI)]
    relations = " ".join(IRI(r).n3() for iri in named for r in _relations_at(kg, iri.value))
    return bool(named) and bool(kg.query(f"ASK {{ VALUES ?r {{ {relations} }} ?s ?r ?o }}").boolean)


def _relations_at(kg: KnowledgeGraph, iri: str) -> Iterator[str]:
    """The relations whose label stands at a node: itself, and those of the profile's other namespaces."""
    yield iri
    for namespace, home in kg.profile.label_at.items():
        if iri.startswith(home):
            yield namespace + iri.removeprefix(home)
