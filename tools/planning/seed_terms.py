"""What names, ids and values of a seed file mean in a KG, and which values are the same."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from dataclasses import replace
from itertools import islice
from typing import Self

from triplewise.tools.core.terms import IRI, XSD, Literal, Term, text
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.planning.seeds import Seed

_NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_DATE = re.compile(r"-?\d{4,}-\d\d(?:-\d\d)?(?:T[\d:.]+(?:Z|[-+]\d\d:\d\d)?)?")
BATCH = 500
"""Seeds whose topics are named at once."""
_NUMERIC = ("integer", "decimal", "double", "float", "gYear", "string")
_TEMPORAL = ("date", "dateTime", "gYearMonth", "string")


class SeedTerms:
    """Resolves what a seed file says; remembers what it found."""

    def __init__(self, kg: KnowledgeGraph) -> None:
        self._kg = kg
        self._known: dict[str, tuple[Term, ...]] = {}

    def session(self, kg: KnowledgeGraph) -> Self:
        """The same terms, asking the session `kg` of the graph."""
        session = copy(self)
        session._kg = kg
        return session

    def resolve(self, name: str) -> tuple[Term, ...]:
        """Nodes or literals meant by an id, a name or a value; () for what the KG cannot have."""
        if name not in self._known:
            self._known[name] = self._named(name) or (self._values(name) if is_value(name) else ())
        return self._known[name]

    def gold(self, seed: Seed) -> set[Term]:
        """The answers of a seed; a number or date that the KG does not hold is one that may be computed."""
        found: set[Term] = set()
        for answer in seed.answers:
            terms = self.resolve(answer)[:1]
            found.update(terms or ({Literal(answer, XSD + "string")} if is_value(answer) else ()))
        return found

    def _named(self, name: str) -> tuple[Term, ...]:
        """Nodes of a name or an id; one that reads like a value counts only if the KG has it."""
        entries = self._kg.index.exact(name) if self._kg.index is not None else ()
        exact = tuple(e.iri for e in entries if e.label == name) or tuple(e.iri for e in entries)
        iri = self._kg.profile.expand(name)
        if exact or iri is None:
            return exact
        return (iri,) if not is_value(name) or self._has(iri) else ()

    def _values(self, value: str) -> tuple[Term, ...]:
        """Literals of the KG that write a value."""
        kinds = _NUMERIC if _NUMBER.fullmatch(value) else _TEMPORAL
        forms: list[Term] = [Literal(value, XSD + kind) for kind in kinds]
        if _DATE.fullmatch(value) and "T" not in value:
            forms.append(Literal(f"{value}T00:00:00Z", XSD + "dateTime"))
        forms.append(text(value, self._kg.profile.language))
        return tuple(f for f in forms if self._has(f))

    def _has(self, term: Term) -> bool:
        """Whether the KG has any fact of a node or value."""
        if isinstance(term, IRI):
            return bool(self._kg.neighbours(term, limit=1).triples)
        return self._kg.query(f"ASK {{ ?s ?p {term.n3()} }}").boolean is True


def named_in_text(seeds: Iterable[Seed], kg: KnowledgeGraph) -> Iterator[Seed]:
    """Seeds whose topic is given by an id alone get the name that their question has for it.

    One query for the labels of some hundred; a question that has another name for it stays as it is.
    """
    source = iter(seeds)
    while batch := list(islice(source, BATCH)):
        wanted = {i: kg.profile.expand(i) for s in batch if _unnamed(s) for i in s.topics}
        labels = kg.labels([iri for iri in wanted.values() if iri is not None])
        for seed in batch:
            yield _renamed(seed, wanted, labels) if _unnamed(seed) else seed


def _unnamed(seed: Seed) -> bool:
    """Whether no topic stands in the question."""
    lower = seed.question.lower()
    return bool(seed.topics) and not any(t.lower() in lower for t in seed.topics)


def _renamed(seed: Seed, wanted: Mapping[str, IRI | None], labels: Mapping[Term, str]) -> Seed:
    """The seed with its topics by name, those that its question names."""
    lower, named = seed.question.lower(), {}
    for topic in seed.topics:
        iri = wanted[topic]
        name = labels.get(iri, "") if iri is not None else ""
        if name and name.lower() in lower:
            named[name] = topic
    return replace(seed, topics=tuple(named), ids=tuple(named.values())) if named else seed


def is_value(text_: str) -> bool:
    """Whether a text reads like a number or a date."""
    return bool(_NUMBER.fullmatch(text_) or _DATE.fullmatch(text_))


def same_as(gold: Iterable[Term], found: Iterable[Term]) -> set[Term]:
    """What was found, with every value that equals one of the gold ones put as that one."""
    known = {key: term for term in gold if (key := _key(term)) is not None}
    if not known:
        return set(found)
    return {known.get(_key(term), term) for term in found}


def _key(term: Term) -> object:
    """What equal values share; None for nodes and plain texts."""
    if not isinstance(term, Literal):
        return None
    if _NUMBER.fullmatch(term.value):
        return float(term.value)
    return term.value[:10] if _DATE.fullmatch(term.value) else None
