"""RDF terms as immutable values (RDF 1.1 Concepts, section 3)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

XSD = "http://www.w3.org/2001/XMLSchema#"
RDF = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
RDFS = "http://www.w3.org/2000/01/rdf-schema#"

_ILLEGAL_IN_IRI = re.compile(r'[\x00-\x20<>"{}|^`\\]')
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f", "\b": "\\b"}
_BREAKS = re.compile(r"[\t-\r\x1c-\x1e\x85\u2028\u2029]+")
CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069]")
"""Characters that steer a terminal, end a line, or turn the direction in which what follows is shown."""
# Others of ASCII have no escape that all engines take.
_ESCAPED = re.compile(r'["\\\n\r\t\f\x08\x80-\x9f\u2028-\u202e\u2066-\u2069]')


@dataclass(frozen=True, slots=True, order=True)
class IRI:
    """An absolute IRI, without angle brackets. Raises ValueError on characters an IRI cannot hold."""

    value: str

    def __post_init__(self) -> None:
        if not self.value or _ILLEGAL_IN_IRI.search(self.value):
            raise ValueError(f"not an IRI: {self.value!r}")

    def n3(self) -> str:
        """The term as SPARQL and N-Triples write it."""
        return f"<{_ESCAPED.sub(_escape, self.value)}>"


@dataclass(frozen=True, slots=True, order=True)
class Literal:
    """A literal: lexical form, datatype IRI, language tag ("" for none)."""

    value: str
    datatype: str
    language: str = ""

    def n3(self) -> str:
        """The term as SPARQL and N-Triples write it."""
        quoted = f'"{_ESCAPED.sub(_escape, self.value)}"'
        if self.language:
            return f"{quoted}@{self.language}"
        return quoted if self.datatype == XSD + "string" else f"{quoted}^^<{self.datatype}>"


@dataclass(frozen=True, slots=True, order=True)
class Variable:
    """A query variable, without the question mark."""

    name: str

    def __post_init__(self) -> None:
        if not _VARIABLE_NAME.fullmatch(self.name):
            raise ValueError(f"not a variable name: {self.name!r}")

    def n3(self) -> str:
        """The variable as SPARQL writes it."""
        return f"?{self.name}"


Term: TypeAlias = IRI | Literal
Node: TypeAlias = IRI | Literal | Variable


def _escape(character: re.Match[str]) -> str:
    return _ESCAPES.get(character[0]) or f"\\u{ord(character[0]):04X}"


def one_line(value: str) -> str:
    """Return a text of a graph as people and models may see it: on one line, without `CONTROLS`."""
    return value if value.isprintable() else CONTROLS.sub("", _BREAKS.sub(" ", value))


def text(value: str, language: str = "") -> Literal:
    """A plain or language-tagged string literal."""
    return Literal(value, RDF + "langString" if language else XSD + "string", language)


@dataclass(frozen=True, slots=True, order=True)
class Triple:
    """One fact of a KG: subject, relation, object."""

    subject: IRI
    relation: IRI
    object: Term

    def n3(self) -> str:
        """The fact as one N-Triples statement, without the line end."""
        return f"{self.subject.n3()} {self.relation.n3()} {self.object.n3()} ."


def whole_number(term: Term | None, below: int = 2**53) -> int | None:
    """The count or index that an engine computed; None where it sent none, or none from 0 to `below`."""
    try:
        number = int(float(term.value)) if isinstance(term, Literal) else -1
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number < below else None
