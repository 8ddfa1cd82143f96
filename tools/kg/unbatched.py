"""A KG that looks its labels up one by one, as QueryAgent's published loop does: for comparison only."""

from __future__ import annotations

from collections.abc import Iterable

from triplewise.tools.core.terms import IRI, Term, Variable
from triplewise.tools.kg.protocol import Deadline, KnowledgeGraph, Layer, Relations, best_labels, memory_of


class UnbatchedLabels(Layer):
    """Another KG, but for `labels`: one query a node, every time it is shown, and nothing is remembered.

    The texts of relations that a lookup offered are still fetched together: the paper's Freebase has
    relations that read without a label, so its loop never asks for them.
    """

    def __init__(self, origin: KnowledgeGraph) -> None:
        super().__init__(origin)
        self._offered = memory_of(origin, "relations offered")

    def relations(self, node: Term | Variable, where: str = "") -> Relations:
        """Distinct relations, which are noted as offered."""
        around = self.origin.relations(node, where)
        for relation in (*around.forward, *around.backward) if around.outcome.ok else ():
            self._offered[self.profile.label_subject(relation)] = True
        return around

    def labels(self, terms: Iterable[Term], *, partial: bool = False) -> dict[Term, str]:
        """Labels of many nodes, with one query for each of them."""
        nodes = list(dict.fromkeys(terms))
        labels = self.origin.labels([t for t in nodes if t in self._offered], partial=partial)
        for term in nodes:
            if not isinstance(term, IRI) or term in self._offered or not self.profile.label_predicates:
                continue
            subject = self.profile.label_subject(term)
            if not subject.value.startswith("_:"):
                rows = self._label_rows([subject], Deadline(self.timeout))
                if partial and not rows.outcome.ok:
                    continue
                if label := best_labels(self.profile, rows).get(subject):
                    labels[term] = label
        return labels
