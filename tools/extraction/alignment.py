"""Triples read from text, aligned to a KG: its relations, its nodes, its datatypes (SymAgent 4.2.1).

Samples of the KG's facts show, by relations and classes, what stands at the ends of a relation: that settles
which end is the subject, and which node a name is, if any.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

from triplewise.tools.core.facts import ExtractedFact, RawTriple
from triplewise.tools.core.terms import IRI, Literal, Term, Triple
from triplewise.tools.extraction.resolution import agree, literal, mint, resolve
from triplewise.tools.kg.protocol import KnowledgeGraph, batches
from triplewise.tools.kg.rdf import is_well_formed
from triplewise.tools.kg.vocabulary import is_single_valued, triple_text

# Thresholds set by hand, checked on the cases of the tests and of SymAgent's figure 7; none is fitted.
LEAST_SIMILARITY = 0.12  # Below this similarity to what a relation joins elsewhere, a node is of another kind
CLEARLY = 2.0  # Factor by which the other direction must fit better to turn a triple around
AMBIGUOUS, NEW = 0.85, 0.8  # Factors of confidence where several nodes fit a name, and where none does
UNKNOWN = 0.2  # Similarity of a name of which the KG knows nothing
SAMPLE = 40  # Nodes looked at at each end of a relation
PAIRS, BATCH, ROWS, SECONDS = 200, 200, 60_000, 5.0
"""Pairs and nodes of one query, its rows, and seconds it may take: without it, nothing is known."""

_Features = frozenset[str]


class _Term(NamedTuple):
    """A term taken for a name, how sure that is, and its label if it is new."""

    term: Term
    fit: float
    label: str = ""


class _End(NamedTuple):
    """The nodes at one end of a relation: shares of nodes by feature, and of literals by datatype."""

    features: Mapping[str, float]
    datatypes: Mapping[str, float]

    def similarity(self, features: _Features) -> float:
        """How similar a node is to these: the cosine of its features with their shares, 0 to 1."""
        norm = math.sqrt(sum(v * v for v in self.features.values()) * len(features))
        return sum(self.features.get(f, 0.0) for f in features) / norm if norm else 0.0


def align(raw: list[RawTriple], kg: KnowledgeGraph, question: str, reader: str) -> tuple[ExtractedFact, ...]:
    """Facts with the KG's own terms that it has not yet, most certain first; `reader` is the model."""
    triples = [t for t in raw if t.subject.strip() and t.object.strip() and t.relation.strip()]
    if not triples:
        return ()
    aligner, facts = _Aligner(kg, triples), dict[Triple, ExtractedFact]()
    time = datetime.now(UTC).isoformat(timespec="seconds")
    for source in triples:
        fact = aligner.fact(source, question, reader, time)
        if fact is not None and fact.confidence:
            facts[fact.triple] = max(facts.get(fact.triple, fact), fact, key=lambda f: f.confidence)
    existing = defaultdict[tuple[Term | None, Term | None], set[Term]](set)  # objects of the same subjects
    for batch in batches(dict.fromkeys((t.subject, t.relation) for t in facts), PAIRS):
        values = " ".join(f"({s.n3()} {r.n3()})" for s, r in batch)
        for s, r, o in kg.query(f"SELECT ?s ?r ?o WHERE {{ VALUES (?s ?r) {{ {values} }} ?s ?r ?o }}").rows:
            existing[s, r] |= set() if o is None else {o}
    known = ((existing[triple.subject, triple.relation], triple, fact) for triple, fact in facts.items())
    new = (replace(f, conflicts=aligner.conflicts(t, os)) for os, t, f in known if t.object not in os)
    return tuple(sorted(new, key=lambda f: -f.confidence))


