"""What both engines share: everything a KG offers, built over `query`, and the cache of its answers.

All queries here are built from terms (`.n3()`), never from text of a model or a user; the one exception is
the group pattern `where`, which PyQL makes from terms.
"""

from __future__ import annotations

import copy
import re
import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Self, TypeVar

from triplewise.tools.core.lru import LRUCache
from triplewise.tools.core.terms import IRI, XSD, Literal, Term, Triple, Variable
from triplewise.tools.kg.protocol import (
    Deadline,
    Direction,
    Hop,
    KnowledgeGraph,
    Meter,
    Neighbours,
    Outcome,
    Paths,
    Relations,
    Result,
    is_datatype,
    path_order,
)
from triplewise.tools.kg.protocol import Path as GraphPath
from triplewise.tools.kg.readonly import ReadQuery, Refused, read_query, variable_names

if TYPE_CHECKING:
    from triplewise.tools.kg.adjacency import Adjacency
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

T = TypeVar("T")

BATCH = 500
"""Terms a VALUES block holds at most; Virtuoso's compiler fails on some thousand."""
ROWS_PER_LABEL = 20
"""Rows fetched a node when labels are asked: several predicates, a few languages."""
CHAIN_CAP = 50_000
"""Chains of one length fetched at most by a search for paths."""
LABEL_CACHE = 100_000
"""Labels kept a KG."""
ANSWERS, ANSWER_ROWS = 200, 2_000
"""Most answers that a cache keeps, and most rows of one."""
_FRESH = ("out", "in", "other")
_SELECT = re.compile(
    r"(?P<prologue>.*?)SELECT\s+DISTINCT\s+(?P<names>(?:\?\w+\s+)+)WHERE\s+(?P<body>\{.*\})"
    r"(?:\s+LIMIT\s+(?P<cut>\d+))?\s*",
    re.DOTALL,
)
"""A query whose answers are the distinct values of some variables of a pattern, and nothing else."""


class AnswerCache:
    """Answers of one KG by query, for one question. Safe to use from several threads.

    Steps repeat queries: choosing the answer shows the same values again, and the proof begins with the
    executed query. Answers are kept for one question only, so that a KG that changes is never answered for
    from an old one, and failures (time-outs, ...) are never kept. A result that no LIMIT cut also answers for
    fewer variables of the same pattern: distinct values of some variables are what is distinct among the
    distinct values of more of them.
    """

    def __init__(self) -> None:
        self._answers: OrderedDict[tuple[str, int], Result] = OrderedDict()
        self._lock = threading.Lock()

    def find(self, sparql: str, limit: int) -> Result | None:
        """Return what the KG answered to a query, with at most `limit` rows; None if that is not here."""
        with self._lock:
            if (answer := self._answers.get((sparql, limit))) is not None:
                return answer
            if (select := _SELECT.fullmatch(sparql)) is None:
                return None
            whole = self._answers.get((select["prologue"] + select["body"], limit))
        names = tuple(name[1:] for name in select["names"].split())
        if whole is None or not set(names) <= set(whole.variables):
            return None
        places = [whole.variables.index(name) for name in names]
        rows = tuple(dict.fromkeys(tuple(row[i] for i in places) for row in whole.rows))
        return replace(whole, variables=names, rows=rows[: int(select["cut"])] if select["cut"] else rows)

    def keep(self, sparql: str, limit: int, result: Result) -> None:
        """Remember an answer. Failures and cut or very long results are asked for again."""
        if result.outcome not in (Outcome.ROWS, Outcome.EMPTY) or len(result.rows) > ANSWER_ROWS:
            return
        with self._lock:
            self._answers[sparql, limit] = result
            select = _SELECT.fullmatch(sparql)
            if select is not None and (select["cut"] is None or len(result.rows) < int(select["cut"])):
                key = (select["prologue"] + select["body"], limit)  # no query itself
                if key not in self._answers or len(self._answers[key].variables) <= len(result.variables):
                    self._answers[key] = result
            while len(self._answers) > ANSWERS:
                self._answers.popitem(last=False)


