"""Triples read from text, aligned to a KG: its relations, its nodes, its datatypes (SymAgent 4.2.1).

A relation is taken by its id, by its label, or by what it means; which end is the subject is settled by what
its subjects and objects are like on the KG. A name is linked to a node that is like those the relation joins,
or gets an id of its own. Whatever cannot be aligned is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from triplewise.tools.core.facts import ExtractedFact, RawTriple
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Literal, Term, Triple
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.relation_docs import relation_texts
from triplewise.tools.reading.naming import mint, resolve
from triplewise.tools.reading.shapes import Features, Shape, Shapes, Side, shapes_of, written
from triplewise.tools.reading.values import agree, literal
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import vectors_of

FUNCTIONAL = 0.95
"""A relation is functional from this share of subjects on that have one object."""
NEAR_RELATION = 0.6
"""Cosine from which on words are taken for a relation that is not called so."""
LEAST_LIKE = 0.12
"""Below this likeness to what a relation joins elsewhere, a node is of another kind."""
CLEARLY = 2.0
"""How many times better the other direction must fit to turn a triple around."""
AMBIGUOUS, NEW = 0.85, 0.8
"""What confidence is multiplied by where several nodes fit a name, and where none does."""
NOUNS, SELDOM = 0.5, 0.05
"""Share of ends written in lower case, or in the same way otherwise, below which a name is no new node."""
MOST_RELATIONS = 80


@dataclass(frozen=True, slots=True)
class _Relation:
    """A relation that words mean. `forward`: read from subject to object. `fit`: 1 for its id or name."""

    iri: IRI
    forward: bool = True
    fit: float = 1.0


@dataclass(frozen=True, slots=True)
class _End:
    """A term taken for a name, its label if it is new, and how sure that is."""

    term: Term
    fit: float
    label: str = ""


def align(
    raw: Sequence[RawTriple], kg: KnowledgeGraph, encoder: Encoder, question: str, reader: str
) -> tuple[ExtractedFact, ...]:
    """Facts with the KG's own terms, most certain first; those it has already are left out.

    A handful of queries whatever the number of triples: labels of all names, features of all their nodes,
    what the KG has of the same subjects and relations.

    Args:
        raw: as read. kg: which they are to join. encoder: compares words with relations.
        question: that they were read for. reader: the model that read them, or `embedded`.
    """
    triples = [t for t in raw if t.subject.strip() and t.object.strip() and t.relation.strip()]
    if not triples:
        return ()
    aligner = _Aligner(kg, encoder, triples)
    found: dict[Triple, tuple[RawTriple, float, dict[str, str]]] = {}
    for one in triples:
        made = aligner.fact(one)
        if made is not None and made[1] > (found[made[0]][1] if made[0] in found else 0.0):
            found[made[0]] = (one, *made[1:])
    known = _known(kg, found)
    time = datetime.now(UTC).isoformat(timespec="seconds")
    facts = [
        ExtractedFact(
            triple=triple,
            labels=labels,
            question=question,
            document=one.passage.title or one.passage.source,
            source=one.passage.source,
            sentence=one.sentence,
            time=time,
            reader=reader,
            confidence=round(confidence, 4),
            conflicts=aligner.conflicts(triple, known.get((triple.subject, triple.relation), ())),
        )
        for triple, (one, confidence, labels) in found.items()
        if triple.object not in known.get((triple.subject, triple.relation), ())
    ]
    return tuple(sorted(facts, key=lambda f: -f.confidence))


class _Aligner:
    """Aligns the triples of one call."""

    def __init__(self, kg: KnowledgeGraph, encoder: Encoder, triples: Sequence[RawTriple]) -> None:
        self._kg, self._encoder = kg, encoder
        self._shapes: Shapes = shapes_of(kg)
        self._named = resolve(kg, (name for t in triples for name in (_bare(t.subject), _bare(t.object))))
        self._features = self._shapes.features(n.node for ns in self._named.values() for n in ns)
        self._relations = _Relations(kg, encoder, self._shapes)

    def fact(self, raw: RawTriple) -> tuple[Triple, float, dict[str, str]] | None:
        """The triple in the KG's terms, its confidence, and labels of new nodes; None if it cannot be one."""
        ends = (_bare(raw.subject), _bare(raw.object))
        relation = self._relations.meant(raw.relation, [f for end in ends for f in self._kinds(end)])
        if relation is None:
            return None
        shape = self._shapes.of([relation.iri])[relation.iri]
        subject, obj = ends if self._is_forward(ends, relation, shape) else ends[::-1]
        head, tail = self._node(subject, shape.subjects), self._value(obj, shape.objects)
        if head is None or tail is None or head.term == tail.term or not isinstance(head.term, IRI):
            return None
        labels = {end.term.value: end.label for end in (head, tail) if end.label}
        confidence = raw.confidence * relation.fit * head.fit * tail.fit
        return Triple(head.term, relation.iri, tail.term), confidence, labels

    def conflicts(self, triple: Triple, known: Iterable[Term]) -> tuple[str, ...]:
        """What the KG says otherwise, where a subject has one object only."""
        others = [o for o in known if not (isinstance(o, Literal) and _same(o, triple.object))]
        if not others or (self._shapes.functional(triple.relation) or 0.0) < FUNCTIONAL:
            return ()
        labels = self._kg.labels([triple.subject, *others])
        short = self._kg.profile.short
        relation = relation_texts(self._kg, [short(triple.relation)])[short(triple.relation)].label
        subject = labels.get(triple.subject, short(triple.subject))
        return tuple(f"({subject}, {relation}, {labels.get(o, short(o))})" for o in others)

    def _kinds(self, name: str) -> list[Features]:
        return [self._features.get(n.node, frozenset()) for n in self._named.get(name, ())]

    def _like(self, name: str, side: Side) -> float:
        """How like the nodes of a name, or what it may be as a value, are to one end of a relation."""
        known = max((side.like(f) for f in self._kinds(name)), default=0.0)
        if any(literal(name, d) is not None for d in side.datatypes):
            return max(known, side.literal)
        return known or side.like(frozenset({written(name)}))

    def _is_forward(self, ends: tuple[str, str], relation: _Relation, shape: Shape) -> bool:
        """Whether the first end is the subject: as the words say, unless the KG's own facts say otherwise."""
        ahead = self._like(ends[0], shape.subjects) * self._like(ends[1], shape.objects)
        back = self._like(ends[1], shape.subjects) * self._like(ends[0], shape.objects)
        said, turned = (ahead, back) if relation.forward else (back, ahead)
        return relation.forward != (turned > CLEARLY * said)

    def _value(self, name: str, side: Side) -> _End | None:
        """An object: a literal where the relation has such objects, else a node."""
        if side.literal > 0.5:
            for datatype in sorted(side.datatypes, key=lambda d: -side.datatypes[d]):
                if (value := literal(name, datatype, self._kg.profile.language)) is not None:
                    return _End(value, 1.0)
            return None
        return self._node(name, side)

    def _node(self, name: str, side: Side) -> _End | None:
        """The node of a name that is like the others at this end, best known first; else a new one."""
        named = self._named.get(name, ())
        if named and named[0].by_id:
            return _End(named[0].node, 1.0)
        fits = [(n, side.like(self._features.get(n.node, frozenset()))) for n in named]
        kept = [(n, like) for n, like in fits if like >= LEAST_LIKE or not side.features]
        unknown = [n for n, _ in fits if not self._features.get(n.node)]
        if not kept and unknown:
            return _End(unknown[0].node, unknown[0].fit)
        if not kept:
            return self._new(name, side)
        best = max(kept, key=lambda k: (round(k[0].fit, 1), _bucket(k[1]), k[0].popularity, k[1]))
        rivals = [n for n, _ in kept if n.fit == best[0].fit]
        return _End(best[0].node, best[0].fit * (AMBIGUOUS if len(rivals) > 1 else 1.0))

    def _new(self, name: str, side: Side) -> _End | None:
        """A node for a name that the KG does not know, if it is written as names at this end are."""
        usual = side.names.get(written(name), 0.0) if side.features else 1.0
        if not normalise(name) or usual < (NOUNS if written(name) == "lower" else SELDOM):
            return None
        return _End(mint(name), NEW, name)


