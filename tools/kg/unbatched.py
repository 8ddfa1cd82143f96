"""A KG that looks its labels up one by one, as QueryAgent's published loop does: for comparison only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

from triplewise.tools.core.terms import IRI, Term, Variable
from triplewise.tools.kg.engine import ROWS_PER_LABEL, best_labels
from triplewise.tools.kg.labels import LabelIndex
from triplewise.tools.kg.protocol import (
    Direction,
    KnowledgeGraph,
    Meter,
    Neighbours,
    Paths,
    Relations,
    Result,
    shared_of,
)
from triplewise.tools.kg.queries import labels_query


class UnbatchedLabels:
    """Another KG, but for `labels`: one query a node, every time it is shown, and nothing is remembered.

    The texts of relations that a lookup offered are still fetched together: the paper's Freebase has
    relations that read without a label, so its loop never asks for them.
    """

    def __init__(self, kg: KnowledgeGraph) -> None:
        self._kg = kg
        self.name, self.profile = kg.name, kg.profile
        self.timeout, self.limit = kg.timeout, kg.limit
        self._relations: set[Term] = set()

    @property
    def shared(self) -> KnowledgeGraph:
        """The KG that the wrapped one is a session of."""
        return shared_of(self._kg)

    @property
    def meter(self) -> Meter:
        """Counts the queries that reach the KG."""
        return self._kg.meter

    def session(self, **settings: Any) -> Self:
        """The same for one run; see `KnowledgeGraph.session`."""
        return type(self)(self._kg.session(**settings))

    @property
    def index(self) -> LabelIndex | None:
        """The label index of the KG."""
        return self._kg.index

    def query(self, sparql: str, *, timeout: float | None = None, limit: int | None = None) -> Result:
        """Run one SELECT or ASK; see `KnowledgeGraph.query`."""
        return self._kg.query(sparql, timeout=timeout, limit=limit)

    def relations(
        self,
        node: Term | Variable,
        where: str = "",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Relations:
        """Distinct relations; see `KnowledgeGraph.relations`."""
        found = self._kg.relations(node, where, timeout=timeout, limit=limit)
        self._relations.update(self.profile.label_subject(r) for r in (*found.forward, *found.backward))
        return found

    def neighbours(
        self,
        node: Term,
        relation: IRI | None = None,
        direction: Direction = "both",
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Neighbours:
        """Triples around a node; see `KnowledgeGraph.neighbours`."""
        return self._kg.neighbours(node, relation, direction, timeout=timeout, limit=limit)

    def labels(self, terms: Iterable[Term]) -> dict[Term, str]:
        """Labels of many nodes, with one query for each of them."""
        wanted = list(dict.fromkeys(terms))
        together = [t for t in wanted if t in self._relations]
        found = self._kg.labels(together) if together else {}
        for term in wanted:
            if isinstance(term, IRI) and term not in self._relations and (label := self._label(term)):
                found[term] = label
        return found

    def _label(self, term: IRI) -> str:
        """The label of one node, asked for now; "" if it has none."""
        subject = self.profile.label_subject(term)
        predicates = [IRI(p) for p in self.profile.label_predicates]
        if subject.value.startswith("_:") or not predicates:
            return ""
        result = self.query(labels_query([subject], predicates, None), limit=ROWS_PER_LABEL**2)
        return best_labels(self.profile, result).get(subject, "")

    def paths(
        self,
        source: Term,
        target: Term,
        max_hops: int = 3,
        *,
        timeout: float | None = None,
        limit: int | None = None,
    ) -> Paths:
        """Paths between two nodes; see `KnowledgeGraph.paths`."""
        return self._kg.paths(source, target, max_hops, timeout=timeout, limit=limit)

    def close(self) -> None:
        """Free what the KG holds."""
        self._kg.close()
