"""The best of many candidates by the cosine of the question with "relation tail" (ODA, section 2.1).

Encoding each text of a large neighbourhood takes minutes. What is cheap instead: a first guess of every score
from vectors of relations and tails alone (`triplewise.tools.observing.guess`), exact vectors for those few
hundred texts that can still be among the best, and, between two portions of them, a correction of the guess
of the others by how wrong it was of those like them. Exact vectors are kept with the KG: what was encoded
once is not guessed again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from triplewise.tools.encoder import Encoder
from triplewise.tools.kg.base import KnowledgeGraph
from triplewise.tools.observing.guess import Guess, Parts
from triplewise.tools.observing.maps import map_guess
from triplewise.tools.vectors import VectorStore, vectors_of

Pair = tuple[str, str]
"""How a relation and a tail read."""

EXACT = 256
"""Texts not encoded yet up to which a neighbourhood is simply encoded."""
EXACT_COLD = 1_500
"""The same where the KG has no vectors: about what a guess without them takes."""
WIDER = 5
"""Texts for each one that is wanted, up to which all are encoded."""
KEPT_FROM, KEPT_BYTES = 1_000, 256 << 20
"""Size from which the matrix of a neighbourhood is kept in memory, and bytes that all of them may take."""


class PairRanker:
    """Ranks candidates for one question.

    Args:
        kg: whose vectors are used. question: in plain language. encoder: makes the vectors.
        exhaustive: encode every text, as published.
    """

    def __init__(self, kg: KnowledgeGraph, question: str, encoder: Encoder, exhaustive: bool = False) -> None:
        self._store, self._exhaustive = vectors_of(kg, encoder), exhaustive
        self._query = encoder.encode([question])[0]

    def closeness(self, texts: Sequence[str]) -> np.ndarray:
        """Cosine of the question with relation texts, float32 of shape (n,)."""
        return np.asarray(self._store.vectors(texts) @ self._query)

    def best(self, pairs: Sequence[Pair], width: int) -> list[tuple[int, float]]:
        """Places and scores of the `width` best pairs, best first; equal ones in the order given."""
        if not pairs:
            return []
        scores = self._scores(tuple(pairs), width)
        least = np.partition(scores, -width)[-width] if width < len(scores) else -np.inf
        among = np.flatnonzero(scores >= least)
        order = among[np.argsort(-scores[among], kind="stable")[:width]]
        return [(int(i), float(scores[i])) for i in order]

    def _scores(self, pairs: tuple[Pair, ...], width: int) -> np.ndarray:
        """Exact scores of all pairs that may be among the best; -inf for the others."""
        kept = _matrices(self._store)
        if (known := kept.get(pairs)) is not None:
            matrix, owner = known
            return np.asarray((matrix @ self._query)[owner])
        places: dict[Pair, int] = {}
        owner = np.array([places.setdefault(pair, len(places)) for pair in pairs])
        scores, whole = self._distinct(list(places), width)
        if whole is not None:
            kept.keep(pairs, whole, owner)
        return np.asarray(scores[owner])

    def _distinct(self, pairs: Sequence[Pair], width: int) -> tuple[np.ndarray, np.ndarray | None]:
        """Scores of distinct pairs, and their vectors where all of them are known now."""
        texts = [f"{relation} {tail}" for relation, tail in pairs]
        rows = self._store.known(texts)
        unknown = int((rows < 0).sum())
        few = max(EXACT, WIDER * width)
        guess = None if self._exhaustive or unknown <= few else self._guess(pairs, texts, rows)
        if guess is not None:
            return self._narrowed(texts, rows, guess, width), None
        matrix = self._store.at(self._store.rows(texts) if unknown else rows)
        return np.asarray(matrix @ self._query), matrix

    def _guess(self, pairs: Sequence[Pair], texts: Sequence[str], rows: np.ndarray) -> Guess | None:
        """By the KG's vectors where they are there, else from a sample; None where that saves nothing."""
        parts = Parts.of(pairs)
        guess = map_guess(self._store, self._query, parts)
        if guess is None and (rows < 0).sum() > EXACT_COLD:
            from triplewise.tools.observing.static import static_guess

            guess = static_guess(self._store, self._query, parts, texts, rows)
        return guess

    def _narrowed(self, texts: Sequence[str], rows: np.ndarray, guess: Guess, width: int) -> np.ndarray:
        """Encode the most promising texts portion by portion; -inf for those never encoded."""
        exact = np.full(len(texts), -np.inf, np.float32)
        known = np.flatnonzero(rows >= 0)
        exact[known] = self._store.at(rows[known]) @ self._query
        guess.learn(np.intersect1d(known, guess.listed), exact)
        for _ in range(-(-width * guess.budget // (50 * guess.portion))):
            open_ = guess.listed[np.isneginf(exact[guess.listed])]
            if not len(open_):
                break
            promising = open_[np.argsort(-guess.scores(open_), kind="stable")[: guess.portion]]
            exact[promising] = self._store.vectors([texts[i] for i in promising]) @ self._query
            guess.learn(promising, exact)
        return exact


class _Matrices:
    """Vectors of the distinct pairs of whole neighbourhoods, and which of them each candidate has.

    The least recently used go first.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Pair, ...], tuple[np.ndarray, np.ndarray]] = OrderedDict()
        self._lock = Lock()

    def get(self, pairs: tuple[Pair, ...]) -> tuple[np.ndarray, np.ndarray] | None:
        with self._lock:
            if pairs not in self._known:
                return None
            self._known.move_to_end(pairs)
            return self._known[pairs]

    def keep(self, pairs: tuple[Pair, ...], matrix: np.ndarray, owner: np.ndarray) -> None:
        if len(pairs) < KEPT_FROM or matrix.nbytes > KEPT_BYTES:
            return
        with self._lock:
            self._known[pairs] = matrix, owner
            while sum(m.nbytes for m, _ in self._known.values()) > KEPT_BYTES:
                self._known.popitem(last=False)


_kept: WeakKeyDictionary[VectorStore, _Matrices] = WeakKeyDictionary()
_keeping = Lock()


def _matrices(store: VectorStore) -> _Matrices:
    """The neighbourhoods kept of a store."""
    with _keeping:
        return _kept.setdefault(store, _Matrices())