class _Relations:
    """Relations by id, name, or meaning."""

    def __init__(self, kg: KnowledgeGraph, encoder: Encoder, shapes: Shapes) -> None:
        self._kg, self._encoder, self._shapes = kg, encoder, shapes
        self._meant: dict[str, _Relation | None] = {}

    def meant(self, words: str, kinds: Sequence[Features]) -> _Relation | None:
        """The relation that words mean between nodes of these kinds; None if none comes near."""
        if (by_id := self._by_id(words)) is not None:
            return by_id
        near = dict.fromkeys(f[1:] for features in kinds for f in sorted(features) if f[0] in "<>")
        texts = self._texts(IRI(r) for r in list(near)[:MOST_RELATIONS])
        return self._by_name(words, texts) or self._by_meaning(words, texts)

    def _by_id(self, words: str) -> _Relation | None:
        if words not in self._meant:
            iri = self._kg.profile.expand(words.strip(), relation=True)
            used = iri is not None and bool(self._shapes.of([iri])[iri].subjects.features)
            self._meant[words] = _Relation(iri) if iri is not None and used else None
        return self._meant[words]

    def _texts(self, relations: Iterable[IRI]) -> dict[IRI, RelationText]:
        shorts = {r: self._kg.profile.short(r) for r in relations}
        texts = relation_texts(self._kg, shorts.values())
        return {r: texts[s] for r, s in shorts.items()}

    def _by_name(self, words: str, texts: dict[IRI, RelationText]) -> _Relation | None:
        wanted = normalise(words)
        for relation, text in texts.items():
            if wanted in (normalise(text.label), *(normalise(a) for a in text.aliases)):
                return _Relation(relation)
            if text.inverse and wanted == normalise(text.inverse):
                return _Relation(relation, forward=False)
        return None

    def _by_meaning(self, words: str, texts: dict[IRI, RelationText]) -> _Relation | None:
        readings = [
            (relation, forward, reading)
            for relation, text in texts.items()
            for forward, some in (
                (True, (text.label, *text.aliases, text.description)),
                (False, (text.inverse,)),
            )
            for reading in some
            if reading
        ]
        if not readings:
            return None
        vector = self._encoder.encode([words])[0]
        cosines = vectors_of(self._kg, self._encoder).vectors([r[2] for r in readings]) @ vector
        best = int(cosines.argmax())
        relation, forward, _ = readings[best]
        fit = float(cosines[best])
        return _Relation(relation, forward, min(fit, 1.0)) if fit >= NEAR_RELATION else None


def _bare(name: str) -> str:
    """A name without quotation marks and blanks around it."""
    return " ".join(name.split()).strip("\"'“”‘’«»*_ ").rstrip(",;:") or name.strip()


def _bucket(like: float) -> int:
    """Likenesses that are much the same: popularity decides among them."""
    return int(like * 4)


def _same(value: Literal, other: Term) -> bool:
    return isinstance(other, Literal) and agree(value, other)


def _known(kg: KnowledgeGraph, triples: Iterable[Triple]) -> dict[tuple[IRI, IRI], set[Term]]:
    """What the KG has of the same subjects and relations."""
    pairs = list(dict.fromkeys((t.subject, t.relation) for t in triples))
    found: dict[tuple[IRI, IRI], set[Term]] = {}
    for at in range(0, len(pairs), 200):
        values = " ".join(f"({s.n3()} {r.n3()})" for s, r in pairs[at : at + 200])
        result = kg.query(f"SELECT ?s ?r ?o WHERE {{ VALUES (?s ?r) {{ {values} }} ?s ?r ?o }}")
        for s, r, o in result.rows:
            if isinstance(s, IRI) and isinstance(r, IRI) and o is not None:
                found.setdefault((s, r), set()).add(o)
    return found
