"""The best of many candidates by the cosine of the question with "relation tail" (ODA, section 2.1).

Encoding each text of a large neighbourhood takes minutes. What is cheap instead: a first guess of every score
from vectors of relations and tails alone (see `maps` and `static`), rough vectors of those few hundred texts
that can still be among the best, and exact ones of the best of these. Between two portions
the guess of the others is corrected by how wrong it was of those like them, until hardly any of the best is
left out. Exact vectors are kept with the KG: what was encoded once is not guessed again.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.retrieval.encoder import Encoder, RoughEncoder
from triplewise.tools.retrieval.observation.guess import Guess, Score, narrow
from triplewise.tools.retrieval.observation.maps import BUDGET, map_guess
from triplewise.tools.retrieval.observation.parts import Candidates, Pair, Parts
from triplewise.tools.retrieval.observation.seen import seen_before
from triplewise.tools.retrieval.vectors import vectors_of

EXACT = 256
"""Texts not encoded yet up to which a neighbourhood is simply encoded."""
EXACT_COLD = 1_500
"""The same where the KG has no vectors: about what a guess without them takes."""
ROUGH_LISTED = 1_000
"""Roughly scored texts, the best ones, that may be encoded."""
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
        if (before := seen_before(self._store).get(self._store, candidates)) is not None:
            return before.scores(self._store, self._query)
        parts, owner = candidates.distinct()
        rows = self._store.find(parts.digests)
        unknown = np.flatnonzero(rows < 0)
        if self._exhaustive or len(unknown) <= max(EXACT, WIDER * width):
            return self._exact(parts, rows, unknown, candidates, owner)
        if (guess := map_guess(self._store, self._query, parts)) is None and len(unknown) <= EXACT_COLD:
            return self._exact(parts, rows, unknown, candidates, owner)
        scores = np.full(len(parts), -np.inf, np.float32)
        known = np.flatnonzero(rows >= 0)
        scores[known] = self._store.dots(rows[known], self._query)
        guess = self._chosen(parts, guess, scores, width)
        narrow(guess, scores, width, self._score(parts))
        return np.asarray(scores[owner])

    def _exact(
        self, parts: Parts, rows: np.ndarray, unknown: np.ndarray, candidates: Candidates, owner: np.ndarray
    ) -> np.ndarray:
        """Scores of all candidates, encoding what is not known; and their rows are kept."""
        if len(unknown):
            rows[unknown] = self._rows(parts, unknown)
        seen_before(self._store).keep(self._store, candidates, rows, owner)
        return np.asarray(self._store.dots(rows, self._query)[owner])

    def _score(self, parts: Parts) -> Score:
        """What scores some pairs exactly."""
        return lambda places: self._store.dots(self._rows(parts, places), self._query)

    def _chosen(self, parts: Parts, guess: Guess | None, scores: np.ndarray, width: int) -> Guess:
        """What the exact scores are chosen by: rough scores, if the encoder has these, of what is promising.

        Without a guess by the KG's vectors, it is made from a sample.
        """
        rough = _Rough(self._encoder, parts, self._query) if isinstance(self._encoder, RoughEncoder) else None
        score, roughly = (rough.score, scores.copy()) if rough else (self._score(parts), scores)
        if guess is None:
            from triplewise.tools.retrieval.observation.static import static_guess

            guess = static_guess(self._relations(parts), parts, roughly, score)
        if rough is None:
            return guess
        narrow(guess, roughly, width, score)
        return rough.guess(roughly) or guess

    def _relations(self, parts: Parts) -> np.ndarray:
        """Vectors of the relations to guess by: rough ones, where they are not kept and can be had."""
        rows = self._store.known(parts.relations)
        if isinstance(self._encoder, RoughEncoder) and (rows < 0).any():
            return self._encoder.rough(parts.relations)
        return self._store.vectors(parts.relations)

    def _rows(self, parts: Parts, places: np.ndarray) -> np.ndarray:
        """Rows of some pairs, encoded where they are not known."""
        return self._store.rows(parts.texts(places), parts.digests[places])


class _Rough:
    """Rough scores of some pairs, and the vectors they come from."""

    def __init__(self, encoder: RoughEncoder, parts: Parts, query: np.ndarray) -> None:
        self._encoder, self._parts, self._query = encoder, parts, query
        self._places: list[np.ndarray] = []
        self._vectors: list[np.ndarray] = []

    def score(self, places: np.ndarray) -> np.ndarray:
        """Rough scores of some pairs."""
        self._places.append(places)
        self._vectors.append(self._encoder.rough(self._parts.texts(places)))
        return np.asarray(self._vectors[-1] @ self._query)

    def guess(self, scores: np.ndarray) -> Guess | None:
        """The best of what was scored, as a guess of exact scores; None where nothing was."""
        if not self._places:
            return None
        places, vectors = np.concatenate(self._places), np.concatenate(self._vectors)
        best = np.argsort(-scores[places], kind="stable")[:ROUGH_LISTED]
        best = best[np.argsort(places[best])]
        listed = places[best]
        return Guess(listed, scores[listed], vectors[best], BUDGET)
