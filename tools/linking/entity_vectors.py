"""Entities by meaning: vectors of names and descriptions, made on request when a graph is loaded.

One Faiss index beside the label index, a byte a number: a million nodes take 400 MB and some 50 ms a search.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.kg.labels import Entry
from triplewise.tools.kg.protocol import KnowledgeGraph, batches
from triplewise.tools.kg.vocabulary import remembered
from triplewise.tools.retrieval.encoder import FOLDER, Encoder, file_stem

PORTION = 8_192
"""Nodes embedded at a time; the range of numbers is learned from the first."""


def _file(folder: Path, encoder: Encoder) -> Path:
    return folder / FOLDER / f"{file_stem(encoder)}.entities.faiss"


def make_entity_vectors(
    folder: Path,
    kg: KnowledgeGraph,
    encoder: Encoder,
    progress: Callable[[str, int, int | None], None] = lambda stage, done, total: None,
) -> int:
    """Write the vectors of all nodes with a name into a loaded graph's folder; returns how many there are.

    Raises:
        ConfigurationError: the graph has no label index.
    """
    import faiss

    if kg.index is None:
        raise ConfigurationError(f"{kg.name} has no label index, so there are no names to make vectors of")
    plain: Any = faiss.IndexScalarQuantizer(
        encoder.dimension, faiss.ScalarQuantizer.QT_8bit, faiss.METRIC_INNER_PRODUCT
    )
    index: Any = faiss.IndexIDMap(plain)
    for portion in batches(kg.index.nodes(), PORTION):
        vectors = encoder.encode(
            [f"{e.label}: {e.description}" if e.description else e.label for _, e in portion]
        )
        if not index.is_trained:
            index.train(vectors)
        index.add_with_ids(vectors, np.array([number for number, _ in portion], np.int64))
        progress("vectors of entities", index.ntotal, None)
    path = _file(folder, encoder)
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".part")
    faiss.write_index(index, str(unfinished))
    unfinished.rename(path)
    return int(index.ntotal)


def nearest_entities(
    kg: KnowledgeGraph, text: str, encoder: Encoder, limit: int
) -> list[tuple[Entry, float]]:
    """Return the nodes most like a text with their cosines, best first; none where there are no vectors."""
    index: Any = remembered(kg, "vectors of entities", encoder.name, lambda: _opened(kg, encoder))
    if not index or kg.index is None:
        return []
    cosines, numbers = index.search(encoder.encode([text]), limit)
    entries = kg.index.numbered([int(n) for n in numbers[0] if n >= 0])
    return [(entries[n], float(c)) for n, c in zip(numbers[0], cosines[0], strict=True) if n in entries]


def _opened(kg: KnowledgeGraph, encoder: Encoder) -> Any:
    import faiss

    path = next((p for folder in kg.cache_dirs if (p := _file(folder, encoder)).is_file()), None)
    return False if path is None else faiss.read_index(str(path), faiss.IO_FLAG_MMAP)
