"""What a query looks for, as far as further facts can add to its answer: read from rdflib's algebra."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rdflib import paths
from rdflib.plugins.sparql.algebra import translateQuery
from rdflib.plugins.sparql.parser import parseQuery
from rdflib.plugins.sparql.parserutils import CompValue
from rdflib.term import Literal, URIRef

from triplewise.tools.core.terms import Triple

REPEATED = 8  # hops that a repeated path is followed
# Further facts can take rows away where these stand, or put other ones in their places.
_OBSTACLES = {
    "LeftJoin": "OPTIONAL",
    "Minus": "MINUS",
    "OrderBy": "ORDER BY",
    "Graph": "GRAPH",
    "Builtin_NOTEXISTS": "NOT EXISTS",
    "Builtin_EXISTS": "EXISTS",
}


class UnreadableQuery(ValueError):  # noqa: N818 - it says what happened to the text
    """A query whose answer cannot be completed; the message says why."""


@dataclass(frozen=True)
class Pattern:
    """What a query looks for.

    Attributes:
        triples: subject, relations and object of its triple patterns, None for anything.
        hops: how far from a fact the other triples of a solution may lie.
        length: rows that a LIMIT leaves, None for all.
        keys: of a query that counts the columns that it counts by, None for any other.
        obstacle: why its answer cannot be completed, "" if it can be.
    """

    triples: tuple[tuple[str | None, frozenset[str] | None, str | None], ...]
    hops: int
    length: int | None
    keys: frozenset[str] | None
    obstacle: str

    @property
    def relations(self) -> frozenset[str] | None:
        """The relations that it names; None where any may match."""
        named = [relations for _, relations, _ in self.triples]
        return None if None in named else frozenset().union(*(r for r in named if r is not None))

    def may_match(self, triple: Triple) -> bool:
        """Whether a triple may be part of a solution, or keep others from being one."""
        return any(
            subject in (None, triple.subject.value)
            and value in (None, triple.object.value)
            and (relations is None or triple.relation.value in relations)
            for subject, relations, value in self.triples
        )


def read_pattern(sparql: str) -> Pattern:
    """What a SELECT or ASK looks for. Raises `UnreadableQuery` where rdflib cannot read it."""
    try:
        algebra = translateQuery(parseQuery(sparql)).algebra
    except Exception as error:  # rdflib raises whatever its grammar meets
        raise UnreadableQuery(f"rdflib: {error}") from error
    nodes, hops = list(_nodes(algebra)), max(0, _size(algebra) - 1)
    groups = [node for node in nodes if node.name == "Group"]
    slices = [node for node in nodes if node.name == "Slice"]
    kinds = {node.name for node in nodes}
    sums = [n for n in nodes if n.name.startswith("Aggregate_") and n.name != "Aggregate_Sample"]
    is_counted = all(n.name == "Aggregate_Count" and not n.get("distinct") for n in sums)
    obstacle = next((words for kind, words in _OBSTACLES.items() if kind in kinds), "")
    if algebra.get("datasetClause"):
        obstacle = "FROM"
    elif groups and (hops or slices or "Filter" in kinds or not is_counted):
        obstacle = obstacle or "an aggregate"
    elif slices and (slices != [algebra.p] or slices[0].start):
        obstacle = obstacle or "LIMIT"
    return Pattern(
        triples=tuple(_wanted(*triple) for n in nodes for triple in _triples(n)),
        hops=min(hops, REPEATED),
        length=algebra.p.length if algebra.p.name == "Slice" else None,
        keys=frozenset(str(v) for n in groups for v in n.get("expr") or ()) if groups else None,
        obstacle=obstacle,
    )


def _nodes(part: Any) -> Iterator[CompValue]:
    """A part of the algebra and all below it."""
    if isinstance(part, CompValue):
        yield part
        part = [value for key, value in part.items() if key != "_vars"]
    for each in part if isinstance(part, list) else ():
        yield from _nodes(each)


def _triples(node: CompValue) -> Iterator[tuple[Any, Any, Any]]:
    """The triple patterns of one node; inside of EXISTS rdflib leaves them as flat lists."""
    for block in node.get("triples") or ():
        for i in range(0, len(block) - 2, 3):
            yield tuple(block[i : i + 3])


def _size(part: Any) -> int:
    """How many triples a solution has at most."""
    if isinstance(part, list):
        return sum(map(_size, part))
    if not isinstance(part, CompValue):
        return 0
    if part.name == "Union":
        return max(_size(part.p1), _size(part.p2))
    own = sum(_steps(relation) for _, relation, _ in _triples(part))
    return own + sum(_size(value) for key, value in part.items() if key not in ("_vars", "triples"))


def _parts(path: Any) -> list[Any]:
    """What a property path is made of."""
    return list(getattr(path, "args", ())) or [path.path if isinstance(path, paths.MulPath) else path.arg]


def _steps(relation: Any) -> int:
    """How many triples a predicate or a path goes over at most."""
    if isinstance(relation, paths.MulPath):
        return REPEATED
    if not isinstance(relation, paths.Path):
        return 1
    return (sum if isinstance(relation, paths.SequencePath) else max)(map(_steps, _parts(relation)))


def _relations(relation: Any) -> frozenset[str] | None:
    """The relations that a predicate or a path names; None where any may match."""
    if isinstance(relation, URIRef):
        return frozenset([str(relation)])
    if isinstance(relation, paths.NegatedPath) or not isinstance(relation, paths.Path):
        return None
    named = [_relations(part) for part in _parts(relation)]
    return None if None in named else frozenset().union(*(r for r in named if r is not None))


def _wanted(subject: Any, relation: Any, value: Any) -> tuple[str | None, frozenset[str] | None, str | None]:
    """What a triple of a pattern may be; of a path its relations alone: its ends may be elsewhere."""
    if isinstance(relation, paths.Path):
        return None, _relations(relation), None
    return _fixed(subject), _relations(relation), _fixed(value)


def _fixed(node: Any) -> str | None:
    return str(node) if isinstance(node, URIRef | Literal) else None
