"""What went wrong with a model call, and who can mend it: retry, change the request, or stop and say why."""

from __future__ import annotations

import email.utils
import random
import re
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from triplewise.nodes.model_settings import ModelSettings
from triplewise.tools.core.errors import ConfigurationError, ModelUnavailableError, TriplewiseError

if TYPE_CHECKING:
    import openai


Kind = Literal["stop", "retry", "malformed", "drop"]

MALFORMED_RETRIES = 2
"""How often a reply that is no chat completion is asked for again."""

_OPTIONAL = frozenset(
    {"temperature", "stop", "max_tokens", "parallel_tool_calls", "stream_options", "tool_choice"}
)
_RETRIED_STATUS = frozenset({408, 409, 425, 429})
_JITTER = 0.5
_LONGEST_QUOTE = 300


class ContextOverflowError(ModelUnavailableError):
    """The prompt is longer than the model can read: this run cannot go on, others may."""


class MalformedReplyError(Exception):
    """A reply that is HTTP 200 but no usable chat completion. Internal: ends as `ModelUnavailableError`."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed call.

    Attributes:
        kind: `stop` (raise `error` now), `retry` (later), `malformed` (retry, but not often), or
            `drop` (send again without `parameter`, which this model does not know).
        error: what to raise when no further try is made.
        wait: seconds the server asks to wait, None if it does not say.
        parameter: the request parameter to leave out.
    """

    kind: Kind
    error: TriplewiseError
    wait: float | None = None
    parameter: str = ""


@dataclass(slots=True)
class Attempts:
    """The tries of one call: exponential back-off with jitter, bounded, Retry-After honoured.

    `dropped` is shared by all calls of a model, so that a refused parameter is refused only once.
    """

    settings: ModelSettings
    dropped: set[str]
    reachable: bool = False
    made: int = 1
    malformed: int = field(default=0, init=False)

    def delay(self, error: Exception) -> float:
        """Seconds to wait before the next try. Raises a `TriplewiseError` when there is to be none."""
        failure = classify(error, self.settings, reachable=self.reachable)
        if failure.kind == "stop":
            raise failure.error from error
        if failure.kind == "drop":
            return self._drop(failure, error)
        self.malformed += failure.kind == "malformed"
        if self.made > self.settings.max_retries or self.malformed > MALFORMED_RETRIES:
            raise _given_up(failure.error, self.made) from error
        if failure.wait is not None and failure.wait > self.settings.max_wait:
            raise _wait_too_long(failure, self.settings) from error
        self.made += 1
        return self._wait(failure.wait)

    def _drop(self, failure: Failure, error: Exception) -> float:
        """Leave a refused parameter out from now on; stop if it was left out already."""
        if failure.parameter in self.dropped:
            raise failure.error from error
        self.dropped.add(failure.parameter)
        return 0.0

    def _wait(self, asked: float | None) -> float:
        """At least what the server asks for; the jitter keeps parallel runs from returning all at once."""
        backoff = self.settings.backoff * 2.0 ** (self.made - 2)
        if asked is not None:
            return asked + random.uniform(0, min(backoff, 0.1 * asked))
        return min(backoff, self.settings.max_wait) * random.uniform(1 - _JITTER, 1)


def _given_up(error: TriplewiseError, made: int) -> TriplewiseError:
    """The final error, with the number of tries in it."""
    return type(error)(f"{error}; given up after {made} {'try' if made == 1 else 'tries'}")


def _wait_too_long(failure: Failure, settings: ModelSettings) -> TriplewiseError:
    """The server asks for a wait beyond what a question should hang."""
    return type(failure.error)(
        f"{failure.error}; it asks to wait {failure.wait:g} s, "
        f"more than the {settings.max_wait:g} s allowed here: run again later"
    )


def classify(error: Exception, settings: ModelSettings, *, reachable: bool = False) -> Failure:
    """Sort an exception of the client into a `Failure`.

    Args:
        error: what the client raised.
        settings: of the model that was called.
        reachable: whether the server answered before; a refused connection is then worth a retry
            (it restarts), while at first it is a wrong address.
    """
    import openai

    if isinstance(error, openai.APIStatusError):
        return _status_failure(error, settings)
    if isinstance(error, openai.APITimeoutError):
        text = f"{settings.where} did not answer within {settings.timeout:g} s"
        return Failure("retry", ModelUnavailableError(text))
    if isinstance(error, openai.APIConnectionError):
        return _connection_failure(error, settings, reachable)
    if isinstance(error, openai.APIError):
        return Failure("retry", ModelUnavailableError(f"{settings.where} broke off: {_quote(error.message)}"))
    text = (
        f"{settings.where} sent a reply that is no {settings.reply} ({type(error).__name__}: {_quote(error)})"
    )
    return Failure("malformed", ModelUnavailableError(text))


def _status_failure(error: openai.APIStatusError, settings: ModelSettings) -> Failure:
    """A reply with a 4xx or 5xx status."""
    status, said = error.status_code, _quote(_server_words(error))
    if status in (401, 403):
        return Failure("stop", ConfigurationError(_key_refused(settings, status, said)))
    if status == 404:
        return Failure("stop", ConfigurationError(_not_found(settings, said)))
    if status == 429 and error.code == "insufficient_quota":
        text = f"{settings.where}: this key's account has no quota left ({said}): top it up or use another"
        return Failure("stop", ConfigurationError(text))
    if status in _RETRIED_STATUS or status >= 500:
        return _temporary_failure(error, settings, said)
    return _refused_request(error, settings, said)


