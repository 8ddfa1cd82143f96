"""What a sentence names besides its topic: nodes and numbers, each with where it stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, XSD, Literal, Term
from triplewise.tools.kg.classes import singulars
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.linking.linker import LinkedEntity
from triplewise.tools.planning.lexical.question import lexicon

HOMONYMS = 10
"""Nodes of one name that are looked at, the best known first."""
NEAR = 1_000
"""Facts of the topic whose far ends are looked for in the sentence, on a KG without a label index."""

_NUMBER = re.compile(r"(?<![\w.,-])\d[\d,]*(?:\.\d+)?(?![\w-])")
_BRACKETS = re.compile(r"\s*\([^()]*\)$")

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Named:
    """A node or a literal that a sentence names, its words, and their place."""

    node: Term
    text: str
    start: int
    end: int


def spans_of(sentence: str, entity: LinkedEntity) -> list[Span]:
    """Where an entity stands in a sentence: its mention, or its name without what follows in brackets."""
    if entity.start >= 0:
        return [(entity.start, entity.end)]
    names = dict.fromkeys(
        n for name in (entity.mention, entity.label) for n in (name, _BRACKETS.sub("", name))
    )
    for name in names:
        pattern = rf"(?<!\w){re.escape(name)}(?:s|es)?(?!\w)"
        if name and (found := re.search(pattern, sentence, re.IGNORECASE)):
            return [found.span()]
    return []


def numbers_in(sentence: str, taken: Iterable[Span]) -> list[Named]:
    """The numbers of a sentence that are part of no mention."""
    taken = list(taken)
    return [
        Named(Literal(text, XSD + "integer" if text.isdigit() else XSD + "decimal"), text, *m.span())
        for m in _NUMBER.finditer(sentence)
        if (text := m[0].replace(",", "")) and not _overlaps(m.span(), taken)
    ]


def named_nodes(
    sentence: str,
    topic: IRI,
    taken: Sequence[Span],
    others: Sequence[LinkedEntity],
    kg: KnowledgeGraph,
) -> list[Named]:
    """Nodes that a sentence names besides its topic, the longest names first; several may bear one name.

    Args:
        sentence: the text. topic: is not among them. taken: where linked entities stand.
        others: linked entities but the topic, which are named by being linked.
        kg: asked through its label index; without one, only the topic's neighbours can be named.
    """
    found = [n for e in others for n in _linked(sentence, e, kg)]
    free = [*taken]
    for name in _names(sentence, topic, kg):
        span = (name.start, name.end)
        same = any((n.start, n.end) == span for n in found)
        if name.node != topic and (same or not _overlaps(span, free)):
            found.append(name)
            free.append(span)
    return found


def _linked(sentence: str, entity: LinkedEntity, kg: KnowledgeGraph) -> list[Named]:
    node = kg.profile.expand(entity.id)
    return (
        [Named(node, entity.mention, *span) for span in spans_of(sentence, entity)]
        if node is not None
        else []
    )


def _names(sentence: str, topic: IRI, kg: KnowledgeGraph) -> list[Named]:
    """All names in a sentence that the KG knows, longest first, one node each."""
    if kg.index is None:
        return _near_names(sentence, topic, kg)
    stop, found = lexicon()["stopwords"], []
    for match in kg.index.spans(sentence):
        span = match.span
        if not all(word in stop for word in span.norm.split()):
            found += [Named(e.iri, span.text, span.start, span.end) for e in match.entries[:HOMONYMS]]
    known = {(n.start, n.end) for n in found}
    for word in re.finditer(r"\w+", sentence):
        if word.span() not in known and word[0].lower() not in stop:
            entries = [e for form in singulars(word[0].lower())[1:] for e in kg.index.exact(form)]
            found += [Named(e.iri, word[0], *word.span()) for e in entries[:HOMONYMS]]
    return sorted(found, key=lambda n: n.start - n.end)


def _near_names(sentence: str, topic: IRI, kg: KnowledgeGraph) -> list[Named]:
    """Neighbours of the topic whose label stands in a sentence."""
    triples = kg.neighbours(topic, limit=NEAR).triples
    ends = dict.fromkeys(t.object if t.subject == topic else t.subject for t in triples)
    found = []
    for node, label in kg.labels(ends).items():
        match = (
            re.search(rf"(?<!\w){re.escape(label)}(?!\w)", sentence, re.IGNORECASE)
            if normalise(label)
            else None
        )
        if match is not None:
            found.append(Named(node, match[0], *match.span()))
    return sorted(found, key=lambda n: n.start - n.end)


def _overlaps(span: Span, others: Iterable[Span]) -> bool:
    return any(start < span[1] and span[0] < end for start, end in others)
