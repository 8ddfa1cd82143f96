"""Vectors of a whole KG, made ahead: of its relations and ends, and the map from these to pairs."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from triplewise.tools.core.terms import IRI, Term
from triplewise.tools.kg.engine import batches
from triplewise.tools.kg.protocol import KnowledgeGraph
from triplewise.tools.kg.vocabulary import relation_texts
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.observation.algorithm import tail_text, way_text
from triplewise.tools.retrieval.observation.preselect import MAP_PAIRS, Pair, fit_map
from triplewise.tools.retrieval.vectors import vectors_of

Progress = Callable[[str, int, int | None], None]
"""Called with a stage, how much of it is done, and of how much (None where that is not known)."""

PORTION = 5_000
"""Facts read between two reports."""
_SEED = 20240401


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
    """Make the vectors of a loaded KG, in its folder. What is there already is not made again.

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

    def encode(stage: str, distinct: set[str]) -> None:
        store.add(sorted(distinct), lambda done: progress(stage, done, len(distinct)))

    encode("vectors of relations and ends", texts)
    encode("vectors of pairs", whole)
    fit_map(store, sample)
    return VectorReport(len(texts), len(whole), len(store) - before, round(time.perf_counter() - start, 1))


def _pairs(folder: Path, kg: KnowledgeGraph, progress: Progress) -> Iterator[Pair]:
    """Yield every fact in both directions as texts: its relation and its far end."""
    short, done = kg.profile.short, 0
    for portion in batches(_ways(folder, kg), PORTION):
        labels = kg.labels(far for _, _, far in portion)
        names = relation_texts(kg, {short(relation) for relation, _, _ in portion})
        for relation, forward, far in portion:
            yield way_text(names[short(relation)], forward), tail_text(kg, far, labels)
        done += len(portion)
        progress("texts of facts", done, None)


def _ways(folder: Path, kg: KnowledgeGraph) -> Iterator[tuple[IRI, bool, Term]]:
    """Every fact in both directions, straight from the store: (relation, forward, far end)."""
    import pyoxigraph as ox

    from triplewise.tools.kg.open import STORE
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
