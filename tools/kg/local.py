"""The local engine: a pyoxigraph store in this process, in memory or on disk."""

from __future__ import annotations

import re
import shutil
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

import pyoxigraph as ox

from triplewise.tools.core.errors import DataError
from triplewise.tools.core.isolation import Ended, IsolatedCalls
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.engine import NESTED, PARTS, ReadQuery, Workers, total_order
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, Outcome, Result, Row
from triplewise.tools.kg.rdf import from_ox, is_well_formed

if TYPE_CHECKING:
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

EVERY_GRAPH = ("*",)


def damaged(folder: Path, error: object) -> DataError:
    """The error about a store in a folder that was loaded, of which a file is damaged."""
    remedy = f"load the graph again with `triplewise kg load FILES --into {folder} --replace`"
    return DataError(f"the store is damaged ({error}); {remedy}", folder)


class LocalKG(KnowledgeGraph):
    """A KG in a pyoxigraph store, in a folder (`path`) or in memory, which is never written to.

    pyoxigraph cannot be interrupted, so a query runs in a worker thread (see `Workers`), which stops at its
    next row. `graphs`, else all named graphs, are read as one with the default graph. A damaged file raises
    `DataError` in whatever reads it.
    """

    def __init__(
        self,
        store: ox.Store,
        profile: Profile,
        name: str,
        *,
        index: LabelIndex | None = None,
        path: Path | None = None,
        graphs: Sequence[str] | None = None,
    ) -> None:
        super().__init__(profile, name, index=index)
        self._store: ox.Store | None = store  # sessions look at that of `shared`
        self.path = path
        every = EVERY_GRAPH if next(iter(store.named_graphs()), None) is not None else ()
        self.graphs = every if graphs is None else tuple(graphs)
        self._workers = Workers()
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
        self.shared._store = None
        self._isolated.close()
        super().close()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except (OSError, RuntimeError) as error:
            raise error if self.path is None else damaged(self.path.parent, error) from error

    def quads(self) -> Iterator[ox.Quad]:
        """All that the store holds, in no particular order; nothing once it is closed."""
        with self._reading():
            yield from self.shared._store or ()

    def _select(self, sparql: str) -> Any:
        return self.store.query(sparql, **dataset(self.graphs))

    def size(self, most: int) -> int:
        """How many facts it holds; any number above `most` where there are more. 0 once it is closed."""
        if self.closed:
            return 0
        some = f"SELECT (COUNT(*) AS ?n) WHERE {{ {{ SELECT * WHERE {{ ?s ?p ?o }} LIMIT {most + 1} }} }}"
        with self._reading():
            return int(next(self._select(some))[0].value)

    def facts_by_relation(self, wanted: Callable[[str], bool]) -> Iterator[tuple[str, list[bytes]]]:
        """The facts of each relation that is wanted, by IRI: subject, a tab, object, as Turtle has them.

        Reading whole relations so is several times as fast as to iterate over `quads`.
        """
        with self._reading():
            every = () if self.closed else self._select("SELECT DISTINCT ?p WHERE { ?s ?p ?o }")
            for relation in filter(wanted, sorted(row[0].value for row in every)):
                facts = self._select(f"SELECT ?s ?o WHERE {{ ?s <{relation}> ?o }}")
                yield relation, facts.serialize(format=ox.QueryResultsFormat.TSV).splitlines()[1:]

    def _run(self, query: ReadQuery, timeout: float, limit: int, foreign: bool) -> Result:
        """Run a query; one that triplewise did not write in a process of its own, which can be ended."""
        parts = sum(t.kind == "word" or (t.kind == "mark" and t.text not in "(){}") for t in query.tokens)
        if parts > PARTS or any(t.depth > NESTED for t in query.tokens):  # its stack may overflow
            message = f"the query is too long or too deep: over {PARTS:,} words and signs, {NESTED} brackets"
            return Result(Outcome.SYNTAX, message=message)
        if (store := self.shared._store) is None:
            return self.closed_result()
        try:
            if foreign:
                deadline = self.deadline or Deadline(timeout)
                result: Result = self._isolated.run((query, limit), timeout, lambda: deadline.passed)
            else:
                job = partial(evaluate, store, query, limit, self.graphs)
                result = self._workers.run(job, timeout, self.deadline)
        except Ended as ended:
            return Result(Outcome.TIMEOUT, message=str(ended))
        except TimeoutError as error:
            return Result(Outcome.TIMEOUT, message=f"{error}; ask for less, or allow more time")
        if result.outcome is Outcome.UNAVAILABLE and self.path is not None:
            raise damaged(self.path.parent, result.message)
        return result

    def _label_rows(self, subjects: Sequence[IRI], deadline: Deadline) -> Result:
        """Index look-ups: pyoxigraph would scan a whole predicate to join it with a VALUES block."""
        if (store := self.shared._store) is None:
            return self.closed_result()
        graph, rows = None if self.graphs else ox.DefaultGraph(), list[Row]()
        predicates = [(IRI(p), ox.NamedNode(p)) for p in self.profile.label_predicates]
        with self._reading():
            for subject in filter(is_well_formed, subjects):
                if deadline.passed:
                    break
                node = ox.NamedNode(subject.value)
                for predicate, by in predicates:
                    quads = store.quads_for_pattern(node, by, None, graph)
                    rows += [(subject, predicate, from_ox(quad.object)) for quad in quads]
        outcome = Outcome.TIMEOUT if deadline.passed else Outcome.ROWS if rows else Outcome.EMPTY
        self.meter.add()
        return Result(outcome, ("s", "p", "l"), tuple(rows), "the labels were not read in time")


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
        rows: list[Row] = []
        for solution in answer:
            rows.append(tuple(from_ox(term) for term in solution))
            if cancelled.is_set():
                break
    except SyntaxError as error:
        reason = re.sub("(?s)expected one of Prefix not found.*", "this prefix is not declared", str(error))
        return Result(Outcome.SYNTAX, message=f"the query is not valid SPARQL: {reason}")
    except (OSError, RuntimeError, ValueError) as error:
        if isinstance(error, OSError) or str(error).startswith("Corruption"):
            return Result(Outcome.UNAVAILABLE, message=f"it cannot be read: {error}")
        return Result(Outcome.SYNTAX, message=f"the query cannot be evaluated: {error}")
    return Result.capped(variables, rows, limit)


def isolate(store: ox.Store, path: Path | None, graphs: Sequence[str]) -> IsolatedCalls:
    """What answers (query, row limit) in a process of its own; a store in memory is dumped for it, once."""
    dumps, lock, source = ExitStack(), threading.Lock(), [path]

    def arguments() -> tuple[str, ...]:
        with lock:
            if source[0] is None:
                folder = mkdtemp(prefix="triplewise-")
                dumps.callback(shutil.rmtree, folder, ignore_errors=True)
                source[0] = Path(folder, "graph.nq")
                store.dump(str(source[0]), ox.RdfFormat.N_QUADS)
        return str(source[0]), *graphs

    calls = IsolatedCalls(f"{__name__}:answerer", arguments)
    weakref.finalize(calls, dumps.close)
    return calls


def answerer(source: str, *graphs: str) -> Callable[[tuple[ReadQuery, int]], Result]:
    """Open a store, or the dump of one; runs in the process of its own."""
    if Path(source).is_dir():
        store = ox.Store.read_only(source)
    else:
        store = ox.Store()
        store.bulk_load(path=source, format=ox.RdfFormat.N_QUADS)
    return lambda request: evaluate(store, *request, graphs, threading.Event())
