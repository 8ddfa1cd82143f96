"""Names in text to nodes of the KG, many at once; new nodes for names it does not know."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.core.terms import text as plain
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.reading.sentences import without_article

MINTED = "urn:triplewise:entity:"
"""What the ids of nodes begin with that no KG gave."""
NEAR = 0.92
"""How alike a name must be to be taken for a slip of another."""
MOST = 8
"""Nodes of one name that are looked at, best known first."""
BATCH = 150


@dataclass(frozen=True, slots=True)
class Named:
    """A node that a text may mean.

    Attributes:
        fit: 1 for its id or label, less for an alias or a name that is near. by_id: whether it is its id.
        popularity: facts of it, where the label index knows.
    """

    node: IRI
    fit: float
    popularity: int = 0
    by_id: bool = False


def mint(name: str) -> IRI:
    """The id of an entity that the KG does not have: the same for every way to write its name."""
    return IRI(MINTED + hashlib.sha256(normalise(name).encode()).hexdigest()[:20])


def resolve(kg: KnowledgeGraph, texts: Iterable[str]) -> dict[str, tuple[Named, ...]]:
    """The nodes each text may mean: by id, by label or alias in full, else by a near name; best first.

    One query for the ids of all texts; names come from the label index, or, on a KG without one, from one
    query for the labels of all of them.
    """
    wanted = list(dict.fromkeys(t.strip() for t in texts if t.strip()))
    found = _by_id(kg, wanted)
    rest = [t for t in wanted if t not in found]
    if kg.index is None:
        found.update(_by_label(kg, rest))
    else:
        found.update({t: named for t in rest if (named := _by_index(kg, t))})
    return {t: found.get(t, ()) for t in wanted}


def _by_id(kg: KnowledgeGraph, texts: Sequence[str]) -> dict[str, tuple[Named, ...]]:
    """Texts that are ids, of nodes that have a label or a name in the index."""
    ids = {t: iri for t in texts if (iri := kg.profile.expand(t)) is not None}
    labelled = kg.labels(ids.values()) if ids else {}
    index = kg.index
    known = {
        t: iri
        for t, iri in ids.items()
        if iri in labelled
        or iri.value.startswith(MINTED)
        or (index is not None and index.node(iri) is not None)
    }
    # Where ids are made of names, a text that is one is still no more than a name.
    named = {t: normalise(labelled.get(iri, "")) == normalise(t) for t, iri in known.items()}
    return {t: (Named(iri, 1.0, by_id=not named[t]),) for t, iri in known.items()}


def _by_index(kg: KnowledgeGraph, text: str) -> tuple[Named, ...]:
    index = kg.index
    assert index is not None
    entries = index.exact(text) or index.exact(without_article(text))
    if entries:
        return tuple(Named(e.iri, 0.95 if e.alias else 1.0, e.popularity) for e in entries[:MOST])
    near = [c for c in index.search(text, limit=MOST, near=True) if c.score >= NEAR]
    same = [c for c in near if _same_numbers(text, c.entry.text)]
    return tuple(Named(c.iri, 0.85 * c.score, c.entry.popularity) for c in same)


def _same_numbers(text: str, other: str) -> bool:
    """Whether two names hold the same numbers: `Apollo 11` is no slip of `Apollo 12`."""
    first, second = ([w for w in normalise(t).split() if w.isdigit()] for t in (text, other))
    return first == second and len(normalise(text)) > 4


def _by_label(kg: KnowledgeGraph, texts: Sequence[str]) -> dict[str, tuple[Named, ...]]:
    """Nodes whose label or alias is one of the texts, as written or with other capitals."""
    found: dict[str, dict[IRI, Named]] = {}
    predicates = "|".join(IRI(p).n3() for p in (*kg.profile.label_predicates, *kg.profile.alias_predicates))
    for at in range(0, len(texts), BATCH):
        forms = {f: t for t in texts[at : at + BATCH] for f in (t.title(), t[:1].upper() + t[1:], t)}
        values = " ".join(f"{plain(f).n3()} {plain(f, kg.profile.language).n3()}" for f in forms)
        result = kg.query(
            f"SELECT DISTINCT ?label ?node WHERE {{ VALUES ?label {{ {values} }} ?node {predicates} ?label }}"
        )
        for label, node in result.rows:
            if isinstance(label, Literal) and isinstance(node, IRI) and kg.profile.linkable(node.value):
                text = forms[label.value]
                found.setdefault(text, {})[node] = Named(node, 1.0 if text == label.value else 0.95)
    return {
        t: tuple(sorted(ns.values(), key=lambda n: (-n.fit, n.node.value)))[:MOST] for t, ns in found.items()
    }
