"""Readable text of relations, fetched once per KG: one batched query for all that are new."""

from __future__ import annotations

from collections.abc import Iterable
from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.terms import IRI

_known: WeakKeyDictionary[KnowledgeGraph, dict[str, RelationText]] = WeakKeyDictionary()
_lock = Lock()


def relation_texts(kg: KnowledgeGraph, relations: Iterable[str]) -> dict[str, RelationText]:
    """Short relation id -> its text. Ids the profile cannot expand read as themselves."""
    with _lock:
        known = _known.setdefault(kg, {})
    wanted = list(dict.fromkeys(relations))
    new = {r: kg.profile.expand(r, relation=True) for r in wanted if r not in known}
    subjects = {iri: kg.profile.label_subject(iri) for iri in new.values() if iri is not None}
    labels = kg.labels(subjects.values()) if subjects else {}
    for name, iri in new.items():
        known[name] = _text(kg, name, iri, labels.get(subjects[iri]) if iri else None)
    return {r: known[r] for r in wanted}


def _text(kg: KnowledgeGraph, name: str, iri: IRI | None, label: str | None) -> RelationText:
    """The text of one relation."""
    return RelationText(label=name) if iri is None else kg.profile.relation_label(iri, label)
