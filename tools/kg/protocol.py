"""A knowledge graph as everything sees it, and the values it returns; the engines are in other modules.

Every call has a time-out and a row cap and says which outcome happened. Queries here are built from terms.
"""

from __future__ import annotations

import copy
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from operator import call
from pathlib import Path as FilePath
from threading import Lock
from typing import TYPE_CHECKING, Any, Literal as OneOf, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, RDF, XSD, Literal, Term, Triple, Variable, one_line, text
from triplewise.tools.kg.engine import Deadline as Deadline, ReadQuery, Refused, read_query

if TYPE_CHECKING:
    from triplewise.tools.core.facts import ExtractedFact
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

T = TypeVar("T")
K = TypeVar("K")
V = TypeVar("V")

LONGEST_LABEL = 10_000  # characters of a label that are shown and kept
BATCH = 500  # terms a VALUES block holds at most; Virtuoso's compiler fails on some thousand
LABELS, MEMORY = 100_000, 50_000  # kept a KG: labels, and what is remembered under one topic
ANSWERS, ANSWER_ROWS = 200, 2_000  # most answers that a cache keeps, and most rows of one
FAILURES = 3  # queries in a row that find nobody there, after which a run asks no more
Direction = OneOf["forward", "backward", "both"]


class Outcome(StrEnum):
    """What happened to a query."""

    ROWS = "rows"
    EMPTY = "empty"
    TRUNCATED = "truncated"
    TIMEOUT = "timeout"
    SYNTAX = "syntax"
    UNAVAILABLE = "unavailable"

    @property
    def ok(self) -> bool:
        """True if the engine answered (an empty answer is an answer)."""
        return self in (Outcome.ROWS, Outcome.EMPTY, Outcome.TRUNCATED)


