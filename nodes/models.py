"""Language models: any OpenAI-compatible server through langchain-openai, or any LangChain chat model.

Retries are the client's own (429, 5xx, time-outs, lost connections; Retry-After is honoured). This module
adds what a long run needs: one explained error in place of the client's, parameters left out that a model
does not know, replies cleaned of reasoning blocks, usage that is counted even where no server reports it.

Every call is made on one event loop in a thread of its own, so that the client keeps its connections whoever
asks: a thread (`reply`), or a coroutine of any other loop (`areply`), which holds no thread while it waits.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import Future
from copy import copy
from dataclasses import dataclass, field
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TypeVar
from urllib.parse import urlsplit

from triplewise.nodes.pricing import Prices, estimate_tokens, load_prices, prices_path
from triplewise.nodes.state import Usage
from triplewise.tools.core.errors import (
    ConfigurationError,
    ModelUnavailableError,
    OutOfTimeError,
    TriplewiseError,
)

if TYPE_CHECKING:
    import openai
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

OPENAI_URL = "https://api.openai.com/v1"
MODEL_FORMS = ("embedded", "openai:NAME")
MALFORMED_RETRIES = 2
"""How often a reply that is no chat completion is asked for again: the client does not."""

Message = Mapping[str, str]
"""A chat message in OpenAI's form: `{"role": "user", "content": "..."}`."""
T = TypeVar("T")

_SCHEME, _NO_KEY = "openai:", "no-key"
_OPTIONAL = ("max_tokens", "parallel_tool_calls", "stop", "stream_options", "temperature", "tool_choice")
_THOUGHT = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL)
_UNOPENED = re.compile(r"\A.*</(?:think|thinking)>", re.DOTALL)
_UNCLOSED = re.compile(r"<(?:think|thinking)>.*\Z", re.DOTALL)
_LONGEST_QUOTE = 300


class ContextOverflowError(ModelUnavailableError):
    """The prompt is longer than the model can read: this run cannot go on, others may."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """What a model is asked: messages, the words that end its reply, or the tools it may call.

    `schemas` are OpenAI function schemas; with some, native tool calls are asked for.
    """

    messages: tuple[tuple[str, str], ...]
    stop: tuple[str, ...] = ()
    schemas: tuple[Mapping[str, Any], ...] = ()

    @classmethod
    def of(
        cls,
        messages: Sequence[Message] | str,
        stop: Sequence[str] = (),
        schemas: Sequence[Mapping[str, Any]] = (),
    ) -> ModelCall:
        """Return a call from messages in OpenAI's form, or from the text of a single one."""
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        return cls(tuple((m["role"], m["content"]) for m in messages), tuple(stop), tuple(schemas))


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered.

    Attributes:
        text: the answer without reasoning blocks, cut before any stop word; may be empty.
        tool_calls: name and arguments of native tool calls, in order.
        invalid_calls: tool calls whose arguments are not a JSON object: (name, the arguments as written).
        usage: one call, its tokens and its cost.
        truncated: whether the reply ended at the limit of tokens (`finish_reason` is `length`).
    """

    text: str
    tool_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    usage: Usage = field(default_factory=Usage)
    invalid_calls: tuple[tuple[str, str], ...] = ()
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Everything that makes two models the same one. Times in seconds; the key is never shown.

    `reply` is what the server is to answer with, for messages.
    """

    name: str
    base_url: str
    api_key: str = field(repr=False)
    api_key_env: str
    timeout: float
    max_retries: int
    prices: str | None
    temperature: float = 0.0
    max_tokens: int = 0
    stream: bool | None = None
    reply: str = "chat completion"

    @property
    def shown_url(self) -> str:
        """The base URL for messages: without any password that stands in it."""
        parts = urlsplit(self.base_url)
        return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()

    @property
    def where(self) -> str:
        """The server, for messages."""
        return f"the model server at {self.shown_url}"


