"""How terms are written in SPARQL: prefixed names where every engine reads them, else full IRIs."""

from __future__ import annotations

import re
from collections.abc import Mapping

from triplewise.tools.core.terms import IRI, RDF, RDFS, XSD, Literal, Node

# No dots: pyoxigraph refuses two of them in a local name, which other engines accept.
_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_-]*[A-Za-z0-9_])?")
_PREFIX = re.compile(r"[A-Za-z][A-Za-z0-9_-]*")
_BARE = {"integer": r"-?(?:0|[1-9]\d*)", "decimal": r"-?\d+\.\d+", "boolean": r"true|false"}
STANDARD = {"rdf": RDF, "rdfs": RDFS, "xsd": XSD}


class Names:
    """Writes terms, and remembers which prefixes were used.

    Args:
        prefixes: prefix -> namespace; None writes full IRIs only.
    """

    def __init__(self, prefixes: Mapping[str, str] | None) -> None:
        legal = {} if prefixes is None else {**STANDARD, **prefixes}
        self._namespaces = sorted(
            ((space, prefix) for prefix, space in legal.items() if _PREFIX.fullmatch(prefix)),
            key=lambda item: -len(item[0]),
        )
        self.used: dict[str, str] = {}

    def __call__(self, node: Node) -> str:
        """The term in SPARQL."""
        if isinstance(node, IRI):
            return self._iri(node)
        if isinstance(node, Literal) and node.datatype.startswith(XSD) and node.datatype != XSD + "string":
            return self._typed(node)
        return node.n3()

    def header(self) -> str:
        """The PREFIX lines of all prefixes used so far."""
        return "".join(f"PREFIX {prefix}: <{self.used[prefix]}>\n" for prefix in sorted(self.used))

    def _iri(self, iri: IRI) -> str:
        for namespace, prefix in self._namespaces:
            if iri.value.startswith(namespace) and _LOCAL.fullmatch(local := iri.value[len(namespace) :]):
                self.used[prefix] = namespace
                return f"{prefix}:{local}"
        return iri.n3()

    def _typed(self, literal: Literal) -> str:
        """A number or boolean bare where that is the same literal, else with its datatype."""
        pattern = _BARE.get(literal.datatype[len(XSD) :])
        if pattern and re.fullmatch(pattern, literal.value):
            return literal.value
        return literal.n3().rpartition("^^")[0] + "^^" + self._iri(IRI(literal.datatype))
