"""The embedded engine: a pyoxigraph store in this process, in memory or on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from triplewise.tools.core.isolation import Ended, IsolatedCalls
from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.engine import NESTED, PARTS, ReadQuery, Workers, total_order
from triplewise.tools.kg.isolated import isolate
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, Outcome, Result
from triplewise.tools.kg.rdf import from_ox

if TYPE_CHECKING:
    from triplewise.tools.kg.adjacency import Adjacency
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

EVERY_GRAPH = ("*",)
_CLOCK_EVERY = 512


class EmbeddedKG(KnowledgeGraph):
    """A KG in a pyoxigraph store.

    pyoxigraph has no time-out of its own and cannot be interrupted inside sorting, grouping, ASK, or the
    search for the next row. A query therefore runs in a worker thread of this KG (see `Workers`): the caller
    gets `timeout` in time; the worker stops at its next row or when the engine is done with it.

    Args:
        store: in memory (`Store()`) or on disk (`Store.read_only(path)`). It is never written to. Where
            it has named graphs, they are all read as one.
        adjacency: opens the edges as whole numbers when paths are first asked for; by default they are built
            from the store then. Where it gives None, paths are searched for by queries.
        path: folder of the store, where it lies on disk.
        profile, name, timeout, limit, index: as for every KG.
    """

    path_seconds = 1.0  # nobody waits longer for what lies in this process, and a cut search says so

    def __init__(
        self,
        store: ox.Store,
        profile: Profile,
        name: str,
        *,
        timeout: float = 30.0,
        limit: int = 10_000,
        index: LabelIndex | None = None,
        adjacency: Callable[[], Adjacency | None] | None = None,
        path: Path | None = None,
    ) -> None:
        super().__init__(profile, name, timeout=timeout, limit=limit, index=index)

        def build() -> Adjacency | None:
            from triplewise.tools.kg.adjacency import build_adjacency  # brings numpy

            return build_adjacency(store, profile)

        self._store: ox.Store | None = store  # sessions look at that of `shared`, and so for the adjacency
        self.path = path
        self.graphs = EVERY_GRAPH if next(iter(store.named_graphs()), None) is not None else ()
        self._make_adjacency: Callable[[], Adjacency | None] | None = adjacency or build
        self._adjacency: Adjacency | None = None
        self._workers, self._lock = Workers(), threading.Lock()
        self._isolated = isolate(store, path, self.graphs)

    @property
    def store(self) -> ox.Store:
        """The store of a KG that is open."""
        assert self.shared._store is not None
        return self.shared._store

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self.shared._store is None

    def close(self) -> None:
        """Let go of the store and the label index. Later calls say `unavailable`."""
        with self._lock:
            self.shared._store = self.shared._adjacency = self.shared._make_adjacency = None
        self._isolated.close()
        super().close()

    def quads(self) -> Iterator[ox.Quad]:
        """All that the store holds, in no particular order; nothing once it is closed."""
        store = self.shared._store
        return iter(()) if store is None else iter(store)

    def size(self, most: int) -> int:
        """How many facts it holds; any number above `most` where there are more. 0 once it is closed."""
        if (store := self.shared._store) is None:
            return 0
        some = f"SELECT (COUNT(*) AS ?n) WHERE {{ {{ SELECT * WHERE {{ ?s ?p ?o }} LIMIT {most + 1} }} }}"
        answer: Any = store.query(some, **dataset(self.graphs))
        return int(next(answer)[0].value)

    def facts_by_relation(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, list[bytes]]]:
        """The facts of each relation that is wanted, by IRI: subject, a tab, object, as Turtle has them.

        Reading whole relations so is several times as fast as to iterate over `quads`.
        """
        store = self.shared._store
        if store is None:
            return

        def select(sparql: str) -> Any:
            return store.query(sparql, **dataset(self.graphs))

        for relation in sorted(row[0].value for row in select("SELECT DISTINCT ?p WHERE { ?s ?p ?o }")):
            if wanted(relation):
                facts = select(f"SELECT ?s ?o WHERE {{ ?s <{relation}> ?o }}")
                yield relation, facts.serialize(format=ox.QueryResultsFormat.TSV).splitlines()[1:]

    def adjacency(self) -> Adjacency | None:
        """The edges as whole numbers; None where there are none that hold all that the profile allows."""
        kg = self.shared
        with self._lock:
            if kg._make_adjacency is not None:
                kg._adjacency, kg._make_adjacency = kg._make_adjacency(), None
            graph = kg._adjacency
        return graph if graph and all(map(self.profile.excludes, graph.left_out)) else None

    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        store = self.shared._store
        return self.run_in(store, self.graphs, query, timeout, limit, self.deadline)

    def _run_foreign(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        return self.run_isolated(self._isolated, query, timeout, limit, self.deadline)

    def run_in(
        self,
        store: ox.Store | None,
        graphs: Sequence[str],
        query: ReadQuery,
        timeout: float,
        limit: int,
        within: Deadline | None,
    ) -> Result:
        """Run a query in a thread of this KG, over a store and those of its named graphs."""
        if store is None or self.closed:
            return self._closed_result()
        if query.overflows:
            return _overflow()

        def job(cancelled: threading.Event) -> Result:
            return evaluate(store, query, limit, graphs, cancelled)

        try:
            return self._workers.run(job, timeout, within)
        except TimeoutError as error:
            return Result(Outcome.TIMEOUT, message=f"{error}; ask for less, or allow more time")

    def run_isolated(
        self, calls: IsolatedCalls, query: ReadQuery, timeout: float, limit: int, within: Deadline | None
    ) -> Result:
        """Run a query that triplewise did not write in a process of its own."""
        if self.closed:
            return self._closed_result()
        if query.overflows:
            return _overflow()
        try:
            return calls.run((query, limit), timeout, within)  # type: ignore[no-any-return]
        except Ended as ended:
            return Result(Outcome.TIMEOUT, message=str(ended))

    def _label_rows(self, subjects: Sequence[IRI], deadline: Deadline) -> Result:
        """Index look-ups: pyoxigraph would scan a whole predicate to join it with a VALUES block."""
        if (store := self.shared._store) is None:
            return self._closed_result()
        start, rows = time.perf_counter(), []
        graph = None if self.graphs else ox.DefaultGraph()
        predicates = [IRI(p) for p in self.profile.label_predicates]
        for number, subject in enumerate(subjects):
            if number % _CLOCK_EVERY == 0 and deadline.passed:
                break
            for predicate in predicates:
                try:
                    s, p = ox.NamedNode(subject.value), ox.NamedNode(predicate.value)
                except ValueError:  # a store refuses IRIs that are wrong in hidden ways
                    continue
                for quad in store.quads_for_pattern(s, p, None, graph):
                    label = from_ox(quad.object)
                    if isinstance(label, Literal):
                        rows.append((subject, predicate, label))
        outcome = Outcome.TIMEOUT if deadline.passed else Outcome.ROWS if rows else Outcome.EMPTY
        self.meter.add(outcome, time.perf_counter() - start)
        return Result(outcome, ("s", "p", "l"), tuple(rows), "the labels were not read in time")

    def _closed_result(self) -> Result:
        message = f"the knowledge graph {self.name!r} was closed: open it again"
        return Result(Outcome.UNAVAILABLE, message=message)


def _overflow() -> Result:
    message = f"the query is too long or too deep: over {PARTS:,} words and signs or {NESTED} brackets"
    return Result(Outcome.SYNTAX, message=message)


def dataset(graphs: Sequence[str]) -> dict[str, Any]:
    """The options of `Store.query` that read the default graph and these named graphs as one."""
    if tuple(graphs) == EVERY_GRAPH:
        return {"use_default_graph_as_union": True}
    return {"default_graph": [ox.DefaultGraph(), *map(ox.NamedNode, graphs)]} if graphs else {}


def evaluate(
    store: ox.Store, query: ReadQuery, limit: int, graphs: Sequence[str], cancelled: threading.Event
) -> Result:
    """Run a query to its end, its cap, or its cancellation. pyoxigraph's iterators stay in this thread."""
    try:
        answer = store.query(total_order(query.capped(limit + 1)), **dataset(graphs))
        if isinstance(answer, ox.QueryBoolean):
            return Result.ask(bool(answer))
        if not isinstance(answer, ox.QuerySolutions):
            return Result(Outcome.SYNTAX, message="only SELECT and ASK are answered")
        variables = tuple(v.value for v in answer.variables)
        rows: list[tuple[Term | None, ...]] = []
        for solution in answer:
            rows.append(tuple(from_ox(term) for term in solution))
            if cancelled.is_set():
                break
    except SyntaxError as error:
        return Result(Outcome.SYNTAX, message=f"the query is not valid SPARQL: {error}")
    except (RuntimeError, ValueError) as error:
        return Result(Outcome.SYNTAX, message=f"the query cannot be evaluated: {error}")
    except OSError as error:
        return Result(Outcome.UNAVAILABLE, message=f"the store cannot be read: {error}")
    return Result.capped(variables, rows, limit)
