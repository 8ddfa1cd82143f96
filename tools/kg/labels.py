"""The label index of a KG: which nodes bear a name, exactly or nearly.

Finding is a cascade, each stage asked only when the one before found too little: exact label or alias
(a hash or SQLite look-up), fuzzy (tantivy on disk, rapidfuzz over all labels in memory), character trigrams.
Vectors are not used to find names, only to choose among candidates (see `triplewise.tools.linking.linker`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol
from typing import Literal as OneOf

from triplewise.tools.core.names import Span, normalise, spans
from triplewise.tools.core.terms import IRI

if TYPE_CHECKING:
    from pathlib import Path

Kind = OneOf["exact", "alias", "fuzzy", "trigram"]

_FUZZY_LEAST = 0.6
"""A fuzzy or trigram candidate below this score is not offered."""
_GOOD = 0.8
"""Trigrams are tried only when the best fuzzy candidate is below this score."""
_CHUNK = 400


@dataclass(frozen=True, slots=True)
class Entry:
    """A node with one of its names.

    Attributes:
        iri: the node. label: its preferred label. text: the name that matched, as the KG writes it.
        alias: whether that name is an alias.
        popularity: number of facts the node takes part in (a lower bound on very large graphs).
        description: the KG's description, "" if none.
    """

    iri: IRI
    label: str
    text: str
    alias: bool = False
    popularity: int = 0
    description: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entry that a text may mean, with how well the names agree (0 to 1) and how it was found."""

    entry: Entry
    score: float
    kind: Kind

    @property
    def iri(self) -> IRI:
        """The node."""
        return self.entry.iri

    @property
    def label(self) -> str:
        """Its preferred label."""
        return self.entry.label


@dataclass(frozen=True, slots=True)
class SpanMatch:
    """A span of a question that is a name, and the entries that bear it (most popular first)."""

    span: Span
    entries: tuple[Entry, ...]


@dataclass(frozen=True, slots=True)
class Name:
    """One name of a node, as it goes into an index."""

    iri: str
    text: str
    alias: bool = False


class Names(Protocol):
    """Where an index keeps its names. Norms are what `normalise` returns."""

    most_words: int

    def exact(self, norms: Sequence[str]) -> dict[str, list[Entry]]:
        """Entries by normal form."""
        ...

    def fuzzy(self, norm: str, limit: int) -> Iterable[Entry]:
        """Entries whose names share nearly the same words."""
        ...

    def trigrams(self, norm: str, limit: int) -> Iterable[Entry]:
        """Entries whose names share runs of characters."""
        ...

    def longer(self, norm: str, limit: int) -> Iterable[Entry]:
        """Entries whose names begin or end with these words and go on, most popular first."""
        ...

    def node(self, iri: IRI) -> Entry | None:
        """The entry of a node under its preferred label."""
        ...

    def __len__(self) -> int:
        """Number of names."""
        ...

    def close(self) -> None:
        """Free what is held."""
        ...


