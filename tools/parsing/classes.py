"""Classes of an index, and the paths of relations between them.

A node without a class of the graph's is of one that the relations to or from it imply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.language.text import fold
from triplewise.tools.parsing.facts import SCHEMA, SortedFacts, term_of
from triplewise.tools.parsing.query import Path, Step
from triplewise.tools.parsing.relations import Ints, Keep, Nodes, Relation, best_names, words_of

WIDTH, PATHS = 200, 8  # paths that are made longer, and that are given
MANY_CLASSES = 4  # classes of one set of nodes that paths are looked for from and to
FEW_CLASSES = 300  # up to which longer paths are looked for where there are no short ones
KEPT_PATHS, KEPT_GOALS = 100_000, 2_000  # pairs of ends, and ends, whose paths are kept
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
    steps: tuple[tuple[int, int], ...] = ()

    @property
    def relation(self) -> int | None:
        """The relation whose objects it holds, where it is implied by one."""
        return self.steps[0][0] if len(self.steps) == 1 and self.steps[0][1] == 1 else None


class Classes:
    """The classes of an index.

    Attributes:
        classes: those that the graph names, then those that relations imply.
        types: those of each node itself.
        members: of each class, of its subclasses too.
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
            if not of[1:-1].decode().startswith(SCHEMA):
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
        self.members = Members(own, groups, keep)
        found: dict[int, list[int]] = defaultdict(list)
        for c, nodes in enumerate(own):
            for node in nodes.tolist():
                found[node].append(c)
        same: dict[tuple[int, ...], Nodes] = {}
        self.types = [
            same.setdefault(tuple(of), frozenset(of))
            for of in (found.get(i, []) for i in range(len(read.ids)))
        ]


class Members(Sequence[Nodes]):
    """The members of classes, their subclasses' too, put together when a class is first asked for."""

    def __init__(
        self,
        own: Sequence[Ints],
        groups: Sequence[Sequence[int]],
        keep: Keep,
    ) -> None:
        self._own, self._groups, self._keep = own, groups, keep
        self._made: dict[int, Nodes] = {}

    def __len__(self) -> int:
        return len(self._own)

    def below(self, c: int) -> Sequence[int]:
        """A class and those below it."""
        return self._groups[c]

    def own_size(self, c: int) -> int:
        """How many nodes the graph says are of a class itself."""
        return len(self._own[c])

    def __getitem__(self, c: Any) -> Any:
        if c not in self._made:
            if not 0 <= c < len(self._own):
                raise IndexError(c)
            nodes = (self._own[sub].tolist() for sub in self._groups[c])
            self._made[c] = self._keep(frozenset().union(*nodes))
        return self._made[c]


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
                    if not parent[1:-1].decode().startswith(SCHEMA):
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


