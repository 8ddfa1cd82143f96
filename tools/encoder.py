"""Sentence encoders: texts to unit vectors, so that a dot product is a cosine.

`embedded` needs no network and no torch (see `triplewise.tools.minilm`); any other name is a
sentence-transformers model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from triplewise.tools.errors import ConfigurationError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

EMBEDDED = "embedded"
CACHED_TEXTS = 50_000


@runtime_checkable
class Encoder(Protocol):
    """Turns texts into vectors."""

    @property
    def name(self) -> str:
        """What `open_encoder` opens it by."""
        ...

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        ...

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors, float32 of shape (len(texts), dimension), rows in the order given."""
        ...


class _CachingEncoder(ABC):
    """Embeds each text once: the last `cached` texts keep their vectors (1.5 kB each at 384 dimensions).

    Safe to use from many threads.
    """

    def __init__(self, name: str, dimension: int, cached: int) -> None:
        self._name, self._dimension, self._cached = name, dimension, cached
        self._vectors: OrderedDict[str, np.ndarray] = OrderedDict()
        self._lock = Lock()

    @property
    def name(self) -> str:
        """What `open_encoder` opens it by."""
        return self._name

    @property
    def dimension(self) -> int:
        """Length of a vector."""
        return self._dimension

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors, float32 of shape (len(texts), dimension), rows in the order given."""
        if isinstance(texts, str):
            raise TypeError("encode takes a list of texts, not one text: encode([text])")
        known = self._known(texts)
        missing = [text for text in dict.fromkeys(texts) if text not in known]
        if missing:
            fresh = dict(zip(missing, self._embed(missing), strict=True))
            known |= fresh
            self._remember(fresh)
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        return np.stack([known[text] for text in texts])

    @abstractmethod
    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors of distinct texts; safe to call from many threads."""

    def _known(self, texts: Sequence[str]) -> dict[str, np.ndarray]:
        with self._lock:
            known = {text: self._vectors[text] for text in texts if text in self._vectors}
            for text in known:
                self._vectors.move_to_end(text)
        return known

    def _remember(self, fresh: dict[str, np.ndarray]) -> None:
        with self._lock:
            for text, vector in fresh.items():
                # A row of its own: a view would keep its whole batch alive.
                self._vectors[text] = vector.copy()
            while len(self._vectors) > self._cached:
                self._vectors.popitem(last=False)


class EmbeddedEncoder(_CachingEncoder):
    """all-MiniLM-L6-v2 on ONNX Runtime: 384 dimensions, texts cut at 256 tokens, works offline.

    Args:
        cached: number of texts whose vectors are kept in memory.
        cache: folder for the model's graph file; None for the user's cache folder.

    Raises:
        DataError: the installed weights are not the published ones.
    """

    def __init__(self, cached: int = CACHED_TEXTS, cache: Path | None = None) -> None:
        from triplewise.tools.minilm import DIMENSION, MiniLM

        super().__init__(EMBEDDED, DIMENSION, cached)
        self._model = MiniLM(cache=cache)

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        return self._model.embed(texts)


class SentenceTransformerEncoder(_CachingEncoder):
    """Any sentence-transformers model, by hub name or folder. The first one costs seconds of imports.

    Raises:
        ConfigurationError: the model cannot be loaded.
    """

    def __init__(self, name: str, cached: int = CACHED_TEXTS) -> None:
        self._model = _sentence_transformer(name)
        dimension = self._model.get_embedding_dimension()
        if not dimension:
            raise ConfigurationError(f"encoder {name!r} does not say its dimension; give another model")
        self._model_lock = Lock()
        super().__init__(name, int(dimension), cached)

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        with self._model_lock:
            vectors = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return np.asarray(vectors, np.float32)


def _sentence_transformer(name: str) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    try:
        # A copy on this machine first: asking the hub without a network takes a minute of retries.
        return SentenceTransformer(name, local_files_only=True)
    except (OSError, ValueError):
        pass
    try:
        return SentenceTransformer(name)
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"encoder {name!r} cannot be loaded ({error}); give {EMBEDDED!r} (needs no network), a folder "
            "with a sentence-transformers model, or a hub name that this machine has or can download"
        ) from error


_open: dict[str, Encoder] = {}
_opening = Lock()


def open_encoder(name: str = EMBEDDED) -> Encoder:
    """The encoder of this name, opened once per process.

    Raises:
        ConfigurationError: the model cannot be loaded.
        DataError: the weights of the embedded one are damaged.
    """
    with _opening:
        if name not in _open:
            _open[name] = EmbeddedEncoder() if name == EMBEDDED else SentenceTransformerEncoder(name)
        return _open[name]
