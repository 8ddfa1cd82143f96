"""Classes of a KG that a noun names."""

from __future__ import annotations

from threading import Lock
from weakref import WeakKeyDictionary

from triplewise.tools.core.terms import IRI, text
from triplewise.tools.kg.protocol import KnowledgeGraph, shared_of

_known: WeakKeyDictionary[KnowledgeGraph, dict[str, tuple[IRI, ...]]] = WeakKeyDictionary()
_lock = Lock()


def singulars(noun: str) -> tuple[str, ...]:
    """A noun and its possible singular forms."""
    forms = [noun]
    if noun.endswith("ies"):
        forms.append(noun[:-3] + "y")
    if noun.endswith("es"):
        forms.append(noun[:-2])
    if noun.endswith("s") and not noun.endswith("ss"):
        forms.append(noun[:-1])
    return tuple(dict.fromkeys(forms))


def find_classes(kg: KnowledgeGraph, noun: str) -> tuple[IRI, ...]:
    """Nodes named by a noun that have instances in the KG, those with the preferred label first.

    A KG without a label index is asked for exact labels, in one query. What a KG answered is remembered.
    """
    if not noun or not kg.profile.type_predicates:
        return ()
    with _lock:
        known = _known.setdefault(shared_of(kg), {})
    if noun in known:
        return known[noun]
    nodes = _named(kg, noun) if kg.index is not None else _labelled(kg, noun)
    if not nodes:
        return ()
    links = "|".join(IRI(p).n3() for p in kg.profile.type_predicates)
    values = " ".join(n.n3() for n in nodes)
    result = kg.query(f"SELECT DISTINCT ?c WHERE {{ VALUES ?c {{ {values} }} ?x {links} ?c }}", limit=20)
    used = set(result.column("c")) if result.rows else set()
    found = tuple(n for n in nodes if n in used)
    if result.outcome.ok:
        known[noun] = found
    return found


def _named(kg: KnowledgeGraph, noun: str) -> list[IRI]:
    """Nodes that the label index knows by a noun, those with the preferred label and the best known first."""
    assert kg.index is not None
    entries = [e for form in singulars(noun) for e in kg.index.exact(form)][:10]
    return list(dict.fromkeys(e.iri for e in sorted(entries, key=lambda e: (e.alias, -e.popularity))))


def _labelled(kg: KnowledgeGraph, noun: str) -> list[IRI]:
    """Nodes whose label is a noun, on a KG without a label index; one query."""
    language = kg.profile.language
    forms = [t for f in singulars(noun) for t in (text(f, language), text(f))]
    labels = "|".join(IRI(p).n3() for p in kg.profile.label_predicates)
    values = " ".join(f.n3() for f in forms)
    result = kg.query(f"SELECT DISTINCT ?c WHERE {{ VALUES ?l {{ {values} }} ?c {labels} ?l }}", limit=20)
    found = result.column("c") if result.rows else ()
    return sorted(n for n in found if isinstance(n, IRI))
