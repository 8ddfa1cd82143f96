"""A KG with an allowance: so many queries, little patience, and nothing asked twice.

Corrections must stay cheap and may never hang a run, so whatever tries fixes goes through this.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Self

from triplewise.tools.core.terms import IRI, Term, Variable
from triplewise.tools.kg.engine import BATCH, Engine
from triplewise.tools.kg.protocol import (
    Direction,
    KnowledgeGraph,
    Meter,
    Neighbours,
    Outcome,
    Paths,
    Relations,
    Result,
    metered,
    shared_of,
)

if TYPE_CHECKING:
    from triplewise.tools.kg.labels import LabelIndex
    from triplewise.tools.kg.profile import Profile

PATIENCE = 5.0
"""Seconds that one query of a correction may take at most."""
TIMEOUTS = 2
"""So many time-outs end the trying: what is left would most likely time out too."""
NEIGHBOUR_QUERIES = 3
"""Most queries that one `neighbours` takes: its relations, and each direction."""


class SpentError(Exception):
    """The allowance is spent, or the KG does not answer: what was not tried yet stays untried."""


class QueryBudget:
    """A `KnowledgeGraph` that asks the one it wraps at most `budget` queries.

    A call that could take more than what is left raises `SpentError` before it asks anything, so that the
    budget holds whatever is done with this KG. Queries count for the wrapped KG's meter too.

    Args:
        kg: the KG that is asked.
        budget: queries it may take.
    """

    def __init__(self, kg: KnowledgeGraph, budget: int) -> None:
        self.kg, self.budget = kg, budget
        self.name: str = kg.name
        self.profile: Profile = kg.profile
        self.timeout: float = min(kg.timeout, PATIENCE)
        self.limit: int = kg.limit
        self.used = 0
        self.failures: dict[str, int] = {}
        self._results: dict[tuple[str, int | None], Result] = {}
        self._relations: dict[tuple[Term | Variable, str], Relations] = {}

    @property
    def shared(self) -> KnowledgeGraph:
        """The wrapped KG: what is kept for it (texts of relations) holds for this one too."""
        return shared_of(self.kg)

    @property
    def meter(self) -> Meter:
        """Counts the queries that reach the KG."""
        return self.kg.meter

    def session(self, **settings: Any) -> Self:
        """The same KG for one run, with its allowance; see `KnowledgeGraph.session`."""
        return type(self)(self.kg.session(**settings), self.budget)

    @property
    def index(self) -> LabelIndex | None:
        """The label index of the KG: looking names up there costs no query."""
        return self.kg.index

    @property
    def left(self) -> int:
        """Queries left; 0 once the KG has stopped answering."""
        lost = self.failures.get(Outcome.UNAVAILABLE, 0) or self.failures.get(Outcome.TIMEOUT, 0) >= TIMEOUTS
        return 0 if lost else self.budget - self.used

    @contextmanager
    def spending(self, most: int) -> Iterator[None]:
        """A block that takes `most` queries or fewer, on the wrapped KG itself or through this one.

        Raises:
            SpentError: if less than that is left.
        """
        if most > self.left:
            raise SpentError(f"{self.left} queries are left of {self.budget}")
        with metered(self.kg) as meter:
            yield
        self.used += meter.queries
        for outcome, times in meter.outcomes.items():
            if not Outcome(outcome).ok:
                self.failures[outcome] = self.failures.get(outcome, 0) + times

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one query, or give the result it had before."""
        key = (sparql, limit)
        if key not in self._results:
            with self.spending(1):
                self._results[key] = self.kg.query(sparql, timeout=self._patience(timeout), limit=limit)
        return self._results[key]

    def relations(
        self,
        node: Term | Variable,
        where: str = "",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Relations:
        """Relations around a node, asked once."""
        key = (node, where)
        if key not in self._relations:
            with self.spending(1):
                found = self.kg.relations(node, where, timeout=self._patience(timeout), limit=limit)
            self._relations[key] = found
        return self._relations[key]

    def neighbours(
        self,
        node: Term,
        relation: IRI | None = None,
        direction: Direction = "both",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Neighbours:
        """Triples around a node."""
        with self.spending(NEIGHBOUR_QUERIES):
            return self.kg.neighbours(node, relation, direction, timeout=self._patience(timeout), limit=limit)

    def labels(self, terms: Iterable[Term]) -> dict[Term, str]:
        """Labels of many nodes."""
        wanted = list(dict.fromkeys(terms))
        if not wanted:
            return {}
        with self.spending(self.label_queries(len(wanted))):
            return self.kg.labels(wanted)

    def label_queries(self, count: int) -> int:
        """Most queries that so many labels take: in the profile's language first, then in any."""
        return 2 * (-(-count // BATCH) if isinstance(self.kg, Engine) else count)

    def paths(
        self,
        source: Term,
        target: Term,
        max_hops: int = 3,
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Paths:
        """Never searched for in a correction: nobody can say beforehand how many queries it takes."""
        raise SpentError("a search for paths has no bound on its queries")

    def close(self) -> None:
        """The wrapped KG belongs to others: nothing is freed."""

    def _patience(self, timeout: float | None) -> float:
        return min(self.timeout, self.timeout if timeout is None else timeout)
