"""What both engines share: everything a KG offers, built over `query`.

All queries here are built from terms (`.n3()`), never from text of a model or a user; the one exception is
the group pattern `where`, which PyQL makes from terms.
"""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Collection, Iterable, Iterator, Sequence
from copy import copy
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Self, TypeVar

from triplewise.tools.core.terms import IRI, Literal, Term, Triple, Variable
from triplewise.tools.kg.bounded import Deadline
from triplewise.tools.kg.pathsearch import Edge, PathSearch, other_end
from triplewise.tools.kg.protocol import (
    Direction,
    Meter,
    Neighbours,
    Outcome,
    Paths,
    Relations,
    Result,
    is_cut,
)
from triplewise.tools.kg.queries import (
    between_query,
    bridges_query,
    degree_query,
    edges_query,
    labels_query,
    neighbours_query,
    relations_query,
)
from triplewise.tools.kg.readonly import ReadQuery, Refused, read_query

if TYPE_CHECKING:
    from triplewise.tools.kg.answer_cache import AnswerCache
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

Item = TypeVar("Item")

BATCH = 500
"""Terms a VALUES block holds at most; Virtuoso's compiler fails on some thousand."""
ROWS_PER_LABEL = 20
"""Rows fetched a node when labels are asked: several predicates, a few languages."""
EDGE_CAP = 50_000
"""Edges fetched at most by one batched query of a path search."""
LABEL_CACHE = 100_000
"""Labels kept a KG, the least recently used leave first."""


