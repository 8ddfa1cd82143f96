"""Sentence encoders: texts to unit vectors, so that a dot product is a cosine.

`embedded` needs no network and no torch (see `retrieval.minilm`); a folder that self-learning made is
that encoder with what it has learned; any other name is a sentence-transformers model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol, runtime_checkable

import numpy as np

from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

    from triplewise.tools.retrieval.minilm import MiniLM

EMBEDDED = "embedded"
LEARNED = "encoder.json"
"""Marks a folder with what the embedded encoder has learned (see `triplewise.tools.learning`)."""
CACHED_TEXTS = 50_000
HUB_SECONDS = 5.0
"""Seconds the model hub may take to answer."""


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


@runtime_checkable
class RoughEncoder(Encoder, Protocol):
    """An encoder that also has a faster and less exact way."""

    def rough(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors like those of `encode`, good for telling which texts are worth an exact one; never kept."""
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
        from triplewise.tools.retrieval.minilm import DIMENSION, MiniLM

        super().__init__(EMBEDDED, DIMENSION, cached)
        self._model = MiniLM(cache=cache)

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        return self._model.embed(texts)

    @property
    def model(self) -> MiniLM:
        """The model itself."""
        return self._model

    def rough(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors like those of `encode` but for a cosine of 0.99, in less than half the time; never kept."""
        return self._model.embed_roughly(texts)


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
    """A model of this machine, else of the hub, which is only asked for it if it answers at all."""
    path = Path(name)
    if path.is_dir():
        return _loaded(name, local=True)
    if path.is_absolute() or name.count("/") > 1:
        raise _unloadable(name, "there is no such folder")
    if _is_cached(name):
        with suppress(ConfigurationError):  # a copy that is not complete: the hub has the rest
            return _loaded(name, local=True)
    _reach_hub(name)
    return _loaded(name, local=False)


def _loaded(name: str, local: bool) -> SentenceTransformer:
    from sentence_transformers import SentenceTransformer

    try:
        return SentenceTransformer(name, local_files_only=local)
    except (OSError, ValueError) as error:
        raise _unloadable(name, str(error)) from error


def _is_cached(name: str) -> bool:
    """Whether an earlier download left the model on this machine."""
    from huggingface_hub import try_to_load_from_cache

    repositories = (name, f"sentence-transformers/{name}") if "/" not in name else (name,)
    files = ("config.json", "modules.json")
    return any(isinstance(try_to_load_from_cache(r, f), str) for r in repositories for f in files)


def _reach_hub(name: str) -> None:
    """Raise `ConfigurationError` if the hub cannot be reached: its client takes a minute to find out."""
    from ssl import SSLError
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise _unloadable(name, "this machine does not have it, and HF_HUB_OFFLINE forbids asking the hub")
    try:
        urlopen(Request(constants.ENDPOINT, method="HEAD"), timeout=HUB_SECONDS).close()
    except HTTPError as answer:
        answer.close()
    except OSError as error:
        reason = getattr(error, "reason", error)
        if not isinstance(reason, SSLError):  # the hub's client brings certificates of its own
            raise _unloadable(
                name, f"this machine does not have it, and {constants.ENDPOINT} cannot be reached: {reason}"
            ) from error


def _unloadable(name: str, reason: str) -> ConfigurationError:
    first = reason.strip().partition("\n")[0].rstrip(".")
    return ConfigurationError(
        f"encoder {name!r} cannot be loaded ({first}); give {EMBEDDED!r} (needs no network), a folder "
        "with a sentence-transformers model, or a hub name that this machine has or can download"
    )


def _opened(name: str) -> Encoder:
    """The encoder of a name, read anew."""
    if name == EMBEDDED:
        return EmbeddedEncoder()
    if (Path(name) / LEARNED).is_file():
        from triplewise.tools.retrieval.learned_encoder import LearnedEncoder

        return LearnedEncoder(Path(name))
    return SentenceTransformerEncoder(name)


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
            _open[name] = _opened(name)
        return _open[name]
