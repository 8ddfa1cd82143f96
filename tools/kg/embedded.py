"""The embedded engine: a pyoxigraph store in this process, in memory or on disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import pyoxigraph as ox

from triplewise.tools.core.terms import IRI, Literal, Term, Triple
from triplewise.tools.kg.bounded import Deadline, Workers
from triplewise.tools.kg.engine import Engine, capped_result
from triplewise.tools.kg.oxterms import from_ox, holdable, safe_iri, to_ox
from triplewise.tools.kg.pathsearch import Edge
from triplewise.tools.kg.protocol import Outcome, Paths, Result
from triplewise.tools.kg.queries import degree_query
from triplewise.tools.kg.readonly import ReadQuery

if TYPE_CHECKING:
    from triplewise.tools.kg.joined import Joined
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

_WORKERS = Workers()
_EDGE_CAP = 500_000
_CLOCK_EVERY = 512

Pattern: TypeAlias = tuple[Term, tuple[Any, Any, Any], bool]
"""The node asked for, a quad pattern (None for any), and whether the node is its subject."""


class EmbeddedKG(Engine):
    """A KG in a pyoxigraph store.

    pyoxigraph has no time-out of its own and cannot be interrupted inside sorting, grouping, ASK, or the
    search for the next row. A query therefore runs in a worker thread: the caller gets `timeout` in time;
    the worker stops at its next row or, where none comes, when the engine is done with it. At most 16 such
    left-over queries can occupy the process; further ones then wait within their own time-out.

    Args:
        store: in memory (`Store()`) or on disk (`Store.read_only(path)`). It is never written to. Where
            it has named graphs, they are all read as one.
        profile: how this KG is shaped.
        name: shown to people.
        timeout: seconds a call may take.
        limit: rows a call may return.
        index: label index, where there is one.

    Attributes:
        joined: finds paths by whole numbers, where the store has such files beside it.
    """

    joined: Joined | None = None

    def __init__(
        self,
        store: ox.Store,
        profile: Profile,
        name: str,
        *,
        timeout: float = 30.0,
        limit: int = 10_000,
        index: LabelIndex | None = None,
    ) -> None:
        super().__init__(profile, name, timeout=timeout, limit=limit, index=index)
        self._store: ox.Store | None = store
        self._union = next(iter(store.named_graphs()), None) is not None

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._store is None

    def close(self) -> None:
        """Let go of the store. Later calls say `unavailable`."""
        self._store = None

    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        if (store := self._store) is None:
            return _closed(self.name)

        def job(cancelled: threading.Event) -> Result:
            return _evaluate(store, query, limit, self._union, cancelled)

        try:
            return _WORKERS.run(job, timeout)
        except TimeoutError as error:
            return Result(Outcome.TIMEOUT, message=f"{error}; ask for less, or allow more time")

    def quads(self) -> Iterator[ox.Quad]:
        """All that the store holds, in no particular order; nothing once it is closed."""
        return iter(self._store) if self._store is not None else iter(())

    @property
    def path_seconds(self) -> float:
        """A second at most: nobody waits longer for what lies in this process, and a cut search says so."""
        return min(self.timeout, 1.0)

    def _search(self, source: Term, target: Term, max_hops: int, deadline: Deadline, limit: int) -> Paths:
        found = None
        if self._store is not None and self.joined is not None:
            start = time.perf_counter()
            found = self.joined.paths(self.profile, source, target, max_hops, deadline, limit)
            if found is not None:
                self.meter.add(found.outcome, time.perf_counter() - start)
        return super()._search(source, target, max_hops, deadline, limit) if found is None else found

    def edges(
        self, nodes: Sequence[Term], deadline: Deadline, ends: Collection[Term] | None = None
    ) -> tuple[list[Edge], Outcome, str]:
        """All edges at many nodes, read straight from the store's indexes."""
        return self._scan((p for n in holdable(nodes) for p in _patterns(n)), deadline, ends)

    def edges_between(
        self, left: Sequence[Term], right: Sequence[Term], deadline: Deadline
    ) -> tuple[list[Edge], Outcome, str]:
        """The edges that join two sets of nodes."""
        starts, ends = holdable(left), holdable(right)
        return self._scan((p for n in starts for m in ends for p in _pair_patterns(n, m)), deadline)

    def degree(self, nodes: Sequence[Term], deadline: Deadline, most: int = 2_000) -> int:
        """How many edges the nodes have, counted to one more than `most`; their number if time runs out."""
        counted = self.query(degree_query(holdable(nodes), most + 1), timeout=deadline.left, limit=1)
        value = counted.rows[0][0] if counted.rows else None
        return int(value.value) if value is not None else len(nodes)

    def hubs(self, nodes: Sequence[Term], deadline: Deadline, above: int) -> list[Term]:
        """Those of the nodes that have more than so many edges; no node's edges are counted further."""
        start, found = time.perf_counter(), []
        for node in holdable(nodes):
            if self._store is None or deadline.passed:
                break
            query = degree_query([node], above + 1)
            counted: Any = self._store.query(query, use_default_graph_as_union=self._union)
            if int(next(counted)[0].value) > above:
                found.append(node)
        self.meter.add(Outcome.ROWS, time.perf_counter() - start)
        return found

    def _label_rows(
        self, subjects: Sequence[IRI], predicates: Sequence[IRI], language: str | None, deadline: Deadline
    ) -> Result:
        """Index look-ups: pyoxigraph would scan a whole predicate to join it with a VALUES block."""
        if self._store is None:
            return _closed(self.name)
        start = time.perf_counter()
        patterns = ((s, (to_ox(s), to_ox(p), None), True) for s in holdable(subjects) for p in predicates)
        rows = [
            (node, from_ox(quad.predicate), label)
            for node, quad, _ in self._quads(self._store, patterns, deadline)
            if isinstance(label := from_ox(quad.object), Literal)
            and (language is None or label.language.lower() in ("", language.lower()))
        ]
        outcome = Outcome.TIMEOUT if deadline.passed else Outcome.ROWS if rows else Outcome.EMPTY
        self.meter.add(outcome, time.perf_counter() - start)
        return Result(outcome, ("s", "p", "l"), tuple(rows))

    def _scan(
        self, wanted: Iterable[Pattern], deadline: Deadline, ends: Collection[Term] | None = None
    ) -> tuple[list[Edge], Outcome, str]:
        """Edges that match any of the patterns and lead to one of `ends`, counted as one query."""
        if self._store is None:
            return [], Outcome.UNAVAILABLE, _closed(self.name).message
        start = time.perf_counter()
        kept = None if ends is None else {to_ox(end) for end in holdable(ends)}
        relations: dict[ox.NamedNode, IRI | None] = {}
        found: list[Edge] = []
        outcome, message = Outcome.ROWS, ""
        for node, quad, forward in self._quads(self._store, wanted, deadline):
            far_end = quad.object if forward else quad.subject
            if kept is not None and far_end not in kept:
                continue
            if (predicate := quad.predicate) not in relations:
                relations[predicate] = self._relation(predicate)
            if (relation := relations[predicate]) is not None:
                found.append((node, _triple(node, relation, far_end, forward)))
            if len(found) >= _EDGE_CAP:
                outcome, message = Outcome.TRUNCATED, f"cut at {_EDGE_CAP} edges"
                break
        if deadline.passed:
            outcome, message = Outcome.TIMEOUT, f"no complete answer within {deadline.seconds:g} s"
        self.meter.add(outcome, time.perf_counter() - start)
        return found, outcome, message

    def _relation(self, predicate: ox.NamedNode) -> IRI | None:
        """The relation a path may walk, None if the profile excludes it."""
        relation = safe_iri(predicate.value)
        return None if self._excludes(relation) else relation

    def _quads(
        self, store: ox.Store, wanted: Iterable[Pattern], deadline: Deadline
    ) -> Iterator[tuple[Term, ox.Quad, bool]]:
        """Quads of all patterns, until time is over."""
        graph = None if self._union else ox.DefaultGraph()
        ticks = 0
        for node, (subject, predicate, obj), forward in wanted:
            for quad in store.quads_for_pattern(subject, predicate, obj, graph):
                yield node, quad, forward
                ticks += 1
                if ticks % _CLOCK_EVERY == 0 and deadline.passed:
                    return
            ticks += 1
            if ticks % _CLOCK_EVERY == 0 and deadline.passed:
                return


