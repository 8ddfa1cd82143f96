"""Triple patterns of a SPARQL text, with property paths (SPARQL 1.1, sections 4.1, 4.2 and 9).

And the triples of an overlay that they match.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal as OneOf
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, RDF, Literal, Term, Triple, Variable
from triplewise.tools.kg.literals import canonical
from triplewise.tools.kg.rdf import parse_term
from triplewise.tools.kg.readonly import Token

Node: TypeAlias = Term | Variable

TYPE = RDF + "type"

_ESCAPED_NAME = re.compile(r"\\(.)")


class NotRead(ValueError):  # noqa: N818 - it says what happened to the text
    """A piece of SPARQL that is beyond this reader; the message names it."""


def read_prefixes(tokens: Sequence[Token]) -> dict[str, str]:
    """The prologue's prefixes, each with its colon: `ex:` -> `http://example.org/`."""
    prefixes = {}
    for at, token in enumerate(tokens):
        if token.keyword in ("SELECT", "ASK"):
            break
        if token.keyword == "BASE":
            raise NotRead("BASE")
        if token.keyword == "PREFIX":
            prefixes[tokens[at + 1].text] = tokens[at + 2].text[1:-1]
    return prefixes


def read_node(
    tokens: Sequence[Token], at: int, prefixes: Mapping[str, str]
) -> tuple[Term | Variable | None, int]:
    """The node that begins at a token, and where the next token is; None for UNDEF.

    Raises NotRead on what is no variable, IRI or literal.
    """
    token = tokens[at]
    if token.kind == "variable":
        return Variable(token.text[1:]), at + 1
    if token.kind in ("iri", "name"):
        return read_iri(token, prefixes), at + 1
    if token.keyword == "UNDEF":
        return None, at + 1
    written, end = token.text, at + 1
    if token.kind == "string":
        if end < len(tokens) and tokens[end].kind == "language":
            written, end = written + tokens[end].text, end + 1
        elif tokens[end : end + 2] and all(t.text == "^" for t in tokens[end : end + 2]):
            written, end = f"{written}^^{read_iri(tokens[end + 2], prefixes).n3()}", end + 3
    elif token.text in ("+", "-") and tokens[end].kind == "number":
        written, end = written + tokens[end].text, end + 1
    elif token.kind != "number" and token.text not in ("true", "false"):
        raise NotRead(token.text)
    return parse_term(written), end  # SPARQL writes literals as Turtle does


def read_iri(token: Token, prefixes: Mapping[str, str]) -> IRI:
    """An IRI in brackets or with a prefix. Raises NotRead on a blank node or an unknown prefix."""
    if token.kind == "iri":
        return IRI(token.text[1:-1])
    if token.text == "a":
        return IRI(TYPE)
    prefix, _, local = token.text.partition(":")
    if token.kind != "name" or prefix == "_" or f"{prefix}:" not in prefixes:
        raise NotRead(token.text)
    return IRI(prefixes[f"{prefix}:"] + _ESCAPED_NAME.sub(r"\1", local))


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
        patterns: list[Pattern] = []
        while True:
            predicate, at = self._predicate(at)
            while True:
                value, at = self._node(at)
                patterns.append(Pattern(subject, predicate, value))
                if not self._is(at, ","):
                    break
                at += 1
            if not self._is(at, ";"):
                return patterns, at
            while self._is(at, ";"):
                at += 1
            if self._is(at, ".", "}"):
                return patterns, at

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
        return self._path(at, "choice", "|")

    def _path(self, at: int, kind: OneOf["choice", "sequence"], mark: str) -> tuple[Predicate, int]:
        parts: list[Predicate] = []
        while True:
            part, at = self._path(at, "sequence", "/") if kind == "choice" else self._element(at)
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
            part, at = self._path(at + 1, "choice", "|")
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


Allowed: TypeAlias = Mapping[Variable, frozenset[Term]]
"""The values that variables can have at most, where a VALUES block before tells."""


class FactIndex:
    """The triples of an overlay by any of their parts, each once, in the order given."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self.all: tuple[Triple, ...] = tuple(dict.fromkeys(triples))
        self._at: tuple[dict[Term, list[Triple]], ...] = tuple(defaultdict(list) for _ in range(3))
        for triple in self.all:
            for index, part in zip(self._at, _parts(triple), strict=True):
                index[_key(part)].append(triple)
        self.relations: frozenset[IRI] = frozenset(t.relation for t in self.all)

    def __len__(self) -> int:
        return len(self.all)

    def of(self, relation: IRI) -> Sequence[Triple]:
        """Return the triples of one relation."""
        return self._at[1].get(relation, ())

    def at(self, node: Term) -> list[Triple]:
        """Return the triples that leave or arrive at a node, each once."""
        node = _key(node)
        return list(dict.fromkeys([*self._at[0].get(node, ()), *self._at[2].get(node, ())]))

    def rows(self, pattern: Pattern, allowed: Allowed) -> tuple[tuple[Variable, ...], list[tuple[Term, ...]]]:
        """Return the variables of a pattern without a path, and their values in each triple it matches."""
        nodes = (pattern.subject, pattern.predicate, pattern.object)
        triples: Sequence[Triple] = self.all
        terms: list[frozenset[Term] | None] = []  # what may stand at each place; None for anything
        for index, node in zip(self._at, nodes, strict=True):
            assert not isinstance(node, Path), "paths are taken apart before"
            at_place = allowed.get(node) if isinstance(node, Variable) else {node}
            terms.append(None if at_place is None else frozenset(map(_key, at_place)))
            if at_place is not None and len(at_place) == 1:
                triples = min(triples, index.get(_key(next(iter(at_place))), []), key=len)
        rows = []
        for triple in triples:
            parts = _parts(triple)
            if not all(t is None or _key(part) in t for part, t in zip(parts, terms, strict=True)):
                continue
            values: dict[object, Term] = {}
            if all(values.setdefault(node, part) == part for node, part in zip(nodes, parts, strict=True)):
                rows.append(tuple(values[v] for v in pattern.variables))
        return pattern.variables, rows


def _key(term: Term) -> Term:
    """A literal as engines hold it: by value, whatever kind of integer and however it is written."""
    return canonical(term.value, term.datatype, term.language) if isinstance(term, Literal) else term


def _parts(triple: Triple) -> tuple[Term, Term, Term]:
    return triple.subject, triple.relation, triple.object
