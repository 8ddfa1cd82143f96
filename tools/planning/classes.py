"""Classes of a KG that a noun names."""

from __future__ import annotations

from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.kg.terms import IRI


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
    """Nodes named by a noun that have instances in the KG, those with the preferred label first."""
    if not noun or kg.index is None or not kg.profile.type_predicates:
        return ()
    entries = [e for form in singulars(noun) for e in kg.index.exact(form)][:10]
    nodes = list(dict.fromkeys(e.iri for e in sorted(entries, key=lambda e: (e.alias, -e.popularity))))
    if not nodes:
        return ()
    links = "|".join(f"<{p}>" for p in kg.profile.type_predicates)
    values = " ".join(n.n3() for n in nodes)
    result = kg.query(f"SELECT DISTINCT ?c WHERE {{ VALUES ?c {{ {values} }} ?x {links} ?c }}", limit=20)
    used = set(result.column("c")) if result.rows else set()
    return tuple(n for n in nodes if n in used)
