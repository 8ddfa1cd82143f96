"""A KG with a budget of queries: little patience, and nothing asked twice.

Corrections must stay cheap and may never hang a run, so whatever tries fixes goes through this.
"""

from __future__ import annotations

from triplewise.tools.kg.engine import Engine, Layer
from triplewise.tools.kg.protocol import KnowledgeGraph, Outcome, Result, metered, shared_of

PATIENCE = 5.0
"""Seconds that one query of a correction may take at most."""
TIMEOUTS = 2
"""So many time-outs end the trying: what is left would most likely time out too."""


class SpentError(Exception):
    """The budget is spent, or the KG does not answer: what was not tried yet stays untried."""


class QueryBudget(Layer):
    """A KG that asks the one below at most `budget` queries; one more raises `SpentError`.

    Queries count for the meter of the KG below too, and what is remembered of it holds here.
    """

    def __init__(self, origin: KnowledgeGraph, budget: int) -> None:
        super().__init__(origin)
        self.budget, self.used = budget, 0
        self.timeout = min(origin.timeout, PATIENCE)
        if isinstance(origin, Engine):
            self._labels = origin._labels
        self._failures: dict[Outcome, int] = {}
        self._results: dict[tuple[str, int | None], Result] = {}

    @property
    def shared(self) -> KnowledgeGraph:  # type: ignore[override]
        """The KG below: what is kept for it (texts of relations) holds for this one too."""
        return shared_of(self.origin)

    @property
    def left(self) -> int:
        """Queries left; 0 once the KG has stopped answering."""
        failures = self._failures
        lost = failures.get(Outcome.UNAVAILABLE, 0) or failures.get(Outcome.TIMEOUT, 0) >= TIMEOUTS
        return 0 if lost else self.budget - self.used

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one query, or give the result it had before. Raises `SpentError` where none is left."""
        key = (sparql, limit)
        if key not in self._results:
            if self.left < 1:
                raise SpentError(f"no query is left of {self.budget}")
            seconds = self.timeout if timeout is None else min(timeout, self.timeout)
            with metered(self.origin) as meter:
                result = self._results[key] = self.origin.query(sparql, timeout=seconds, limit=limit)
            self.used += meter.queries
            if not result.outcome.ok:
                self._failures[result.outcome] = self._failures.get(result.outcome, 0) + 1
        return self._results[key]

    def close(self) -> None:
        """The KG below belongs to others: nothing is closed."""
