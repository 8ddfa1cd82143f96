"""How the tables of a query hang together: shortest paths along foreign keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from triplewise.tools.sql.base import ForeignKey, Schema


@dataclass(frozen=True, slots=True)
class Edge:
    """One join of a tree: from a table that is already joined to a new one.

    `to_one`: each row of `source` has at most one partner, so that joining multiplies nothing.
    """

    source: str
    target: str
    pairs: tuple[tuple[str, str], ...]
    to_one: bool

    def text(self) -> str:
        """E.g. `film.director_id = person.id`."""
        return " and ".join(f"{self.source}.{a} = {self.target}.{b}" for a, b in self.pairs)


@dataclass(frozen=True, slots=True)
class JoinTree:
    """Joined tables: the root, and edges in an order in which each source is joined before.

    `note` says which of several equally short ways was taken. `lost` names tables that no key reaches.
    """

    root: str
    edges: tuple[Edge, ...] = ()
    note: str = ""
    lost: tuple[str, ...] = ()

    def below(self, edge: Edge) -> tuple[Edge, ...]:
        """The edges of the subtree that begins with an edge, that edge first."""
        kept = [edge]
        for other in self.edges:
            if other not in kept and other.source in {e.target for e in kept}:
                kept.append(other)
        return tuple(kept)


def join_tree(schema: Schema, tables: Sequence[str]) -> JoinTree:
    """The tables, first one as root, joined along shortest paths of foreign keys.

    Among equally short paths the one whose keys the schema names first is taken, and said so.
    """
    root, edges, notes = tables[0], list[Edge](), list[str]()
    lost = []
    for table in dict.fromkeys(tables[1:]):
        joined = [root, *(e.target for e in edges)]
        if table in joined:
            continue
        paths = _shortest(schema, joined, table)
        if not paths:
            lost.append(table)
            continue
        edges += paths[0]
        if len(paths) > 1:
            notes.append(_note(table, paths))
    return JoinTree(root, tuple(edges), " ".join(notes), tuple(lost))


def _note(table: str, paths: Sequence[tuple[Edge, ...]]) -> str:
    taken, other = (", ".join(e.text() for e in p) for p in paths[:2])
    return f"{table} is joined by {taken}; an equally short way is {other}."


def _shortest(schema: Schema, joined: Iterable[str], goal: str) -> list[tuple[Edge, ...]]:
    """All shortest paths from any joined table to a new one, breadth first."""
    paths: list[tuple[Edge, ...]] = [()]
    starts, seen = list(joined), set(joined)
    ends: list[tuple[str, tuple[Edge, ...]]] = [(s, ()) for s in starts]
    while ends:
        ends = [(e.target, (*path, e)) for end, path in ends for e in _edges(schema, end, seen)]
        paths = [path for end, path in ends if end == goal]
        if paths:
            return paths
        seen |= {end for end, _ in ends}
    return []


def _edges(schema: Schema, table: str, seen: Iterable[str]) -> list[Edge]:
    """Joins that lead on from a table, in the schema's order."""
    found = []
    for key in schema.keys:
        for edge in (_along(key, True), _along(key, False)):
            if edge.source == table and edge.target not in seen and edge not in found:
                found.append(edge)
    return found


def _along(key: ForeignKey, forward: bool) -> Edge:
    """A key as a join, from the table that refers (`forward`) or from the one referred to."""
    pairs = tuple((a.name, b.name) for a, b in zip(key.columns, key.references, strict=True))
    child, parent = key.columns[0].table, key.references[0].table
    if forward:
        return Edge(child, parent, pairs, True)
    return Edge(parent, child, tuple((b, a) for a, b in pairs), False)
