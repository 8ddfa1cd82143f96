"""Classes of an index, their members, and the paths of relations between them.

A node without a class of the graph's is of one that the relations to or from it imply.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from heapq import nlargest, nsmallest
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from triplewise.tools.core.names import fold
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.parsing.facts import SCHEMA, SortedFacts, best_names, term_of
from triplewise.tools.parsing.query import Path, Step
from triplewise.tools.parsing.relations import Ints, Keep, Nodes, Relation, words_of

WIDTH, PATHS = 200, 8  # first steps that are made longer, and paths that are given
MANY_CLASSES = 4  # classes of one set of nodes that paths are looked for from and to
KEPT_PATHS, KEPT_ENDS = 100_000, 2_000  # pairs of ends whose paths are kept, and ends


@dataclass(frozen=True, slots=True)
class Class:
    """A class of nodes with its names, the best first."""

    names: tuple[str, ...]
    real: bool  # of entities, not literals
    iri: IRI | None = None  # where the graph names it
    steps: tuple[Step, ...] = ()  # where it does not: what leads to its members, which have no other class


class Classes:
    """The classes of an index: those that the graph names, then those that relations imply.

    `members`: of its subclasses too; `own`: how many nodes the graph says are of it itself; `types`: those of
    each node itself; `steps`: by class, what members can take, with the classes it leads to and the share.
    """

    def __init__(
        self, read: SortedFacts, relations: Sequence[Relation], texts: Mapping[IRI, RelationText], keep: Keep
    ) -> None:
        direct: dict[bytes, list[int]] = defaultdict(list)
        typed = np.zeros(len(read.ids), bool)
        for node, of in read.types:
            typed[node] = True
            if not of.startswith(_IS_SCHEMA):
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
        self.members: Callable[[int], Nodes] = cache(
            lambda c: keep(frozenset().union(*(own[sub].tolist() for sub in groups[c])))
        )
        # The classes of node i, one after the other: flat[begin[i] : begin[i + 1]].
        nodes = np.concatenate([*own, np.zeros(0, np.int32)])
        flat = np.repeat(np.arange(len(own), dtype=np.int32), self.own)
        self._flat = flat[np.argsort(nodes, kind="stable")]
        self._begin = np.concatenate([[0], np.cumsum(np.bincount(nodes, minlength=len(read.ids)))])
        found = self._flat.tolist()
        self.types = [keep(frozenset(found[a:b])) for a, b in pairwise(self._begin.tolist())]
        self.steps = cache(self._steps_from)
        self.paths = lru_cache(KEPT_PATHS)(self._paths)
        self._around = lru_cache(KEPT_ENDS)(self._steps_around)

    def _paths(self, a: Nodes, b: Nodes) -> list[Path]:
        """Paths of one or two relations between classes: the shortest first, then what most members take."""
        leaving, arriving = self._around(self._largest(a)), self._around(self._largest(b))
        best: dict[Path, float] = {}
        for c in self._largest(b) & leaving.keys():
            for step, share in leaving[c].items():
                shares = (arriving[d].get((step[0], -step[1]), 0.0) for d in a & arriving.keys())
                best[(step,)] = max(best.get((step,), 0.0), share + max(shares, default=0.0))
        if len(best) < PATHS:
            middle = [c for c in leaving.keys() & arriving.keys() - b if self.classes[c].real]
            first = ((share, c, one) for c in middle for one, share in leaving[c].items())
            for share, c, one in nlargest(WIDTH, first):
                for (r, way), back in arriving[c].items():
                    if (r, way) != one:  # it would go back at once
                        best[one, (r, -way)] = max(best.get((one, (r, -way)), 0.0), share + back)
        return sorted(best, key=lambda path: (len(path), -best[path], path))[:PATHS]

    def _steps_around(self, classes: Nodes) -> dict[int, dict[Step, float]]:
        """The classes that some lead to: by what, and the share of members that can take it."""
        found: dict[int, dict[Step, float]] = defaultdict(dict)
        for c in classes:
            for step, ends in self.steps(c).items():
                for end, share in ends.items():
                    found[end][step] = max(share, found[end].get(step, 0.0))
        return dict(found)

    def _largest(self, classes: Nodes) -> Nodes:
        """The classes with the most members, where there are many."""
        return frozenset(nsmallest(MANY_CLASSES, classes, key=lambda c: (-self.own[c], c)))

    @cached_property
    def _links(self) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], NDArray[np.float64]]:
        """The single steps between classes, by the classes that nodes have themselves: from which, by what
        (2 * relation, + 1 against its direction), to which, and the share of members that can take it."""
        none = [np.zeros(0, np.int32)]
        near = np.concatenate(none + [e for r in self._relations for e in (r.starts, r.ends)])
        far = np.concatenate(none + [e for r in self._relations for e in (r.ends, r.starts)])
        sizes = [len(r.starts) for r in self._relations for _ in range(2)]
        code = np.repeat(np.arange(len(sizes)), sizes)
        classes, nodes = max(len(self.classes), 1), max(len(self.types), 1)
        of, edges = self._classes_at(near)
        to, rows = self._classes_at(far[edges])
        step = (of[rows].astype(np.int64) * max(len(sizes), 1) + code[edges[rows]]) * classes + to
        taken, counts = np.unique(np.unique(step * nodes + near[edges[rows]]) // nodes, return_counts=True)
        before, end = np.divmod(taken, classes)
        start, what = np.divmod(before, max(len(sizes), 1))
        return start, what, end, counts / np.array(self.own)[start]

    def _classes_at(self, nodes: Ints) -> tuple[Ints, NDArray[np.int64]]:
        """The classes of some nodes, side by side, each with the place of its node."""
        begins, sizes = self._begin[nodes], self._begin[nodes + 1] - self._begin[nodes]
        runs = np.arange(int(sizes.sum())) + np.repeat(begins - np.cumsum(sizes) + sizes, sizes)
        return self._flat[runs], np.repeat(np.arange(len(nodes)), sizes)

    def _steps_from(self, c: int) -> dict[Step, dict[int, float]]:
        """The steps from a class to others, with the share of its members that can take each."""
        found: dict[Step, dict[int, float]] = {}
        size = max(len(self.members(c)), 1)
        for sub in self._groups[c]:
            low, high = np.searchsorted(self._links[0], [sub, sub + 1])
            rows = zip(*(column[low:high].tolist() for column in self._links[1:]), strict=True)
            for code, to, share in rows:
                ends = found.setdefault((code >> 1, -1 if code & 1 else 1), {})
                ends[to] = min(ends.get(to, 0.0) + self.own[sub] / size * share, 1.0)
        return found


_IS_SCHEMA = tuple(f"<{schema}".encode() for schema in SCHEMA)


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
                    if not parent.startswith(_IS_SCHEMA):
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
