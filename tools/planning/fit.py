"""How well found values fit what is asked for: dates, numbers, or things of the type named."""

from __future__ import annotations

from collections.abc import Sequence

from triplewise.tools.encoder import Encoder
from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.kg.terms import IRI, Term
from triplewise.tools.planning.operations import is_date, is_number
from triplewise.tools.planning.question import QuestionView, lexicon, stem

SAMPLE = 6
"""Values looked at."""
BONUS = 0.8
"""Gain of values that are surely what is asked for, and loss of ones that surely are not."""
ALIKE = 0.55
"""Likeness of a type and the asked noun that speaks neither for nor against a value."""


class ValueFit:
    """Judges the values of rules for one question."""

    def __init__(self, kg: KnowledgeGraph, encoder: Encoder, seen: QuestionView) -> None:
        self._kg, self._encoder, self._seen = kg, encoder, seen
        self._classes: tuple[IRI, ...] | None = None

    def of(self, values: Sequence[Term]) -> float:
        """Between -BONUS and BONUS, or more for values of exactly the type named."""
        sample = list(values[:SAMPLE])
        if self._seen.kind in ("time", "number"):
            return self._literal_fit(sample)
        things = [v for v in sample if isinstance(v, IRI)]
        if self._seen.kind in ("person", "place") and not things:
            return -BONUS
        return self._type_fit(things) if things else 0.0

    def _literal_fit(self, sample: Sequence[Term]) -> float:
        """Dates for when, numbers for how many; a year counts as a number too."""
        labels = self._kg.labels([v for v in sample if isinstance(v, IRI)])
        if self._seen.kind == "time":
            good = [is_date(v, labels.get(v, "")) for v in sample]
        else:
            good = [is_number(v) for v in sample]
        return BONUS if sum(good) * 2 >= len(good) else -BONUS

    def _type_fit(self, things: Sequence[IRI]) -> float:
        """Likeness of the types of the values with the noun that is asked for."""
        types = self._types(things)
        names = list(self._kg.labels(types).values())
        wanted = [self._seen.expected] if self._seen.expected else list(lexicon()["kinds"].get(self._seen.kind, ()))
        if not names or not wanted:
            return 0.0
        if set(types) & set(self.classes()):
            return BONUS
        if self._seen.expected and any(stem(n.split()[-1]) == stem(wanted[0]) for n in names):
            return BONUS
        vectors = self._encoder.encode([*wanted, *names])
        best = float((vectors[: len(wanted)] @ vectors[len(wanted) :].T).max())
        return BONUS * max(-1.0, min(1.0, (best - ALIKE) / (1 - ALIKE)))

    def _types(self, things: Sequence[IRI]) -> list[IRI]:
        """Types of some nodes; one query."""
        predicates = [p for p in map(_iri, self._kg.profile.type_predicates) if p]
        if not predicates:
            return []
        nodes, links = " ".join(t.n3() for t in things), "|".join(p.n3() for p in predicates)
        result = self._kg.query(f"SELECT DISTINCT ?type WHERE {{ VALUES ?x {{ {nodes} }} ?x {links} ?type }}", limit=30)
        return [t for t in result.column("type") if isinstance(t, IRI)] if result.rows else []

    def classes(self) -> tuple[IRI, ...]:
        """Classes of the KG that bear the expected noun as a name, most used first."""
        if self._classes is None:
            self._classes = find_classes(self._kg, self._seen.expected)
        return self._classes


def _iri(value: str) -> IRI | None:
    """An IRI, or None."""
    try:
        return IRI(value)
    except ValueError:
        return None


def singulars(noun: str) -> tuple[str, ...]:
    """A noun and its possible singular forms."""
    forms = [noun]
    if noun.endswith("ies"):
        forms.append(noun[:-3] + "y")
    if noun.endswith("es"):
        forms.append(noun[:-2])
    if noun.endswith("s") and not noun.endswith("ss"):
        forms.append(noun[:-1])
    return tuple(dict.fromkeys(forms))


def find_classes(kg: KnowledgeGraph, noun: str) -> tuple[IRI, ...]:
    """Nodes named by a noun that have instances in the KG, those with the preferred label first."""
    if not noun or kg.index is None or not kg.profile.type_predicates:
        return ()
    entries = [e for form in singulars(noun) for e in kg.index.exact(form)][:10]
    nodes = list(dict.fromkeys(e.iri for e in sorted(entries, key=lambda e: (e.alias, -e.popularity))))
    if not nodes:
        return ()
    links = "|".join(f"<{p}>" for p in kg.profile.type_predicates)
    values = " ".join(n.n3() for n in nodes)
    result = kg.query(f"SELECT DISTINCT ?c WHERE {{ VALUES ?c {{ {values} }} ?x {links} ?c }}", limit=20)
    used = set(result.column("c")) if result.rows else set()
    return tuple(n for n in nodes if n in used)
