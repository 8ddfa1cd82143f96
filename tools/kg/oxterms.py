"""RDF terms to and from pyoxigraph's.

A blank node becomes the IRI `_:label` (SPARQL has no other way to name one), and back.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import pyoxigraph as ox

from triplewise.tools.core.terms import IRI, XSD, Literal, Term

AnyTerm = TypeVar("AnyTerm", bound=Term)
_ILLEGAL = re.compile(r'[\x00-\x20<>"{}|^`\\]')


def from_ox(term: Any) -> Term | None:
    """A term of a pyoxigraph result; None stays None (unbound)."""
    if term is None:
        return None
    if isinstance(term, ox.NamedNode):
        return safe_iri(term.value)
    if isinstance(term, ox.Literal):
        return Literal(term.value, term.datatype.value, term.language or "")
    if isinstance(term, ox.BlankNode):
        return safe_iri(f"_:{term.value}")
    return Literal(str(term), XSD + "string")


def to_ox(term: Term) -> ox.NamedNode | ox.BlankNode | ox.Literal:
    """A term as pyoxigraph's own."""
    if isinstance(term, IRI):
        return ox.BlankNode(term.value[2:]) if is_blank(term) else ox.NamedNode(term.value)
    if term.language:
        return ox.Literal(term.value, language=term.language)
    return ox.Literal(term.value, datatype=ox.NamedNode(term.datatype))


def holdable(terms: Iterable[AnyTerm]) -> list[AnyTerm]:
    """The terms that a store can hold: it refuses IRIs and language tags that are wrong in hidden ways."""
    found = []
    for term in terms:
        try:
            to_ox(term)
        except ValueError:
            continue
        found.append(term)
    return found


def is_blank(term: Term) -> bool:
    """Whether a term stands for a blank node."""
    return isinstance(term, IRI) and term.value.startswith("_:")


def safe_iri(value: str) -> IRI:
    """The IRI, with percent escapes for what stores sometimes hold although an IRI cannot."""
    try:
        return IRI(value)
    except ValueError:
        return IRI(_ILLEGAL.sub(lambda c: f"%{ord(c.group()):02X}", value) or "urn:empty")