def open_model(
    model: str,
    base_url: str | None = None,
    api_key: str | None = None,
    temperature: float = 0.0,
    max_tokens: int = 1024,
    timeout: float = 60.0,
    max_retries: int = 4,
    *,
    api_key_env: str = "OPENAI_API_KEY",
    stream: bool | None = None,
    prices: str | Path | None = None,
) -> ChatModel:
    """Return a language model, opened once per settings. Nothing is sent before the first call.

    Args:
        model: `openai:NAME`, for any server that speaks the OpenAI API.
        base_url: of the server, e.g. `http://localhost:8000/v1`; None takes OPENAI_BASE_URL, then OpenAI.
        api_key: None takes environment variable `api_key_env`. Servers other than OpenAI need none.
        temperature: 0 for repeatable runs. Left out for models that refuse it.
        max_tokens: longest reply.
        timeout: seconds without any answer before a try counts as failed.
        max_retries: further tries after the first on 429, 5xx, time-outs and lost connections.
        api_key_env: the environment variable meant by `api_key=None`.
        stream: receive replies as a stream, for gateways that cut long silent requests; None where
            somebody listens to the tokens (Studio, `stream_mode="messages"`).
        prices: price table to lay over the shipped one; None takes TRIPLEWISE_PRICES.

    Raises:
        ConfigurationError: unknown form of model, missing key, or a base URL that is none.
        DataError: the price table cannot be read.
    """
    name, url = model_name(model), base_url_for(base_url)
    return _opened(
        ModelSettings(
            name=name,
            base_url=url,
            api_key=api_key_for(api_key, api_key_env, url),
            api_key_env=api_key_env,
            timeout=timeout,
            max_retries=max_retries,
            prices=prices_path(prices),
            temperature=temperature,
            max_tokens=max_tokens,
            stream=stream,
        )
    )


@lru_cache(maxsize=32)
def _opened(settings: ModelSettings) -> ChatModel:
    """Return one model per settings, so that connections are reused."""
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    streaming = {} if settings.stream is None else {"streaming": settings.stream}
    chat = ChatOpenAI(
        model=settings.name,
        base_url=settings.base_url,
        api_key=SecretStr(settings.api_key),
        timeout=settings.timeout,
        max_retries=settings.max_retries,
        use_responses_api=False,
        stream_usage=True,
        **streaming,
    )
    return ChatModel(chat, settings.name, load_prices(settings.prices), settings)


