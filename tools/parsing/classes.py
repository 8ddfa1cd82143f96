"""Classes of an index, their members, and the paths of relations between them.

A node without a class of the graph's is of one that the relations to or from it imply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from typing import Any, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.language.text import fold
from triplewise.tools.parsing.facts import SCHEMA, SortedFacts, best_names, term_of
from triplewise.tools.parsing.query import Path, Step
from triplewise.tools.parsing.relations import Ints, Keep, Nodes, Relation, words_of

T = TypeVar("T")

WIDTH, PATHS = 200, 8  # paths that are made longer, and that are given
MANY_CLASSES = 4  # classes of one set of nodes that paths are looked for from and to
FEW_CLASSES = 300  # up to which longer paths are looked for where there are no short ones
KEPT_PATHS, KEPT_ENDS = 100_000, 2_000  # pairs of ends whose paths are kept, and ends
Found: TypeAlias = tuple[Path, float, float]
"""A path between classes, and the shares of the members of either end that take it."""


@dataclass(frozen=True, slots=True)
class Class:
    """A class of nodes.

    Attributes:
        names: as questions may name it, the best first; () for literals.
        real: whether it holds entities, not literals.
        iri: its IRI; None where the graph does not name it.
        steps: of a class without IRI: the steps that lead to its members, which have no other class.
    """

    names: tuple[str, ...]
    real: bool
    iri: IRI | None = None
    steps: tuple[Step, ...] = ()


class Lazy(dict[int, T]):
    """Values by number, each made when it is first asked for."""

    def __init__(self, make: Callable[[int], T]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, number: int) -> T:
        made = self[number] = self._make(number)
        return made


class Classes:
    """The classes of an index.

    Attributes:
        classes: those that the graph names, then those that relations imply.
        members: of each class, of its subclasses too. own: how many nodes the graph says are of it itself.
        types: those of each node itself.
        steps: by class, the steps of its members, with the classes that each leads to and the share that can
            take it.
    """

    def __init__(
        self,
        read: SortedFacts,
        relations: Sequence[Relation],
        texts: Mapping[IRI, RelationText],
        keep: Keep,
    ) -> None:
        direct: dict[bytes, list[int]] = defaultdict(list)
        typed = np.zeros(len(read.ids), bool)
        for node, of in read.types:
            typed[node] = True
            if not _is_schema(of):
                direct[of].append(node)
        below = _descendants(direct, read.parents)
        numbers = {of: i for i, of in enumerate(below)}
        self.classes: list[Class] = []
        for of in below:
            iri, known = term_of(of), best_names(read.names.get(of, []))
            assert isinstance(iri, IRI)
            self.classes.append(Class(tuple(words_of(iri, known, read.profile)), True, iri))
        own: list[Ints] = [np.unique(np.array(direct.get(of, []), np.int32)) for of in below]
        groups = [[numbers[sub] for sub in subs] for subs in below.values()]
        for implied, nodes in _implied(relations, texts, typed):
            self.classes.append(implied)
            groups.append([len(own)])
            own.append(nodes)
        self._relations, self._groups, self.own = relations, groups, [len(nodes) for nodes in own]
        self.members: Lazy[Nodes] = Lazy(
            lambda c: keep(frozenset().union(*(own[sub].tolist() for sub in groups[c])))
        )
        # The classes of node i, one after the other: flat[begin[i] : begin[i + 1]].
        nodes = np.concatenate([*own, np.zeros(0, np.int32)])
        flat = np.repeat(np.arange(len(own), dtype=np.int32), self.own)
        self._flat = flat[np.argsort(nodes, kind="stable")]
        self._begin = np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=len(read.ids)))])
        same: dict[tuple[int, ...], Nodes] = {}
        found, begin = self._flat.tolist(), self._begin.tolist()
        of_nodes = (tuple(found[a:b]) for a, b in pairwise(begin))
        self.types = [same.setdefault(of, frozenset(of)) for of in of_nodes]
        self.steps: Lazy[dict[Step, dict[int, float]]] = Lazy(self._steps_from)
        self.paths = lru_cache(KEPT_PATHS)(self._paths)
        self._leaving = lru_cache(KEPT_ENDS)(self._links_from)
        self._goal = lru_cache(KEPT_ENDS)(self._goal_of)

    def _paths(self, a: Nodes, b: Nodes) -> list[Found]:
        """Chains of relations from classes a to classes b: (path, share of a, share of b); shortest first.

        They have up to two steps, and in a graph with few classes three where there are none with less.
        """
        if not a or not b:
            return []
        goal, first = self._goal(self._largest(b)), self._leaving(self._largest(a))
        through = np.array([of.real for of in self.classes], bool) & ~goal.classes
        found = [first.where(goal.classes[first.end])]
        if len(found[0].end) < PATHS:
            found.append(first.where((through & goal.reached)[first.end]).best().then(goal.into))
        if not any(len(ways.end) for ways in found) and len(self.classes) <= FEW_CLASSES:
            second = first.where(through[first.end]).best().then(self._links)
            found.append(second.where((through & goal.reached)[second.end]).best().then(goal.into))
        best: dict[tuple[int, ...], float] = {}
        for ways in found:
            score = ways.share + goal.arriving[ways.codes[:, -1]]
            for place in np.argsort(-score, kind="stable")[: 4 * PATHS].tolist():
                way = tuple(ways.codes[place].tolist())
                best[way] = max(best.get(way, 0.0), float(ways.share[place]))
        ranked = sorted(best, key=lambda p: (len(p), -best[p] - goal.arriving[p[-1]], p))[:PATHS]
        return [(tuple(map(_step, p)), min(best[p], 1.0), float(goal.arriving[p[-1]])) for p in ranked]

    def _largest(self, classes: Nodes) -> Nodes:
        """The classes with the most members, where there are many."""
        if len(classes) <= MANY_CLASSES:
            return classes
        return frozenset(sorted(classes, key=lambda c: (-self.own[c], c))[:MANY_CLASSES])

    def _links_from(self, classes: Nodes) -> _Ways:
        """The single steps that leave some classes."""
        bounds = (np.searchsorted(self._links.start, [c, c + 1]) for c in sorted(classes))
        return self._links.where(np.concatenate([np.arange(*pair) for pair in bounds]))

    def _goal_of(self, classes: Nodes) -> _Goal:
        """What leads to some classes."""
        backward = self._leaving(classes)
        inside, reached = (np.zeros(len(self.classes), bool) for _ in range(2))
        inside[list(classes)], reached[backward.end] = True, True
        arriving = np.zeros(2 * len(self._relations))
        np.maximum.at(arriving, backward.codes[:, 0] ^ 1, backward.share)
        return _Goal(inside, reached, arriving, self._links.where(inside[self._links.end]))

    @cached_property
    def _links(self) -> _Ways:
        """The single steps between classes, by the classes that nodes have themselves."""
        near, code, far = _both_ways(self._relations)
        classes, nodes = max(len(self.classes), 1), max(len(self.types), 1)
        of, edges = self._classes_at(near)
        to, rows = self._classes_at(far[edges])
        step = (of[rows].astype(np.int64) * 2 * len(self._relations) + code[edges[rows]]) * classes + to
        taken, counts = np.unique(np.unique(step * nodes + near[edges[rows]]) // nodes, return_counts=True)
        before, end = np.divmod(taken, classes)
        start, what = np.divmod(before, max(2 * len(self._relations), 1))
        return _Ways(start, what[:, None], end, counts / np.array(self.own)[start])

    def _classes_at(self, nodes: Ints) -> tuple[Ints, NDArray[np.int64]]:
        """The classes of some nodes, side by side, each with the place of its node."""
        sizes = self._begin[nodes + 1] - self._begin[nodes]
        places = np.repeat(np.arange(len(nodes)), sizes)
        return self._flat[_runs(self._begin[nodes], sizes)], places

    def _steps_from(self, c: int) -> dict[Step, dict[int, float]]:
        """The steps from a class to others, with the share of its members that can take each."""
        found: dict[Step, dict[int, float]] = {}
        size = max(len(self.members[c]), 1)
        for sub in self._groups[c]:
            links, weight = self._leaving(frozenset([sub])), self.own[sub] / size
            columns = (links.codes[:, 0].tolist(), links.end.tolist(), links.share.tolist())
            for code, to, share in zip(*columns, strict=True):
                ends = found.setdefault(_step(code), {})
                ends[to] = min(ends.get(to, 0.0) + weight * share, 1.0)
        return found


def _is_schema(of: bytes) -> bool:
    return of[1:-1].decode().startswith(SCHEMA)


def _descendants(
    direct: Mapping[bytes, object], parents: Mapping[bytes, set[bytes]]
) -> dict[bytes, list[bytes]]:
    """Every class that has members, with itself and all classes below it, in a fixed order."""
    below: dict[bytes, list[bytes]] = {of: [of] for of in sorted(direct)}
    for of in sorted(direct):
        seen, todo = {of}, [of]
        while todo:
            for parent in sorted(parents.get(todo.pop(), ())):
                if parent not in seen and parent.startswith(b"<"):
                    seen.add(parent)
                    todo.append(parent)
                    if not _is_schema(parent):
                        below.setdefault(parent, [parent]).append(of)
    return below


def _implied(
    relations: Sequence[Relation], texts: Mapping[IRI, RelationText], typed: NDArray[np.bool_]
) -> Iterator[tuple[Class, Ints]]:
    """Classes of nodes without one: what a relation leads to, and what it leads from where it says so."""
    subjects: dict[str, list[Relation]] = defaultdict(list)
    for relation in relations:
        text = texts.get(relation.path[0][0]) if len(relation.path) == 1 else None
        nodes = np.unique(relation.ends)
        if len(nodes := nodes[~typed[nodes]]):
            is_real = relation.kind == "entity"
            own = [fold(text.object_type)] if text and text.object_type else []
            names = tuple(dict.fromkeys([*own, *relation.names])) if is_real else ()
            yield Class(names, is_real, None, ((relation.i, 1),)), nodes
        if text and text.subject_type:
            subjects[fold(text.subject_type)].append(relation)
    for name, group in subjects.items():
        nodes = np.unique(np.concatenate([relation.starts for relation in group]))
        if len(nodes := nodes[~typed[nodes]]):
            yield Class((name,), True, None, tuple((relation.i, -1) for relation in group)), nodes


class _Ways(NamedTuple):
    """Paths of one length between classes; single steps are sorted by the class that they leave.

    From which class by what (shape (paths, length); 2 * relation, + 1 against its direction) to which, and
    the share of the members of `start` that can take it.
    """

    start: NDArray[np.int64]
    codes: NDArray[np.int64]
    end: NDArray[np.int64]
    share: NDArray[np.float64]

    def where(self, kept: NDArray[Any]) -> _Ways:
        """Some of them."""
        return _Ways(*(column[kept] for column in self))

    def best(self) -> _Ways:
        """The `WIDTH` that most members take."""
        return self.where(np.argsort(-self.share, kind="stable")[:WIDTH])

    def then(self, links: _Ways) -> _Ways:
        """All with one step more, but for those that go back at once."""
        begins = np.searchsorted(links.start, self.end)
        sizes = np.searchsorted(links.start, self.end, "right") - begins
        rows, taken = np.repeat(np.arange(len(self.end)), sizes), _runs(begins, sizes)
        onward = self.codes[rows, -1] != links.codes[taken, 0] ^ 1
        before, more = self.where(rows[onward]), links.where(taken[onward])
        codes = np.concatenate([before.codes, more.codes], axis=1)
        return _Ways(before.start, codes, more.end, before.share * more.share)


class _Goal(NamedTuple):
    """Classes that paths lead to.

    Which ones; those one step before; the share of them that can take each step back; the links to them.
    """

    classes: NDArray[np.bool_]
    reached: NDArray[np.bool_]
    arriving: NDArray[np.float64]
    into: _Ways


def _both_ways(relations: Sequence[Relation]) -> tuple[Ints, Ints, Ints]:
    """All facts both ways: near end, 2 * relation (+ 1 against its direction), far end."""
    empty = [np.zeros(0, np.int32)]
    near = empty + [e for r in relations for e in (r.starts, r.ends)]
    far = empty + [e for r in relations for e in (r.ends, r.starts)]
    code = empty + [np.full(len(r.starts), 2 * r.i + k, np.int32) for r in relations for k in (0, 1)]
    return np.concatenate(near), np.concatenate(code), np.concatenate(far)


def _step(code: int) -> Step:
    """A relation with its direction."""
    return code >> 1, -1 if code & 1 else 1


def _runs(begins: NDArray[np.int64], sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers of runs one after the other, each by where it begins and how long it is."""
    return np.arange(int(sizes.sum())) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
