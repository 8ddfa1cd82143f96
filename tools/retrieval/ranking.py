"""Ranking of a KG's relations and facts for a question, by BM25 and by vectors.

The relations of a node are ranked before a model sees them (QueryAgent, appendix B.3; strategies of C.3). The
facts of an observation are ranked by the cosine of the question with "relation tail" (ODA, section 2.1).
Encoding each text of a large neighbourhood takes minutes. What is cheap instead is a guess of every score
from vectors of relations and tails alone; only the most promising texts are encoded, and scored exactly:

- with the KG's vectors present (`kg load --vectors`), by a map from the vectors of relation and tail to that
  of both together, a ridge regression fitted once for the KG;
- with nothing present, by a ridge regression on the scores of some candidates, from static vectors of the
  tails: first of drawn ones, then of those that seem best.

Exact vectors are kept with the KG: what was encoded once is not guessed again.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import whole_file
from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.literals import readable
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph, batches
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import EmbeddedEncoder, Encoder, VectorStore, open_encoder, vectors_of

T = TypeVar("T")
CUT = 40
"""How many relations the paper keeps."""
DEFAULT = "sentence-transformers"
"""The paper's best strategy on two of its three benchmarks (table 7), and the one that needs no server."""
METHODS = ("none", "hybrid", DEFAULT, "openai")
"""The strategies of table 7; `openai` is the paper's own."""
FUSION_DAMPING = 60
"""Reciprocal rank fusion's usual constant: how little the very first ranks weigh more than the next."""

Pair = tuple[str, str]
"""The texts of a relation and a tail."""
Progress = Callable[[str, int, int | None], None]
"""Called with a stage, how much of it is done, and of how much (None where that is not known)."""

PROMISING, FEWEST = 10, 256
"""Candidates encoded for each one that is wanted, by the map; and how many of them are encoded at least.

Chosen on 40 training questions of WebQSP and 50,000 texts of Wikidata: 500 hold 99 % of the best 50."""
FEWEST_COLD = 2_500
"""Candidates up to which all are encoded where there is no map: about what a guess without it takes."""
DRAWN, ROUNDS, PROMISING_COLD = 512, 3, 10
"""Candidates drawn for the first guess without a map, rounds of as many that correct it, and those encoded
last for each one that is wanted. Chosen likewise: all these hold 98 % of the best 50."""
MISSING_TAILS = 300
"""Tails without vectors that are encoded so that the map can be used."""
MAP_PAIRS, LEAST_PAIRS = 6_000, 500
"""Pairs that a map is fitted on, and below how many none is."""
PORTION = 5_000
"""Facts read between two reports of `make_vectors`."""

_MAP_RIDGE, _RIDGE = 0.5, 0.3
_SEED = 20240401


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
    """Reciprocal rank fusion (Cormack et al., 2009) of scores of the same texts, float64 of shape (texts,).

    Scores of different scales meet as ranks. Equal scores share a rank, so that texts without a common word
    are not told apart by their order.
    """
    total = np.zeros(len(rankings[0]))
    for scores in rankings:
        rank = np.searchsorted(np.sort(-scores), -scores)
        total += 1.0 / (FUSION_DAMPING + rank)
    return total


