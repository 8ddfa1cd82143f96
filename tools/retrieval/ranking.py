"""Ranking of a KG's relations and facts for a question, by BM25 and by vectors.

The relations of a node are ranked before a model sees them (QueryAgent, appendix B.3; strategies of C.3). The
facts of an observation are ranked by the cosine of the question with "relation tail" (ODA, section 2.1).
Encoding each text of a large neighbourhood takes minutes, so only the most promising are encoded, and scored
exactly, in a few rounds: a ridge regression on the scores so far guesses the others from vectors of relation
and tail, those kept with the KG (`kg load --vectors`) or, with more rounds, static ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from triplewise.tools.core.terms import Literal, Term
from triplewise.tools.kg.literals import readable
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph, batches
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import Encoder, static_vectors, vectors_of

T = TypeVar("T")
CUT = 40  # Relations that the paper keeps
Pair = tuple[str, str]  # The texts of a relation and a tail
ROUNDS, COLD_ROUNDS = (2,) * 4, (10,) * 7
"""Candidates encoded in each round for each one that is wanted, with vectors of tails present and without.

Chosen on training questions of WebQSP and 50,000 texts of Wikidata."""
RELATION_WEIGHT = 0.6
"""Weight of a relation's vector relative to its tail's where their sum stands for both texts."""
MISSING_TAILS = 300  # Tails without vectors that are encoded so that all have one
PORTION, CHUNK = 5_000, 4_096
"""Facts read, and texts embedded, between two reports of `make_vectors`: what a kill can cost."""

_RIDGE, _COLD_RIDGE, _SEED = 0.3, 0.1, 20240401


class Bm25:
    """BM25 over texts that are split into words already."""

    def __init__(self, texts: Sequence[Sequence[str]]) -> None:
        import bm25s

        self._size, self._index = len(texts), None
        if any(texts):  # bm25s cannot index nothing
            self._index = bm25s.BM25()
            self._index.index([list(words) for words in texts], show_progress=False)

    def scores(self, words: Sequence[str]) -> np.ndarray:
        """The score of each text for the words of a query, float32 of shape (texts,)."""
        if self._index is None or not words:
            return np.zeros(self._size, np.float32)
        return np.asarray(self._index.get_scores(list(words)), np.float32)


def fuse(rankings: Sequence[np.ndarray]) -> np.ndarray:
    """Reciprocal rank fusion (Cormack et al., 2009) of scores of some texts; equal scores share a rank."""
    ranks = (np.searchsorted(np.sort(-scores), -scores) for scores in rankings)
    return np.asarray(sum(1.0 / (60 + rank) for rank in ranks))


def rank_relations(
    question: str,
    relations: Sequence[tuple[str, str]],
    encoder: Encoder | None,
    cut: int = CUT,
    shuffle_seed: int | None = None,
    kg: KnowledgeGraph | None = None,
    is_hybrid: bool = False,
) -> list[str]:
    """Ids of the `cut` relations (id and text) that fit the question best; equal ones in the order given.

    Args:
        encoder: whose cosines rank them, of a server in the paper's own strategy; None: the order given.
        shuffle_seed: shuffles what is kept, as the paper does so that order hints at nothing.
        kg: whose store keeps the vectors of relation texts. is_hybrid: BM25 and vectors, fused.
    """
    ids, texts = [id_ for id_, _ in relations], [text for _, text in relations]
    scores = np.zeros(len(texts))
    if texts and encoder is not None:
        query = encoder.encode([question])[0]
        vectors = vectors_of(kg, encoder).vectors(texts, encoder) if kg is not None else encoder.encode(texts)
        scores = vectors @ query
        if is_hybrid:
            import bm25s

            words = bm25s.tokenize([question, *texts], stopwords=[], return_ids=False, show_progress=False)
            scores = fuse([scores, Bm25(words[1:]).scores(words[0])])
    best = [ids[i] for i in np.argsort(-scores, kind="stable")[: max(cut, 0)]]
    if shuffle_seed is not None:
        random.Random(shuffle_seed).shuffle(best)
    return best


class PairRanker:
    """Ranks candidates for one question, with the vectors of a KG."""

    def __init__(self, kg: KnowledgeGraph, question: str, encoder: Encoder) -> None:
        self._store = vectors_of(kg, encoder)
        self._query = encoder.encode([question])[0]

    def closeness(self, texts: Sequence[str]) -> np.ndarray:
        """Cosine of the question with texts of the KG, float32 of shape (n,); encodes the new ones."""
        return np.asarray(self._store.vectors(texts) @ self._query)

    def best(self, pairs: Sequence[Pair], width: int) -> list[tuple[int, float]]:
        """Places and scores of the `width` best pairs, best first; equal ones in the order given."""
        if not pairs:
            return []
        distinct, numbers = _numbered(pairs)
        scores = self._scores(distinct, width)[numbers]
        return [(int(i), float(scores[i])) for i in np.argsort(-scores, kind="stable")[:width]]

    def _scores(self, pairs: Sequence[Pair], width: int) -> np.ndarray:
        """Exact scores of all pairs that may be among the best; -inf for the others."""
        texts = [f"{relation} {tail}" for relation, tail in pairs]
        is_kept, kept = self._store.find(texts)
        scores = np.full(len(pairs), -np.inf, np.float32)
        scores[is_kept] = kept @ self._query

        def encode(places: np.ndarray) -> None:
            scores[places] = self.closeness([texts[i] for i in places.tolist()])

        missing = np.flatnonzero(~is_kept)
        if len(missing) <= sum(ROUNDS) * width:
            encode(missing)
            return scores
        relations, relation = _numbered([pairs[i][0] for i in missing.tolist()])
        tails, tail = _numbered([pairs[i][1] for i in missing.tolist()])
        is_kept, kept = self._store.find(tails)
        is_warm = (~is_kept).sum() <= MISSING_TAILS
        if not is_warm and len(missing) <= sum(COLD_ROUNDS) * width:
            encode(missing)
            return scores
        near = RELATION_WEIGHT * self._store.vectors(relations)
        far = np.empty((len(tails), near.shape[1]), np.float32) if is_warm else static_vectors(tails)
        if is_warm:
            far[is_kept] = kept
            far[~is_kept] = self._store.vectors([tails[i] for i in np.flatnonzero(~is_kept)])
        first = np.zeros(len(missing), np.float32)
        guess = np.random.default_rng(_SEED).random(len(missing), np.float32)  # some are drawn
        if is_warm:  # no need to: the vector of a pair is much like the sum of both
            sums = near[relation] + far[tail]
            guess = first = sums @ self._query / np.linalg.norm(sums, axis=1)
        ridge = _RIDGE if is_warm else _COLD_RIDGE
        for share in ROUNDS if is_warm else COLD_ROUNDS:
            if len(scored := np.flatnonzero(np.isfinite(scores[missing]))):
                inputs = np.hstack([near[relation[scored]], far[tail[scored]]])
                goal = scores[missing[scored]] - first[scored]
                inner = inputs @ inputs.T + ridge * np.eye(len(scored), dtype=np.float32)
                weights = inputs.T @ np.linalg.solve(inner, goal - goal.mean())
                cut = near.shape[1]
                guess = first + (near @ weights[:cut])[relation] + (far @ weights[cut:])[tail]
                guess[scored] = -np.inf
            encode(missing[np.argpartition(-guess, share * width)[: share * width]])
        return scores


def _numbered(values: Sequence[T]) -> tuple[list[T], np.ndarray]:
    """Distinct values, and the number of each value among them."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return list(numbers), np.fromiter((numbers[value] for value in values), np.int64, len(values))