class Engine(ABC):
    """Base of the KG engines: an engine adds `_run`, the one way to its store.

    Attributes:
        homes: folders where what is worked out about this KG may be kept, best first; () for nowhere.

    Args:
        profile: how this KG is shaped.
        name: shown to people.
        timeout: seconds a call may take.
        limit: rows a call may return.
        index: label index, where there is one.
    """

    homes: tuple[Path, ...] = ()

    def __init__(
        self, profile: Profile, name: str, *, timeout: float, limit: int, index: LabelIndex | None
    ) -> None:
        self.profile, self.name, self.timeout, self.limit = profile, name, timeout, limit
        self._index = index
        self._labels = _LabelCache(LABEL_CACHE)
        self._excluded: dict[IRI, bool] = {}
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
        session = copy(self)
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
        """Run one SELECT or ASK; see `KnowledgeGraph.query`."""
        try:
            read = read_query(sparql)
        except Refused as refusal:
            return Result(Outcome.SYNTAX, message=str(refusal))
        timeout = self.timeout if timeout is None else timeout
        limit = self.limit if limit is None else max(limit, 0)
        answers = self._answers
        if answers is not None and (known := answers.find(sparql, limit)) is not None:
            return known
        start = time.perf_counter()
        result = self._run(read, timeout, limit)
        seconds = time.perf_counter() - start
        self.meter.add(result.outcome, seconds)
        result = replace(result, seconds=round(seconds, 6))
        if answers is not None:
            answers.keep(sparql, limit, result)
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
            tuple(sorted(p for p in _iris(column) if not self._excludes(p)))
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
        allowed = self._allowed_around(node, relation, deadline)
        if isinstance(allowed, Relations):
            return Neighbours(allowed.outcome, message=allowed.message)
        found: dict[str, list[Triple]] = {}
        truncated = ""
        for side in sides:
            result = self.query(
                neighbours_query(node, allowed, side == "forward"), timeout=deadline.left, limit=limit
            )
            if not result.outcome.ok:
                return Neighbours(result.outcome, message=result.message)
            if result.outcome is Outcome.TRUNCATED:
                truncated = result.message
            found[side] = _triples(node, result, side == "forward")
        return _share(found.get("forward", []), found.get("backward", []), limit, truncated)

    def labels(self, terms: Iterable[Term]) -> dict[Term, str]:
        """Labels of many nodes: cached ones at once, the others with one query for up to 500 of them.

        The profile's language wins, then no language, then any (with one more query for the nodes that
        have nothing better); among equals the profile's first label predicate. Failed queries leave
        nothing behind in the cache.
        """
        wanted = [t for t in dict.fromkeys(terms) if isinstance(t, IRI)]
        known, missing = self._labels.look_up(wanted)
        deadline = Deadline(self.timeout)
        for batch in batches(missing, BATCH):
            fetched, complete = self._fetch_labels(batch, deadline)
            self._labels.store({t: fetched.get(t, "") for t in batch if t in fetched or complete})
            known.update(fetched)
        return {t: known[t] for t in wanted if known.get(t)}

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

        The search meets in the middle and always widens the side that costs less. Excluded relations
        are not walked. When time, rows or edges run out, the paths found so far come with the outcome.
        Without a `timeout`, the engine's `path_seconds` holds.
        """
        deadline = Deadline(self.path_seconds if timeout is None else timeout)
        if source == target:
            return Paths(Outcome.EMPTY, message="source and target are the same node")
        limit = self.limit if limit is None else limit
        return self._search(source, target, min(max(max_hops, 1), 4), deadline, limit)

    def _search(self, source: Term, target: Term, max_hops: int, deadline: Deadline, limit: int) -> Paths:
        """The search behind `paths`; an engine may know a quicker one."""
        return PathSearch(self, deadline, limit).run_in_time(source, target, max_hops)

    @property
    def path_seconds(self) -> float:
        """Seconds that a search for paths may take where none are named."""
        return self.timeout

    def edges(
        self, nodes: Sequence[Term], deadline: Deadline, ends: Collection[Term] | None = None
    ) -> tuple[list[Edge], Outcome, str]:
        """All edges at many nodes (that lead to one of `ends`), in batches; the worst outcome of all."""
        found, outcome, message = self._edges_of(map(edges_query, batches(nodes, BATCH)), deadline)
        if ends is not None:
            found = [(node, triple) for node, triple in found if other_end(node, triple) in ends]
        return found, outcome, message

    def edges_between(
        self, left: Sequence[Term], right: Sequence[Term], deadline: Deadline
    ) -> tuple[list[Edge], Outcome, str]:
        """The edges that join two sets of nodes."""
        queries = (between_query(a, b) for a in batches(left, BATCH) for b in batches(right, BATCH))
        return self._edges_of(queries, deadline)

    def bridges(self, left: Term, right: Term, hops: int, deadline: Deadline, most: int) -> list[Edge]:
        """Edges of simple chains of so many hops between two nodes, of `most` chains; none if too slow."""
        if any(isinstance(end, Literal) for end in (left, right)):
            return []
        result = self.query(bridges_query(left, right, hops), timeout=deadline.left, limit=most)
        chains = (_chain(left, right, row) for row in result.rows)
        allowed = (c for c in chains if not any(self._excludes(triple.relation) for _, triple in c))
        return [edge for chain in allowed for edge in chain]

    def degree(self, nodes: Sequence[Term], deadline: Deadline, most: int = 2_000) -> int:
        """About how many edges the nodes have; their number where that is too dear to find out.

        An engine that has to count them one by one stops beyond `most`.
        """
        if len(nodes) > BATCH:
            return len(nodes) * 2
        result = self.query(degree_query(nodes), timeout=deadline.left, limit=1)
        if result.outcome is Outcome.ROWS and isinstance(count := result.rows[0][0], Literal):
            return int(count.value)
        return len(nodes) * 2

    def hubs(self, nodes: Sequence[Term], deadline: Deadline, above: int) -> list[Term]:
        """Those of the nodes that have more than so many edges; none where that cannot be found out."""
        found: list[Term] = []
        for batch in batches(nodes, BATCH):
            counted = f"{{ {edges_query(batch)} }} GROUP BY ?n HAVING (COUNT(*) > {above})"
            result = self.query(f"SELECT ?n WHERE {counted}", timeout=deadline.left, limit=BATCH)
            found += (row[0] for row in result.rows if row[0] is not None)
        return found

    def _edges_of(self, queries: Iterable[str], deadline: Deadline) -> tuple[list[Edge], Outcome, str]:
        found: list[Edge] = []
        worst, message = Outcome.ROWS, ""
        for sparql in queries:
            result = self.query(sparql, timeout=deadline.left, limit=EDGE_CAP)
            if not result.outcome.ok:
                return found, result.outcome, result.message
            if result.outcome is Outcome.TRUNCATED:
                worst, message = result.outcome, result.message
            found += (e for e in map(_edge, result.rows) if e and not self._excludes(e[1].relation))
        return found, worst, message

    def _allowed_around(
        self, node: Term, relation: IRI | None, deadline: Deadline
    ) -> tuple[IRI, ...] | Relations | None:
        """Relations to fetch: None for all; a failed `Relations` if the engine could not say."""
        if relation is not None:
            return (relation,)
        result = self.query(relations_query(node, ""), timeout=deadline.left)
        if not result.outcome.ok:
            return Relations(result.outcome, message=result.message)
        every = dict.fromkeys(p for v in result.variables for p in _iris(result.column(v)))
        allowed = tuple(p for p in every if not self._excludes(p))
        return None if len(allowed) == len(every) else allowed

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

    def _excludes(self, relation: IRI) -> bool:
        if (known := self._excluded.get(relation)) is None:
            known = self._excluded[relation] = self.profile.excludes(relation)
        return known


class _LabelCache:
    """Labels by IRI, least recently used out first; "" stands for "has none"."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._labels: OrderedDict[IRI, str] = OrderedDict()
        self._lock = threading.Lock()

    def look_up(self, terms: Iterable[IRI]) -> tuple[dict[Term, str], list[IRI]]:
        known: dict[Term, str] = {}
        missing: list[IRI] = []
        with self._lock:
            for term in terms:
                if term in self._labels:
                    self._labels.move_to_end(term)
                    known[term] = self._labels[term]
                else:
                    missing.append(term)
        return known, missing

    def store(self, labels: dict[IRI, str]) -> None:
        with self._lock:
            self._labels.update(labels)
            while len(self._labels) > self._size:
                self._labels.popitem(last=False)


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


