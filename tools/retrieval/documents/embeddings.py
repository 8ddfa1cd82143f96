"""Our encoders as langchain's `Embeddings`, with vectors of passages kept in the user's cache folder."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from langchain_core.embeddings import Embeddings

from triplewise.tools.retrieval.documents.base import Progress
from triplewise.tools.retrieval.encoder import Encoder
from triplewise.tools.retrieval.vectors import VectorStore

PORTION = 512
"""Passages embedded between two words of progress: what a kill can cost."""


class KeptEmbeddings(Embeddings):
    """Vectors of passages by an encoder, each made once in whatever folder it lies; queries are not kept.

    Args:
        encoder: makes the vectors. folder: where those of passages are kept; None for memory alone.
    """

    def __init__(self, encoder: Encoder, folder: Path | None = None) -> None:
        self.encoder = encoder
        self._store = VectorStore(encoder, folder)

    def passages(self, texts: list[str], progress: Progress | None = None) -> np.ndarray:
        """Vectors of passages, float32 of shape (n, dimension); says how far it is."""
        if progress is not None:
            progress("embedding passages", 0, len(texts))
        for at in range(0, len(texts), PORTION):
            self._store.vectors(texts[at : at + PORTION])
            if progress is not None:
                progress("embedding passages", min(at + PORTION, len(texts)), len(texts))
        return self._store.vectors(texts) if texts else np.empty((0, self.encoder.dimension), np.float32)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Vectors of passages as lists."""
        vectors: list[list[float]] = self.passages(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """The vector of a query as a list."""
        vector: list[float] = self.encoder.encode([text])[0].tolist()
        return vector
