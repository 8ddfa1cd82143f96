"""The denotation of a query tree in a `GraphIndex`: a set of nodes, a number or a truth value.

The only place where trees are computed in memory: the program that a tree compiles to gives the same on the
graph. Results are kept in the index, equal sets as one object, so that derivations compare them by identity.
"""

from __future__ import annotations

import operator
from bisect import bisect_left
from collections.abc import Callable, Mapping, Set as AbstractSet
from typing import TypeAlias

from triplewise.tools.parsing import query as q
from triplewise.tools.parsing.index import GraphIndex

Rows: TypeAlias = frozenset[tuple[int, float]]
Denotation: TypeAlias = frozenset[int] | Rows | float | bool

COMPARE: Mapping[q.Comparison, Callable[[float, float], bool]] = {
    "gt": operator.gt, "lt": operator.lt, "ge": operator.ge, "le": operator.le, "eq": operator.eq,
}  # fmt: skip
MOST_COUNTED = 3000  # Members of the largest set whose links are counted one by one


def backwards(path: q.Path) -> q.Path:
    """The same path from its end to its start."""
    return tuple((relation, -direction) for relation, direction in reversed(path))


def members(query: q.Set, index: GraphIndex) -> frozenset[int]:
    """The nodes of a set."""
    found: frozenset[int] | None = index.cache.get(query)
    if found is None:
        found = index.cache[query] = index.keep(_members(query, index))
    return found


def denotation(query: q.Query, index: GraphIndex) -> Denotation:
    """The nodes, number or truth value that a tree denotes; sums and averages over no value are 0."""
    match query:
        case q.Count(of):
            return float(len(members(of, index)))
        case q.Exists(of):
            return bool(members(of, index))
        case q.Aggregate(function, path, of):
            return _aggregate(function, path, members(of, index), index) or 0.0
        case q.Grouped(function, path, of, to):
            return frozenset(grouped(of, path, function, to, index).items())
        case _:
            return members(query, index)


def _members(query: q.Set, index: GraphIndex) -> frozenset[int]:
    match query:
        case q.Nodes(nodes):
            return nodes
        case q.Number():
            return _literals_of(query, index)
        case q.Members(cls):
            return index.members(cls)
        case q.Having(path):
            first, direction = path[0]
            ends = index.rels[first].subjects if direction == 1 else index.rels[first].objects
            return ends if len(path) == 1 else index.walk(backwards(path), index.walk(path, ends))
        case q.Image(path, of):
            return index.walk(path, members(of, index))
        case q.And(left, right):
            return index.meet(members(left, index), members(right, index))
        case q.Or(left, right):
            return members(left, index) | members(right, index)
        case q.Minus(of, without):
            return members(of, index) - members(without, index)
        case q.Extremal(of, path, sign, rank, count):
            return _extremal(values_at(members(of, index), path, index), sign, rank, count)
        case q.ExtremalAggregate(of, path, function, sign, to):
            numbers = grouped(of, path, function, to, index)
            return _extremal({x: (number,) for x, number in numbers.items()}, sign, 1, 1)
        case q.Compared(of, path, comparison, value):
            return _compared(values_at(members(of, index), path, index), comparison, value, index)
        case q.Linked(of, path, comparison, count, to):
            links = grouped(of, path, "count", to, index)
            return frozenset(x for x, n in links.items() if COMPARE[comparison](n, count))


def values_at(nodes: AbstractSet[int], path: q.Path, index: GraphIndex) -> dict[int, tuple[float, ...]]:
    """The numbers or dates that nodes have by a path of one step, smallest first; or are, by one of none."""
    if not path:
        return {x: (index.value[x],) for x in nodes if x in index.value}
    (step,) = path
    table = index.values(step)
    if len(nodes) > len(table):
        return {x: values for x, values in table.items() if x in nodes}
    return {x: table[x] for x in nodes if x in table}


def grouped(
    of: q.Set, path: q.Path, function: q.Function, to: q.Set | None, index: GraphIndex
) -> dict[int, float]:
    """For each member: to how many members of `to` a path links it, at least one; or the sum or average of
    the values at the end of the path, where it has some. Links of a set that is too large are not counted."""
    nodes, goal = members(of, index), None if to is None else members(to, index)
    if function == "count":
        ends = {x: index.walk(path, frozenset([x])) for x in nodes} if len(nodes) <= MOST_COUNTED else {}
        counts = {x: len(reached if goal is None else reached & goal) for x, reached in ends.items()}
        return {x: float(n) for x, n in counts.items() if n}
    found = {x: _aggregate(function, path, frozenset([x]), index) for x in nodes}
    return {x: number for x, number in found.items() if number is not None}


def _aggregate(function: q.Function, path: q.Path, nodes: frozenset[int], index: GraphIndex) -> float | None:
    """The sum or average of all values that a path leads to from nodes; None where there are none."""
    *before, last = path
    at_end = values_at(index.walk(tuple(before), nodes), (last,), index)
    values = [v for vs in at_end.values() for v in vs]
    return sum(values) / (len(values) if function == "average" else 1) if values else None


def _literals_of(number: q.Number, index: GraphIndex) -> frozenset[int]:
    """The literals of one number, of one time of day, or within one date (a year, a month, a day)."""
    if (line := index.cache.get("line")) is None:
        line = index.cache["line"] = sorted((value, node) for node, value in index.value.items())
    low, high = number.value - 1e-6, number.value + max(_width(number) - 1e-6, 1e-6)
    some = line[bisect_left(line, (low, -1)) : bisect_left(line, (high, -1))]
    written = {x: index.terms[x].value for _, x in some} if number.kind else {}
    times = {x for x, text in written.items() if ":" in text and "T" not in text}
    return frozenset(x for _, x in some if not number.kind or (number.kind == "time") == (x in times))


def _width(number: q.Number) -> float:
    """How much of the line a date covers: a year is 1, of 12 months with 31 days each."""
    return {4: 1.0, 7: 31 / 372, 10: 1 / 372}.get(len(number.text), 0.0) if number.kind == "date" else 0.0


def _extremal(values: Mapping[int, tuple[float, ...]], sign: int, rank: int, count: int) -> frozenset[int]:
    ends = sorted({v for vs in values.values() for v in vs}, reverse=sign > 0)[rank - 1 : rank - 1 + count]
    return frozenset(x for x, vs in values.items() if not set(ends).isdisjoint(vs))


def _compared(
    values: dict[int, tuple[float, ...]], comparison: q.Comparison, value: q.Number | q.Set, index: GraphIndex
) -> frozenset[int]:
    width = _width(value) if isinstance(value, q.Number) else 0.0
    if isinstance(value, q.Number):
        found = {value.value}
    else:
        found = {index.value[x] for x in members(value, index) if x in index.value}
        if found and comparison != "eq":
            found = {max(found) if comparison in ("gt", "ge") else min(found)}
    test = COMPARE[comparison]
    if comparison == "eq" or width:  # of a date: within it, from its end on, before its end
        of_dates = {"eq": lambda v, low: low <= v <= low + width, "gt": lambda v, low: v >= low + width,
                    "le": lambda v, low: v < low + width}  # fmt: skip
        test = of_dates.get(comparison, test)
    return frozenset(x for x, vs in values.items() if any(test(v, low) for v in vs for low in found))