def way_text(text: RelationText, forward: bool) -> str:
    """Return a relation as text, on the way from subject to object or back."""
    return text.label if forward else text.inverse or text.label


def tail_text(kg: KnowledgeGraph, far: Term, labels: Mapping[Term, str]) -> str:
    """Return the text of an end: its label, a literal as people write it, else its short form."""
    return readable(far) if isinstance(far, Literal) else labels.get(far) or kg.profile.short(far)


def make_vectors(
    folder: Path, kg: KnowledgeGraph, encoder: Encoder, progress: Callable[[str, int, int | None], None]
) -> int:
    """Make the vectors of a loaded KG's relations and ends that its folder lacks; return their number."""
    import pyoxigraph as ox

    from triplewise.tools.kg.open import STORE
    from triplewise.tools.kg.rdf import from_ox, safe_iri

    texts, short, store = set[str](), kg.profile.short, vectors_of(kg, encoder)
    for number, quads in enumerate(batches(ox.Store.read_only(str(folder / STORE)), PORTION), 1):
        relations = {quad.predicate: safe_iri(quad.predicate.value) for quad in quads}
        kept = {p: short(r) for p, r in relations.items() if not kg.profile.excludes(r)}
        names = relation_texts(kg, set(kept.values()))
        used = [quad for quad in quads if quad.predicate in kept]
        for forward, ends in ((True, {q.object for q in used}), (False, {q.subject for q in used})):
            terms = [term for end in ends if (term := from_ox(end)) is not None]
            labels = kg.labels(terms)
            texts |= {tail_text(kg, term, labels) for term in terms}
            texts |= {way_text(text, forward) for text in names.values()}
        progress("texts of facts", number * PORTION, None)
    for number, chunk in enumerate(batches(sorted(texts), CHUNK)):
        store.vectors(chunk)
        progress("vectors of relations and ends", number * CHUNK + len(chunk), len(texts))
    return len(texts)
