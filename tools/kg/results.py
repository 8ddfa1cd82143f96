"""What a knowledge graph answers: rows, relations, neighbours and paths, with the outcome of a query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal as OneOf
from typing import Self, TypeAlias

from triplewise.tools.core.errors import QueryFailedError
from triplewise.tools.core.terms import IRI, RDF, XSD, Literal, Term, Triple

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
        return self in ANSWERED


ANSWERED = (Outcome.ROWS, Outcome.EMPTY, Outcome.TRUNCATED)


class _Reply:
    """What came of a query: what it holds can be read only if the query did not fail."""

    __slots__ = ()
    outcome: Outcome
    message: str

    def check(self) -> None:
        """Raise `QueryFailedError` unless the engine answered."""
        if self.outcome not in ANSWERED:
            raise QueryFailedError(self.outcome, self.message)


@dataclass(frozen=True, slots=True)
class Result(_Reply):
    """Result of a SELECT (`rows`, one tuple a solution, None where unbound) or ASK (`boolean`).

    Raises:
        QueryFailedError: on reading what a query that failed would hold; look at `outcome` first to go on.
    """

    outcome: Outcome
    variables: tuple[str, ...] = ()
    _rows: tuple[tuple[Term | None, ...], ...] = ()
    message: str = ""
    seconds: float = 0.0
    _boolean: bool | None = None

    @property
    def rows(self) -> tuple[tuple[Term | None, ...], ...]:
        """One tuple a solution, None where a variable is unbound."""
        self.check()
        return self._rows

    @property
    def boolean(self) -> bool | None:
        """The answer of an ASK; None for a SELECT."""
        self.check()
        return self._boolean

    @classmethod
    def ask(cls, answer: bool) -> Self:
        """The result of an ASK."""
        return cls(Outcome.ROWS, _boolean=answer)

    @classmethod
    def capped(cls, variables: tuple[str, ...], rows: Sequence[tuple[Term | None, ...]], limit: int) -> Self:
        """The result of a SELECT of which up to `limit + 1` rows were fetched."""
        if len(rows) > limit:
            message = f"cut at the limit of {limit} rows"
            return cls(Outcome.TRUNCATED, variables, tuple(rows[:limit]), message=message)
        return cls(Outcome.ROWS if rows else Outcome.EMPTY, variables, tuple(rows))

    def column(self, variable: str) -> tuple[Term, ...]:
        """Distinct bound values of one variable, in order of first appearance; () where there is no row."""
        i = self.variables.index(variable) if self.rows else 0
        return tuple(dict.fromkeys(row[i] for row in self.rows if row[i] is not None))  # type: ignore[misc]


@dataclass(frozen=True, slots=True)
class Relations(_Reply):
    """Distinct relations around a node: `forward` leave it, `backward` arrive at it; see `Result`."""

    outcome: Outcome
    _forward: tuple[IRI, ...] = ()
    _backward: tuple[IRI, ...] = ()
    message: str = ""

    @property
    def forward(self) -> tuple[IRI, ...]:
        """Relations that leave the node."""
        self.check()
        return self._forward

    @property
    def backward(self) -> tuple[IRI, ...]:
        """Relations that arrive at it."""
        self.check()
        return self._backward


@dataclass(frozen=True, slots=True)
class Neighbours(_Reply):
    """Triples around a node, those that leave it first; see `Result`."""

    outcome: Outcome
    _triples: tuple[Triple, ...] = ()
    message: str = ""

    @property
    def triples(self) -> tuple[Triple, ...]:
        """The triples."""
        self.check()
        return self._triples


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
class Paths(_Reply):
    """Simple paths between two nodes, shortest first; a search that ran out of time has those seen so far."""

    outcome: Outcome
    _paths: tuple[Path, ...] = ()
    message: str = ""

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths; raises `QueryFailedError` where there are none because the search failed."""
        if not self._paths:
            self.check()
        return self._paths
