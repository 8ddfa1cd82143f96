"""Embeddings from any OpenAI-compatible server (QueryAgent, appendix B.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from triplewise.nodes import models
from triplewise.nodes.state import Usage
from triplewise.tools.core.errors import ConfigurationError, ModelUnavailableError
from triplewise.tools.retrieval.encoder import CachingEncoder

if TYPE_CHECKING:
    from langchain_openai import OpenAIEmbeddings

BATCH = 256
"""Texts sent at once: within what the smaller servers take."""
CACHED_TEXTS = 2_000
"""Texts whose vectors are kept in memory."""
LONGEST_REPLY = 64 * 2**20
"""Bytes of a reply that are read; a batch of vectors with 4,096 numbers, written as text, takes half."""


class OpenAIEncoder(CachingEncoder):
    """An `Encoder` that asks a server, once for each text while it is cached. Safe to use from threads.

    Tokens (estimated) and cost go to the usage of the run that asks first; embedding is no call of a language
    model. `encode` raises `ConfigurationError` where the person must act (key, model name or address), and
    `ModelUnavailableError` where there is no usable reply after all retries.
    """

    def __init__(self, server: models.Server, prices: str | None) -> None:
        # The server is part of the name: it keeps vectors apart from those of others.
        super().__init__(f"openai:{server.model}@{server.where.rpartition(' ')[2]}", 0, CACHED_TEXTS)
        self.server, self._prices, self.shared = server, models.load_prices(prices), self
        self._record: Callable[[Usage], None] = lambda usage: None

    def session(self, record: Callable[[Usage], None]) -> Self:
        """Return the same encoder with its vectors; `record` is given the usage of each request."""
        session = copy(self)
        session._record = record
        return session

    @property
    def dimension(self) -> int:
        """Length of a vector, known from the first reply; asks for one where there was none yet."""
        if not self.shared._dimension:
            self.encode(["dimension"])
        return self.shared._dimension

    @cached_property
    def _client(self) -> OpenAIEmbeddings:
        from langchain_openai import OpenAIEmbeddings

        settings = self.server.client_settings(LONGEST_REPLY)
        return OpenAIEmbeddings(check_embedding_ctx_length=False, chunk_size=BATCH, **settings)

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        from langchain_core.messages.utils import count_tokens_approximately

        sent = [text if text.strip() else " " for text in texts]  # servers refuse an empty text
        try:
            rows = models.wait_for(self.shared._client.aembed_documents(sent))
        except Exception as error:
            raise models.explained(error, self.server, "list of embeddings") from error
        tokens = count_tokens_approximately(sent)
        self._record(Usage(0, tokens, 0, self._prices.cost(self.server.model, tokens, 0), estimated=True))
        vectors = np.asarray(rows if len({len(row) for row in rows}) == 1 else [], np.float32)
        expected = (len(texts), self.shared._dimension or vectors.shape[-1])
        if vectors.shape != expected or not expected[1] or not np.isfinite(vectors).all():
            raise ModelUnavailableError(
                f"{self.server.where} sent no usable embeddings: {len(texts)} vectors of equal length were "
                f"due, got shape {vectors.shape}; is {self.server.model!r} an embedding model?"
            )
        self.shared._dimension = vectors.shape[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


def open_embeddings(
    model: str,
    base_url: str | None = None,
    api_key_env: str = "OPENAI_API_KEY",
    prices: str | None = None,
    **settings: Any,
) -> OpenAIEncoder:
    """Open an embedding model, once per settings; its name may begin with `openai:`. See `open_model`."""
    if not (name := model.removeprefix("openai:").strip()):
        raise ConfigurationError(
            "setting ranking_model names no model; give one such as text-embedding-3-small"
        )
    return _opened(models.find_server(name, base_url, api_key_env, **settings), prices)


_opened = lru_cache(maxsize=8)(OpenAIEncoder)  # one encoder per settings: connections and vectors are reused
