"""The best of many candidates by the cosine of the question with "relation tail" (ODA, section 2.1).

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
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from triplewise.tools.core.terms import IRI, Literal, Term
from triplewise.tools.kg.literals import readable
from triplewise.tools.kg.profile import RelationText
from triplewise.tools.kg.protocol import KnowledgeGraph, batches
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import EmbeddedEncoder, Encoder, open_encoder
from triplewise.tools.retrieval.vectors import VectorStore, vectors_of

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


class PairRanker:
    """Ranks candidates for one question.

    Args:
        kg: whose vectors are used. question: in plain language. encoder: makes the vectors.
    """

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
        numbers = {pair: number for number, pair in enumerate(dict.fromkeys(pairs))}
        distinct = self._scores(list(numbers), width)
        scores = distinct[[numbers[pair] for pair in pairs]]
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
            guess = parts.linear(relations, tails, weights @ self._query)
            encode(missing[_highest(guess, most)])
        elif len(missing) <= FEWEST_COLD:
            encode(missing)
        else:
            self._encode_promising(parts, missing, scores, encode, width)
        return scores

    def _encode_promising(
        self,
        parts: _Parts,
        places: np.ndarray,
        scores: np.ndarray,
        encode: Callable[[np.ndarray], None],
        width: int,
    ) -> None:
        """Encode some of the pairs at `places`: drawn ones, then the best by a regression on those so far."""
        embedded = open_encoder()
        assert isinstance(embedded, EmbeddedEncoder)
        relations, tails = self._store.vectors(parts.relations), embedded.model.static(parts.tails)
        encode(np.random.default_rng(_SEED).choice(places, DRAWN, replace=False))
        for count in (*[DRAWN] * ROUNDS, PROMISING_COLD * width):
            scored = np.flatnonzero(np.isfinite(scores[places]))
            inputs = np.hstack([relations[parts.relation[scored]], tails[parts.tail[scored]]])
            goal = scores[places[scored]]
            inner = inputs @ inputs.T + _RIDGE * np.eye(len(scored), dtype=np.float32)
            weights = inputs.T @ np.linalg.solve(inner, goal - goal.mean())
            guess = parts.linear(relations, tails, weights)
            guess[scored] = -np.inf
            encode(places[_highest(guess, min(count, len(places) - len(scored)))])


class _Parts:
    """Pairs taken apart: distinct relations and tails, and the numbers of either in each pair."""

    def __init__(self, pairs: Sequence[Pair]) -> None:
        self.relations, self.relation = _numbered([relation for relation, _ in pairs])
        self.tails, self.tail = _numbered([tail for _, tail in pairs])

    def linear(self, relations: np.ndarray, tails: np.ndarray, weights: np.ndarray) -> np.ndarray:
        """Products of the vectors of each pair's relation and tail, side by side, with weights."""
        cut = relations.shape[1]
        return np.asarray((relations @ weights[:cut])[self.relation] + (tails @ weights[cut:])[self.tail])


def _numbered(texts: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """Distinct texts, and the number of each text among them."""
    numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
    return list(numbers), np.fromiter((numbers[text] for text in texts), np.int64, len(texts))


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
    path = store.path.with_suffix(".map.npy")
    with tempfile.NamedTemporaryFile("wb", dir=path.parent, suffix=".part", delete=False) as part:
        np.save(part, np.linalg.solve(square, inputs.T @ whole).astype(np.float32))
    Path(part.name).replace(path)  # another process, or a kill, never sees half a file


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
    if isinstance(far, Literal):
        return readable(far)
    return labels.get(far) or kg.profile.short(far)


@dataclass(frozen=True, slots=True)
class VectorReport:
    """The vectors made: texts of relations and ends, whole pairs, new vectors among them, and seconds."""

    texts: int
    pairs: int
    new: int
    seconds: float


def make_vectors(
    folder: Path,
    kg: KnowledgeGraph,
    encoder: Encoder,
    *,
    pairs: bool = False,
    progress: Progress = lambda stage, done, total: None,
) -> VectorReport:
    """Make the vectors of a loaded KG, and the map from relations and ends to pairs, in its folder.

    What is there already is not made again.

    Args:
        folder: of the loaded graph. kg: the same graph, opened. encoder: makes the vectors.
        pairs: also encode every "relation tail", so that no question ever waits for one.
        progress: called with the progress.
    """
    start, store = time.perf_counter(), vectors_of(kg, encoder)
    before, texts, whole = len(store), set[str](), set[str]()
    sample: list[Pair] = []
    draw = random.Random(_SEED)
    for number, pair in enumerate(_pairs(folder, kg, progress)):
        texts.update(pair)
        if pairs:
            whole.add(" ".join(pair))
        # Reservoir sampling: each fact is as likely to be drawn as any other.
        if number < MAP_PAIRS:
            sample.append(pair)
        elif (place := draw.randrange(number + 1)) < MAP_PAIRS:
            sample[place] = pair
    for stage, distinct in (("vectors of relations and ends", texts), ("vectors of pairs", whole)):
        total = len(distinct)
        store.add(sorted(distinct), lambda done, stage=stage, total=total: progress(stage, done, total))
    fit_map(store, sample)
    return VectorReport(len(texts), len(whole), len(store) - before, round(time.perf_counter() - start, 1))


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
