"""Embeddings from any OpenAI-compatible server, through langchain-openai (QueryAgent, appendix B.3)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from functools import lru_cache
from pathlib import Path
from threading import Lock
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
from triplewise.nodes.usage import Usage, estimate_tokens, load_prices, prices_path
from triplewise.tools.core.errors import ConfigurationError, ModelUnavailableError

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
    """An embedding model, opened once per settings. Nothing is sent before the first text.

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


@lru_cache(maxsize=8)
def _cached(settings: ModelSettings) -> OpenAIEncoder:
    """One encoder per settings, so that connections and vectors are reused."""
    return OpenAIEncoder(settings)


class OpenAIEncoder:
    """An `Encoder` that asks a server, once for each text while it is remembered. Safe to use from threads.

    Tokens and cost go to the usage of the run that asks first. Embedding is no call of a language model.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self._prices = load_prices(settings.prices)
        self._lock = Lock()
        self._known: OrderedDict[str, np.ndarray] = OrderedDict()
        self._client: OpenAIEmbeddings | None = None
        self._dimension = 0
        self._record: Callable[[Usage], None] = lambda usage: None
        self._shared: Self | None = None

    @property
    def shared(self) -> Self:
        """The encoder that this is a session of, itself where it is none."""
        return self._shared or self

    def session(self, record: Callable[[Usage], None]) -> Self:
        """The same encoder and its remembered vectors, telling `record` what each request used."""
        session = copy(self)
        session._record, session._shared = record, self.shared
        return session

    def __repr__(self) -> str:
        return f"OpenAIEncoder({self.settings.name}, {self.settings.where})"

    @property
    def name(self) -> str:
        """The model and its server: what keeps its vectors apart from those of others."""
        return f"openai:{self.settings.name}@{self.settings.shown_url}"

    @property
    def dimension(self) -> int:
        """Length of a vector, known from the first reply; asks for one where there was none yet."""
        if not self.shared._dimension:
            self.encode(["dimension"])
        return self.shared._dimension

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors, float32 of shape (len(texts), dimension), rows in the order given.

        Raises:
            ConfigurationError: the person must act: key, model name or address.
            ModelUnavailableError: no usable reply after all retries.
        """
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        with self._lock:
            known = {t: self._known[t] for t in texts if t in self._known}
        missing = [t for t in dict.fromkeys(texts) if t not in known]
        for at in range(0, len(missing), BATCH):
            part = missing[at : at + BATCH]
            known |= zip(part, self._embed(part), strict=True)
        with self._lock:
            self._known.update((t, known[t]) for t in missing)
            while len(self._known) > REMEMBERED:
                self._known.popitem(last=False)
        return np.stack([known[t] for t in texts])

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        """Unit vectors of one batch, however many tries it takes."""
        # Servers refuse an empty text; a space says as little.
        sent = [t if t.strip() else " " for t in texts]
        retries = MALFORMED_RETRIES
        while True:
            try:
                vectors = self._ask(sent)
                break
            except client_errors(own=True) as error:
                if not is_malformed(error) or not retries:
                    raise explained(error, self.settings) from error
                retries -= 1
        return self._checked(vectors, len(texts))

    def _ask(self, texts: list[str]) -> list[list[float]]:
        """What the server answers, its usage recorded."""
        if self.shared._client is None:
            self.shared._client = _openai_embeddings(self.settings)
        counted = _Counted(self.shared._client.client)
        vectors = self.shared._client.model_copy(update={"client": counted}).embed_documents(texts)
        tokens = counted.tokens or estimate_tokens(texts)
        cost = self._prices.cost(self.settings.name, tokens, 0)
        self._record(Usage(0, tokens, 0, cost, estimated=not counted.tokens))
        return vectors

    def _checked(self, vectors: list[list[float]], count: int) -> np.ndarray:
        """The reply as unit vectors. Raises `ModelUnavailableError` on one of another shape."""
        sizes = {len(v) for v in vectors}
        found = np.asarray(vectors if len(sizes) == 1 else [], np.float32)
        due = (count, self.shared._dimension or found.shape[-1])
        if found.shape != due or not due[1] or not np.isfinite(found).all():
            raise ModelUnavailableError(
                f"{self.settings.where} sent no usable embeddings: {count} vectors of equal length were due, "
                f"got shape {found.shape}; is {self.settings.name!r} an embedding model?"
            )
        self.shared._dimension = found.shape[1]
        lengths = np.linalg.norm(found, axis=1, keepdims=True)
        return np.asarray(found / np.maximum(lengths, 1e-12), np.float32)


class _Counted:
    """The client's embeddings resource, with the tokens it reports added up: langchain drops them."""

    def __init__(self, resource: Any) -> None:
        self._resource, self.tokens = resource, 0

    def create(self, **request: Any) -> Any:
        """One request."""
        response = self._resource.create(**request)
        self.tokens += getattr(getattr(response, "usage", None), "prompt_tokens", 0) or 0
        return response


def _openai_embeddings(settings: ModelSettings) -> OpenAIEmbeddings:
    """langchain-openai's client."""
    from langchain_openai import OpenAIEmbeddings
    from pydantic import SecretStr

    return OpenAIEmbeddings(
        model=settings.name,
        openai_api_base=settings.base_url,
        openai_api_key=SecretStr(settings.api_key),
        request_timeout=settings.timeout,
        max_retries=settings.max_retries,
        chunk_size=BATCH,
        # Texts are short; cutting them to length would send tokens, which only OpenAI takes, and download
        # a tokenizer for it.
        check_embedding_ctx_length=False,
    )
