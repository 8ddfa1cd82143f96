"""What both engines share: everything a KG offers, built over `query`.

All queries here are built from terms (`.n3()`), never from text of a model or a user; the one exception is
the group pattern `where`, which PyQL makes from terms.
"""

from __future__ import annotations

import copy
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Self, TypeVar

from triplewise.tools.core.lru import LRUCache
from triplewise.tools.core.terms import IRI, Literal, Term, Triple, Variable
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
from triplewise.tools.kg.queries import chains_query, labels_query, neighbours_query, relations_query
from triplewise.tools.kg.readonly import ReadQuery, Refused, read_query

if TYPE_CHECKING:
    from triplewise.tools.kg.answer_cache import AnswerCache
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
        result = replace(_without_datatypes(read, result), seconds=round(seconds, 6))
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
            sparql = relations_query(node, where)
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
            around = self.query(relations_query(node, ""), timeout=deadline.left)
            if not around.outcome.ok:
                return Neighbours(around.outcome, message=around.message)
            every = dict.fromkeys(p for v in around.variables for p in _iris(around.column(v)))
            offered = tuple(p for p in every if not self.profile.excludes(p))
            allowed = None if len(offered) == len(every) else offered
        triples: dict[str, list[Triple]] = {"forward": [], "backward": []}
        truncated = ""
        for side in sides:
            sparql = neighbours_query(node, allowed, side == "forward")
            result = self.query(sparql, timeout=deadline.left, limit=limit)
            if not result.outcome.ok:
                return Neighbours(result.outcome, message=result.message)
            if result.outcome is Outcome.TRUNCATED:
                truncated = result.message
            triples[side] = _triples(node, result, side == "forward")
        return _share(triples["forward"], triples["backward"], limit, truncated)

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
            fetched, complete = self._fetch_labels(batch, deadline)
            for term in batch:
                if term in fetched or complete:
                    labels[term] = self._labels[term] = fetched.get(term, "")
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
        numbered = self._numbered_paths(source, target, max_hops, seconds, limit)
        if numbered is not None:
            self.meter.add(numbered.outcome, time.perf_counter() - start)
            return numbered
        return self._paths_by_queries(source, target, max_hops, Deadline(seconds), limit)

    @property
    def path_seconds(self) -> float:
        """Seconds that a search for paths may take where none are named."""
        return self.timeout

    def _numbered_paths(
        self, source: Term, target: Term, max_hops: int, seconds: float, limit: int
    ) -> Paths | None:
        """The paths from the edges as whole numbers; None for an engine that does not hold them."""
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
            sparql = chains_query([*first], [*last], inner, avoided)
            result = self.query(sparql, timeout=deadline.left, limit=min(4 * (limit + 1), CHAIN_CAP))
            found: list[GraphPath] = []
            for row in result.rows:
                if chain := _chain([*first], [*last], inner, row):
                    begin = [(h,) for h in heads or () if h.far == chain[0].near] if use_heads else [()]
                    end = [(h.turned,) for h in tails or () if h.far == chain[-1].far] if use_tails else [()]
                    found += ((*head, *chain, *tail) for head in begin for tail in end)
            permitted = (
                p
                for p in found
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
            sparql = neighbours_query(node, None, forward)
            result = self.query(sparql, timeout=deadline.left, limit=BATCH)
            if result.outcome not in (Outcome.ROWS, Outcome.EMPTY):
                return None
            for relation, far in result.rows:
                if isinstance(relation, IRI) and far is not None and (forward or isinstance(far, IRI)):
                    hops.append(Hop.between(node, relation, far, forward))
        return hops

    def _fetch_labels(self, batch: Sequence[IRI], deadline: Deadline) -> tuple[dict[Term, str], bool]:
        """Labels of a batch, and whether the others are known to have none."""
        subjects: dict[IRI, list[IRI]] = {}
        for term in batch:
            subjects.setdefault(self.profile.label_subject(term), []).append(term)
        best: dict[IRI, str] = {}
        for language in (self.profile.language, None):
            left = [s for s in subjects if s not in best and not s.value.startswith("_:")]
            if not left or not self.profile.label_predicates:
                break
            predicates = [IRI(p) for p in self.profile.label_predicates]
            result = self._label_rows(left, predicates, language, deadline)
            if not result.outcome.ok:
                return _spread(best, subjects), False
            best.update(best_labels(self.profile, result))
            if result.outcome is Outcome.TRUNCATED:
                return _spread(best, subjects), False
        return _spread(best, subjects), True

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
            rank = (
                _language_rank(label.language, profile.language),
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


def capped_result(variables: tuple[str, ...], rows: list[tuple[Term | None, ...]], limit: int) -> Result:
    """The result of a SELECT of which up to `limit + 1` rows were fetched."""
    if len(rows) > limit:
        return Result(
            Outcome.TRUNCATED, variables, tuple(rows[:limit]), message=f"cut at the limit of {limit} rows"
        )
    return Result(Outcome.ROWS if rows else Outcome.EMPTY, variables, tuple(rows))


def _iris(terms: Iterable[Term]) -> Iterator[IRI]:
    return (t for t in terms if isinstance(t, IRI))


def _without_datatypes(query: ReadQuery, result: Result) -> Result:
    """The result without rows that have the IRI of a datatype where a value is expected."""
    if any(t.keyword == "DATATYPE" for t in query.tokens):
        return result
    rows = tuple(row for row in result.rows if not any(map(is_datatype, row)))
    if len(rows) == len(result.rows):
        return result
    return replace(
        result, rows=rows, outcome=result.outcome if rows or not result.outcome.ok else Outcome.EMPTY
    )


def _chain(
    sources: Sequence[Term], targets: Sequence[Term], hops: int, row: tuple[Term | None, ...]
) -> GraphPath:
    """A row of `chains_query` as a path; () where it is none."""
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


def _triples(node: Term, result: Result, forward: bool) -> list[Triple]:
    found = set()
    for relation, other in result.rows:
        if not isinstance(relation, IRI) or other is None:
            continue
        if forward and isinstance(node, IRI):
            found.add(Triple(node, relation, other))
        elif not forward and isinstance(other, IRI):
            found.add(Triple(other, relation, node))
    return sorted(found, key=lambda t: (t.relation.value, t.subject.value, t.object.n3()))


def _share(forward: list[Triple], backward: list[Triple], limit: int, truncated: str) -> Neighbours:
    """Both sides within the cap, each with at least half of it where it can fill that."""
    if cut := len(forward) + len(backward) > limit:
        for_back = min(len(backward), max(limit // 2, limit - len(forward)))
        forward, backward = forward[: limit - for_back], backward[:for_back]
    triples = tuple(dict.fromkeys(forward + backward))
    if cut or truncated:
        return Neighbours(Outcome.TRUNCATED, triples, truncated or f"cut at the limit of {limit} triples")
    return Neighbours(Outcome.ROWS if triples else Outcome.EMPTY, triples)


def _language_rank(language: str, preferred: str) -> int:
    if language.lower() == preferred.lower():
        return 0
    return 2 if language else 1


def _spread(best: dict[IRI, str], subjects: dict[IRI, list[IRI]]) -> dict[Term, str]:
    """Labels by subject as labels by the terms that were asked for."""
    return {term: label for subject, label in best.items() for term in subjects.get(subject, ())}
