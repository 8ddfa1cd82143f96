"""The triples of an overlay, found by any of their parts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeAlias

from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Triple, Variable
from triplewise.tools.kg.overlay.patterns import Node, Pattern

_INTEGERS = frozenset(
    f"{sign}{kind}"
    for sign, kind in (
        *(("", k) for k in ("integer", "int", "long", "short", "byte")),
        *(("unsigned", k) for k in ("Int", "Long", "Short", "Byte")),
        *((s, "Integer") for s in ("nonNegative", "positive", "nonPositive", "negative")),
    )
)

Allowed: TypeAlias = Mapping[Variable, frozenset[Term]]
"""The values that variables can have at most, where a VALUES block before tells."""


class Facts:
    """Triples, each once, in the order given."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self.all: tuple[Triple, ...] = tuple(dict.fromkeys(triples))
        self._at: tuple[dict[Term, list[Triple]], ...] = tuple(defaultdict(list) for _ in range(3))
        for triple in self.all:
            for index, part in zip(self._at, _parts(triple), strict=True):
                index[canonical(part)].append(triple)
        self.relations: frozenset[IRI] = frozenset(t.relation for t in self.all)

    def __len__(self) -> int:
        return len(self.all)

    def of(self, relation: IRI) -> Sequence[Triple]:
        """Triples of one relation."""
        return self._at[1].get(relation, ())

    def at(self, node: Term) -> list[Triple]:
        """Triples that leave or arrive at a node, each once."""
        node = canonical(node)
        return list(dict.fromkeys([*self._at[0].get(node, ()), *self._at[2].get(node, ())]))

    def matching(self, pattern: Pattern, allowed: Allowed) -> list[Triple]:
        """Triples that a pattern without a path can match."""
        nodes = _nodes(pattern)
        sets = [_set(node, allowed) for node in nodes]
        found: Iterable[Triple] = self.all
        for index, wanted in zip(self._at, sets, strict=True):
            if wanted is not None and len(wanted) == 1:
                here = index.get(next(iter(wanted)), [])
                found = here if found is self.all or len(here) < len(list(found)) else found
        return [t for t in found if _fits(_parts(t), nodes, sets)]


def canonical(term: Term) -> Term:
    """A number as engines hold it: by value, whatever kind of integer and however it is written."""
    if not isinstance(term, Literal) or not term.datatype.startswith(XSD):
        return term
    kind = term.datatype.removeprefix(XSD)
    try:
        if kind in _INTEGERS:
            return Literal(str(int(term.value)), XSD + "integer")
        if kind == "decimal":
            number = f"{Decimal(term.value).normalize():f}"
            return Literal(number, term.datatype)
        if kind in ("double", "float"):
            return Literal(repr(float(term.value)), term.datatype)
    except (ValueError, ArithmeticError):
        return term
    return term


def _parts(triple: Triple) -> tuple[Term, Term, Term]:
    return triple.subject, triple.relation, triple.object


def _nodes(pattern: Pattern) -> tuple[Node, Node, Node]:
    assert isinstance(pattern.predicate, IRI | Variable), "paths are taken apart before"
    return pattern.subject, pattern.predicate, pattern.object


def _set(node: Node, allowed: Allowed) -> frozenset[Term] | None:
    """The terms that may stand at a place; None for any."""
    if not isinstance(node, Variable):
        return frozenset([canonical(node)])
    found = allowed.get(node)
    return None if found is None else frozenset(map(canonical, found))


def _fits(parts: Sequence[Term], nodes: Sequence[Node], sets: Sequence[frozenset[Term] | None]) -> bool:
    """Whether the parts are among the terms wanted, and equal where one variable stands at two places."""
    if not all(wanted is None or canonical(part) in wanted for part, wanted in zip(parts, sets, strict=True)):
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