class Engine(ABC):
    """Base of the KG engines: an engine adds `_run`, the one way to its store.

    Attributes:
        cache_dirs: folders where what is worked out about this KG may be kept, best first; () for nowhere.

    Args:
        profile: how this KG is shaped.
        name: shown to people.
        timeout: seconds a call may take.
        limit: rows a call may return.
        index: label index, where there is one.
    """

    cache_dirs: tuple[Path, ...] = ()

    def __init__(
        self, profile: Profile, name: str, *, timeout: float, limit: int, index: LabelIndex | None
    ) -> None:
        self.profile, self.name, self.timeout, self.limit = profile, name, timeout, limit
        self._index = index
        self._labels: LRUCache[IRI, str] = LRUCache(LABEL_CACHE)  # "" for a node that has none
        self._meter = Meter()
        self._answers: AnswerCache | None = None
        self._shared: Self | None = None

    def session(
        self,
        *,
        meter: Meter | None = None,
        answers: AnswerCache | None = None,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Self:
        """The same store, labels and indexes for one run; see `KnowledgeGraph.session`."""
        session = copy.copy(self)
        session._shared = self.shared
        session._meter = meter or Meter()
        session._answers = answers
        session.timeout = self.timeout if timeout is None else timeout
        session.limit = self.limit if limit is None else limit
        return session

    @property
    def shared(self) -> Self:
        """The KG that this is a session of, itself where it is none."""
        return self._shared or self

    @property
    def meter(self) -> Meter:
        """Counts the queries that reach the store by way of this object."""
        return self._meter

    @property
    def index(self) -> LabelIndex | None:
        """The label index, where this KG has one."""
        return self._index

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether it was closed: every call then says `unavailable`."""

    @abstractmethod
    def close(self) -> None:
        """Free what is held. Safe to call twice."""

    @abstractmethod
    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        """Run a query that passed the gate, at most `limit` rows and `timeout` seconds."""

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one SELECT or ASK; see `KnowledgeGraph.query`.

        Rows with the IRI of a datatype as a value are left out, unless the query asks for datatypes: some
        graphs hold such IRIs in place of values.
        """
        try:
            read = read_query(sparql)
        except Refused as refusal:
            return Result(Outcome.SYNTAX, message=str(refusal))
        timeout = self.timeout if timeout is None else timeout
        limit = self.limit if limit is None else max(limit, 0)
        if self._answers is not None and (answer := self._answers.find(sparql, limit)) is not None:
            return answer
        start = time.perf_counter()
        result = self._run(read, timeout, limit)
        seconds = time.perf_counter() - start
        self.meter.add(result.outcome, seconds)
        rows, outcome = result.rows, result.outcome
        if not any(t.keyword == "DATATYPE" for t in read.tokens):
            rows = tuple(row for row in rows if not any(map(is_datatype, row)))
            if outcome.ok and len(rows) < len(result.rows):
                outcome = outcome if rows else Outcome.EMPTY
        result = replace(result, rows=rows, outcome=outcome, seconds=round(seconds, 6))
        if self._answers is not None:
            self._answers.keep(sparql, limit, result)
        return result

    def relations(
        self,
        node: Term | Variable,
        where: str = "",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Relations:
        """Distinct relations around a term or a bound variable, each direction sorted by IRI."""
        limit = self.limit if limit is None else limit
        try:
            sparql = _relations_query(node, where)
        except Refused as refusal:
            return Relations(Outcome.SYNTAX, message=str(refusal))
        result = self.query(sparql, timeout=timeout, limit=limit)
        if not result.outcome.ok:
            return Relations(result.outcome, message=result.message)
        forward, backward = (
            tuple(sorted(p for p in _iris(column) if not self.profile.excludes(p)))
            for column in (result.column(v) for v in result.variables)
        )
        outcome = result.outcome
        if outcome is not Outcome.TRUNCATED:
            outcome = Outcome.ROWS if forward or backward else Outcome.EMPTY
        return Relations(outcome, forward, backward, result.message)

    def neighbours(
        self,
        node: Term,
        relation: IRI | None = None,
        direction: Direction = "both",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Neighbours:
        """Triples around a node, those that leave it first, each side sorted.

        Without a `relation`, relations that the profile excludes are left out before the cap counts. A cap
        leaves both sides their fair share.
        """
        deadline = Deadline(self.timeout if timeout is None else timeout)
        limit = self.limit if limit is None else limit
        sides = [d for d in ("forward", "backward") if direction in (d, "both")]
        if isinstance(node, Literal):
            sides = [d for d in sides if d == "backward"]
        allowed: tuple[IRI, ...] | None = None if relation is None else (relation,)
        if relation is None:
            around = self.query(_relations_query(node, ""), timeout=deadline.left)
            if not around.outcome.ok:
                return Neighbours(around.outcome, message=around.message)
            every = dict.fromkeys(p for v in around.variables for p in _iris(around.column(v)))
            offered = tuple(p for p in every if not self.profile.excludes(p))
            allowed = None if len(offered) == len(every) else offered
        triples: dict[str, list[Triple]] = {"forward": [], "backward": []}
        message = ""
        for side in sides:
            result = self.query(
                _neighbours_query(node, allowed, side == "forward"), timeout=deadline.left, limit=limit
            )
            if not result.outcome.ok:
                return Neighbours(result.outcome, message=result.message)
            if result.outcome is Outcome.TRUNCATED:
                message = result.message
            facts = {
                Hop.between(node, edge, other, side == "forward").triple
                for edge, other in result.rows
                if isinstance(edge, IRI)
                and other is not None
                and isinstance(node if side == "forward" else other, IRI)
            }
            triples[side] = sorted(facts, key=lambda t: (t.relation.value, t.subject.value, t.object.n3()))
        out, into = triples["forward"], triples["backward"]
        if len(out) + len(into) > limit:
            message = message or f"cut at the limit of {limit} triples"
            share = min(len(into), max(limit // 2, limit - len(out)))
            out, into = out[: limit - share], into[:share]
        around_node = tuple(dict.fromkeys(out + into))
        if message:
            return Neighbours(Outcome.TRUNCATED, around_node, message)
        return Neighbours(Outcome.ROWS if around_node else Outcome.EMPTY, around_node)

    def labels(self, terms: Iterable[Term]) -> dict[Term, str]:
        """Labels of many nodes: cached ones at once, the others with one query for up to 500 of them.

        The profile's language wins, then no language, then any (with one more query for the nodes that
        have nothing better); among equals the profile's first label predicate. Failed queries leave
        nothing behind in the cache.
        """
        nodes = [t for t in dict.fromkeys(terms) if isinstance(t, IRI)]
        labels = {t: label for t in nodes if (label := self._labels.get(t)) is not None}
        deadline = Deadline(self.timeout)
        for batch in batches((t for t in nodes if t not in labels), BATCH):
            subjects = {term: self.profile.label_subject(term) for term in batch}
            fetched, complete = self._fetch_labels(dict.fromkeys(subjects.values()), deadline)
            for term, subject in subjects.items():
                if subject in fetched or complete:
                    labels[term] = self._labels[term] = fetched.get(subject, "")
        return {t: label for t in nodes if (label := labels.get(t))}

    def paths(
        self,
        source: Term,
        target: Term,
        max_hops: int = 3,
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Paths:
        """All simple paths of up to `max_hops` (at most 4) between two nodes, shortest first.

        Excluded relations are not walked. When time, rows or chains run out, the paths found so far come with
        the outcome. Without a `timeout`, the engine's `path_seconds` holds.
        """
        if source == target:
            return Paths(Outcome.EMPTY, message="source and target are the same node")
        limit = self.limit if limit is None else limit
        seconds, max_hops = self.path_seconds if timeout is None else timeout, min(max(max_hops, 1), 4)
        start = time.perf_counter()
        if (graph := self.adjacency()) is not None:
            from triplewise.tools.kg.adjacency import find_paths  # brings numpy, which opening can do without

            paths = find_paths(graph, self.profile, source, target, max_hops, Deadline(seconds), limit)
            if paths is not None:
                self.meter.add(paths.outcome, time.perf_counter() - start)
                return paths
        return self._paths_by_queries(source, target, max_hops, Deadline(seconds), limit)

    @property
    def path_seconds(self) -> float:
        """Seconds that a search for paths may take where none are named."""
        return self.timeout

    def adjacency(self) -> Adjacency | None:
        """Return the edges as whole numbers; None for an engine that does not hold them."""
        return None

    def _paths_by_queries(
        self, source: Term, target: Term, max_hops: int, deadline: Deadline, limit: int
    ) -> Paths:
        """The paths by queries, shortest first, until there are enough.

        Chains of one or two edges are one query each. Longer ones are looked for between the neighbours of
        the
        ends, where these are few: engines scan all edges for one whose ends are both open.
        """
        paths: dict[GraphPath, None] = {}
        outcome, message = Outcome.ROWS, ""
        heads: list[Hop] | None = None
        tails: list[Hop] | None = None
        for hops in range(1, max_hops + 1):
            if hops == 3:
                heads, tails = self._hops_from(source, deadline), self._hops_from(target, deadline)
            use_heads = heads is not None
            use_tails = tails is not None and (hops > 3 or not use_heads)
            first = {hop.far for hop in heads or ()} if use_heads else {source}
            last = {hop.far for hop in tails or ()} if use_tails else {target}
            if not first or not last:
                break
            inner = hops - use_heads - use_tails
            avoided = [*([source] if use_heads else ()), *([target] if use_tails else ())]
            sparql = _chains_query([*first], [*last], inner, avoided)
            result = self.query(sparql, timeout=deadline.left, limit=min(4 * (limit + 1), CHAIN_CAP))
            chains: list[GraphPath] = []
            for row in result.rows:
                if chain := _chain([*first], [*last], inner, row):
                    begin = [(h,) for h in heads or () if h.far == chain[0].near] if use_heads else [()]
                    end = [(h.turned,) for h in tails or () if h.far == chain[-1].far] if use_tails else [()]
                    chains += ((*head, *chain, *tail) for head in begin for tail in end)
            permitted = (
                p
                for p in chains
                if len({p[0].near, *(h.far for h in p)}) > hops
                and not any(self.profile.excludes(h.triple.relation) for h in p)
            )
            paths |= dict.fromkeys(sorted(permitted, key=path_order))
            if len(paths) > limit:
                outcome, message = Outcome.TRUNCATED, f"cut at the limit of {limit} paths"
                break
            if result.outcome not in (Outcome.ROWS, Outcome.EMPTY):
                outcome, message = result.outcome, result.message
                if not outcome.ok:
                    break
        if outcome is Outcome.ROWS and not paths:
            outcome = Outcome.EMPTY
        return Paths(outcome, tuple(islice(paths, limit)), message)

    def _hops_from(self, node: Term, deadline: Deadline) -> list[Hop] | None:
        """All hops from a node; None where they are many, or cannot be found out."""
        hops: list[Hop] = []
        for forward in (True, False):
            if forward and isinstance(node, Literal):
                continue
            sparql = _neighbours_query(node, None, forward)
            result = self.query(sparql, timeout=deadline.left, limit=BATCH)
            if result.outcome not in (Outcome.ROWS, Outcome.EMPTY):
                return None
            for relation, far in result.rows:
                if isinstance(relation, IRI) and far is not None and (forward or isinstance(far, IRI)):
                    hops.append(Hop.between(node, relation, far, forward))
        return hops

    def _fetch_labels(self, subjects: Iterable[IRI], deadline: Deadline) -> tuple[dict[IRI, str], bool]:
        """Return the labels of a batch, and whether the others have none for sure."""
        best: dict[IRI, str] = {}
        predicates = [IRI(p) for p in self.profile.label_predicates]
        for language in (self.profile.language, None):
            left = [s for s in subjects if s not in best and not s.value.startswith("_:")]
            if not left or not predicates:
                break
            result = self._label_rows(left, predicates, language, deadline)
            if result.outcome.ok:
                best.update(best_labels(self.profile, result))
            if result.outcome not in (Outcome.ROWS, Outcome.EMPTY):
                return best, False
        return best, True

    def _label_rows(
        self, subjects: Sequence[IRI], predicates: Sequence[IRI], language: str | None, deadline: Deadline
    ) -> Result:
        """Rows (subject, predicate, label) in a language or none; in any language if it is None."""
        sparql = labels_query(subjects, predicates, language)
        return self.query(sparql, timeout=deadline.left, limit=ROWS_PER_LABEL * BATCH)


class Layer(Engine):
    """A KG over another one, which answers all queries: a base for what changes some of the answers.

    Args:
        origin: the KG below. Closing the layer closes it, unless a subclass says otherwise.
    """

    origin: KnowledgeGraph

    def __init__(self, origin: KnowledgeGraph, index: LabelIndex | None = None) -> None:
        self.origin = origin
        super().__init__(
            origin.profile,
            origin.name,
            timeout=origin.timeout,
            limit=origin.limit,
            index=origin.index if index is None else index,
        )
        self.cache_dirs = getattr(origin, "cache_dirs", ())

    def session(
        self,
        *,
        meter: Meter | None = None,
        answers: AnswerCache | None = None,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Self:
        """The same over a session of the KG below; see `KnowledgeGraph.session`."""
        session = super().session(timeout=timeout, limit=limit)
        session.origin = self.origin.session(meter=meter, answers=answers, timeout=timeout, limit=limit)
        return session

    @property
    def meter(self) -> Meter:
        """Counts the queries that reach the KG below."""
        return self.origin.meter

    @property
    def closed(self) -> bool:
        """Whether the KG below was closed."""
        return bool(getattr(self.origin, "closed", False))

    def close(self) -> None:
        """Close the KG below."""
        self.origin.close()

    @property
    def path_seconds(self) -> float:
        """Seconds that a search for paths may take where none are named."""
        return self.origin.path_seconds if isinstance(self.origin, Engine) else self.timeout

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one SELECT or ASK on the KG below, which counts and remembers it."""
        return self.origin.query(sparql, timeout=timeout, limit=limit)

    def _run(self, query: ReadQuery, timeout: float, limit: int) -> Result:
        return self.origin.query(query.text, timeout=timeout, limit=limit)


class Workers:
    """Daemon threads for calls that must return in time, although what they call cannot be interrupted.

    Neither a pyoxigraph query nor a name look-up can be interrupted from outside. A job therefore runs in a
    thread and the caller stops waiting at its time-out; the job is told to stop, and does so at the next
    point where it can.

    Args:
        size: most jobs at a time. A job that was given up on makes room for another one, as long as no more
            than twice as many go on unheeded.
    """

    def __init__(self, size: int = 16) -> None:
        self._slots = threading.BoundedSemaphore(size)
        self._unheeded = threading.BoundedSemaphore(2 * size)

    def run(self, job: Callable[[threading.Event], T], seconds: float) -> T:
        """The job's value or its exception. Raises TimeoutError when `seconds` are over.

        The job gets an event that is set when nobody waits for it any longer.
        """
        deadline = Deadline(seconds)
        if deadline.passed:
            raise TimeoutError(f"no answer within {seconds:g} s")
        if not self._slots.acquire(timeout=seconds):
            raise TimeoutError("earlier queries that ran out of time still occupy the engine")
        cancelled, lock = threading.Event(), threading.Lock()
        held = [self._slots]
        answers: SimpleQueue[tuple[T, None] | tuple[None, BaseException]] = SimpleQueue()

        def work() -> None:
            try:
                answers.put((job(cancelled), None))
            except BaseException as error:  # noqa: BLE001 - raised again in the thread that waits
                answers.put((None, error))
            finally:
                with lock:
                    held.pop().release()

        threading.Thread(target=work, name="triplewise-kg", daemon=True).start()
        try:
            value, error = answers.get(timeout=deadline.left)
        except Empty:
            cancelled.set()
            with lock:
                if held and self._unheeded.acquire(blocking=False):
                    held.pop().release()
                    held.append(self._unheeded)
            raise TimeoutError(f"no answer within {seconds:g} s") from None
        if error is not None:
            raise error
        return value  # type: ignore[return-value]


def best_labels(profile: Profile, result: Result) -> dict[IRI, str]:
    """The best label of each subject in rows of (subject, predicate, label), by language, then predicate."""
    ranks: dict[IRI, tuple[int, int, str, str]] = {}
    order = {p: i for i, p in enumerate(profile.label_predicates)}
    for subject, predicate, label in result.rows:
        if isinstance(subject, IRI) and isinstance(predicate, IRI) and isinstance(label, Literal):
            preferred = label.language.lower() == profile.language.lower()
            rank = (
                0 if preferred else 2 if label.language else 1,
                order.get(predicate.value, len(order)),
                label.language,
                label.value,
            )
            ranks[subject] = min(rank, ranks.get(subject, rank))
    return {subject: rank[-1] for subject, rank in ranks.items()}


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def capped_result(variables: tuple[str, ...], rows: Sequence[tuple[Term | None, ...]], limit: int) -> Result:
    """The result of a SELECT of which up to `limit + 1` rows were fetched."""
    if len(rows) > limit:
        return Result(
            Outcome.TRUNCATED, variables, tuple(rows[:limit]), message=f"cut at the limit of {limit} rows"
        )
    return Result(Outcome.ROWS if rows else Outcome.EMPTY, variables, tuple(rows))


def _iris(terms: Iterable[Term]) -> Iterator[IRI]:
    return (t for t in terms if isinstance(t, IRI))


def _chain(
    sources: Sequence[Term], targets: Sequence[Term], hops: int, row: tuple[Term | None, ...]
) -> GraphPath:
    """A row of `_chains_query` as a path; () where it is none."""
    cells = iter(row[hops + 1 :])
    nodes = [
        sources[0] if len(sources) == 1 else next(cells),
        *(next(cells) for _ in range(hops - 1)),
        targets[0] if len(targets) == 1 else next(cells),
    ]
    against = int(row[0].value) if isinstance(row[0], Literal) else 0
    path = []
    for i, relation in enumerate(row[1 : hops + 1]):
        near, far, forward = nodes[i], nodes[i + 1], not against >> i & 1
        if near is None or far is None or not isinstance(relation, IRI):
            return ()
        if not isinstance(near if forward else far, IRI):
            return ()
        path.append(Hop.between(near, relation, far, forward))
    return tuple(path)


def _relations_query(node: Term | Variable, where: str) -> str:
    """Both directions in one query: outgoing relations in the first column, incoming in the second."""
    taken = variable_names(f"{where} {node.n3()}")
    mark = next("_" * n for n in range(len(taken) + 1) if taken.isdisjoint(v + "_" * n for v in _FRESH))
    out, into, other = (f"?{name}{mark}" for name in _FRESH)
    n = node.n3()
    bound = f"{{ SELECT DISTINCT {n} WHERE {{ {where} }} }}" if isinstance(node, Variable) else ""
    branches = [] if isinstance(node, Literal) else [f"{{ {bound} {n} {out} {other} }}"]
    branches.append(f"{{ {bound} {other} {into} {n} }}")
    return f"SELECT DISTINCT {out} {into} WHERE {{ {' UNION '.join(branches)} }}"


def _neighbours_query(node: Term, relations: tuple[IRI, ...] | None, forward: bool) -> str:
    """Relation and other end of the triples that leave (or arrive at) a node; None for all relations."""
    pattern = f"{node.n3()} ?p ?o" if forward else f"?o ?p {node.n3()}"
    values = "" if relations is None else f"VALUES ?p {{ {terms_n3(relations)} }} "
    return f"SELECT ?p ?o WHERE {{ {values}{pattern} }}"


def labels_query(subjects: Sequence[IRI], predicates: Sequence[IRI], language: str | None) -> str:
    """Labels of many nodes, in one language or none; in any language if it is None."""
    chosen = (
        ""
        if language is None
        else f'FILTER(LANG(?l) = {Literal(language.lower(), XSD + "string").n3()} || LANG(?l) = "") '
    )
    return (
        f"SELECT ?s ?p ?l WHERE {{ VALUES ?s {{ {terms_n3(subjects)} }} "
        f"VALUES ?p {{ {terms_n3(predicates)} }} ?s ?p ?l {chosen}}}"
    )


def _chains_query(
    sources: Sequence[Term], targets: Sequence[Term], hops: int, avoided: Sequence[Term] = ()
) -> str:
    """Chains of so many edges between two sets of nodes, in any direction.

    The columns are ?k, the relations ?p0, ?p1 ..., and the nodes ?n0, ?n1 ... from end to end, without those
    that are given alone; the bits of ?k, lowest first, tell which edges go against their direction.
    `avoided` are nodes that no chain may touch.
    """
    nodes = [f"?n{i}" for i in range(hops + 1)]
    values = ""
    for place, ends in ((0, sources), (hops, targets)):
        if len(ends) == 1:
            nodes[place] = ends[0].n3()
        else:
            values += f"VALUES {nodes[place]} {{ {terms_n3(ends)} }} "
    branches = []
    for k in range(2**hops):
        steps = [
            f"{nodes[i + 1]} ?p{i} {nodes[i]}" if k >> i & 1 else f"{nodes[i]} ?p{i} {nodes[i + 1]}"
            for i in range(hops)
        ]
        if any(step.startswith('"') for step in steps):
            continue  # no fact leaves a literal
        apart = [f"{a} != {b}" for i, a in enumerate(nodes) for b in nodes[i + 1 :] if "?" in a[0] + b[0]]
        apart += [f"{n} != {x.n3()}" for n in nodes if n[0] == "?" for x in avoided if isinstance(x, IRI)]
        simple = f" FILTER({' && '.join(apart)})" if apart else ""
        branches.append(f"{{ {values}{' . '.join(steps)}{simple} BIND({k} AS ?k) }}")
    columns = " ".join(["?k", *(f"?p{i}" for i in range(hops)), *(n for n in nodes if n[0] == "?")])
    return f"SELECT {columns} WHERE {{ {' UNION '.join(branches)} }}"


def terms_n3(terms: Iterable[Term]) -> str:
    """Return terms as a VALUES block lists them."""
    return " ".join(t.n3() for t in terms)