class ClassGraph:
    """Which relations lead from class to class.

    Attributes:
        steps: by class, the steps of its members, with the classes that each leads to and the share that can
            take it.
    """

    def __init__(self, of: Classes, relations: Sequence[Relation]) -> None:
        self._classes, self._members, self._types = of.classes, of.members, of.types
        self._relations = relations
        self.steps = _Steps(self._steps_from)
        self._paths: dict[tuple[Nodes, Nodes], list[Found]] = {}
        self._goals: dict[Nodes, _Goal] = {}
        self._starts: dict[Nodes, _Level] = {}

    def forget(self) -> None:
        """Drop paths that were looked for when they have become many."""
        if len(self._paths) > KEPT_PATHS:
            self._paths, self._starts = {}, {}
        if len(self._goals) > KEPT_GOALS:
            self._goals = {}

    def paths(self, a: Nodes, b: Nodes, longest: int = 2) -> list[Found]:
        """Chains of relations from classes a to classes b: (path, share of a, share of b); shortest first.

        In a graph with few classes they are one step longer than `longest` where none are found up to that.
        """
        if not a or not b:
            return []
        a, b = self._largest(a), self._largest(b)
        if (known := self._paths.get((a, b))) is not None:
            return known
        goal = self._goal(b)
        through = self._entity_classes & ~goal.classes
        if (first := self._starts.get(a)) is None:
            first = self._starts[a] = _Level.at(a).extended(self._links)
        found = [first.where(goal.classes[first.ends])]
        if len(found[0].ends) < PATHS and longest > 1:
            found.append(first.where((through & goal.reached)[first.ends]).best().extended(goal.into))
        if not any(len(level.ends) for level in found) and len(self._classes) <= FEW_CLASSES:
            second = first.where(through[first.ends]).best().extended(self._links)
            found.append(second.where((through & goal.reached)[second.ends]).best().extended(goal.into))
        best: dict[tuple[int, ...], float] = {}
        for level in found:
            score = level.shares + goal.arriving[level.codes[:, -1]]
            for place in np.argsort(-score, kind="stable")[: 4 * PATHS].tolist():
                way = tuple(level.codes[place].tolist())
                best[way] = max(best.get(way, 0.0), float(level.shares[place]))
        ranked = sorted(best, key=lambda p: (len(p), -best[p] - goal.arriving[p[-1]], p))[:PATHS]
        paths: list[Found] = [
            (tuple(_step(code) for code in p), min(best[p], 1.0), float(goal.arriving[p[-1]])) for p in ranked
        ]
        self._paths[a, b] = paths
        return paths

    def _largest(self, classes: Nodes) -> Nodes:
        """The classes with the most members, where there are many."""
        if len(classes) <= MANY_CLASSES:
            return classes
        return frozenset(sorted(classes, key=lambda c: (-self._members.own_size(c), c))[:MANY_CLASSES])

    def _goal(self, classes: Nodes) -> _Goal:
        """What leads to some classes."""
        if (goal := self._goals.get(classes)) is None:
            links, backward = self._links, _Level.at(classes).extended(self._links)
            inside, reached = (np.zeros(len(self._classes), bool) for _ in range(2))
            inside[list(classes)], reached[backward.ends] = True, True
            arriving = np.zeros(2 * len(self._relations))
            np.maximum.at(arriving, backward.codes[:, 0] ^ 1, backward.shares)
            order, ends = self._links_by_end
            bounds = [np.searchsorted(ends, [c, c + 1]) for c in sorted(classes)]
            into = links.where(np.sort(np.concatenate([order[begin:end] for begin, end in bounds])))
            goal = self._goals[classes] = _Goal(inside, reached, arriving, into)
        return goal

    @cached_property
    def _entity_classes(self) -> NDArray[np.bool_]:
        """Which classes are of entities."""
        return np.array([of.real for of in self._classes], bool)

    @cached_property
    def _links(self) -> _Links:
        """The steps between classes, by the classes that nodes have themselves."""
        near, code, far = _both_ways(self._relations)
        counts = np.fromiter(map(len, self._types), np.int64, len(self._types))
        flat = np.fromiter((c for of in self._types for c in of), np.int32, int(counts.sum()))
        begin = np.concatenate([[0], np.cumsum(counts)])
        of, edges = _spread(begin, flat, near)
        to, rows = _spread(begin, flat, far[edges])
        classes, nodes = max(len(self._classes), 1), max(len(self._types), 1)
        step = (of[rows].astype(np.int64) * 2 * len(self._relations) + code[edges[rows]]) * classes + to
        sizes = np.bincount(flat, minlength=classes)
        taken, counts = np.unique(np.unique(step * nodes + near[edges[rows]]) // nodes, return_counts=True)
        before, end = np.divmod(taken, classes)
        start, what = np.divmod(before, max(2 * len(self._relations), 1))
        return _Links(start, what, end, counts / sizes[start])

    @cached_property
    def _links_by_end(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Places in `_links` sorted by the class that each leads to, and these classes."""
        order = np.argsort(self._links.to, kind="stable")
        return order, self._links.to[order]

    def _steps_from(self, c: int) -> dict[Step, dict[int, float]]:
        """The steps from a class to others, with the share of its members that can take each."""
        found: dict[Step, dict[int, float]] = {}
        links, size = self._links, max(len(self._members[c]), 1)
        for sub in self._members.below(c):
            begin, end = np.searchsorted(links.of, [sub, sub + 1]).tolist()
            weight = self._members.own_size(sub) / size
            columns = (column[begin:end].tolist() for column in (links.code, links.to, links.share))
            for code, to, share in zip(*columns, strict=True):
                ends = found.setdefault(_step(code), {})
                ends[to] = min(ends.get(to, 0.0) + weight * share, 1.0)
        return found


class _Steps(dict[int, dict[Step, dict[int, float]]]):
    """Steps by class, worked out when a class is first asked for."""

    def __init__(self, make: Callable[[int], dict[Step, dict[int, float]]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, c: int) -> dict[Step, dict[int, float]]:
        found = self[c] = self._make(c)
        return found


class _Links(NamedTuple):
    """Steps between classes, sorted by the first.

    From which class by what (2 * relation, + 1 against its direction) to which, and the share of the members
    of `of` that can take the step.
    """

    of: NDArray[np.int64]
    code: NDArray[np.int64]
    to: NDArray[np.int64]
    share: NDArray[np.float64]

    def where(self, kept: NDArray[np.int64]) -> _Links:
        """Some of them."""
        return _Links(self.of[kept], self.code[kept], self.to[kept], self.share[kept])


class _Goal(NamedTuple):
    """Classes that paths lead to.

    Which ones; those one step before; the share of them that can take each step back; the links to them.
    """

    classes: NDArray[np.bool_]
    reached: NDArray[np.bool_]
    arriving: NDArray[np.float64]
    into: _Links


class _Level(NamedTuple):
    """Paths of one length: steps, shape (paths, length); classes at their ends; the shares that take them."""

    codes: NDArray[np.int64]
    ends: NDArray[np.int64]
    shares: NDArray[np.float64]

    @classmethod
    def at(cls, classes: Nodes) -> _Level:
        """Paths without a step."""
        return cls(
            np.empty((len(classes), 0), np.int64), np.array(sorted(classes), np.int64), np.ones(len(classes))
        )

    def where(self, kept: NDArray[Any]) -> _Level:
        """Some of them."""
        return _Level(self.codes[kept], self.ends[kept], self.shares[kept])

    def best(self) -> _Level:
        """The `WIDTH` that most members take."""
        return self.where(np.argsort(-self.shares, kind="stable")[:WIDTH])

    def extended(self, links: _Links) -> _Level:
        """All with one step more, but for those that go back at once."""
        begins = np.searchsorted(links.of, self.ends)
        sizes = np.searchsorted(links.of, self.ends, "right") - begins
        rows = np.repeat(np.arange(len(self.ends)), sizes)
        taken = np.arange(len(rows)) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
        if self.codes.shape[1]:
            onward = self.codes[rows, -1] != links.code[taken] ^ 1
            rows, taken = rows[onward], taken[onward]
        codes = np.concatenate([self.codes[rows], links.code[taken, None]], axis=1)
        return _Level(codes, links.to[taken], self.shares[rows] * links.share[taken])


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


def _spread(begin: NDArray[np.int64], flat: Ints, nodes: Ints) -> tuple[Ints, NDArray[np.int64]]:
    """The values of some nodes, of rows side by side, each with the place of its node."""
    sizes = begin[nodes + 1] - begin[nodes]
    places = np.repeat(np.arange(len(nodes)), sizes)
    return flat[np.arange(len(places)) + np.repeat(begin[nodes] - np.cumsum(sizes) + sizes, sizes)], places
