"""A KG that looks its labels up one by one, as QueryAgent's published loop does: for comparison only."""

from __future__ import annotations

from collections.abc import Iterable

from triplewise.tools.core.terms import IRI, Term, Variable
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, Layer, Relations, best_labels, memory_of


class UnbatchedLabels(Layer):
    """Another KG, but for `labels`: one query a node, every time it is shown, and nothing is remembered.

    Relations of the paper's Freebase read without a label: those that were offered are not looked up so.
    """

    def __init__(self, origin: KnowledgeGraph) -> None:
        super().__init__(origin)
        self._offered = memory_of(origin, "relations offered")

    def relations(self, node: Term | Variable, where: str = "") -> Relations:
        """Distinct relations, which are noted as offered."""
        around = self.origin.relations(node, where)
        for relation in (*around._forward, *around._backward):
            self._offered[self.profile.label_subject(relation)] = True
        return around

    def labels(self, terms: Iterable[Term], *, partial: bool = False) -> dict[Term, str]:
        """Labels of many nodes, with one query for each of them."""
        nodes = dict.fromkeys(terms)
        labels = self.origin.labels([t for t in nodes if t in self._offered], partial=partial)
        for term in (t for t in nodes if isinstance(t, IRI) and t not in self._offered):
            subject = self.profile.label_subject(term)
            if self.profile.label_predicates and not subject.value.startswith("_:"):
                rows = self._label_rows([subject], Deadline(self.timeout))
                best = best_labels(self.profile, rows) if rows.outcome.ok or not partial else {}
                labels |= {term: best[subject]} if subject in best else {}
        return labels