def _evaluate(
    store: ox.Store, query: ReadQuery, limit: int, union: bool, cancelled: threading.Event
) -> Result:
    """Run a query to its end, its cap, or its cancellation. pyoxigraph's iterators stay in this thread."""
    try:
        answer = store.query(query.capped(limit + 1), use_default_graph_as_union=union)
        if isinstance(answer, ox.QueryBoolean):
            return Result(Outcome.ROWS, boolean=bool(answer))
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
    return capped_result(variables, rows, limit)


def _patterns(node: Term) -> Iterator[Pattern]:
    """The quad patterns that find all edges at a node."""
    if isinstance(node, IRI):
        yield node, (to_ox(node), None, None), True
    yield node, (None, None, to_ox(node)), False


def _pair_patterns(left: Term, right: Term) -> Iterator[Pattern]:
    """The quad patterns that find the edges between two nodes."""
    if isinstance(left, IRI):
        yield left, (to_ox(left), None, to_ox(right)), True
    if isinstance(right, IRI):
        yield left, (to_ox(right), None, to_ox(left)), False


def _triple(node: Term, relation: IRI, far_end: Any, forward: bool) -> Triple:
    far = from_ox(far_end)
    subject, obj = (node, far) if forward else (far, node)
    if not isinstance(subject, IRI) or obj is None:
        raise TypeError(f"no triple can have the subject {subject!r}")
    return Triple(subject, relation, obj)


def _closed(name: str) -> Result:
    return Result(Outcome.UNAVAILABLE, message=f"the knowledge graph {name!r} was closed: open it again")