class LabelIndex:
    """Looks names up. Read-only, and safe to use from several threads."""

    def __init__(self, names: Callable[[], Names]) -> None:
        self._make = names
        self._made: Names | None = None
        self._lock = threading.Lock()

    @property
    def _names(self) -> Names:
        """The names, made when they are first needed."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
            return self._made

    @classmethod
    def in_memory(
        cls,
        names: Callable[[], Iterable[Name]],
        popularity: Mapping[str, int] | None = None,
        description: Callable[[str], str] = lambda iri: "",
    ) -> LabelIndex:
        """An index of a small KG, built from names in order of preference when it is first used."""
        from triplewise.tools.kg.labels_memory import MemoryNames

        return cls(lambda: MemoryNames(names(), popularity or {}, description))

    @classmethod
    def on_disk(cls, folder: Path) -> LabelIndex:
        """The index that `triplewise.tools.kg.labels_disk.build` wrote into a store's folder."""
        from triplewise.tools.kg.labels_disk import DiskNames

        return cls(lambda: DiskNames(folder))

    def with_names(self, names: Sequence[Name], popularity: Mapping[str, int] | None = None) -> LabelIndex:
        """An index of these names too. This one stays as it is, and must outlive the other."""
        from triplewise.tools.kg.labels_memory import JoinedNames, MemoryNames

        def joined() -> Names:
            return JoinedNames(self._names, MemoryNames(names, popularity or {}, lambda iri: ""))

        return LabelIndex(joined)

    def exact(self, text: str) -> tuple[Entry, ...]:
        """Entries whose label or alias is the text, but for case, accents and punctuation; labels first."""
        norm = normalise(text)
        return _ordered(self._names.exact([norm]).get(norm, ())) if norm else ()

    def search(self, text: str, limit: int = 10, near: bool = False) -> tuple[Candidate, ...]:
        """Best candidates for a text, best first: the cascade exact or alias, fuzzy, trigrams.

        `near` asks for near names also where there are exact ones.
        """
        norm = normalise(text)
        if not norm:
            return ()
        found = [_named(entry, text) for entry in self.exact(text)]
        if near or not found:
            found += _rescored(norm, self._names.fuzzy(norm, 100), "fuzzy")
            if not found or found[0].score < _GOOD:
                found += _rescored(norm, self._names.trigrams(norm, 100), "trigram")
        return _distinct(found)[:limit]

    def longer(self, text: str, limit: int = 10) -> tuple[Candidate, ...]:
        """Nodes whose longer name begins or ends with the text (`Lincoln`: Abraham Lincoln)."""
        norm = normalise(text)
        return _distinct(_rescored(norm, self._names.longer(norm, limit), "fuzzy")) if norm else ()

    def spans(self, question: str) -> tuple[SpanMatch, ...]:
        """All spans of the question that are names in full, longest first, from batched look-ups."""
        runs = [span for span in spans(question, self._names.most_words) if span.norm]
        norms = list(dict.fromkeys(span.norm for span in runs))
        known: dict[str, list[Entry]] = {}
        for at in range(0, len(norms), _CHUNK):
            known.update(self._names.exact(norms[at : at + _CHUNK]))
        return tuple(SpanMatch(span, _ordered(known[span.norm])) for span in runs if span.norm in known)

    def node(self, iri: IRI) -> Entry | None:
        """The entry of a node under its preferred label; None if the index has none."""
        return self._names.node(iri)

    def __len__(self) -> int:
        return len(self._names)

    def close(self) -> None:
        """Free what is held. Safe to call twice."""
        with self._lock:
            if self._made is not None:
                self._made.close()


def similarity(norm: str, other: str) -> float:
    """How alike two normalised names are, 0 to 1: by edits, by edits in any word order, or as part of a name.

    A text that holds all of a name and more is not that name: only the text may leave words out.
    """
    from rapidfuzz import fuzz

    edits = max(fuzz.ratio(norm, other), 0.95 * fuzz.token_sort_ratio(norm, other)) / 100
    words, others = set(norm.split()), set(other.split())
    part = 0.7 + 0.2 * len(words) / len(others) if words < others else 0.0
    return max(edits, part)


def _named(entry: Entry, text: str) -> Candidate:
    """An exact match: 1.0 as the KG writes it, a little less where case, signs or only an alias agree."""
    score = (0.97 if entry.alias else 1.0) - (0.0 if entry.text == text else 0.01)
    return Candidate(entry, score, "alias" if entry.alias else "exact")


def _rescored(norm: str, entries: Iterable[Entry], kind: Kind) -> list[Candidate]:
    scored = (Candidate(entry, similarity(norm, normalise(entry.text)), kind) for entry in entries)
    # A near match never outranks an exact one found elsewhere.
    kept = (replace(c, score=min(c.score, 0.95)) for c in scored if c.score >= _FUZZY_LEAST)
    return sorted(kept, key=_rank)


def _distinct(found: Iterable[Candidate]) -> tuple[Candidate, ...]:
    """The best candidate of each node, best first."""
    best: dict[IRI, Candidate] = {}
    for candidate in sorted(found, key=_rank):
        best.setdefault(candidate.iri, candidate)
    return tuple(best.values())


def _rank(candidate: Candidate) -> tuple[float, int, str]:
    return (-round(candidate.score, 2), -candidate.entry.popularity, candidate.iri.value)


def _ordered(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    """One entry a node, labels before aliases, popular before rare."""
    best: dict[IRI, Entry] = {}
    for entry in sorted(entries, key=lambda e: (e.alias, -e.popularity, e.iri.value)):
        best.setdefault(entry.iri, entry)
    return tuple(best.values())
