"""Facts with their provenance as files that other programs read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict

from triplewise.tools.core.terms import IRI, RDF, RDFS, XSD, Literal, Term, Triple, text
from triplewise.tools.kg.overlay.store import Reading, StoredFact

PROV = "http://www.w3.org/ns/prov#"
TERMS = "http://purl.org/dc/terms/"
OWN = "urn:triplewise:"
"""Namespace of the graphs that hold one fact each, and of what no vocabulary has a word for."""


def ntriples(facts: Iterable[StoredFact]) -> Iterator[str]:
    """The bare triples, and the names of minted nodes; no provenance."""
    for kept in facts:
        yield kept.fact.triple.n3()
        yield from (t.n3() for t in _names(kept))


def jsonl(facts: Iterable[StoredFact]) -> Iterator[str]:
    """One JSON object a fact, with all its readings."""
    return (json.dumps(as_json(kept), ensure_ascii=False) for kept in facts)


def as_json(kept: StoredFact) -> dict[str, object]:
    """A fact as plain JSON; terms as N-Triples writes them."""
    fact, triple = kept.fact, kept.fact.triple
    return {
        "id": kept.id,
        "subject": triple.subject.n3(),
        "relation": triple.relation.n3(),
        "object": triple.object.n3(),
        "labels": fact.labels,
        "status": fact.status,
        "confidence": fact.confidence,
        "conflicts": list(fact.conflicts),
        "added": kept.added,
        "decided": kept.decided,
        "readings": [asdict(r) for r in kept.readings],
    }


def nquads(facts: Iterable[StoredFact]) -> Iterator[str]:
    """Each fact in a graph of its own, with what is known of that graph in terms of PROV-O beside it."""
    for kept in facts:
        graph = IRI(f"{OWN}fact:{kept.id}")
        for triple in (kept.fact.triple, *_names(kept)):
            yield f"{triple.n3().removesuffix(' .')} {graph.n3()} ."
        yield from (t.n3() for t in _provenance(kept, graph))


def _names(kept: StoredFact) -> Iterator[Triple]:
    """The names of minted nodes."""
    for node, label in kept.fact.labels.items():
        yield Triple(IRI(node), IRI(RDFS + "label"), text(label))


def _provenance(kept: StoredFact, graph: IRI) -> Iterator[Triple]:
    """What is known of a fact, and of each of its readings."""
    yield Triple(graph, IRI(RDF + "type"), IRI(PROV + "Entity"))
    yield Triple(graph, IRI(OWN + "status"), text(kept.fact.status))
    for number, reading in enumerate(kept.readings, 1):
        read = IRI(f"{graph.value}:reading:{number}")
        yield Triple(graph, IRI(PROV + "wasGeneratedBy"), read)
        yield Triple(read, IRI(RDF + "type"), IRI(PROV + "Activity"))
        yield from (Triple(read, IRI(name), value) for name, value in _facets(reading).items())


def _facets(reading: Reading) -> Mapping[str, Term]:
    """A reading's parts by predicate."""
    return {
        PROV + "endedAtTime": Literal(reading.time, XSD + "dateTime"),
        PROV + "value": text(reading.sentence),
        TERMS + "title": text(reading.document),
        TERMS + "source": text(reading.source),
        OWN + "reader": text(reading.reader),
        OWN + "question": text(reading.question),
        OWN + "confidence": Literal(f"{reading.confidence:g}", XSD + "decimal"),
    }


FORMATS: Mapping[str, Callable[[Iterable[StoredFact]], Iterator[str]]] = {
    "nt": ntriples,
    "jsonl": jsonl,
    "nquads": nquads,
}
"""Name of a format -> the lines of a file in it."""