def rank_relations(
    question: str,
    relations: Sequence[tuple[str, str]],
    method: str = DEFAULT,
    encoder: Encoder | None = None,
    cut: int = CUT,
    shuffle_seed: int | None = None,
    kg: KnowledgeGraph | None = None,
) -> list[str]:
    """Ids of the `cut` relations that fit the question best; ordered also where there are no more than that.

    Args:
        question: in plain language.
        relations: id and text of each candidate; equal scores keep this order.
        method: `none` (the order given), `sentence-transformers` (cosine of the encoder's vectors), `openai`
            (the same, with an encoder that asks an embedding server) or `hybrid` (BM25 and Faiss search,
            fused by rank).
        encoder: needed by all but `none`.
        shuffle_seed: shuffles what is kept, as the paper does so that order hints at nothing;
            None leaves it best first.
        kg: whose store keeps the vectors of relation texts.

    Raises:
        ConfigurationError: unknown method, or no encoder for one that needs it.
    """
    if method not in METHODS:
        raise ConfigurationError.unknown("relation ranking", method, METHODS)
    ids, texts = [id_ for id_, _ in relations], [text for _, text in relations]
    scores = np.zeros(len(texts))
    if texts and method != "none":
        if encoder is None:
            raise ConfigurationError(
                f"relation ranking {method!r} needs an encoder; pass one, or choose method 'none'"
            )
        query = encoder.encode([question])[0]
        vectors = vectors_of(kg, encoder).vectors(texts, encoder) if kg is not None else encoder.encode(texts)
        scores = vectors @ query
        if method == "hybrid":
            import bm25s
            import faiss

            words = bm25s.tokenize([question, *texts], stopwords=[], return_ids=False, show_progress=False)
            products, places = faiss.knn(query[None], vectors, len(texts), metric=faiss.METRIC_INNER_PRODUCT)
            scores[places[0]] = products[0]
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
        rows = self._store.find(texts)
        scores = np.full(len(pairs), -np.inf, np.float32)
        cached, missing = np.flatnonzero(rows >= 0), np.flatnonzero(rows < 0)
        scores[cached] = self._store.at(rows[cached]) @ self._query

        def encode(places: np.ndarray) -> None:
            scores[places] = self.closeness([texts[i] for i in places.tolist()])

        most = max(PROMISING * width, FEWEST)
        if len(missing) <= most:
            encode(missing)
            return scores
        parts, weights = _Parts([pairs[i] for i in missing.tolist()]), load_map(self._store)
        if weights is not None and (self._store.find(parts.tails) < 0).sum() <= MISSING_TAILS:
            relations, tails = self._store.vectors(parts.relations), self._store.vectors(parts.tails)
            encode(missing[_highest(parts.linear(relations, tails, weights @ self._query), most)])
            return scores
        if len(missing) <= FEWEST_COLD:
            encode(missing)
            return scores
        # Without a map: drawn ones first, then the best by a regression on those that were encoded so far.
        embedded = open_encoder()
        assert isinstance(embedded, EmbeddedEncoder)
        relations, tails = self._store.vectors(parts.relations), embedded.static(parts.tails)
        encode(np.random.default_rng(_SEED).choice(missing, DRAWN, replace=False))
        for count in (*[DRAWN] * ROUNDS, PROMISING_COLD * width):
            scored = np.flatnonzero(np.isfinite(scores[missing]))
            inputs = np.hstack([relations[parts.relation[scored]], tails[parts.tail[scored]]])
            goal = scores[missing[scored]]
            inner = inputs @ inputs.T + _RIDGE * np.eye(len(scored), dtype=np.float32)
            guess = parts.linear(relations, tails, inputs.T @ np.linalg.solve(inner, goal - goal.mean()))
            guess[scored] = -np.inf
            encode(missing[_highest(guess, min(count, len(missing) - len(scored)))])
        return scores


class _Parts:
    """Pairs taken apart: distinct relations and tails, and the numbers of either in each pair."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.relations, self.relation = _numbered([relation for relation, _ in pairs])
        self.tails, self.tail = _numbered([tail for _, tail in pairs])

    def linear(self, relations: np.ndarray, tails: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Products of the vectors of each pair's relation and tail, side by side, with weights."""
        cut = relations.shape[1]
        return np.asarray((relations @ weights[:cut])[self.relation] + (tails @ weights[cut:])[self.tail])


def _numbered(values: Sequence[T]) -> tuple[list[T], np.ndarray]:
    """Distinct values, and the number of each value among them."""
    numbers = {value: number for number, value in enumerate(dict.fromkeys(values))}
    return list(numbers), np.fromiter((numbers[value] for value in values), np.int64, len(values))


def _highest(scores: np.ndarray, count: int) -> np.ndarray:
    """Places of the highest scores."""
    return np.argpartition(-scores, count)[:count] if count < len(scores) else np.arange(len(scores))


