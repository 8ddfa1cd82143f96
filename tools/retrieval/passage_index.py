"""Documents that say what a KG lacks (SymAgent 4.2.1): their protocol, and an index over their passages.

Which passages are about an entity is settled by the words of its name; BM25 and vectors only order those.
Where no entity is named, all passages are ranked by both.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from threading import RLock
from typing import Protocol, runtime_checkable

import numpy as np

from triplewise.tools.core.facts import Passage
from triplewise.tools.core.names import normalise
from triplewise.tools.retrieval.encoder import Encoder, VectorStore, open_encoder
from triplewise.tools.retrieval.ranking import Bm25, fuse

COMPARED = 50
"""Passages that are compared by vectors at least: those that BM25 puts first."""


@runtime_checkable
class Documents(Protocol):
    """Passages that can be searched by the name of an entity and what is asked of it."""

    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """Return passages about an entity, best first; those that name it nowhere are left out.

        Args:
            name: label of the entity; "" for passages about the question alone.
            relation: what is asked of it, in words. question: what it is asked for.
            aliases: other names of the entity. limit: passages to give at most.

        Raises:
            DocumentsUnavailableError: the service that has them does not answer.
        """
        ...


class PassageIndex:
    """Documents made of passages, searchable. Safe to use from many threads; built where it is first needed.

    Args:
        passages: what is searched. encoder: makes their vectors; None for the embedded one.
        folder: where vectors are kept; None for nowhere.
    """

    def __init__(
        self, passages: Sequence[Passage], encoder: Encoder | None = None, folder: Path | None = None
    ) -> None:
        self.passages = tuple(passages)
        self._encoder, self._folder = encoder, folder
        self._lock = RLock()

    def find(
        self, name: str, relation: str = "", question: str = "", aliases: Sequence[str] = (), limit: int = 5
    ) -> tuple[Passage, ...]:
        """Return passages that bear the name or an alias in title or text, best first; see `Documents.find`.

        Passages of documents that are titled by a name, or begin with it, are no better than others that
        name it: what is said counts. Where no passage has a name in full, those that have all its words do.
        """
        names = [n for n in (name, *aliases) if n.strip()]
        query = " ".join(filter(None, (name, relation, question)))
        if not self.passages or not query:
            return ()
        with self._lock:
            places = self._about(names) if names else np.arange(len(self.passages))
            if len(places) > 1:
                lexical = self._bm25.scores(list(dict.fromkeys(normalise(query).split())))[places]
                if names:  # no more passages are embedded than the ones that BM25 puts first
                    first = np.argsort(-lexical, kind="stable")[: max(2 * limit, COMPARED)]
                    places, lexical = places[first], lexical[first]
                # The title says what `it` and `he` are.
                chosen = [self.passages[i] for i in places.tolist()]
                texts = [f"{p.title}: {p.text}" if p.title else p.text for p in chosen]
                dense = self._vectors.vectors(texts) @ self._vectors.encoder.encode([query])[0]
                places = places[np.argsort(-fuse([lexical, dense]), kind="stable")]
            return tuple(self.passages[i] for i in places[:limit].tolist())

    def _about(self, names: Sequence[str]) -> np.ndarray:
        """Return the places of the passages that bear a name: in full, else all its words."""
        normal = [name for name in dict.fromkeys(map(normalise, names)) if name]
        places = [i for i, text in enumerate(self._texts) if any(f" {name} " in text for name in normal)]
        if not places:
            split = [name.split() for name in normal if " " in name]
            for i, text in enumerate(self._texts):
                if any(all(f" {word} " in text for word in words) for words in split):
                    places.append(i)
        return np.array(places, np.int64)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        """Normal forms of title and text, with blanks around."""
        return tuple(f" {normalise(p.title)} {normalise(p.text)} " for p in self.passages)

    @cached_property
    def _vectors(self) -> VectorStore:
        return VectorStore(self._encoder or open_encoder(), self._folder)

    @cached_property
    def _bm25(self) -> Bm25:
        return Bm25([text.split() for text in self._texts])
