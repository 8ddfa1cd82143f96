"""The one protocol that every knowledge graph engine speaks, and the values it returns.

Every call has a time-out and a row cap and says which outcome happened, so that a time-out is never
taken for an empty result.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeAlias, runtime_checkable
from typing import Literal as OneOf
from weakref import WeakKeyDictionary

from triplewise.tools.core.lru import LRUCache
from triplewise.tools.core.terms import IRI, RDF, XSD, Literal, Term, Triple, Variable

if TYPE_CHECKING:
    from triplewise.tools.core.facts import ExtractedFact
    from triplewise.tools.kg.engine import AnswerCache
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

Direction = OneOf["forward", "backward", "both"]


class Deadline:
    """A time budget that several queries of one call share, in seconds."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._end = time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self._end - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether the budget is spent."""
        return time.monotonic() >= self._end


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


@dataclass(frozen=True, slots=True)
class Result:
    """Result of a SELECT (`rows`, one tuple a solution, None where unbound) or ASK (`boolean`)."""

    outcome: Outcome
    variables: tuple[str, ...] = ()
    rows: tuple[tuple[Term | None, ...], ...] = ()
    boolean: bool | None = None
    message: str = ""
    seconds: float = 0.0

    def column(self, variable: str) -> tuple[Term, ...]:
        """Distinct bound values of one variable, in order of first appearance."""
        i = self.variables.index(variable)
        return tuple(dict.fromkeys(row[i] for row in self.rows if row[i] is not None))  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Relations:
    """Distinct relations around a node: `forward` leave it, `backward` arrive at it."""

    outcome: Outcome
    forward: tuple[IRI, ...] = ()
    backward: tuple[IRI, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class Neighbours:
    """Triples around a node."""

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
        """The hop from a node to another, along a relation or against it.

        Raises:
            TypeError: the subject would be a literal.
        """
        subject, obj = (near, far) if forward else (far, near)
        if not isinstance(subject, IRI):
            raise TypeError(f"no triple can have the subject {subject!r}")
        return cls(Triple(subject, relation, obj), forward)

    @property
    def turned(self) -> Hop:
        """The same triple, walked the other way."""
        return Hop(self.triple, not self.forward)

    @property
    def near(self) -> Term:
        """The node that it begins at."""
        return self.triple.subject if self.forward else self.triple.object

    @property
    def far(self) -> Term:
        """The node that it leads to."""
        return self.triple.object if self.forward else self.triple.subject


def is_datatype(term: object) -> bool:
    """Whether a term (of ours or pyoxigraph's) is the IRI of a datatype, which is no value."""
    value = "" if isinstance(term, Literal) else getattr(term, "value", "")
    return value.startswith(XSD) or value == RDF + "langString"


Path: TypeAlias = tuple[Hop, ...]


def path_order(path: Path) -> tuple[int, list[tuple[str, bool, str]]]:
    """Sort key: shortest first, then by relation, direction and far end of the hops."""
    return len(path), [(hop.triple.relation.value, not hop.forward, hop.far.n3()) for hop in path]


@dataclass(frozen=True, slots=True)
class Paths:
    """Simple paths between two nodes, shortest first."""

    outcome: Outcome
    paths: tuple[Path, ...] = ()
    message: str = ""


@runtime_checkable
class KnowledgeGraph(Protocol):
    """A knowledge graph that can be read. Nothing here writes.

    `timeout` is in seconds and `limit` in rows; None takes the KG's own defaults. A result cut at the
    limit has outcome `truncated`. No method raises for what an engine does: the outcome says it.
    """

    name: str
    profile: Profile
    timeout: float
    limit: int

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one SELECT or ASK. Anything else (updates, SERVICE, LOAD) is refused as `syntax`."""
        ...

    def relations(
        self,
        node: Term | Variable,
        where: str = "",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Relations:
        """Distinct relations of a term, or of a query variable bound by the group pattern `where`.

        `where` is SPARQL made by `triplewise.tools.pyql` from terms, never text of a model.
        Relations the profile excludes are left out.
        """
        ...

    def neighbours(
        self,
        node: Term,
        relation: IRI | None = None,
        direction: Direction = "both",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Neighbours:
        """Triples that leave or arrive at a node, optionally of one relation."""
        ...

    def labels(self, terms: Iterable[Term]) -> dict[Term, str]:
        """Labels of many nodes with one query (cached); nodes without a label are left out."""
        ...

    def paths(
        self,
        source: Term,
        target: Term,
        max_hops: int = 3,
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Paths:
        """All simple paths of up to `max_hops` between two nodes, both directions, shortest first."""
        ...

    @property
    def index(self) -> LabelIndex | None:
        """The label index, where this KG has one."""
        ...

    @property
    def meter(self) -> Meter:
        """Counts the queries that reach the store by way of this object."""
        ...

    def session(
        self,
        *,
        meter: Meter | None = None,
        answers: AnswerCache | None = None,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Self:
        """The same KG for one run: with a meter, known answers, time-out and row limit of its own."""
        ...

    def close(self) -> None:
        """Free what is held. Safe to call twice."""
        ...


def origin_of(kg: KnowledgeGraph) -> KnowledgeGraph:
    """The KG below all that is laid over it: what is measured or kept once per KG is so for this one."""
    while (below := getattr(kg, "origin", None)) is not None:
        kg = below
    return shared_of(kg)


def shared_of(kg: KnowledgeGraph) -> KnowledgeGraph:
    """The KG that a session is of, any other KG itself: what is kept for one KG, overlay included, is its."""
    shared: KnowledgeGraph = getattr(kg, "shared", kg)
    return shared


def facts_of(kg: KnowledgeGraph) -> dict[Triple, ExtractedFact]:
    """Return the facts laid over a KG, in all its layers; {} for a KG without any."""
    below: KnowledgeGraph | None = getattr(kg, "origin", None)
    return {**(facts_of(below) if below is not None else {}), **getattr(kg, "facts", {})}


MEMORY = 50_000
"""What is remembered of a KG under one topic, at most."""
_memories: WeakKeyDictionary[KnowledgeGraph, dict[str, LRUCache[Any, Any]]] = WeakKeyDictionary()
_lock = Lock()


def memory_of(kg: KnowledgeGraph, topic: str) -> LRUCache[Any, Any]:
    """A cache for what is found out about a KG, kept as long as it is; the values must not hold the KG."""
    with _lock:
        return _memories.setdefault(shared_of(kg), {}).setdefault(topic, LRUCache(MEMORY))


class Meter:
    """Counts the queries that reach a KG or a database, their outcomes and seconds. Safe to share."""

    def __init__(self) -> None:
        self.queries = 0
        self.seconds = 0.0
        self.outcomes: dict[str, int] = {}
        self._blocks: list[Meter] = []
        self._lock = Lock()

    def add(self, outcome: Outcome, seconds: float) -> None:
        """Count one query. Engines call this once for every query that reached the store."""
        with self._lock:
            self.queries += 1
            self.seconds += seconds
            self.outcomes[outcome] = self.outcomes.get(outcome, 0) + 1
            blocks = list(self._blocks)
        for block in blocks:
            block.add(outcome, seconds)

    @contextmanager
    def block(self) -> Iterator[Meter]:
        """Count what is asked inside the block, besides counting it here."""
        inner = Meter()
        with self._lock:
            self._blocks.append(inner)
        try:
            yield inner
        finally:
            with self._lock:
                self._blocks.remove(inner)


def metered(kg: KnowledgeGraph) -> AbstractContextManager[Meter]:
    """Count every query that is asked of a KG inside the block, whoever asks it."""
    return kg.meter.block()