def fit_map(store: VectorStore, pairs: Sequence[Pair]) -> None:
    """Fit the map of a KG on a sample of its pairs, and keep it beside the vectors; too few make none.

    The map is a matrix, float32 of shape (2 * dimension, dimension): ridge regression of a pair's vector on
    those of its relation and its tail. Raises `OSError` where the file cannot be written.
    """
    pairs = sorted(set(pairs))
    if len(pairs) < LEAST_PAIRS or store.path is None:
        return
    parts = _Parts(pairs)
    relations, tails = store.vectors(parts.relations)[parts.relation], store.vectors(parts.tails)[parts.tail]
    inputs = np.hstack([relations, tails])
    square = inputs.T @ inputs
    square[np.diag_indices_from(square)] += _MAP_RIDGE
    whole = store.vectors([f"{relation} {tail}" for relation, tail in pairs])
    with whole_file(store.path.with_suffix(".map.npy")) as file:
        np.save(file, np.linalg.solve(square, inputs.T @ whole).astype(np.float32))


def load_map(store: VectorStore) -> np.ndarray | None:
    """The map fitted for a store's KG, if there is one that fits its vectors."""
    if store.path is None:
        return None
    try:
        weights = np.load(store.path.with_suffix(".map.npy"), allow_pickle=False)
    except (OSError, ValueError):  # none, or half of one: it is done without
        return None
    return weights if weights.shape == (2 * store.dimension, store.dimension) else None


def way_text(text: RelationText, forward: bool) -> str:
    """Return a relation as text, on the way from subject to object or back."""
    return text.label if forward else text.inverse or text.label


def tail_text(kg: KnowledgeGraph, far: Term, labels: Mapping[Term, str]) -> str:
    """Return the text of an end: its label, a literal as people write it, else its short form."""
    return readable(far) if isinstance(far, Literal) else labels.get(far) or kg.profile.short(far)


class VectorReport(NamedTuple):
    """How many texts of relations and ends have vectors, how many of these are new, and the seconds taken."""

    texts: int
    new: int
    seconds: float


def make_vectors(
    folder: Path, kg: KnowledgeGraph, encoder: Encoder, progress: Progress = lambda stage, done, total: None
) -> VectorReport:
    """Make the vectors of a loaded KG, and the map from relations and ends to pairs, in its folder.

    What is there already is not made again.

    Args:
        folder: of the loaded graph. kg: the same graph, opened. encoder: makes the vectors.
        progress: called with the progress.
    """
    start, store = time.perf_counter(), vectors_of(kg, encoder)
    before, texts = len(store), set[str]()
    sample: list[Pair] = []
    draw = random.Random(_SEED)
    for number, pair in enumerate(_pairs(folder, kg, progress)):
        texts.update(pair)
        # Reservoir sampling: each fact is as likely to be drawn as any other.
        if number < MAP_PAIRS:
            sample.append(pair)
        elif (place := draw.randrange(number + 1)) < MAP_PAIRS:
            sample[place] = pair
    store.add(sorted(texts), lambda done: progress("vectors of relations and ends", done, len(texts)))
    fit_map(store, sample)
    return VectorReport(len(texts), len(store) - before, time.perf_counter() - start)


def _pairs(folder: Path, kg: KnowledgeGraph, progress: Progress) -> Iterator[Pair]:
    """Yield every fact in both directions as texts, straight from the store: its relation and its far end."""
    import pyoxigraph as ox

    from triplewise.tools.kg.open import STORE
    from triplewise.tools.kg.rdf import from_ox, safe_iri

    def ways() -> Iterator[tuple[IRI, bool, Term]]:
        excluded: dict[object, bool] = {}
        for quad in ox.Store.read_only(str(folder / STORE)):
            relation = safe_iri(quad.predicate.value)
            if quad.predicate not in excluded:
                excluded[quad.predicate] = kg.profile.excludes(relation)
            for forward, end in ((True, quad.object), (False, quad.subject)):
                if not excluded[quad.predicate] and (far := from_ox(end)) is not None:
                    yield relation, forward, far

    short, done = kg.profile.short, 0
    for portion in batches(ways(), PORTION):
        labels = kg.labels(far for _, _, far in portion)
        names = relation_texts(kg, {short(relation) for relation, _, _ in portion})
        for relation, forward, far in portion:
            yield way_text(names[short(relation)], forward), tail_text(kg, far, labels)
        done += len(portion)
        progress("texts of facts", done, None)