def _temporary_failure(error: openai.APIStatusError, settings: ModelSettings, said: str) -> Failure:
    """A 429 or 5xx: retried, unless the server says that it is no use."""
    what = "limits the rate of requests" if error.status_code == 429 else "failed"
    final = ModelUnavailableError(f"{settings.where} {what} (HTTP {error.status_code}: {said})")
    if error.response.headers.get("x-should-retry") == "false":
        return Failure("stop", final)
    return Failure("retry", final, wait=retry_after(error.response.headers))


def _refused_request(error: openai.APIStatusError, settings: ModelSettings, said: str) -> Failure:
    """A 400 or another 4xx: the request itself is wrong for this model."""
    text = f"{settings.where} refused the request (HTTP {error.status_code}: {said})"
    lowered = said.lower()
    if error.code == "context_length_exceeded" or re.search(r"context (length|window|size)", lowered):
        mend = "; use a model with a longer context, fewer steps, or a smaller observation"
        return Failure("stop", ContextOverflowError(text + mend))
    if parameter := _unknown_parameter(error, lowered):
        return Failure("drop", ConfigurationError(text), parameter=parameter)
    if re.search(r"\btools?\b|tool[_ -](choice|call)|function call", lowered):
        text += '; if this model has no tool calls, use calling="react"'
    return Failure("stop", ConfigurationError(text))


def _unknown_parameter(error: openai.APIStatusError, said: str) -> str:
    """The optional parameter that a model does not take, "" if that is not what is wrong."""
    named = (error.param or "").split(".")[0]
    if named == "max_completion_tokens":
        named = "max_tokens"
    if "unsupported" in (error.code or "") and named in _OPTIONAL:
        return named
    if not re.search(r"not support|unsupported|unrecogni[sz]ed|unknown|extra inputs|not permitted", said):
        return ""
    found = (name for name in sorted(_OPTIONAL) if re.search(rf"\b{name}\b", said))
    return named if named in _OPTIONAL else next(found, "")


def _key_refused(settings: ModelSettings, status: int, said: str) -> str:
    """The sentence for 401 and 403."""
    if not settings.has_key:
        return (
            f"{settings.where} wants a key and none was given (HTTP {status}): "
            f"set environment variable {settings.api_key_env}"
        )
    return (
        f"{settings.where} refused the key in {settings.api_key_env} (HTTP {status}: {said}): "
        "check that it is complete, belongs to this server, and may use this model"
    )


def _not_found(settings: ModelSettings, said: str) -> str:
    """The sentence for 404: a missing model, or a base URL that leads nowhere."""
    return (
        f"{settings.where} has no model {settings.name!r} (HTTP 404: {said}): list the models it has with "
        f"`curl {settings.shown_url}/models`; if that finds nothing either, the base URL is wrong "
        "(it usually ends in /v1)"
    )


def _connection_failure(error: Exception, settings: ModelSettings, reachable: bool) -> Failure:
    """No reply at all: refused, unknown host, or cut."""
    causes = list(_causes(error))
    text = "; ".join(dict.fromkeys(str(cause) for cause in causes if str(cause)))
    if not reachable and any(isinstance(c, ConnectionRefusedError) for c in causes):
        words = f"{settings.where} refuses connections: is the server running, and is this its port?"
        return Failure("stop", ConfigurationError(words))
    if not reachable and any(isinstance(c, socket.gaierror) for c in causes):
        words = f"{settings.where} cannot be found ({_quote(text)}): check the base URL and the network"
        return Failure("stop", ConfigurationError(words))
    if any(isinstance(c, ssl.SSLCertVerificationError) for c in causes):
        words = f"{settings.where} has a certificate that is not trusted ({_quote(text)})"
        return Failure("stop", ConfigurationError(words))
    final = ModelUnavailableError(f"the connection to {settings.where} failed ({_quote(text)})")
    return Failure("retry", final)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and everything that led to it, async clients' groups included."""
    while error is not None:
        yield error
        for inner in getattr(error, "exceptions", ()):
            yield from _causes(inner)
        error = error.__cause__ or error.__context__


def retry_after(headers: Mapping[str, str], now: float | None = None) -> float | None:
    """Seconds a server asks to wait (`retry-after-ms`, or Retry-After in seconds or as a date)."""
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        seconds = float(milliseconds) / 1000 if milliseconds else float(value) if value else None
    except ValueError:
        parsed = email.utils.parsedate_tz(value or "")
        seconds = email.utils.mktime_tz(parsed) - (time.time() if now is None else now) if parsed else None
    if seconds is None or not 0 <= seconds < float("inf"):
        return None
    return seconds


def _server_words(error: openai.APIStatusError) -> str:
    """What the server itself said, without the client's wrapping."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        found = inner.get("message") if isinstance(inner, dict) else inner
        return str(found or body.get("detail") or body.get("message") or error.message)
    return str(body or error.message)


def _quote(words: object) -> str:
    """Foreign words on one line, cut to a readable length."""
    text = " ".join(str(words).split())
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
