"""Triples read from text, aligned to a KG: its relations, its nodes, its datatypes (SymAgent 4.2.1).

A relation is taken by its id, by its label, or by what it means; which end is the subject is settled by what
its subjects and objects are like on the KG. A name is linked to a node that is like those the relation joins,
or gets an id of its own. Whatever cannot be aligned is left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from triplewise.tools.core.facts import ExtractedFact, RawTriple
from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Literal, Term, Triple
from triplewise.tools.kg.protocol import KnowledgeGraph, batches
from triplewise.tools.kg.rdf import is_well_formed
from triplewise.tools.kg.vocabulary import relation_texts, triple_text
from triplewise.tools.reading.entity_names import mint, resolve
from triplewise.tools.reading.relation_ends import End, Features, RelationEnds, name_form
from triplewise.tools.reading.values import agree, literal
from triplewise.tools.retrieval.encoder import Encoder, vectors_of

# Thresholds set by hand, checked on the cases of the tests and of SymAgent's figure 7; none is fitted.
FUNCTIONAL = 0.95
"""A relation is functional from this share of subjects on that have one object."""
NEAR_RELATION = 0.6
"""Cosine from which on words are taken for a relation that is not called so (all-MiniLM-L6-v2)."""
LEAST_SIMILARITY = 0.12
"""Below this similarity to what a relation joins elsewhere, a node is of another kind."""
CLEARLY = 2.0
"""Factor by which the other direction must fit better to turn a triple around."""
AMBIGUOUS, NEW = 0.85, 0.8
"""Factors of confidence where several nodes fit a name, and where none does."""
NOUNS, SELDOM = 0.5, 0.05
"""Share of ends written in lower case, or in the same way otherwise, below which a name is no new node."""
MOST_RELATIONS = 80
"""Relations of the two ends that words are compared with."""
PAIRS_PER_QUERY = 200


class _Term(NamedTuple):
    """A term taken for a name, how sure that is, and its label if it is new."""

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
        question: that they were read for. reader: the model that read them.
    """
    triples = [t for t in raw if t.subject.strip() and t.object.strip() and t.relation.strip()]
    if not triples:
        return ()
    aligner = _Aligner(kg, encoder, triples)
    facts: dict[Triple, ExtractedFact] = {}
    time = datetime.now(UTC).isoformat(timespec="seconds")
    for source in triples:
        fact = aligner.fact(source, question, reader, time)
        if fact is not None and fact.confidence:
            facts[fact.triple] = max(facts.get(fact.triple, fact), fact, key=lambda f: f.confidence)
    existing: dict[tuple[Term, Term], set[Term]] = {}  # the KG's objects of the same subjects and relations
    for batch in batches(dict.fromkeys((t.subject, t.relation) for t in facts), PAIRS_PER_QUERY):
        values = " ".join(f"({s.n3()} {r.n3()})" for s, r in batch)
        for s, r, o in kg.query(f"SELECT ?s ?r ?o WHERE {{ VALUES (?s ?r) {{ {values} }} ?s ?r ?o }}").rows:
            if s is not None and r is not None and o is not None:
                existing.setdefault((s, r), set()).add(o)
    new = []
    for triple, fact in facts.items():
        objects = existing.get((triple.subject, triple.relation), set())
        if triple.object not in objects:
            new.append(replace(fact, conflicts=aligner.conflicts(triple, objects)))
    return tuple(sorted(new, key=lambda f: -f.confidence))


