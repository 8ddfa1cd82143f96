"""Readable text of relations, fetched once per KG: labels and aliases, one batched query each."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.core.terms import IRI, Literal
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph, origin_of

BATCH = 300
"""Relations asked for at once."""
ALIASES = 12
"""Aliases kept of one relation."""

_known: WeakKeyDictionary[KnowledgeGraph, dict[str, RelationText]] = WeakKeyDictionary()
_lock = Lock()


def relation_texts(kg: KnowledgeGraph, relations: Iterable[str]) -> dict[str, RelationText]:
    """Short relation id (or `<IRI>`) -> its text. Ids the profile cannot expand read as themselves."""
    with _lock:
        known = _known.setdefault(origin_of(kg), {})
    wanted = list(dict.fromkeys(relations))
    new = {r: kg.profile.expand(r, relation=True) for r in wanted if r not in known}
    if new:
        subjects = {iri: kg.profile.label_subject(iri) for iri in new.values() if iri is not None}
        labels = kg.labels(subjects.values())
        aliases = _aliases(kg, list(dict.fromkeys(subjects.values())))
        for name, iri in new.items():
            known[name] = _text(kg, name, iri, subjects, labels, aliases)
    return {r: known[r] for r in wanted}


def _text(
    kg: KnowledgeGraph,
    name: str,
    iri: IRI | None,
    subjects: dict[IRI, IRI],
    labels: dict[IRI | Literal, str],
    aliases: dict[IRI, list[str]],
) -> RelationText:
    """The text of one relation; aliases of the KG go behind those of the profile."""
    if iri is None:
        return RelationText(label=name)
    subject = subjects[iri]
    text = kg.profile.relation_label(iri, labels.get(subject))
    own = tuple(a for a in aliases.get(subject, ()) if a not in text.aliases)
    return replace(text, aliases=(*text.aliases, *own[:ALIASES])) if own else text


def _aliases(kg: KnowledgeGraph, subjects: Sequence[IRI]) -> dict[IRI, list[str]]:
    """Aliases of relations in the profile's language (or without one)."""
    predicates = [f"<{p}>" for p in kg.profile.alias_predicates]
    found: dict[IRI, list[str]] = {}
    if not predicates:
        return found
    for at in range(0, len(subjects), BATCH):
        values = " ".join(s.n3() for s in subjects[at : at + BATCH])
        result = kg.query(
            f"SELECT ?s ?alias WHERE {{ VALUES ?s {{ {values} }} ?s {'|'.join(predicates)} ?alias }}"
        )
        for subject, alias in result.rows:
            if not isinstance(subject, IRI) or not isinstance(alias, Literal):
                continue
            if alias.language in ("", kg.profile.language):
                found.setdefault(subject, []).append(alias.value)
    return found


def relation_descriptions(kg: KnowledgeGraph, relations: Iterable[str]) -> dict[str, str]:
    """Short relation id -> the KG's own description of it; those without one are left out."""
    predicates = [f"<{p}>" for p in kg.profile.description_predicates]
    expanded = {r: kg.profile.expand(r, relation=True) for r in dict.fromkeys(relations)}
    subjects = {r: kg.profile.label_subject(iri) for r, iri in expanded.items() if iri is not None}
    found: dict[IRI, str] = {}
    distinct = list(dict.fromkeys(subjects.values())) if predicates else []
    for at in range(0, len(distinct), BATCH):
        values = " ".join(s.n3() for s in distinct[at : at + BATCH])
        result = kg.query(
            f"SELECT ?s ?text WHERE {{ VALUES ?s {{ {values} }} ?s {'|'.join(predicates)} ?text }}"
        )
        for subject, text in result.rows:
            if not isinstance(subject, IRI) or not isinstance(text, Literal):
                continue
            if text.language in ("", kg.profile.language):
                found.setdefault(subject, text.value)
    return {r: found[s] for r, s in subjects.items() if s in found}
