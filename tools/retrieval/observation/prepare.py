"""Vectors of a whole KG, made ahead: of its relations and ends, and the map from these to pairs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.engine import batches
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.observation.maps import MAP_PAIRS, PairMap, save_map
from triplewise.tools.retrieval.observation.parts import Pair, Parts
from triplewise.tools.retrieval.observation.reading import tail_text, way_text
from triplewise.tools.retrieval.vectors import CHUNK, VectorStore, vectors_of

Progress = Callable[[str, int, int | None], None]
"""Called with a stage, how much of it is done, and of how much (None where that is not known)."""

PORTION = 5_000
"""Facts read between two reports."""
LEAST_PAIRS = 500
"""Pairs below which no map is fitted: such a KG is encoded as it is."""
_SEED = 20240401


@dataclass(frozen=True, slots=True)
class VectorReport:
    """What was made: texts of relations and ends, whole pairs, new vectors among them, and seconds."""

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
    progress: Progress | None = None,
) -> VectorReport:
    """Make the vectors of a loaded KG, in its folder. What is there already is not made again.

    Args:
        folder: of the loaded graph. kg: the same graph, opened. encoder: makes the vectors.
        pairs: also encode every "relation tail", so that no question ever waits for one.
        progress: told how far it is.
    """
    start, tell = time.perf_counter(), progress or (lambda stage, done, total: None)
    store = vectors_of(kg, encoder)
    before = len(store)
    texts, sample, every = _texts(folder, kg, tell, pairs)
    store.add(sorted(texts), partial(_report, tell, "vectors of relations and ends", len(texts)))
    fit_map(store, sample)
    if pairs:
        add_pairs(store, sorted(every), partial(_report, tell, "vectors of pairs", len(every)))
    return VectorReport(len(texts), len(every), len(store) - before, round(time.perf_counter() - start, 1))


def _report(tell: Progress, stage: str, total: int, done: int) -> None:
    tell(stage, done, total)


def _texts(
    folder: Path, kg: KnowledgeGraph, tell: Progress, pairs: bool
) -> tuple[set[str], list[Pair], set[Pair]]:
    """Texts of relations and ends, a sample of their pairs, and all pairs if these are wanted."""
    texts: set[str] = set()
    every: set[Pair] = set()
    sample: list[Pair] = []
    draw, done = random.Random(_SEED), 0
    for portion in batches(_ways(folder, kg), PORTION):
        labels = kg.labels(far for _, _, far in portion)
        names = relation_texts(kg, {kg.profile.short(relation) for relation, _, _ in portion})
        for relation, forward, far in portion:
            pair = way_text(names[kg.profile.short(relation)], forward), tail_text(kg, far, labels)
            texts.update(pair)
            if pairs:
                every.add(pair)
            # Reservoir sampling: each fact is as likely to be drawn as any other.
            done += 1
            if len(sample) < MAP_PAIRS:
                sample.append(pair)
            elif (at := draw.randrange(done)) < MAP_PAIRS:
                sample[at] = pair
        tell("texts of facts", done, None)
    return texts, sample, every


def _ways(folder: Path, kg: KnowledgeGraph) -> Iterator[tuple[IRI, bool, Term]]:
    """Every fact in both directions, straight from the store: (relation, forward, far end)."""
    import pyoxigraph as ox

    from triplewise.tools.kg.load import STORE
    from triplewise.tools.kg.rdf import from_ox, safe_iri

    excluded: dict[Any, bool] = {}
    for quad in ox.Store.read_only(str(folder / STORE)):
        relation = safe_iri(quad.predicate.value)
        if quad.predicate not in excluded:
            excluded[quad.predicate] = kg.profile.excludes(relation)
        if excluded[quad.predicate]:
            continue
        for forward, end in ((True, quad.object), (False, quad.subject)):
            if (far := from_ox(end)) is not None:
                yield relation, forward, far


def fit_map(store: VectorStore, sample: Sequence[Pair]) -> None:
    """Fit the map on a sample of pairs and keep it beside the vectors."""
    pairs = sorted(set(sample))
    if len(pairs) < LEAST_PAIRS or store.path is None:
        return
    parts = Parts.of(pairs)
    relations, tails = store.vectors(parts.relations), store.vectors(parts.tails)
    whole = store.at(store.rows(parts.texts(np.arange(len(parts))), parts.digests))
    fitted = PairMap.fit(relations[parts.relation], tails[parts.tail], parts.share, whole)
    save_map(store, fitted)


def add_pairs(
    store: VectorStore, pairs: Sequence[Pair], progress: Callable[[int], None] = lambda done: None
) -> None:
    """Make the vectors of whole pairs, portion by portion; `progress` is told how many are done."""
    done = 0
    for portion in batches(pairs, CHUNK):
        parts = Parts.of(portion)
        store.rows(parts.texts(np.arange(len(parts))), parts.digests)
        done += len(portion)
        progress(done)