class ChatModel:
    """A language model that can be asked, from any thread and any event loop.

    Every method raises `ConfigurationError` for what the person must set right (key, model name, address),
    `ModelUnavailableError` when the server gave no usable reply after all retries, and `OutOfTimeError`.

    Args:
        chat: any LangChain chat model. name: looked up among the prices.
        settings: of a server that `open_model` opened; None for a model that the caller made.
    """

    def __init__(
        self,
        chat: BaseChatModel,
        name: str,
        prices: Prices,
        settings: ModelSettings | None = None,
    ) -> None:
        self.chat, self.name, self.settings = chat, name, settings
        self._prices = prices
        # Shared by all sessions: a parameter that the model does not know is refused only once.
        self._dropped: set[str] = set()
        self._record: Callable[[Usage], object] = lambda usage: None
        self._seconds: Callable[[], float | None] = lambda: None

    def session(
        self, record: Callable[[Usage], object], seconds: Callable[[], float | None] = lambda: None
    ) -> Self:
        """The same model for one run: `record` is told what each reply used, `seconds` says what is left."""
        session = copy(self)
        session._record, session._seconds = record, seconds
        return session

    def __repr__(self) -> str:
        return f"ChatModel({self.name}{f', {self.settings.where}' if self.settings else ''})"

    def complete(self, messages: Sequence[Message], *, stop: Sequence[str] = ()) -> Reply:
        """Ask for text, ended before any of the `stop` words."""
        return self.reply(ModelCall.of(messages, stop))

    def reply(self, call: ModelCall) -> Reply:
        """Ask, and wait for the reply in this thread."""
        reply = on_loop(self._ask(call)).result()
        self._record(reply.usage)
        return reply

    async def areply(self, call: ModelCall) -> Reply:
        """Ask, without holding a thread while waiting."""
        reply = await asyncio.wrap_future(on_loop(self._ask(call)))
        self._record(reply.usage)
        return reply

    async def _ask(self, call: ModelCall) -> Reply:
        """Return one reply, within the seconds that the run has left."""
        left = self._seconds()
        if left is not None and left <= 0:
            raise OutOfTimeError("the budget of seconds is spent")
        try:
            async with asyncio.timeout(left):
                message = await self._message(call)
        except TimeoutError:
            raise OutOfTimeError(f"{self!r} did not answer within the {left:.1f} s left to the run") from None
        return self._read(message, call)

    async def _message(self, call: ModelCall) -> AIMessage:
        """Return the model's message; malformed ones and refused parameters lead to another request."""
        messages, malformed = list(call.messages), 0
        while True:
            chat, request = self._request(call)
            try:
                message: AIMessage = await chat.ainvoke(messages, **request)
            except client_errors(self.settings is not None) as error:
                if self.settings is None:
                    raise ModelUnavailableError(f"model {self.name} failed: {_quote(error)}") from error
                parameter = unknown_parameter(error)
                if parameter and parameter not in self._dropped:
                    self._dropped.add(parameter)
                    continue
                malformed += is_malformed(error)
                if not is_malformed(error) or malformed > MALFORMED_RETRIES:
                    raise explained(error, self.settings) from error
                continue
            is_unclosed = _UNCLOSED.search(_THOUGHT.sub("", str(message.text))) is not None
            is_stopped = message.response_metadata.get("finish_reason") == "stop"
            if not (call.stop and "stop" not in self._dropped and is_stopped and is_unclosed):
                return message
            # A stop word ended the model's reasoning block: ask again without any.
            self._dropped.add("stop")

    def _request(self, call: ModelCall) -> tuple[Any, dict[str, Any]]:
        """Return what is invoked, and the request without parameters that this model refused before."""
        stop = list(call.stop) or None
        tools = [dict(s) if "function" in s else {"type": "function", "function": s} for s in call.schemas]
        settings = self.settings
        if settings is None:
            return (self.chat.bind_tools(tools) if tools else self.chat), ({"stop": stop} if stop else {})
        request: dict[str, Any] = {"temperature": settings.temperature, "stop": stop}
        if tools:
            request |= {"tools": tools, "tool_choice": "auto", "parallel_tool_calls": False}
        request = {k: v for k, v in request.items() if v is not None and k not in self._dropped}
        # OpenAI knows only the new name of this limit, most other servers only the old one.
        if is_openai(settings.base_url) != ("max_tokens" in self._dropped):
            return self.chat, {**request, "max_completion_tokens": settings.max_tokens}
        return self.chat, {**request, "extra_body": {"max_tokens": settings.max_tokens}}

    def _read(self, message: AIMessage, call: ModelCall) -> Reply:
        """Return the reply, with tokens as reported, or estimated where the server reports none."""
        raw, used = str(message.text), message.usage_metadata
        if estimated := used is None or not (used["input_tokens"] or used["output_tokens"]):
            texts = [text for _, text in call.messages] + [json.dumps(s) for s in call.schemas]
            tokens_in = estimate_tokens(texts)
            tokens_out = estimate_tokens([raw, *(json.dumps(c["args"]) for c in message.tool_calls)])
        else:
            assert used is not None
            tokens_in, tokens_out = used["input_tokens"], used["output_tokens"]
        cost = self._prices.cost(self.name, tokens_in, tokens_out)
        text = _UNCLOSED.sub("", _UNOPENED.sub("", _THOUGHT.sub("", raw))).strip()
        # Not every server honours stop words.
        ends = [at for word in call.stop if word and (at := text.find(word)) >= 0]
        return Reply(
            text=text[: min(ends)].rstrip() if ends else text,
            tool_calls=tuple((c["name"], dict(c["args"])) for c in message.tool_calls),
            invalid_calls=tuple((c["name"] or "", c["args"] or "") for c in message.invalid_tool_calls),
            usage=Usage(1, tokens_in, tokens_out, cost, estimated),
            truncated=message.response_metadata.get("finish_reason") == "length",
        )


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that all calls are made on."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="triplewise-models", daemon=True).start()
    return loop


