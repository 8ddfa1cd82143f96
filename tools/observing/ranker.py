"""The best of many candidates by the cosine of the question with "relation tail" (ODA, section 2.1).

Encoding each text of a large neighbourhood takes minutes. What is cheap instead: a first guess of every score
from vectors of relations and tails alone (`triplewise.tools.observing.guess`), exact vectors for those few
hundred texts that can still be among the best, and, between two portions of them, a correction of the guess
of the others by how wrong it was of those like them. Exact vectors are kept with the KG: what was encoded
once is not guessed again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triplewise.tools.encoder import Encoder
from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.observing.guess import Guess, narrow
from triplewise.tools.observing.maps import map_guess
from triplewise.tools.observing.parts import Candidates, Pair, Parts
from triplewise.tools.observing.seen import seen_before
from triplewise.tools.vectors import vectors_of

EXACT = 256
"""Texts not encoded yet up to which a neighbourhood is simply encoded."""
EXACT_COLD = 1_500
"""The same where the KG has no vectors: about what a guess without them takes."""
WIDER = 5
"""Texts for each one that is wanted, up to which all are encoded."""


class PairRanker:
    """Ranks candidates for one question.

    Args:
        kg: whose vectors are used. question: in plain language. encoder: makes the vectors.
        exhaustive: encode every text, as published.
    """

    def __init__(self, kg: KnowledgeGraph, question: str, encoder: Encoder, exhaustive: bool = False) -> None:
        self._store, self._exhaustive, self._encoder = vectors_of(kg, encoder), exhaustive, encoder
        self._query = encoder.encode([question])[0]

    def closeness(self, texts: Sequence[str]) -> np.ndarray:
        """Cosine of the question with relation texts, float32 of shape (n,)."""
        return np.asarray(self._store.vectors(texts) @ self._query)

    def best(self, pairs: Sequence[Pair], width: int) -> list[tuple[int, float]]:
        """Places and scores of the `width` best pairs, best first; equal ones in the order given."""
        if not pairs:
            return []
        scores = self._scores(Candidates(pairs), width)
        least = np.partition(scores, -width)[-width] if width < len(scores) else -np.inf
        among = np.flatnonzero(scores >= least)
        order = among[np.argsort(-scores[among], kind="stable")[:width]]
        return [(int(i), float(scores[i])) for i in order]

    def _scores(self, candidates: Candidates, width: int) -> np.ndarray:
        """Exact scores of all candidates that may be among the best; -inf for the others."""
        seen = seen_before(self._store)
        if (known := seen.get(self._store, candidates)) is not None:
            return known.scores(self._store, self._query)
        parts, owner = candidates.distinct()
        rows = self._store.find(parts.digests)
        unknown = np.flatnonzero(rows < 0)
        few = max(EXACT, WIDER * width)
        guess = None if self._exhaustive or len(unknown) <= few else self._guess(parts, rows, width)
        if guess is not None:
            return np.asarray(self._narrowed(parts, rows, guess, width)[owner])
        if len(unknown):
            rows[unknown] = self._rows(parts, unknown)
        seen.keep(self._store, candidates, rows, owner)
        return np.asarray(self._store.dots(rows, self._query)[owner])

    def _guess(self, parts: Parts, rows: np.ndarray, width: int) -> Guess | None:
        """By the KG's vectors where they are there, else from a sample; None where that saves nothing."""
        guess = map_guess(self._store, self._query, parts)
        if guess is None and (rows < 0).sum() > EXACT_COLD:
            from triplewise.tools.observing.static import static_guess

            guess = static_guess(self._store, self._query, parts, rows)
        return guess

    def _narrowed(self, parts: Parts, rows: np.ndarray, guess: Guess, width: int) -> np.ndarray:
        """Scores of distinct pairs: the most promising are encoded; -inf for those never encoded."""
        scores = np.full(len(parts), -np.inf, np.float32)
        known = np.flatnonzero(rows >= 0)
        scores[known] = self._store.dots(rows[known], self._query)
        narrow(guess, scores, width, lambda some: self._store.dots(self._rows(parts, some), self._query))
        return scores

    def _rows(self, parts: Parts, places: np.ndarray) -> np.ndarray:
        """Rows of some pairs, encoded where they are not known."""
        return self._store.rows(parts.texts(places), parts.digests[places])
