"""Embeddings from any OpenAI-compatible server, through langchain-openai (QueryAgent, appendix B.3)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from functools import cached_property, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from triplewise.nodes.models import (
    MALFORMED_RETRIES,
    ModelSettings,
    api_key_for,
    base_url_for,
    client_errors,
    explained,
    is_malformed,
)
from triplewise.nodes.pricing import estimate_tokens, load_prices, prices_path
from triplewise.nodes.state import Usage
from triplewise.tools.core.errors import ConfigurationError, ModelUnavailableError
from triplewise.tools.retrieval.encoder import CachingEncoder

if TYPE_CHECKING:
    from langchain_openai import OpenAIEmbeddings

BATCH = 256
"""Texts sent at once: within what the smaller servers take."""
REMEMBERED = 2_000
"""Texts whose vectors are kept in memory."""


def open_embeddings(
    model: str,
    base_url: str | None = None,
    api_key: str | None = None,
    timeout: float = 60.0,
    max_retries: int = 4,
    *,
    api_key_env: str = "OPENAI_API_KEY",
    prices: str | Path | None = None,
) -> OpenAIEncoder:
    """Open an embedding model, once per settings. Nothing is sent before the first text.

    Args:
        model: the server's name of the model, e.g. `text-embedding-3-small`; a leading `openai:` is fine.
        base_url, api_key, timeout, max_retries, api_key_env, prices: see
            `triplewise.nodes.models.open_model`.

    Raises:
        ConfigurationError: no name, missing key, or a base URL that is none.
        DataError: the price table cannot be read.
    """
    name, url = model.removeprefix("openai:").strip(), base_url_for(base_url)
    if not name:
        raise ConfigurationError(
            "setting ranking_model names no model; give one such as text-embedding-3-small"
        )
    settings = ModelSettings(
        name=name,
        base_url=url,
        api_key=api_key_for(api_key, api_key_env, url),
        api_key_env=api_key_env,
        timeout=timeout,
        max_retries=max_retries,
        prices=prices_path(prices),
        reply="list of embeddings",
    )
    return _cached(settings)


class OpenAIEncoder(CachingEncoder):
    """An `Encoder` that asks a server, once for each text while it is remembered. Safe to use from threads.

    Tokens and cost go to the usage of the run that asks first. Embedding is no call of a language model.
    `encode` raises `ConfigurationError` where the person must act (key, model name or address), and
    `ModelUnavailableError` where there is no usable reply after all retries.
    """

    def __init__(self, settings: ModelSettings) -> None:
        # The server is part of the name: it keeps vectors apart from those of others.
        super().__init__(f"openai:{settings.name}@{settings.shown_url}", 0, REMEMBERED)
        self.settings = settings
        self._prices = load_prices(settings.prices)
        self._record: Callable[[Usage], None] = lambda usage: None
        self._shared: Self | None = None

    @property
    def shared(self) -> Self:
        """The encoder that this is a session of, itself where it is none."""
        return self._shared or self

    def session(self, record: Callable[[Usage], None]) -> Self:
        """Return the same encoder with its vectors; `record` is given the usage of each request."""
        session = copy(self)
        session._record, session._shared = record, self.shared
        return session

    def __repr__(self) -> str:
        return f"OpenAIEncoder({self.settings.name}, {self.settings.where})"

    @property
    def dimension(self) -> int:
        """Length of a vector, known from the first reply; asks for one where there was none yet."""
        if not self.shared._dimension:
            self.encode(["dimension"])
        return self.shared._dimension

    @cached_property
    def _client(self) -> OpenAIEmbeddings:
        from langchain_openai import OpenAIEmbeddings
        from pydantic import SecretStr

        return OpenAIEmbeddings(
            model=self.settings.name,
            openai_api_base=self.settings.base_url,
            openai_api_key=SecretStr(self.settings.api_key),
            request_timeout=self.settings.timeout,
            max_retries=self.settings.max_retries,
            chunk_size=BATCH,
            # Texts are short; cutting them to length would send tokens, which only OpenAI takes, and
            # download a tokenizer for it.
            check_embedding_ctx_length=False,
        )

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        batches = [self._embed_batch(texts[at : at + BATCH]) for at in range(0, len(texts), BATCH)]
        return np.concatenate(batches)

    def _embed_batch(self, texts: Sequence[str]) -> np.ndarray:
        """Return unit vectors of one batch, however many tries it takes."""
        client, retries = self.shared._client, MALFORMED_RETRIES
        # Servers refuse an empty text; a space says as little.
        sent = [t if t.strip() else " " for t in texts]
        while True:
            counted = _Counted(client.client)
            try:
                reply = client.model_copy(update={"client": counted}).embed_documents(sent)
                break
            except client_errors(own=True) as error:
                if not is_malformed(error) or not retries:
                    raise explained(error, self.settings) from error
                retries -= 1
        tokens = counted.tokens or estimate_tokens(sent)
        cost = self._prices.cost(self.settings.name, tokens, 0)
        self._record(Usage(0, tokens, 0, cost, estimated=not counted.tokens))
        sizes = {len(v) for v in reply}
        vectors = np.asarray(reply if len(sizes) == 1 else [], np.float32)
        expected = (len(texts), self.shared._dimension or vectors.shape[-1])
        if vectors.shape != expected or not expected[1] or not np.isfinite(vectors).all():
            raise ModelUnavailableError(
                f"{self.settings.where} sent no usable embeddings: {len(texts)} vectors of equal length were "
                f"due, got shape {vectors.shape}; is {self.settings.name!r} an embedding model?"
            )
        self.shared._dimension = vectors.shape[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


_cached = lru_cache(maxsize=8)(OpenAIEncoder)  # one encoder per settings: connections and vectors are reused


class _Counted:
    """The client's embeddings resource, with the tokens it reports added up: langchain drops them."""

    def __init__(self, resource: Any) -> None:
        self._resource, self.tokens = resource, 0

    def create(self, **request: Any) -> Any:
        """Send one request."""
        response = self._resource.create(**request)
        self.tokens += getattr(getattr(response, "usage", None), "prompt_tokens", 0) or 0
        return response
