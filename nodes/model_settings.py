"""Which model on which server, checked before anything is sent."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from triplewise.tools.core.errors import ConfigurationError

OPENAI_URL = "https://api.openai.com/v1"
MODEL_FORMS = ("embedded", "openai:NAME")
_SCHEME = "openai:"
_NO_KEY = "no-key"


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Everything that makes two models the same one. Times in seconds; the key is never shown.

    `reply` is what the server is to answer with, for messages.
    """

    name: str
    base_url: str
    api_key: str = field(repr=False)
    api_key_env: str
    temperature: float
    max_tokens: int
    timeout: float
    max_retries: int
    backoff: float
    max_wait: float
    stream: bool
    prices: str | None
    reply: str = "chat completion"

    @property
    def has_key(self) -> bool:
        """Whether a key was found."""
        return self.api_key != _NO_KEY

    @property
    def is_openai(self) -> bool:
        """Whether this is OpenAI itself, in whatever region."""
        return is_openai(self.base_url)

    @property
    def shown_url(self) -> str:
        """The base URL for messages: without any password that stands in it."""
        parts = urlsplit(self.base_url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def where(self) -> str:
        """The server, for messages."""
        return f"the model server at {self.shown_url}"


def is_openai(url: str) -> bool:
    """Whether a URL leads to OpenAI itself."""
    host = urlsplit(url).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def model_name(model: str) -> str:
    """The server's own name of a model. Raises `ConfigurationError` listing the legal forms."""
    scheme, name = model[: len(_SCHEME)], model[len(_SCHEME) :].strip()
    if scheme == _SCHEME and name:
        return name
    if model == "embedded":
        raise ConfigurationError(
            "model 'embedded' is no language model: it answers without one, so none can be opened; "
            "for a language model give openai:NAME"
        )
    hint = f"; did you mean {_SCHEME + model!r}?" if model and ":" not in model else ""
    raise ConfigurationError(f"unknown model {model!r}; legal forms: {', '.join(MODEL_FORMS)}{hint}")


def base_url_for(given: str | None) -> str:
    """The server's URL without a slash at its end."""
    environment = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
    url = (given or environment or OPENAI_URL).strip().rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"base_url {url!r} is no http(s) URL; it looks like http://localhost:8000/v1"
        )
    return url


def api_key_for(given: str | None, variable: str, url: str) -> str:
    """The key to send. Raises `ConfigurationError` where OpenAI would refuse to answer without one."""
    key = (given or os.environ.get(variable) or "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigurationError(f"the key in {variable} holds characters no key has; copy it again")
    if not key and is_openai(url):
        raise ConfigurationError(
            f"no key for {url}: set environment variable {variable}, or give base_url of a server "
            'that needs none, or use model="embedded"'
        )
    return key or _NO_KEY
