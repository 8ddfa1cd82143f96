"""Triple patterns of a SPARQL text, with property paths (SPARQL 1.1, sections 4.2 and 9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, Term, Variable
from triplewise.tools.kg.overlay.terms import NotRead, read_iri, read_node
from triplewise.tools.kg.readonly import Token

Node: TypeAlias = Term | Variable


@dataclass(frozen=True, slots=True)
class Path:
    """A property path: `sequence` and `choice` of parts, `inverse` or `star` of one part.

    `other` is any path that only stands as it is written (`+`, `?`, negated sets).
    """

    kind: OneOf["sequence", "choice", "inverse", "star", "other"]
    parts: tuple[Predicate, ...]

    @property
    def relations(self) -> frozenset[IRI]:
        """All relations in it."""
        return frozenset().union(*(relations_of(part) for part in self.parts))


Predicate: TypeAlias = IRI | Variable | Path


def relations_of(predicate: Predicate) -> frozenset[IRI]:
    """The relations that a predicate names; none for a variable."""
    if isinstance(predicate, Path):
        return predicate.relations
    return frozenset([predicate]) if isinstance(predicate, IRI) else frozenset()


@dataclass(frozen=True, slots=True)
class Pattern:
    """One triple pattern."""

    subject: Node
    predicate: Predicate
    object: Node

    @property
    def variables(self) -> tuple[Variable, ...]:
        """Its variables, each once, in order."""
        parts = (self.subject, self.predicate, self.object)
        return tuple(dict.fromkeys(p for p in parts if isinstance(p, Variable)))

    def n3(self) -> str:
        """The pattern as SPARQL writes it."""
        return f"{self.subject.n3()} {path_n3(self.predicate)} {self.object.n3()}"


def path_n3(predicate: Predicate) -> str:
    """A predicate as SPARQL writes it."""
    if not isinstance(predicate, Path):
        return predicate.n3()
    inner = [path_n3(p) if not isinstance(p, Path) else f"({path_n3(p)})" for p in predicate.parts]
    match predicate.kind:
        case "sequence":
            return "/".join(inner)
        case "choice":
            return "|".join(inner)
        case "inverse":
            return f"^{inner[0]}"
        case "star":
            return f"{inner[0]}*"
    raise NotRead("a property path")


class TripleReader:
    """Reads the triples of one subject at a time from tokens."""

    def __init__(self, tokens: Sequence[Token], prefixes: Mapping[str, str]) -> None:
        self._tokens, self._prefixes = tokens, prefixes

    def read(self, at: int) -> tuple[list[Pattern], int]:
        """The patterns of the subject at a token, and where they end.

        Raises NotRead on blank nodes and collections.
        """
        subject, at = self._node(at)
        return self._list(subject, at)

    def _list(self, subject: Node, at: int) -> tuple[list[Pattern], int]:
        """A subject's predicates and objects, parted by semicolons and commas."""
        found: list[Pattern] = []
        while True:
            predicate, at = self._predicate(at)
            while True:
                value, at = self._node(at)
                found.append(Pattern(subject, predicate, value))
                if not self._is(at, ","):
                    break
                at += 1
            if not self._is(at, ";"):
                return found, at
            while self._is(at, ";"):
                at += 1
            if self._is(at, ".", "}"):
                return found, at

    def _node(self, at: int) -> tuple[Node, int]:
        if at >= len(self._tokens):
            raise NotRead("the end of the query")
        node, end = read_node(self._tokens, at, self._prefixes)
        if node is None:
            raise NotRead("UNDEF")
        return node, end

    def _predicate(self, at: int) -> tuple[Predicate, int]:
        if at < len(self._tokens) and self._tokens[at].kind == "variable":
            return Variable(self._tokens[at].text[1:]), at + 1
        return self._joined(at, "choice", "|")

    def _joined(self, at: int, kind: OneOf["choice", "sequence"], mark: str) -> tuple[Predicate, int]:
        parts: list[Predicate] = []
        while True:
            part, at = self._joined(at, "sequence", "/") if kind == "choice" else self._element(at)
            parts.append(part)
            if not self._is(at, mark):
                return (parts[0] if len(parts) == 1 else Path(kind, tuple(parts))), at
            at += 1

    def _element(self, at: int) -> tuple[Predicate, int]:
        """A relation or a bracketed path, perhaps inverted and repeated."""
        if self._is(at, "^"):
            part, at = self._element(at + 1)
            return Path("inverse", (part,)), at
        if self._is(at, "("):
            part, at = self._joined(at + 1, "choice", "|")
            at += 1
        elif self._is(at, "!"):
            raise NotRead("a negated property set")
        else:
            part, at = read_iri(self._tokens[at], self._prefixes), at + 1
        if self._is(at, "*"):
            return Path("star", (part,)), at + 1
        return (Path("other", (part,)), at + 1) if self._is(at, "+", "?") else (part, at)

    def _is(self, at: int, *marks: str) -> bool:
        return at < len(self._tokens) and self._tokens[at].text in marks