class _Aligner:
    """Aligns the triples of one call."""

    def __init__(self, kg: KnowledgeGraph, encoder: Encoder, triples: Sequence[RawTriple]) -> None:
        self._kg, self._encoder, self._ends = kg, encoder, RelationEnds(kg)
        self._nodes = resolve(kg, (name for t in triples for name in (_bare(t.subject), _bare(t.object))))
        self._features = self._ends.features(n.node for ns in self._nodes.values() for n in ns)

    def fact(self, raw: RawTriple, question: str, reader: str, time: str) -> ExtractedFact | None:
        """The triple in the KG's terms with its confidence; None if it cannot be one."""
        names = (_bare(raw.subject), _bare(raw.object))
        meaning = self._relation(raw.relation, [f for name in names for f in self._kinds(name)])
        if meaning is None:
            return None
        relation, forward, fit = meaning
        ends = self._ends.of(relation)
        # The first name is the subject as the words say, unless the KG clearly says otherwise.
        ahead = self._similarity(names[0], ends.subjects) * self._similarity(names[1], ends.objects)
        back = self._similarity(names[1], ends.subjects) * self._similarity(names[0], ends.objects)
        as_worded, turned = (ahead, back) if forward else (back, ahead)
        is_forward = forward != (turned > CLEARLY * as_worded)
        subject, obj = names if is_forward else names[::-1]
        head, tail = self._node(subject, ends.subjects), self._object(obj, ends.objects)
        if head is None or tail is None or head.term == tail.term or not isinstance(head.term, IRI):
            return None
        return ExtractedFact(
            triple=Triple(head.term, relation, tail.term),
            labels={end.term.value: end.label for end in (head, tail) if end.label},
            question=question,
            document=raw.passage.title or raw.passage.source,
            source=raw.passage.source,
            sentence=raw.sentence,
            time=time,
            reader=reader,
            confidence=round(raw.confidence * fit * head.fit * tail.fit, 4),
        )

    def conflicts(self, triple: Triple, existing: Iterable[Term]) -> tuple[str, ...]:
        """What the KG says otherwise, where a subject has one object only."""
        value = triple.object
        others = [
            o
            for o in existing
            if not (isinstance(value, Literal) and isinstance(o, Literal) and agree(o, value))
        ]
        if not others or (self._ends.functional(triple.relation) or 0.0) < FUNCTIONAL:
            return ()
        return tuple(triple_text(self._kg, [Triple(triple.subject, triple.relation, o) for o in others]))

    def _kinds(self, name: str) -> list[Features]:
        return [self._features.get(n.node, frozenset()) for n in self._nodes.get(name, ())]

    def _relation(self, words: str, kinds: Sequence[Features]) -> tuple[IRI, bool, float] | None:
        """The relation that words mean between such nodes: by id, name, or meaning; None if none.

        With it, whether the words read from subject to object, and how well it fits: 1 for its id or name.
        """
        iri = self._kg.profile.expand(words.strip(), relation=True)
        if iri is not None and is_well_formed(iri) and self._ends.of(iri).subjects.features:
            return iri, True, 1.0
        around = dict.fromkeys(f[1:] for features in kinds for f in sorted(features) if f[0] in "<>")
        short = {IRI(r): self._kg.profile.short(IRI(r)) for r in list(around)[:MOST_RELATIONS]}
        texts = relation_texts(self._kg, short.values())
        readings: list[tuple[IRI, bool, str]] = []
        for relation, name in short.items():
            text = texts[name]
            if normalise(words) in {normalise(t) for t in (text.label, *text.aliases)}:
                return relation, True, 1.0
            if text.inverse and normalise(words) == normalise(text.inverse):
                return relation, False, 1.0
            readings += [(relation, True, t) for t in (text.label, *text.aliases, text.description) if t]
            readings += [(relation, False, text.inverse)] if text.inverse else []
        if not readings:
            return None
        vectors = vectors_of(self._kg, self._encoder).vectors([text for _, _, text in readings])
        cosines = vectors @ self._encoder.encode([words])[0]
        relation, forward, _ = readings[int(cosines.argmax())]
        fit = float(cosines.max())
        return (relation, forward, min(fit, 1.0)) if fit >= NEAR_RELATION else None

    def _similarity(self, name: str, end: End) -> float:
        """Return how similar the nodes or the value of a name are to one end of a relation."""
        best = max((end.similarity(f) for f in self._kinds(name)), default=0.0)
        if any(literal(name, d) is not None for d in end.datatypes):
            return max(best, end.literal)
        return best or end.similarity(frozenset({name_form(name)}))

    def _object(self, name: str, end: End) -> _Term | None:
        """An object: a literal where the relation has such objects, else a node."""
        if end.literal <= 0.5:
            return self._node(name, end)
        for datatype in sorted(end.datatypes, key=lambda d: -end.datatypes[d]):
            if (value := literal(name, datatype, self._kg.profile.language)) is not None:
                return _Term(value, 1.0)
        return None

    def _node(self, name: str, end: End) -> _Term | None:
        """The node of a name that is like the others at this end, best known first; else a new one."""
        nodes = self._nodes.get(name, ())
        if nodes and nodes[0].by_id:
            return _Term(nodes[0].node, 1.0)
        similar = [(n, end.similarity(self._features.get(n.node, frozenset()))) for n in nodes]
        fitting = [(n, s) for n, s in similar if s >= LEAST_SIMILARITY or not end.features]
        if fitting:
            # Similarities that are much the same leave the choice to popularity.
            best, _ = max(fitting, key=lambda f: (round(f[0].fit, 1), int(f[1] * 4), f[0].popularity, f[1]))
            is_ambiguous = sum(n.fit == best.fit for n, _ in fitting) > 1
            return _Term(best.node, best.fit * (AMBIGUOUS if is_ambiguous else 1.0))
        if bare := [n for n in nodes if not self._features.get(n.node)]:
            return _Term(bare[0].node, bare[0].fit)
        # A name that the KG does not know is a new node, if it is written as names at this end are.
        usual = end.names.get(name_form(name), 0.0) if end.features else 1.0
        if not normalise(name) or usual < (NOUNS if name_form(name) == "lower" else SELDOM):
            return None
        return _Term(mint(name), NEW, name)


def _bare(name: str) -> str:
    """A name without quotation marks and blanks around it."""
    return " ".join(name.split()).strip("\"'“”‘’«»*_ ").rstrip(",;:") or name.strip()