class _Aligner:
    """Aligns the triples of one call; ends of relations and features of nodes are measured once."""

    def __init__(self, kg: KnowledgeGraph, triples: Sequence[RawTriple]) -> None:
        self._kg, profile = kg, kg.profile
        self._naming = {*profile.type_predicates, *profile.label_predicates, *profile.alias_predicates}
        self._measured: dict[IRI, tuple[_End, _End]] = {}
        self._features: dict[IRI, _Features] = {}
        self._nodes = resolve(kg, (name for t in triples for name in (_bare(t.subject), _bare(t.object))))
        self._describe(n.node for ns in self._nodes.values() for n in ns)

    def fact(self, raw: RawTriple, question: str, reader: str, time: str) -> ExtractedFact | None:
        """The triple in the KG's terms with its confidence; None if it cannot be one."""
        names = (_bare(raw.subject), _bare(raw.object))
        relation = self._kg.profile.expand(raw.relation.strip(), relation=True)
        if relation is None or not is_well_formed(relation):
            return None
        subjects, objects = self._ends(relation)
        if not subjects.features:
            return None
        # The first name is the subject as the words say, unless the KG clearly says otherwise.
        ahead = self._similarity(names[0], subjects) * self._similarity(names[1], objects)
        back = self._similarity(names[1], subjects) * self._similarity(names[0], objects)
        subject, obj = names[::-1] if back > CLEARLY * ahead else names
        head, tail = self._node(subject, subjects), self._node(obj, objects)
        if sum(objects.datatypes.values()) > 0.5:  # the share of literals
            by_share = sorted(objects.datatypes, key=lambda d: -objects.datatypes[d])
            values = (literal(obj, datatype, self._kg.profile.language) for datatype in by_share)
            tail = next((_Term(value, 1.0) for value in values if value is not None), None)
        if head is None or tail is None or head.term == tail.term or not isinstance(head.term, IRI):
            return None
        labels = {end.term.value: end.label for end in (head, tail) if end.label}
        passage, confidence = raw.passage, round(raw.confidence * head.fit * tail.fit, 4)
        return ExtractedFact(
            Triple(head.term, relation, tail.term), labels, question, passage.title or passage.source,
            passage.source, raw.sentence, time, reader, confidence,
        )  # fmt: skip

    def conflicts(self, triple: Triple, existing: Iterable[Term]) -> tuple[str, ...]:
        """What the KG says otherwise, where nearly every subject of the relation has one object only."""
        others = [replace(triple, object=other) for other in existing if not agree(other, triple.object)]
        if not others or not is_single_valued(self._kg, triple.relation):
            return ()
        return tuple(triple_text(self._kg, others))

    def _similarity(self, name: str, end: _End) -> float:
        """Return how similar the nodes or the value of a name are to one end of a relation."""
        best = max((end.similarity(self._features[n.node]) for n in self._nodes.get(name, ())), default=0.0)
        if any(literal(name, d) is not None for d in end.datatypes):
            return max(best, sum(end.datatypes.values()))
        return best or UNKNOWN

    def _node(self, name: str, end: _End) -> _Term | None:
        """The node of a name that is like the others at this end, best known first; else a new one."""
        nodes = self._nodes.get(name, ())
        if nodes and nodes[0].by_id:
            return _Term(nodes[0].node, 1.0)
        similar = [(n, end.similarity(self._features[n.node])) for n in nodes]
        fitting = [(n, s) for n, s in similar if s >= LEAST_SIMILARITY or not end.features]
        if fitting:
            # Similarities that are much the same leave the choice to popularity.
            best, _ = max(fitting, key=lambda f: (round(f[0].fit, 1), int(f[1] * 4), f[0].popularity, f[1]))
            is_ambiguous = sum(n.fit == best.fit for n, _ in fitting) > 1
            return _Term(best.node, best.fit * (AMBIGUOUS if is_ambiguous else 1.0))
        if bare := [n for n in nodes if not self._features[n.node]]:
            return _Term(bare[0].node, bare[0].fit)
        # A name that the KG does not know is a new node, if it is written as one.
        return _Term(mint(name), NEW, name) if any(c.isalnum() and not c.islower() for c in name) else None

    def _ends(self, relation: IRI) -> tuple[_End, _End]:
        """What subjects and objects of a relation are like: one query for them, a few for all their nodes."""
        if relation not in self._measured:
            r = relation.n3()
            sides = f"{{ SELECT DISTINCT ?s WHERE {{ ?s {r} ?x }} LIMIT {SAMPLE} }} UNION "
            sides += f"{{ SELECT DISTINCT ?o WHERE {{ ?y {r} ?o }} LIMIT {SAMPLE} }}"
            result = self._kg.query(f"SELECT ?s ?o WHERE {{ {sides} }}", timeout=SECONDS, limit=2 * SAMPLE)
            subjects, objects = ([row[i] for row in result.rows if row[i] is not None] for i in (0, 1))
            self._describe([*subjects, *objects])
            self._measured[relation] = self._end(subjects), self._end(objects)
        return self._measured[relation]

    def _end(self, nodes: Sequence[Term | None]) -> _End:
        features = Counter(f for n in nodes if isinstance(n, IRI) for f in self._features[n])
        datatypes = Counter(n.datatype for n in nodes if isinstance(n, Literal))
        return _End(*({k: n / len(nodes) for k, n in counts.items()} for counts in (features, datatypes)))

    def _describe(self, nodes: Iterable[Term | None]) -> None:
        """Measure the features of nodes not met before: their relations and classes."""
        new = dict.fromkeys(n for n in nodes if isinstance(n, IRI) and n not in self._features)
        for batch in batches(new, BATCH):
            values = " ".join(n.n3() for n in batch)
            features: dict[IRI, set[str]] = {n: set() for n in batch}
            around = f"VALUES ?n {{ {values} }} {{ ?n ?out ?x }} UNION {{ ?y ?in ?n }}"
            if links := self._kg.profile.type_links:
                around += f" UNION {{ ?n {links} ?class }}"
            query = f"SELECT DISTINCT ?n ?out ?in ?class WHERE {{ {around} }}"
            for node, *found in self._kg.query(query, timeout=SECONDS, limit=ROWS).rows:
                for sign, feature in zip("><a", found, strict=True):
                    if not isinstance(node, IRI) or not isinstance(feature, IRI):
                        continue
                    # That a node has a class or a name at all tells nothing.
                    is_naming = sign == ">" and feature.value in self._naming
                    if sign == "a" or not (is_naming or self._kg.profile.excludes(feature)):
                        features[node].add(f"{sign}{feature.value}")
            self._features |= {n: frozenset(fs) for n, fs in features.items()}


def _bare(name: str) -> str:
    """A name without quotation marks and blanks around it."""
    return " ".join(name.split()).strip("\"'“”‘’«»*_ ").rstrip(",;:") or name.strip()
