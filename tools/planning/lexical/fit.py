"""How well found values fit what is asked for: dates, numbers, or things of the type named."""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.planning.lexical.operations import NUMERIC, TEMPORAL, is_date, is_number
from triplewise.tools.planning.lexical.question import QuestionView, stem
from triplewise.tools.planning.lexical.score import nearest_kind
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import vectors_of

SAMPLE = 6
"""Values looked at."""
BONUS = 0.8
"""Gain of values that are surely what is asked for, and loss of ones that surely are not."""
NAMED = 0.85
"""From this likeness on, the expected noun names the relation itself."""
ALIKE = 0.55
"""Likeness of a type and the asked noun that speaks neither for nor against a value."""


class ValueFit:
    """Judges the values of rules for one question.

    Args:
        classes: nodes of the KG that the expected noun names as a class; () where it names none.
    """

    def __init__(
        self, kg: KnowledgeGraph, encoder: Encoder, seen: QuestionView, classes: Sequence[IRI] = ()
    ) -> None:
        self._kg, self._encoder, self._seen, self._classes = kg, encoder, seen, tuple(classes)

    def of(self, values: Sequence[Term], named: float = 0.0) -> float:
        """How well values fit, from -BONUS to BONUS.

        `named`: likeness of the expected noun and the relation that leads to them; where the relation is
        named by the noun ("capital"), the type of its values says nothing more.
        """
        sample = list(values[:SAMPLE])
        if self._seen.kind in ("time", "number"):
            return self._literal_fit(sample)
        things = [v for v in sample if isinstance(v, IRI)]
        if not things:
            return self._without_things(sample, named)
        if named >= NAMED and not self._seen.determined:
            return BONUS
        return self._type_fit(things)

    def _without_things(self, sample: Sequence[Term], named: float) -> float:
        """Literals where something else may be asked for."""
        if self._seen.counting and all(is_number(v) for v in sample):
            return BONUS / 2
        if self._seen.kind in ("person", "place") or self._classes:
            return -BONUS
        return BONUS if named >= NAMED else -BONUS / 2 if self._seen.expected else 0.0

    def _literal_fit(self, sample: Sequence[Term]) -> float:
        """Dates for when, numbers for how many; a year counts as a number too."""
        labels = self._kg.labels([v for v in sample if isinstance(v, IRI)])
        if self._seen.kind == "time":
            good = [is_date(v, labels.get(v, "")) for v in sample]
        else:
            good = [is_number(v) for v in sample]
        return BONUS if sum(good) * 2 >= len(good) else -BONUS

    def _type_fit(self, things: Sequence[IRI]) -> float:
        """Likeness of the types of the values with the noun or the kind that is asked for."""
        types = self.types(things)
        names = [n for n in self._kg.labels(types).values() if n]
        if not names or not (self._seen.expected or self._seen.kind):
            return 0.0
        if not self._seen.expected:
            store = vectors_of(self._kg, self._encoder)
            same = any(nearest_kind(self._encoder, n, store) == self._seen.kind for n in names)
            return BONUS / 2 if same else -BONUS / 4
        if set(types) & set(self._classes) or any(self.says(n) for n in names):
            return BONUS
        vectors = vectors_of(self._kg, self._encoder).vectors(names)
        best = float((vectors @ self._encoder.encode([self._seen.expected])[0]).max())
        return BONUS * max(-1.0, min(1.0, (best - ALIKE) / (1 - ALIKE)))

    def contradicts(self, values: Sequence[Term]) -> bool:
        """Whether values are things where a date or number is asked for, or the other way round.

        Only what is sure: plain text, or a name with a digit, may be either in an unknown writing.
        """
        sample, kind = values[:SAMPLE], self._seen.kind
        if kind in ("person", "place"):
            return all(isinstance(v, Literal) and v.datatype in NUMERIC | TEMPORAL for v in sample)
        if kind not in ("time", "number") or self._seen.counting:
            return False
        names = self._kg.labels(v for v in sample if isinstance(v, IRI)).values()
        return len(names) == len(sample) and not any(c.isdigit() for name in names for c in name)

    def says(self, name: str) -> bool:
        """Whether the name of a type ends with the expected noun."""
        return bool(self._seen.expected) and stem(name.split()[-1].lower()) == stem(self._seen.expected)

    def types(self, things: Sequence[IRI]) -> list[IRI]:
        """Types of some nodes; one query."""
        predicates = self._kg.profile.type_predicates
        if not predicates or not things:
            return []
        nodes, links = " ".join(t.n3() for t in things), "|".join(IRI(p).n3() for p in predicates)
        result = self._kg.query(
            f"SELECT DISTINCT ?type WHERE {{ VALUES ?x {{ {nodes} }} ?x {links} ?type }}", limit=30
        )
        return [t for t in result.column("type") if isinstance(t, IRI)] if result.rows else []
