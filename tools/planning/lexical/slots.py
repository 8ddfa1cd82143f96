"""Slot filling: which relation of the KG a named relation is, and the rule that fills the slot.

A slot is an entity and a relation in words (T-REx, Zero-Shot RE). The name is matched exactly first, since
slots mostly use the KG's own labels; where the KG calls the relation otherwise, by the encoder.
"""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.tools.core.names import normalise
from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.core.terms import text as literal
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import is_mutual, relation_texts
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.bodies import Body, grow, node_form, run
from triplewise.tools.planning.lexical.score import NEARLY, similarities, thresholds_of
from triplewise.tools.retrieval.encoder import Encoder

SAMPLE = 20  # Values looked at to see whether a relation leads to mediators

_Match = tuple[Body, str, float]
"""A relation in one direction that the name may mean, its own name, and their similarity (1: the same)."""


def slot_rules(
    relation: str, linked: Sequence[LinkedEntity], kg: KnowledgeGraph, encoder: Encoder
) -> tuple[Rule, ...]:
    """Return rules that fill a slot, best first; () where the KG has no such relation of the entity.

    `relation`: its name, as the slot has it. `linked`: the slot's entity.
    """
    rules = []
    for entity in linked:
        anchor = node_form(kg, entity.id)
        for body, name, similarity in _matches(relation, anchor, kg, encoder):
            note = f'the relation "{name}"' + ("" if similarity == 1 else f", similarity {similarity:.2f}")
            longer = _through_mediator(body, relation, anchor, kg, encoder)
            rules.append(Rule(anchor, longer, score=similarity, provenance=note))
    return tuple(sorted(rules, key=lambda r: -r.score))


def _matches(relation: str, anchor: str, kg: KnowledgeGraph, encoder: Encoder) -> list[_Match]:
    """Return the relations of that very name, else those with names like it, each once.

    A name that the KG has for a relation of other entities means that one: "capital" is not "capital of".
    """
    grown, key = grow(kg, anchor, ()), normalise(relation)
    texts = relation_texts(kg, [b[0].relation for b in grown])
    # Backward, a relation has a name only if it has one of its own that way.
    names = [
        (body, name)
        for body in grown
        for text in [texts[body[0].relation]]
        for name in ((text.label, *text.aliases) if body[0].forward else (text.inverse,))
        if name
    ]
    same = {body: (body, name, 1.0) for body, name in names if normalise(name) == key}
    if same:
        return list(same.values())
    if not names or _is_known(kg, relation):
        # A relation that arrives at an entity may say as much of the other one, as "spouse" does.
        return [
            (body, f"{texts[body[0].relation].label} (of the other one)", 1.0)
            for body in grown
            if not body[0].forward
            and normalise(texts[body[0].relation].label) == key
            and (iri := kg.profile.expand(body[0].relation, relation=True)) is not None
            and is_mutual(kg, iri)
        ]
    column = similarities(kg, encoder, [[name] for _, name in names], [relation])[:, 0].tolist()
    same_name = thresholds_of(encoder).same
    matches: dict[Body, _Match] = {}
    for similarity, (body, name) in sorted(zip(column, names, strict=True), key=lambda pair: -pair[0]):
        if similarity > same_name and similarity >= NEARLY * max(column):
            matches.setdefault(body, (body, name, similarity))
    return list(matches.values())


def _through_mediator(body: Body, relation: str, anchor: str, kg: KnowledgeGraph, encoder: Encoder) -> Body:
    """Return the body, one relation longer where it leads to mediators: the one most like the slot's name."""
    ends = [row[0] for row in run(kg, Rule(anchor, body), SAMPLE).rows if row[0] is not None]
    labels = kg.labels(ends)
    if not ends or not all(kg.profile.is_mediator(end, labels.get(end)) for end in ends):
        return body
    longer = [b for b in grow(kg, anchor, body) if b[-1].forward]
    if not longer:
        return body
    texts = relation_texts(kg, [b[-1].relation for b in longer])
    names = [[texts[b[-1].relation].label] for b in longer]
    return longer[int(similarities(kg, encoder, names, [relation])[:, 0].argmax())]


def _is_known(kg: KnowledgeGraph, name: str) -> bool:
    """Return whether a relation of the KG, of whatever entity, has that very label."""
    labels = "|".join(f"<{p}>" for p in kg.profile.label_predicates)
    if not labels:
        return False
    texts = " ".join(t.n3() for t in (literal(name, kg.profile.language), literal(name)))
    listed = kg.query(f"SELECT DISTINCT ?r WHERE {{ VALUES ?l {{ {texts} }} ?r {labels} ?l }}", limit=SAMPLE)
    named = [r.value for r in (listed.column("r") if listed.rows else ()) if isinstance(r, IRI)]
    # A label may stand at a node of another namespace than the relation has in facts.
    others = [
        namespace + iri.removeprefix(home)
        for iri in named
        for namespace, home in kg.profile.label_at.items()
        if iri.startswith(home)
    ]
    relations = " ".join(IRI(r).n3() for r in (*named, *others))
    return bool(named) and bool(kg.query(f"ASK {{ VALUES ?r {{ {relations} }} ?s ?r ?o }}").boolean)
