"""The triples of an overlay, found by any of their parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, Literal, Term, Triple, Variable
from triplewise.tools.kg.literals import canonical
from triplewise.tools.kg.overlay.patterns import Node, Pattern

Allowed: TypeAlias = Mapping[Variable, frozenset[Term]]
"""The values that variables can have at most, where a VALUES block before tells."""


class FactIndex:
    """Triples by any of their parts, each once, in the order given."""

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
        """Triples of one relation."""
        return self._at[1].get(relation, ())

    def at(self, node: Term) -> list[Triple]:
        """Triples that leave or arrive at a node, each once."""
        node = _key(node)
        return list(dict.fromkeys([*self._at[0].get(node, ()), *self._at[2].get(node, ())]))

    def matching(self, pattern: Pattern, allowed: Allowed) -> list[Triple]:
        """Triples that a pattern without a path can match."""
        nodes = _nodes(pattern)
        sets = [_set(node, allowed) for node in nodes]
        triples: Sequence[Triple] = self.all
        for index, terms in zip(self._at, sets, strict=True):
            if terms is not None and len(terms) == 1:
                here = index.get(next(iter(terms)), [])
                triples = here if len(here) < len(triples) else triples
        return [t for t in triples if _fits(_parts(t), nodes, sets)]


def _key(term: Term) -> Term:
    """A literal as engines hold it: by value, whatever kind of integer and however it is written."""
    return canonical(term.value, term.datatype, term.language) if isinstance(term, Literal) else term


def _parts(triple: Triple) -> tuple[Term, Term, Term]:
    return triple.subject, triple.relation, triple.object


def _nodes(pattern: Pattern) -> tuple[Node, Node, Node]:
    assert isinstance(pattern.predicate, IRI | Variable), "paths are taken apart before"
    return pattern.subject, pattern.predicate, pattern.object


def _set(node: Node, allowed: Allowed) -> frozenset[Term] | None:
    """The terms that may stand at a place; None for any."""
    if not isinstance(node, Variable):
        return frozenset([_key(node)])
    terms = allowed.get(node)
    return None if terms is None else frozenset(map(_key, terms))


def _fits(parts: Sequence[Term], nodes: Sequence[Node], sets: Sequence[frozenset[Term] | None]) -> bool:
    """Whether the parts are among the terms wanted, and equal where one variable stands at two places."""
    if not all(terms is None or _key(part) in terms for part, terms in zip(parts, sets, strict=True)):
        return False
    values: dict[Node, Term] = {}
    return all(values.setdefault(node, part) == part for node, part in zip(nodes, parts, strict=True))


def rows_of(
    pattern: Pattern, triples: Iterable[Triple]
) -> tuple[tuple[Variable, ...], list[tuple[Term, ...]]]:
    """The variables of a pattern, and their values in each of some triples that it matches."""
    nodes, variables = _nodes(pattern), pattern.variables
    rows = []
    for triple in triples:
        values = dict(zip(nodes, _parts(triple), strict=True))
        rows.append(tuple(values[v] for v in variables))
    return variables, rows
