"""Ways to find the paths between two nodes, and the process that runs one of them.

Each way runs in a process of its own: its memory is that of nothing else, and what it still does once its
time is over, since no query of the store can be interrupted, ends with it.
"""

from __future__ import annotations

import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any, TypeAlias

import pyoxigraph as ox

from triplewise.evals.bench.skewed import Skewed
from triplewise.tools.core.terms import IRI, Literal, Term, Triple
from triplewise.tools.kg.bounded import Deadline
from triplewise.tools.kg.embedded import EmbeddedKG
from triplewise.tools.kg.joined import Joined
from triplewise.tools.kg.pathsearch import Edge, PathSearch, other_end
from triplewise.tools.kg.profile import Profile
from triplewise.tools.kg.protocol import Hop, Outcome, Paths, Result

Search: TypeAlias = Callable[["Counted", Term, Term, int, Deadline, int], Paths]
Walk: TypeAlias = tuple[Hop, ...]
Tell: TypeAlias = Callable[[str, int, "int | None"], None]

QUIET = 2.0
"""Seconds that what a search leaves running may go on; then its process has to end."""
STORE, ADJACENCY, MADE = "store", "adjacency", "made.json"


class Counted(EmbeddedKG):
    """A KG that counts the rows which a search takes from its store."""

    rows = 0

    def edges(
        self, nodes: Sequence[Term], deadline: Deadline, ends: Collection[Term] | None = None
    ) -> tuple[list[Edge], Outcome, str]:
        """All edges at many nodes."""
        return self._count(super().edges(nodes, deadline, ends))

    def edges_between(
        self, left: Sequence[Term], right: Sequence[Term], deadline: Deadline
    ) -> tuple[list[Edge], Outcome, str]:
        """The edges that join two sets of nodes."""
        return self._count(super().edges_between(left, right, deadline))

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one SELECT or ASK."""
        found = super().query(sparql, timeout=timeout, limit=limit)
        self.rows += len(found.rows)
        return found

    def _count(self, found: tuple[list[Edge], Outcome, str]) -> tuple[list[Edge], Outcome, str]:
        self.rows += len(found[0])
        return found


def loaded(kg: Counted, source: Term, target: Term, hops: int, deadline: Deadline, limit: int) -> Paths:
    """Triplewise on a graph that it loaded: by whole numbers."""
    return kg.paths(source, target, hops, timeout=deadline.left, limit=limit)


def unloaded(kg: Counted, source: Term, target: Term, hops: int, deadline: Deadline, limit: int) -> Paths:
    """Triplewise on any other graph: from both ends, by queries."""
    return PathSearch(kg, deadline, limit).run_in_time(source, target, hops)


def one_sided(kg: Counted, source: Term, target: Term, hops: int, deadline: Deadline, limit: int) -> Paths:
    """An obvious alternative: breadth first from the source, every path followed to its end."""
    found: list[Walk] = []
    open_ends: list[tuple[Term, Walk, frozenset[Term]]] = [(source, (), frozenset((source,)))]
    for _ in range(hops):
        edges, outcome, message = kg.edges(list({end for end, _, _ in open_ends}), deadline)
        around: dict[Term, list[tuple[Hop, Term]]] = {}
        for near, triple in edges:
            around.setdefault(near, []).append((Hop(triple, triple.subject == near), other_end(near, triple)))
        following = []
        for end, path, seen in open_ends:
            for hop, far in around.get(end, ()):
                if far == target:
                    found.append((*path, hop))
                elif far not in seen:
                    following.append((far, (*path, hop), seen | {far}))
            if deadline.passed:
                return Paths(Outcome.TIMEOUT, tuple(found[:limit]), "cut by the deadline")
        open_ends = following
        if not outcome.ok or outcome is Outcome.TRUNCATED:
            return Paths(outcome, tuple(found[:limit]), message)
    return _capped(found, limit)


def joins(kg: Counted, source: Term, target: Term, hops: int, deadline: Deadline, limit: int) -> Paths:
    """The obvious alternative: one query that joins patterns without properties, one chain for each shape."""
    shapes = [shape for length in range(1, hops + 1) for shape in product((True, False), repeat=length)]
    result = kg.query(joins_query(source, target, shapes), timeout=deadline.left, limit=limit + 1)
    found = [_walk(row, source, target, shapes) for row in result.rows]
    if result.outcome in (Outcome.ROWS, Outcome.EMPTY, Outcome.TRUNCATED):
        return _capped(found, limit)
    return Paths(result.outcome, tuple(found), result.message)


def joins_query(source: Term, target: Term, shapes: Sequence[tuple[bool, ...]]) -> str:
    """Simple paths of every shape: the number of the shape, its relations, and the nodes between."""
    longest = max(map(len, shapes))
    relations, between = ([f"?{x}{i}" for i in range(longest - less)] for x, less in (("p", 0), ("n", 1)))
    branches = []
    for number, shape in enumerate(shapes):
        nodes = [source.n3(), *between[: len(shape) - 1], target.n3()]
        steps = (
            f"{a} {p} {b}" if forward else f"{b} {p} {a}"
            for a, p, b, forward in zip(nodes, relations, nodes[1:], shape, strict=False)
        )
        apart = [f"{a} != {b}" for i, a in enumerate(nodes[1:-1], 1) for b in (*nodes[:i], nodes[-1])]
        simple = f"FILTER({' && '.join(apart)}) " if apart else ""
        branches.append(f"{{ {' . '.join(steps)} {simple}BIND({number} AS ?k) }}")
    columns = " ".join(("?k", *relations, *between))
    return f"SELECT {columns} WHERE {{ {' UNION '.join(branches)} }}"


def _walk(
    row: tuple[Term | None, ...], source: Term, target: Term, shapes: Sequence[tuple[bool, ...]]
) -> Walk:
    if not isinstance(row[0], Literal):
        raise TypeError(f"no number of a shape: {row[0]!r}")
    shape, longest = shapes[int(row[0].value)], len(row) // 2
    nodes = [source, *row[longest + 1 : longest + len(shape)], target]
    steps = zip(nodes, row[1:], nodes[1:], shape, strict=False)
    return tuple(_hop(a, p, b, forward) for a, p, b, forward in steps)


def _hop(near: Term | None, relation: Term | None, far: Term | None, forward: bool) -> Hop:
    subject, obj = (near, far) if forward else (far, near)
    if not isinstance(subject, IRI) or not isinstance(relation, IRI) or obj is None:
        raise TypeError(f"no triple: {subject!r} {relation!r} {obj!r}")
    return Hop(Triple(subject, relation, obj), forward)


def _capped(found: Sequence[Walk], limit: int) -> Paths:
    cut = len(found) > limit
    return Paths(Outcome.TRUNCATED if cut else Outcome.ROWS, tuple(found[:limit]))


SEARCHES: dict[str, Search] = {
    "triplewise, loaded": loaded,
    "triplewise, queries": unloaded,
    "one-sided": one_sided,
    "SPARQL joins": joins,
}


def make(graph: Skewed, folder: Path, tell: Tell) -> dict[str, Any]:
    """The graph as a store on disk with its adjacency, made where the folder does not hold them yet.

    Returns the seconds and the megabytes of both, and how many triples the store holds.
    """
    from triplewise.tools.kg.adjacency import build

    if (folder / MADE).is_file():
        known: dict[str, Any] = json.loads((folder / MADE).read_text(encoding="utf-8"))
        return known
    text, writing = folder / "graph.nt", "writing the graph"
    graph.write(text, lambda done: tell(writing, done, graph.triples))
    tell("loading the store", 0, None)
    start = time.perf_counter()
    store = ox.Store(str(folder / STORE))
    store.bulk_load(path=str(text), format=ox.RdfFormat.N_TRIPLES)
    store.optimize()
    store.flush()
    seconds = {STORE: time.perf_counter() - start}
    text.unlink()
    triples, start = len(store), time.perf_counter()
    build(store, Profile(), folder / ADJACENCY, triples, lambda done: tell("joining nodes", done, triples))
    seconds[ADJACENCY] = time.perf_counter() - start
    sizes = {part: _megabytes((folder / part).iterdir()) for part in (STORE, ADJACENCY)}
    made = {"triples": triples, "seconds": seconds, "megabytes": sizes}
    (folder / MADE).write_text(json.dumps(made), encoding="utf-8")
    return made


def _megabytes(files: Iterable[Path]) -> int:
    return sum(file.stat().st_size for file in files) >> 20


def open_made(folder: Path) -> Counted:
    """What `make` made."""
    triples = json.loads((folder / MADE).read_text(encoding="utf-8"))["triples"]
    kg = Counted(ox.Store.read_only(str(folder / STORE)), Profile(), "skewed")
    kg.joined = Joined(folder / ADJACENCY, triples)
    return kg


def answers(folder: Path, search: str, hops: int, seconds: float, limit: int) -> Iterator[dict[str, Any]]:
    """Answer the pairs of stdin, one JSON list a line; the first answer says that the graph is open."""
    kg, run = open_made(folder), SEARCHES[search]
    run(kg, IRI("urn:nobody"), IRI("urn:nowhere"), hops, Deadline(30), limit)  # brings what is opened late
    yield {}
    for line in sys.stdin:
        source, target = map(IRI, json.loads(line))
        kg.rows, start, worked = 0, time.perf_counter(), time.process_time()
        found = run(kg, source, target, hops, Deadline(seconds), limit)
        yield {
            "seconds": time.perf_counter() - start,
            "cpu": time.process_time() - worked,
            "outcome": found.outcome.value,
            "paths": len(found.paths),
            "rows": kg.rows,
            "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10,
            "busy": found.outcome is Outcome.TIMEOUT and not _quiet(),
        }


def _quiet() -> bool:
    """Whether this process has soon ended what a search left running in it."""
    within = Deadline(QUIET)
    while not within.passed:
        before = time.process_time()
        time.sleep(0.05)
        if time.process_time() - before < 0.01:
            return True
    return False


def main(order: str) -> None:
    """Make a graph or answer pairs, as an order in JSON says, with one line of JSON for each step."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that started this one ends it
    given = json.loads(order)
    folder = Path(given.pop("folder"))
    if "triples" in given:
        made = make(Skewed(**given), folder, lambda *step: _say({"step": step}))
        _say({"made": made})
        return
    with suppress(BrokenPipeError):  # the process that started this one has ended
        for answer in answers(folder, **given):
            _say(answer)


def _say(line: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1])
