"""The label index of a small KG, in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from triplewise.tools.core.names import normalise
from triplewise.tools.core.terms import IRI
from triplewise.tools.kg.labels import Entry, Name, Names


class MemoryNames:
    """Names in a dictionary by normal form; near ones by comparing with all of them (rapidfuzz)."""

    def __init__(
        self, names: Iterable[Name], popularity: Mapping[str, int], description: Callable[[str], str]
    ) -> None:
        self._labels: dict[str, str] = {}
        self._by_norm: dict[str, list[tuple[str, str, bool]]] = {}
        self._popularity, self._describe = popularity, description
        self._count = 0
        for name in names:
            alias = name.alias or self._labels.setdefault(name.iri, name.text) != name.text
            self._by_norm.setdefault(normalise(name.text), []).append((name.iri, name.text, alias))
            self._count += 1
        self._by_norm.pop("", None)
        self.most_words = max((norm.count(" ") + 1 for norm in self._by_norm), default=0)

    def exact(self, norms: Sequence[str]) -> dict[str, list[Entry]]:
        """Entries by normal form."""
        return {norm: self._entries(norm) for norm in norms if norm in self._by_norm}

    def fuzzy(self, norm: str, limit: int) -> Iterable[Entry]:
        """The names with fewest edits, and those that hold all of the words."""
        from rapidfuzz import fuzz, process

        near: dict[str, None] = {}
        for scorer in (fuzz.ratio, fuzz.token_set_ratio):
            hits = process.extract(
                norm, self._norms, scorer=scorer, processor=None, limit=limit, score_cutoff=60
            )
            near.update(dict.fromkeys(hit[0] for hit in hits))
        return [entry for other in near for entry in self._entries(other)]

    def trigrams(self, norm: str, limit: int) -> Iterable[Entry]:
        """Nothing: `fuzzy` has already compared with every name."""
        return ()

    def longer(self, norm: str, limit: int) -> Iterable[Entry]:
        """Names that begin or end with these words and go on, most popular first."""
        start, end = f"{norm} ", f" {norm}"
        found = [e for n in self._norms if n.startswith(start) or n.endswith(end) for e in self._entries(n)]
        return sorted(found, key=lambda entry: -entry.popularity)[:limit]

    def node(self, iri: IRI) -> Entry | None:
        """The entry of a node under its preferred label."""
        label = self._labels.get(iri.value)
        return None if label is None else self._entry(iri.value, label, False)

    def __len__(self) -> int:
        return self._count

    def close(self) -> None:
        """Nothing is held."""

    @cached_property
    def _norms(self) -> list[str]:
        return list(self._by_norm)

    def _entries(self, norm: str) -> list[Entry]:
        return [self._entry(*row) for row in self._by_norm[norm]]

    def _entry(self, iri: str, text: str, alias: bool) -> Entry:
        label = self._labels.get(iri, text)
        return Entry(IRI(iri), label, text, alias, self._popularity.get(iri, 0), self._describe(iri))


class JoinedNames:
    """The names of two indexes as one; what the first one knows of a node goes first."""

    def __init__(self, first: Names, second: Names) -> None:
        self._both = (first, second)
        self.most_words = max(first.most_words, second.most_words)

    def exact(self, norms: Sequence[str]) -> dict[str, list[Entry]]:
        """Entries by normal form."""
        found: dict[str, list[Entry]] = {}
        for names in self._both:
            for norm, entries in names.exact(norms).items():
                found[norm] = [*found.get(norm, ()), *entries]
        return found

    def fuzzy(self, norm: str, limit: int) -> Iterable[Entry]:
        """Entries whose names share nearly the same words."""
        return [entry for names in self._both for entry in names.fuzzy(norm, limit)]

    def trigrams(self, norm: str, limit: int) -> Iterable[Entry]:
        """Entries whose names share runs of characters."""
        return [entry for names in self._both for entry in names.trigrams(norm, limit)]

    def longer(self, norm: str, limit: int) -> Iterable[Entry]:
        """Names that begin or end with these words and go on, most popular first."""
        found = [entry for names in self._both for entry in names.longer(norm, limit)]
        return sorted(found, key=lambda entry: -entry.popularity)[:limit]

    def node(self, iri: IRI) -> Entry | None:
        """The entry of a node under its preferred label."""
        return next((e for names in self._both if (e := names.node(iri)) is not None), None)

    def __len__(self) -> int:
        return sum(len(names) for names in self._both)

    def close(self) -> None:
        """Nothing of its own is held."""