Row: TypeAlias = tuple[Term | None, ...]


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a SELECT (`rows`, one tuple a solution, None where unbound) or ASK (`boolean`, else None).

    To read what a query that failed would hold raises `QueryFailedError`: look at `outcome` first to go on.
    """

    outcome: Outcome
    variables: tuple[str, ...] = ()
    _rows: tuple[Row, ...] = ()
    message: str = ""
    _boolean: bool | None = None

    def check(self) -> Self:
        """Return the result. Raises `QueryFailedError` unless the engine answered."""
        if not self.outcome.ok:
            raise QueryFailedError(self.outcome, self.message)
        return self

    @property
    def rows(self) -> tuple[Row, ...]:
        """The solutions."""
        return self.check()._rows

    @property
    def boolean(self) -> bool | None:
        """The answer of an ASK."""
        return self.check()._boolean

    @classmethod
    def ask(cls, answer: bool) -> Self:
        """The result of an ASK."""
        return cls(Outcome.ROWS, _boolean=answer)

    @classmethod
    def capped(cls, variables: tuple[str, ...], rows: Sequence[Row], limit: int) -> Self:
        """The result of a SELECT of which up to `limit + 1` rows were fetched."""
        if len(rows) > limit:
            message = f"cut at the limit of {limit} rows"
            return cls(Outcome.TRUNCATED, variables, tuple(rows[:limit]), message=message)
        return cls(Outcome.ROWS if rows else Outcome.EMPTY, variables, tuple(rows))

    def column(self, variable: str) -> tuple[Term, ...]:
        """Distinct bound values of one variable, in order of first appearance."""
        i = self.variables.index(variable) if self.rows else 0
        return tuple(dict.fromkeys(term for row in self.rows if (term := row[i]) is not None))


@dataclass(frozen=True, slots=True)
class Relations:
    """Distinct relations around a node: `forward` leave it, `backward` arrive at it."""

    outcome: Outcome
    forward: tuple[IRI, ...] = ()
    backward: tuple[IRI, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Triples around a node, those that leave it first."""

    outcome: Outcome
    triples: tuple[Triple, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Hop:
    """One step of a path: the triple, and whether it is walked from subject to object."""

    triple: Triple
    forward: bool

    @classmethod
    def between(cls, near: Term, relation: IRI, far: Term, forward: bool) -> Hop:
        """The hop from a node to another, along a relation or against it. TypeError from a literal."""
        subject, obj = (near, far) if forward else (far, near)
        if not isinstance(subject, IRI):
            raise TypeError(f"no triple can have the subject {subject!r}")
        return cls(Triple(subject, relation, obj), forward)

    @property
    def near(self) -> Term:
        """The node that it begins at."""
        return self.triple.subject if self.forward else self.triple.object

    @property
    def far(self) -> Term:
        """The node that it leads to."""
        return self.triple.object if self.forward else self.triple.subject


class Meter:
    """Counts queries that reach a KG or a database; one `of` another, what that counts from now on."""

    def __init__(self, of: Meter | None = None) -> None:
        self._of, self._count, self._lock, self.failure = of or self, 0, Lock(), ""
        self._before = self._of._count

    @property
    def queries(self) -> int:
        """How many there were."""
        return self._of._count - self._before

    def add(self, failure: str = "") -> None:
        """Count one query that reached the store, and keep why the last one failed that did."""
        with self._lock:
            self._count, self.failure = self._count + 1, failure or self.failure


class LRUCache(OrderedDict[K, V]):
    """Values by key, safe to share; beyond `size`, those go first that `get` has not used for longest."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size, self._lock = size, Lock()

    def get(self, key: K, default: V | None = None) -> V | None:  # type: ignore[override]
        """The value of a key, else the default."""
        with self._lock, suppress(KeyError):
            self.move_to_end(key)
        return super().get(key, default)

    def __setitem__(self, key: K, value: V) -> None:
        with self._lock, suppress(KeyError):  # another thread may empty it meanwhile
            super().__setitem__(key, value)
            self.move_to_end(key)
            if len(self) > self._size:
                self.popitem(last=False)


class KnowledgeGraph:
    """A knowledge graph that can be read, behind any engine. Nothing here writes.

    Everything is built over `query`; an engine adds `_run`, the one way to its store. A result cut at the
    limit has outcome `truncated`. A query that fails says so by its outcome; what is built of such queries
    raises `QueryFailedError`.

    Attributes:
        profile: how this KG is shaped. name: shown to people. index: label index, where there is one.
        timeout, limit: seconds that a call may take, and rows that it may return, where it names none.
        origin: the KG that this one is laid over, where it is a `Layer`. facts: what this layer adds to it.
        members: the graphs that it is made of, if several. silent: what those say that do not answer.
        is_remote: whether each query takes a round trip. connections: requests at a time.
        is_local: whether it runs on this machine: it may change at any time, and asking costs little.
        cache_dirs: folders where what is worked out about this KG may be kept, best first; () for nowhere.
        deadline: of the run that this is a session of; no call takes longer.
        meter: counts the queries that reach the store by way of this object.
    """

    origin: KnowledgeGraph | None = None
    is_remote, is_local, connections = False, True, 1
    timeout, limit = 30.0, 10_000
    facts: Mapping[Triple, ExtractedFact] = {}
    members: Mapping[str, KnowledgeGraph] = {}
    silent: Mapping[str, str] = {}
    cache_dirs: tuple[FilePath, ...] = ()
    deadline: Deadline | None = None

    def __init__(self, profile: Profile, name: str, index: LabelIndex | None = None) -> None:
        self.profile, self.name, self.index, self.meter = profile, name, index, Meter()
        self._labels: LRUCache[IRI, str] = LRUCache(LABELS)  # "" for a node that has none
        self._answers: LRUCache[tuple[str, int], Result] | None = None
        self._unanswered, self._last_words = 0, ""  # queries in a row that nobody answered
        self._shared: Self | None = None

    def session(
        self,
        *,
        meter: Meter | None = None,
        remember: bool = False,
        timeout: float | None = None,
        limit: int | None = None,
        deadline: Deadline | None = None,
    ) -> Self:
        """The same KG for a run, with its own meter and limits; `remember`: answers are kept for repeats."""
        session = copy.copy(self)
        session._shared, session.meter = self.shared, meter or Meter()
        session._answers = LRUCache(ANSWERS) if remember else None
        session.deadline, session._unanswered = deadline, 0
        session.timeout = self.timeout if timeout is None else timeout
        session.limit = self.limit if limit is None else limit
        return session

    @property
    def shared(self) -> Self:
        """The KG that this is a session of, else itself: what is kept once per KG is kept for this one."""
        return self._shared or self

    @property
    def silence(self) -> str:
        """Which of its members do not answer, and why, in words; "" for none."""
        return "; ".join(f"{name} did not answer: {why}" for name, why in self.silent.items())

    @property
    def names(self) -> LabelIndex:
        """Its label index; of a KG without one, names that are looked up on demand."""
        if self.index is not None:
            return self.index
        from triplewise.tools.kg.endpoint_names import EndpointNames
        from triplewise.tools.kg.labels import LabelIndex

        return LabelIndex(lambda: [EndpointNames(self)])

    @property
    def closed(self) -> bool:
        """Whether it was closed: every call then says `unavailable`."""
        return False

    def closed_result(self) -> Result:
        """What is answered once it is closed."""
        return Result(Outcome.UNAVAILABLE, message=f"the graph {self.name!r} was closed: open it again")

    def close(self) -> None:
        """Free what is held. Safe to call twice."""
        if self.index is not None:
            self.index.close()

    def _run(self, query: ReadQuery, timeout: float, limit: int, foreign: bool) -> Result:
        """Run a query that passed the gate, at most `limit` rows and `timeout` seconds; see `query`."""
        raise NotImplementedError

    def query(
        self, sparql: str, *, timeout: float | None = None, limit: int | None = None, foreign: bool = False
    ) -> Result:
        """Run one SELECT or ASK. Anything else (updates, SERVICE, LOAD) is refused as `syntax`.

        A `foreign` query, which a person or a model wrote, runs where it can be ended. Rows with the IRI of
        a datatype in place of a value are left out unless the query asks for datatypes.
        """
        try:
            read = read_query(sparql)
        except Refused as refusal:
            return Result(Outcome.SYNTAX, message=str(refusal))
        timeout, limit = self._seconds(timeout), self.limit if limit is None else max(limit, 0)
        if self.deadline is not None and self.deadline.passed:
            return Result(Outcome.TIMEOUT, message="the seconds of the run are over (max_seconds)")
        if self._unanswered >= FAILURES and self._shared is not None:
            message = f"{self.name} is not queried again: {self._last_words}"
            return Result(Outcome.UNAVAILABLE, message=message)
        if self._answers is not None and (answer := self._answers.get((sparql, limit))) is not None:
            return answer
        result = self._run(read, timeout, limit, foreign)
        self.meter.add(result.message if result.outcome is Outcome.UNAVAILABLE else "")
        self._unanswered = self._unanswered + 1 if result.outcome is Outcome.UNAVAILABLE else 0
        self._last_words = result.message
        if not any(t.keyword == "DATATYPE" for t in read.tokens):
            rows = tuple(row for row in result._rows if not any(map(is_datatype, row)))
            outcome = Outcome.EMPTY if result._rows and not rows else result.outcome
            result = replace(result, _rows=rows, outcome=outcome)
        if self._answers is not None and result.outcome.ok and len(result.rows) <= ANSWER_ROWS:
            self._answers[sparql, limit] = result
        return result

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """Values of independent tasks, in order; over a distance, what they ask travels together."""
        return list(map(call, tasks))

    def _seconds(self, timeout: float | None = None) -> float:
        """Seconds that a call may take: a time-out, the KG's own for None, and what is left to the run."""
        timeout = self.timeout if timeout is None else timeout
        return timeout if self.deadline is None else min(timeout, self.deadline.left)

    def relations(self, node: Term | Variable, where: str = "") -> Relations:
        """Distinct relations of a term, or of a query variable bound by the group pattern `where`, sorted.

        `where` is SPARQL that PyQL made from terms. Relations that the profile excludes are left out.
        """
        n, bound = node.n3(), f"{{ SELECT DISTINCT {node.n3()} WHERE {{ {where} }} }}" if where else ""
        branches = [] if isinstance(node, Literal) else [f"{{ {bound} {n} ?out__ ?to__ }}"]
        branches.append(f"{{ {bound} ?from__ ?into__ {n} }}")
        result = self.query(f"SELECT DISTINCT ?out__ ?into__ WHERE {{ {' UNION '.join(branches)} }}").check()
        sides = ([p for p in result.column(v) if isinstance(p, IRI)] for v in ("out__", "into__"))
        forward, backward = (tuple(sorted(p for p in s if not self.profile.excludes(p))) for s in sides)
        is_empty = result.outcome is Outcome.ROWS and not forward and not backward
        return Relations(Outcome.EMPTY if is_empty else result.outcome, forward, backward, result.message)

    def neighbours(
        self, node: Term, relation: IRI | None = None, direction: Direction = "both", limit: int | None = None
    ) -> Neighbours:
        """Triples that leave a node, then those that arrive, each side sorted; optionally of one relation.

        Without a `relation`, those that the profile excludes are left out before the cap counts. A cap leaves
        both sides their fair share.
        """
        deadline, limit = Deadline(self._seconds()), self.limit if limit is None else limit
        sides, message = {True: list[Triple](), False: list[Triple]()}, ""
        around = Relations(Outcome.ROWS, (relation,), (relation,)) if relation else self.relations(node)
        for forward, relations in ((True, around.forward), (False, around.backward)):
            is_leaving_literal = forward and isinstance(node, Literal)
            if not relations or is_leaving_literal or direction == ("backward" if forward else "forward"):
                continue
            pattern = f"{node.n3()} ?p ?o" if forward else f"?o ?p {node.n3()}"
            sparql = f"SELECT ?p ?o WHERE {{ VALUES ?p {{ {terms_n3(relations)} }} {pattern} }}"
            result = self.query(sparql, timeout=deadline.left, limit=limit)
            hops = {
                Hop.between(node, edge, far, forward).triple
                for edge, far in result.rows
                if isinstance(edge, IRI) and far and (forward or isinstance(far, IRI))
            }
            sides[forward] = sorted(hops, key=lambda t: (t.relation.value, t.subject.value, t.object.n3()))
            message = result.message if result.outcome is Outcome.TRUNCATED else message
        out, into = sides[True], sides[False]
        if len(out) + len(into) > limit:
            message = message or f"cut at the limit of {limit} triples"
            share = min(len(into), max(limit // 2, limit - len(out)))
            out, into = out[: limit - share], into[:share]
        triples = tuple(dict.fromkeys((*out, *into)))
        outcome = Outcome.TRUNCATED if message else Outcome.ROWS if triples else Outcome.EMPTY
        return Neighbours(outcome, triples, message)

    def labels(self, terms: Iterable[Term], *, partial: bool = False) -> dict[Term, str]:
        """Labels of many nodes: cached ones at once, the others with one query for up to 500 of them.

        The profile's language wins, then no language, then any; among equals the profile's first label
        predicate. Where ids are names, they stand for missing labels. A query that fails raises
        `QueryFailedError`; with `partial` its labels are missing.
        """
        nodes = [t for t in dict.fromkeys(terms) if isinstance(t, IRI)]
        memory = self._labels
        labels = {t: label for t in nodes if (label := memory.get(t)) is not None}
        deadline = Deadline(self._seconds())
        for batch in batches((t for t in nodes if t not in labels), BATCH):
            subjects = {term: self.profile.label_subject(term) for term in batch}
            named = [s for s in dict.fromkeys(subjects.values()) if not s.value.startswith("_:")]
            result = self._label_rows(named, deadline) if named else Result(Outcome.EMPTY)
            best = _best_labels(self.profile, result) if result.outcome.ok or not partial else {}
            is_complete = result.outcome in (Outcome.ROWS, Outcome.EMPTY)
            for term, subject in subjects.items():
                if subject in best or is_complete:
                    labels[term] = memory[term] = best.get(subject) or self.profile.local_text(term)
        return {t: label for t in nodes if (label := labels.get(t))}

    def _label_rows(self, subjects: Sequence[IRI], deadline: Deadline) -> Result:
        """Rows (subject, predicate, label): the best label alone by each predicate."""
        if not (predicates := [IRI(p) for p in self.profile.label_predicates]):
            return Result(Outcome.EMPTY)
        own = Literal(self.profile.language.lower(), XSD + "string").n3()
        sparql = (
            "SELECT ?s ?p (MIN(?key) AS ?l) WHERE { "
            f"VALUES ?s {{ {terms_n3(subjects)} }} {facts_by(predicates, '?s ?p ?label')} "
            'FILTER(isLiteral(?label) && REGEX(STR(?label), "\\\\S")) BIND(LCASE(LANG(?label)) AS ?tag) '
            f'BIND(CONCAT(IF(?tag = {own}, "0", IF(?tag = "", "1", CONCAT("2", ?tag))), "|", STR(?label)) '
            "AS ?key) } GROUP BY ?s ?p"
        )
        result = self.query(sparql, timeout=deadline.left, limit=BATCH * len(predicates))
        if not result.outcome.ok:
            return result
        rows = []
        for subject, predicate, key in result.rows:
            tag, _, label = key.value.partition("|") if isinstance(key, Literal) else ("", "", "")
            rows.append((subject, predicate, text(label, self.profile.language if tag == "0" else tag[1:])))
        return replace(result, _rows=tuple(rows))


class Layer(KnowledgeGraph):
    """A KG over another one: a base for what changes some of its answers."""

    origin: KnowledgeGraph

    def __init__(self, origin: KnowledgeGraph, index: LabelIndex | None = None) -> None:
        super().__init__(origin.profile, origin.name, origin.index if index is None else index)
        self.origin, self.timeout, self.limit = origin, origin.timeout, origin.limit
        self.cache_dirs, self.is_remote, self.meter = origin.cache_dirs, origin.is_remote, origin.meter

    def session(self, **settings: Any) -> Self:
        """The same over a session of the KG below, which counts and remembers."""
        session = super().session(**settings)
        session.origin = self.origin.session(**settings)
        session.meter = session.origin.meter
        return session

    def together(self, tasks: Sequence[Callable[[], T]]) -> list[T]:
        """As the KG below runs them."""
        return self.origin.together(tasks)

    @property
    def closed(self) -> bool:
        """As the KG below."""
        return self.origin.closed

    def close(self) -> None:
        """The KG below stays open for others."""


def base_of(kg: KnowledgeGraph) -> KnowledgeGraph:
    """The KG below all that is laid over it, in the same session."""
    return kg if kg.origin is None else base_of(kg.origin)


def origin_of(kg: KnowledgeGraph) -> KnowledgeGraph:
    """The KG below all that is laid over it: what is measured or kept once per KG is so for this one."""
    return base_of(kg).shared


def facts_of(kg: KnowledgeGraph) -> dict[Triple, ExtractedFact]:
    """Return the facts laid over a KG, in all its layers; {} for a KG without any."""
    return {**(facts_of(kg.origin) if kg.origin is not None else {}), **kg.facts}


_memories: WeakKeyDictionary[KnowledgeGraph, dict[str, LRUCache[Any, Any]]] = WeakKeyDictionary()
_memories_lock = Lock()


def memory_of(kg: KnowledgeGraph, topic: str) -> LRUCache[Any, Any]:
    """A cache for what is found out about a KG, kept as long as it is; the values must not hold the KG."""
    with _memories_lock:
        return _memories.setdefault(kg.shared, {}).setdefault(topic, LRUCache(MEMORY))


def _best_labels(profile: Profile, result: Result) -> dict[IRI, str]:
    """The best label of each subject in rows of (subject, predicate, label), by language, then predicate."""
    ranks: dict[IRI, tuple[int, int, str, str]] = {}
    order = {p: i for i, p in enumerate(profile.label_predicates)}
    for subject, predicate, label in result.rows:
        if not isinstance(label, Literal) or not label.value.strip():
            continue
        if isinstance(subject, IRI) and isinstance(predicate, IRI):
            preferred = label.language.lower() == profile.language.lower()
            by_language = 0 if preferred else 2 if label.language else 1
            rank = by_language, order.get(predicate.value, len(order)), label.language, label.value
            ranks[subject] = min(rank, ranks.get(subject, rank))
    return {subject: one_line(rank[-1][:LONGEST_LABEL]) for subject, rank in ranks.items()}


def batches(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """The items in lists of at most `size`."""
    rest = iter(items)
    while batch := list(islice(rest, size)):
        yield batch


def is_datatype(term: object) -> bool:
    """Whether a term (of ours or pyoxigraph's) is the IRI of a datatype, not a value."""
    value = "" if isinstance(term, Literal) else getattr(term, "value", "")
    return value.startswith(XSD) or value == RDF + "langString"


def facts_by(predicates: Iterable[IRI], pattern: str) -> str:
    """Return the group pattern of a triple whose second part is a variable, one of some predicates."""
    # Some engines multiply a VALUES block with another one, and then join it with all triples.
    subject, relation, value = pattern.split()
    links = (p.n3() for p in predicates)
    return " UNION ".join(f"{{ {subject} {p} {value} BIND({p} AS {relation}) }}" for p in links)


def terms_n3(terms: Iterable[Term]) -> str:
    """Return terms as a VALUES block lists them."""
    return " ".join(t.n3() for t in terms)