_STARTING = threading.Lock()
"""Held while the loop is looked up: two first calls at a time would start one each."""


def on_loop(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Run a coroutine where the models are asked."""
    with _STARTING:
        loop = _loop()
    return asyncio.run_coroutine_threadsafe(coroutine, loop)


def chat_model(chat: BaseChatModel, prices: str | None) -> ChatModel:
    """Return a LangChain chat model that the caller made, as it is."""
    name = getattr(chat, "model_name", None) or getattr(chat, "model", None) or type(chat).__name__
    return ChatModel(chat, str(name), load_prices(prices))


@cache
def client_errors(own: bool) -> tuple[type[Exception], ...]:
    """What a call can fail with; the built-in ones are how our own client reports a malformed reply."""
    import openai

    builtin = (ValueError, TypeError, KeyError, IndexError, AttributeError) if own else ()
    return (openai.OpenAIError, *builtin)


def is_malformed(error: Exception) -> bool:
    """Return whether a reply was HTTP 200 but nothing that the client could read."""
    import openai

    return not isinstance(error, openai.APIError) or isinstance(error, openai.APIResponseValidationError)


def unknown_parameter(error: Exception) -> str:
    """Return the optional parameter that a model does not take, "" if that is not what is wrong."""
    import openai

    if not isinstance(error, openai.APIStatusError) or error.status_code not in (400, 422):
        return ""
    words = _server_words(error).lower()
    named = (error.param or "").split(".")[0].replace("max_completion_tokens", "max_tokens")
    if "unsupported" in (error.code or "") and named in _OPTIONAL:
        return named
    if not re.search(r"not support|unsupported|unrecogni[sz]ed|unknown|extra inputs|not permitted", words):
        return ""
    if named in _OPTIONAL:
        return named
    return next((name for name in _OPTIONAL if re.search(rf"\b{name}\b", words)), "")


def explained(error: Exception, settings: ModelSettings) -> TriplewiseError:
    """The error that says what happened and who acts: the person (`ConfigurationError`), or nobody now."""
    import openai

    where, tries = settings.where, f"given up after {settings.max_retries + 1} tries"
    if isinstance(error, openai.APIStatusError):
        return _status_error(error, settings, tries)
    if isinstance(error, openai.APITimeoutError):
        text = f"{where} did not answer within {settings.timeout:g} s; {tries}"
        return ModelUnavailableError(text)
    if isinstance(error, openai.APIConnectionError):
        causes = list(_causes(error))
        text = _quote("; ".join(dict.fromkeys(str(cause) for cause in causes if str(cause))))
        if any(isinstance(c, ConnectionRefusedError) for c in causes):
            text = f"{where} refuses connections: is the server running, and is this its port?"
        elif any(isinstance(c, socket.gaierror) for c in causes):
            text = f"{where} cannot be found ({text}): check the base URL and the network"
        elif any(isinstance(c, ssl.SSLCertVerificationError) for c in causes):
            text = f"{where} has a certificate that is not trusted ({text})"
        else:
            return ModelUnavailableError(f"the connection to {where} failed ({text}); {tries}")
        return ConfigurationError(text)
    if isinstance(error, openai.APIError) and not is_malformed(error):
        return ModelUnavailableError(f"{where} broke off: {_quote(error.message)}")
    kind = type(error).__name__
    return ModelUnavailableError(
        f"{where} sent a reply that is no {settings.reply} ({kind}: {_quote(error)})"
    )


def _status_error(error: openai.APIStatusError, settings: ModelSettings, tries: str) -> TriplewiseError:
    """Return what a reply with a 4xx or 5xx status means."""
    status, where, words = error.status_code, settings.where, _quote(_server_words(error))
    if status in (401, 403) and settings.api_key == _NO_KEY:
        return ConfigurationError(
            f"{where} wants a key and none was given (HTTP {status}): "
            f"set environment variable {settings.api_key_env}"
        )
    if status in (401, 403):
        return ConfigurationError(
            f"{where} refused the key in {settings.api_key_env} (HTTP {status}: {words}): "
            "check that it is complete, belongs to this server, and may use this model"
        )
    if status == 404:
        return ConfigurationError(
            f"{where} has no model {settings.name!r} (HTTP 404: {words}): list the models it has with "
            f"`curl {settings.shown_url}/models`; if that finds nothing either, the base URL is wrong "
            "(it usually ends in /v1)"
        )
    if status == 429 and error.code == "insufficient_quota":
        text = f"{where}: this key's account has no quota left ({words}): top it up or use another"
        return ConfigurationError(text)
    if status in (408, 409, 425, 429) or status >= 500:
        delay = error.response.headers.get("retry-after", "")
        wait = f"; it asks to wait {delay} s: run again later" if delay.isdigit() and int(delay) > 60 else ""
        what = "limits the rate of requests" if status == 429 else "failed"
        return ModelUnavailableError(f"{where} {what} (HTTP {status}: {words}){wait or f'; {tries}'}")
    text, lowered = f"{where} refused the request (HTTP {status}: {words})", words.lower()
    if error.code == "context_length_exceeded" or re.search(r"context (length|window|size)", lowered):
        fix = "use a model with a longer context, fewer steps, or a smaller observation"
        return ContextOverflowError(f"{text}; {fix}")
    if re.search(r"\btools?\b|tool[_ -](choice|call)|function call", lowered):
        text += '; if this model has no tool calls, use calling="react"'
    return ConfigurationError(text)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Return the exception and everything that led to it, async clients' groups included."""
    while error is not None:
        yield error
        for inner in getattr(error, "exceptions", ()):
            yield from _causes(inner)
        error = error.__cause__ or error.__context__


def _server_words(error: openai.APIStatusError) -> str:
    """Return what the server itself said, without the client's wrapping."""
    body = error.body
    if isinstance(body, dict):
        inner = body.get("error", body)
        words = inner.get("message") if isinstance(inner, dict) else inner
        return str(words or body.get("detail") or body.get("message") or error.message)
    return str(body or error.message)


def _quote(words: object) -> str:
    """Foreign words on one line, cut to a readable length."""
    text = " ".join(str(words).split())
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."


def is_openai(url: str) -> bool:
    """Return whether a URL leads to OpenAI itself, in whatever region."""
    host = urlsplit(url).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def model_name(model: str) -> str:
    """Return the server's own name of a model. Raises `ConfigurationError` listing the legal forms."""
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
    """Return the server's URL without a slash at its end. Raises `ConfigurationError` if it is none."""
    environment = os.environ.get("OPENAI_BASE_URL") or os.environ.get("OPENAI_API_BASE")
    url = (given or environment or OPENAI_URL).strip().rstrip("/")
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ConfigurationError(
            f"base_url {url!r} is no http(s) URL; it looks like http://localhost:8000/v1"
        )
    return url


def api_key_for(given: str | None, variable: str, url: str) -> str:
    """Return the key to send. Raises `ConfigurationError` where OpenAI would refuse to answer without one."""
    key = (given or os.environ.get(variable) or "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigurationError(f"the key in {variable} holds characters no key has; copy it again")
    if not key and is_openai(url):
        raise ConfigurationError(
            f"no key for {url}: set environment variable {variable}, or give base_url of a server "
            'that needs none, or use model="embedded"'
        )
    return key or _NO_KEY