def batches(items: Iterable[Item], size: int) -> Iterator[list[Item]]:
    """The items in lists of at most `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def capped_result(variables: tuple[str, ...], rows: list[tuple[Term | None, ...]], limit: int) -> Result:
    """The result of a SELECT of which up to `limit + 1` rows were fetched."""
    if is_cut(rows, limit):
        return Result(
            Outcome.TRUNCATED, variables, tuple(rows[:limit]), message=f"cut at the limit of {limit} rows"
        )
    return Result(Outcome.ROWS if rows else Outcome.EMPTY, variables, tuple(rows))


def _iris(terms: Iterable[Term]) -> Iterator[IRI]:
    return (t for t in terms if isinstance(t, IRI))


def _edge(row: tuple[Term | None, ...]) -> Edge | None:
    """A row of `edges_query` as (the node it was asked for, the triple)."""
    node, out, obj, into, subject = row
    if isinstance(node, IRI) and isinstance(out, IRI) and obj is not None:
        return node, Triple(node, out, obj)
    if node is not None and isinstance(into, IRI) and isinstance(subject, IRI):
        return node, Triple(subject, into, node)
    return None


def _chain(left: Term, right: Term, row: tuple[Term | None, ...]) -> list[Edge]:
    """A row of `bridges_query` as its edges, each named by its near end; none if it holds no such chain."""
    hops = len(row) // 2
    nodes = [left, *row[hops + 1 :], right]
    against = int(row[0].value) if isinstance(row[0], Literal) else 0
    found: list[Edge] = []
    for i, relation in enumerate(row[1 : hops + 1]):
        near, far = nodes[i], nodes[i + 1]
        subject, obj = (far, near) if against >> i & 1 else (near, far)
        if near is None or obj is None or not (isinstance(subject, IRI) and isinstance(relation, IRI)):
            return []
        found.append((near, Triple(subject, relation, obj)))
    return found


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
