"""An encoder of bags of words, for tests that are about something else than an encoder."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np

from triplewise.tools.retrieval.encoder import Encoder


class Words(Encoder):
    """Texts with words in common are alike; what is encoded is noted."""

    def __init__(self) -> None:
        super().__init__("words", 64)
        self.encoded: list[str] = []

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors of the texts."""
        self.encoded += texts
        vectors = np.array([sum(map(_vector, t.lower().split()), np.full(64, 0.01)) for t in texts])
        return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True), np.float32)


def _vector(word: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.md5(word.encode()).digest()[:4], "little")
    return np.random.default_rng(seed).standard_normal(64)
