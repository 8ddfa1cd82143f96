"""Names in text to nodes of the KG, many at once; new nodes for names it does not know."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.labels import LabelIndex
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.rdf import is_well_formed

MINTED = "urn:triplewise:entity:"  # The beginning of ids of nodes that no KG gave
NEAR_NAME = 0.92
"""Similarity of letters from which a name is taken for a misspelling of another: a safeguard, not tuned."""
NODES_PER_NAME = 8  # Nodes of one name that are looked at, best known first


@dataclass(frozen=True, slots=True)
class NamedNode:
    """A node that a text may mean. `popularity`: its facts, where the label index knows.

    `fit`: 1 for its id (then `by_id`) or label, less for an alias or a name that is near.
    """

    node: IRI
    fit: float
    popularity: int = 0
    by_id: bool = False


def mint(name: str) -> IRI:
    """The id of an entity that the KG does not have: the same for every way to write its name."""
    return IRI(MINTED + hashlib.sha256(normalise(name).encode()).hexdigest()[:20])


def without_article(name: str) -> str:
    """Normal form of a name without a leading article."""
    return re.sub(r"^(?:the|a|an) (?=.)", "", normalise(name))


def resolve(kg: KnowledgeGraph, texts: Iterable[str]) -> dict[str, tuple[NamedNode, ...]]:
    """The nodes each text may mean: by id, by label or alias in full, else by a near name; best first.

    One query for the ids of all texts; names come from the label index, or the KG is asked for each.
    """
    distinct = list(dict.fromkeys(t.strip() for t in texts if t.strip()))
    expanded = {t: kg.profile.expand(t) for t in distinct}
    ids = {t: iri for t, iri in expanded.items() if iri is not None and is_well_formed(iri)}
    labels, index = kg.labels(ids.values()) if ids else {}, kg.index
    nodes: dict[str, tuple[NamedNode, ...]] = {}
    for text, iri in ids.items():
        is_indexed = index is not None and index.node(iri) is not None
        if iri in labels or iri.value.startswith(MINTED) or is_indexed:
            # Where ids are made of names, a text that is one is still no more than a name.
            is_name = normalise(labels.get(iri, "")) == normalise(text)
            nodes[text] = (NamedNode(iri, 1.0, by_id=not is_name),)
    return {t: nodes[t] if t in nodes else _nodes_called(kg.names, t) for t in distinct}


def _nodes_called(names: LabelIndex, text: str) -> tuple[NamedNode, ...]:
    if entries := names.exact(text) or names.exact(without_article(text)):
        best = entries[:NODES_PER_NAME]
        return tuple(NamedNode(e.iri, 0.95 if e.alias else 1.0, e.popularity) for e in best)
    nodes = []
    for hit in names.search(text, limit=NODES_PER_NAME, near=True):
        # `Apollo 11` is no misspelling of `Apollo 12`.
        numbers = ([w for w in normalise(t).split() if w.isdigit()] for t in (text, hit.entry.text))
        if hit.score >= NEAR_NAME and len(normalise(text)) > 4 and next(numbers) == next(numbers):
            nodes.append(NamedNode(hit.iri, 0.85 * hit.score, hit.entry.popularity))
    return tuple(nodes)
