"""Stands for the knowledge graph where a database is asked instead: it holds nothing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from triplewise.tools.core.terms import IRI, Term, Variable
from triplewise.tools.kg.labels import LabelIndex
from triplewise.tools.kg.profile import Profile, load_profile
from triplewise.tools.kg.protocol import Direction, Meter, Neighbours, Outcome, Paths, Relations, Result


class NoGraph:
    """An empty `KnowledgeGraph`. Nothing is counted: no query reaches anything."""

    def __init__(self) -> None:
        self.name, self.timeout, self.limit = "none", 30.0, 1
        self.index: LabelIndex | None = None
        self.profile: Profile = load_profile("generic")
        self.meter = Meter()

    def session(self, **settings: Any) -> Self:
        """Itself: there is nothing that one run could change."""
        return self

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Nothing."""
        return Result(Outcome.EMPTY)

    def relations(
        self,
        node: Term | Variable,
        where: str = "",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Relations:
        """None."""
        return Relations(Outcome.EMPTY)

    def neighbours(
        self,
        node: Term,
        relation: IRI | None = None,
        direction: Direction = "both",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Neighbours:
        """None."""
        return Neighbours(Outcome.EMPTY)

    def labels(self, terms: Iterable[Term]) -> dict[Term, str]:
        """None."""
        return {}

    def paths(
        self,
        source: Term,
        target: Term,
        max_hops: int = 3,
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Paths:
        """None."""
        return Paths(Outcome.EMPTY)

    def close(self) -> None:
        """Nothing is held."""
