"""Conditions beyond chains that the words of a question ask for: count, superlative, comparison, class.

The same reading is tried on a seed question, where its answers show whether it is right, and on the question
at hand.
"""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.tools.core.rules import Rule
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.classes import find_classes
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.planning.lexical.operations import Operations
from triplewise.tools.planning.lexical.question import QuestionView, view
from triplewise.tools.retrieval.encoder import Encoder

ASKED, CLASS, BOTH = "asked", "class", "class asked"
"""What is added: what the cues ask for, the class that the expected noun names, or both."""


class Conditions:
    """Adds conditions to chains for one question.

    Args:
        question: the question. spans: where its topics stand.
    """

    def __init__(
        self, kg: KnowledgeGraph, encoder: Encoder, question: str, spans: Sequence[tuple[int, int]]
    ) -> None:
        self._kg = kg
        self.seen: QuestionView = view(question, spans)
        self._operations = Operations(kg, encoder, self.seen)

    @property
    def counting(self) -> bool:
        """Whether the question asks how many."""
        return self.seen.counting

    @property
    def kinds(self) -> tuple[str, ...]:
        """What the words of the question may ask for; () for most."""
        classed = self.seen.determined and bool(self._classes)
        asked = self.seen.constrained
        told = {ASKED: asked, CLASS: classed, BOTH: asked and classed}
        return tuple(kind for kind, here in told.items() if here)

    def apply(self, rule: Rule, kind: str) -> list[Rule]:
        """The rule with such conditions, the likeliest first; [] where the KG has nothing for them."""
        if kind == ASKED:
            return self._operations.apply(rule)
        if not self._classes:
            return []
        typed = self._operations.typed(rule, self._classes)
        return self._operations.apply(typed) if kind == BOTH else [typed]

    @property
    def _classes(self) -> tuple[IRI, ...]:
        """Classes that the expected noun names."""
        return find_classes(self._kg, self.seen.phrase) or find_classes(self._kg, self.seen.expected)
