"""Language models: any OpenAI-compatible server through langchain-openai, or any LangChain chat model.

Retries, time-outs, rate limits and streaming are the client's own. This module adds what a long run needs:
errors that are explained, parameters left out that a model does not know, replies without reasoning blocks,
usage even where no server reports it, and an end when the run's seconds are over or it is cancelled. For this
every call is made on one event loop in a thread of its own, where the client also keeps its connections.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import CancelledError
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, Field

from triplewise.nodes.state import Usage
from triplewise.tools.core.addresses import split_url, whole_url
from triplewise.tools.core.errors import (
    ConfigurationError,
    ModelUnavailableError,
    OutOfTimeError,
    TriplewiseError,
)
from triplewise.tools.core.files import parse_yaml, read_yaml
from triplewise.tools.core.secrets import redact, remember, remember_environment
from triplewise.tools.core.terms import one_line
from triplewise.tools.kg.protocol import Deadline

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage

OPENAI_URL = "https://api.openai.com/v1"
MALFORMED_RETRIES = 2
"""Further requests after a reply that is not a chat completion: the client makes none."""

Message = Mapping[str, str]
"""A chat message in OpenAI's form: `{"role": "user", "content": "..."}`."""
T = TypeVar("T")

MAX_TOKENS = 1024
"""Tokens that a reply may have where nobody says."""
_OPTIONAL = (
    *("max_tokens", "parallel_tool_calls", "reasoning_effort", "stop", "stream_options", "temperature"),
    "tool_choice",
)
_REFUSED = re.compile(
    r"not support|unsupported|unrecogni[sz]ed|unknown|extra inputs|not permitted|unexpected keyword"
    r"|deprecated for this model|only \S+ is allowed"
)
"""How providers say that a model does not take a parameter, or not the value it was given."""
_UNCLOSED = re.compile(r"<(?:think|thinking)>.*\Z", re.DOTALL)
_REASONING = (
    re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL),
    re.compile(r"\A.*</(?:think|thinking)>", re.DOTALL),
    _UNCLOSED,
)
"""Blocks of reasoning: whole ones, then what stands before a lone end, then what follows a lone beginning."""
_SNAPSHOT = re.compile(r"-(\d{4}-\d{2}-\d{2}|\d{4})$")
_LONGEST_QUOTE = 300
_CHARACTERS = 16
"""Characters of a reply that are read for each token it may have; four are usual."""


@dataclass(frozen=True, slots=True)
class ModelCall:
    """A request: messages, or the text of one; the words that end its reply, or its tools.

    `schemas` are OpenAI function schemas; with some, native tool calls are requested, several at a time where
    they may be `parallel`.
    """

    messages: Sequence[Message] | str
    stop: Sequence[str] = ()
    schemas: Sequence[Mapping[str, Any]] = ()
    parallel: bool = False


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered.

    Attributes:
        text: the answer without reasoning blocks, cut before any stop word; may be empty.
        tool_calls: name and arguments of native tool calls, in order.
        invalid_calls: tool calls whose arguments are not a JSON object: (name, the arguments as written).
        truncated: whether the reply ended at the limit of tokens.
    """

    text: str
    tool_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    usage: Usage = field(default_factory=Usage)
    invalid_calls: tuple[tuple[str, str], ...] = ()
    truncated: bool = False


def estimate_tokens(texts: Iterable[str]) -> int:
    """Return the tokens of some messages where the server reports none: one per 4 UTF-8 bytes, 4 per message.

    An estimate on purpose: exact counting needs the model's own tokenizer, which would be downloaded.
    """
    return sum(4 + -(-len(text.encode()) // 4) for text in texts)


class Price(BaseModel):
    """List price of a model, in USD per million tokens."""

    input: float = Field(ge=0, allow_inf_nan=False)
    output: float = Field(ge=0, allow_inf_nan=False)


class Prices(BaseModel):
    """List prices by model name, as a file has them."""

    models: dict[str, Price]

    def cost(self, model: str, input_tokens: int, output_tokens: int) -> float | None:
        """Return the USD of a call; None, never 0, for a model that has no price."""
        price = self.models.get(model) or self.models.get(_SNAPSHOT.sub("", model))
        if price is None:
            return None
        return (input_tokens * price.input + output_tokens * price.output) / 1_000_000


@lru_cache(maxsize=8)
def load_prices(path: str | None = None) -> Prices:
    """Return the shipped price table, with a user's file of the same form laid over it.

    Raises `DataError` where the file cannot be read or names no prices; it says where.
    """
    text = (files("triplewise.nodes") / "pricing.yaml").read_text(encoding="utf-8")
    shipped = parse_yaml(text, "pricing.yaml").read_as(Prices)
    if path is None:
        return shipped
    return Prices(models={**shipped.models, **read_yaml(Path(path)).read_as(Prices).models})


@dataclass(frozen=True, slots=True)
class Server:
    """A model of an OpenAI-compatible server, and how it is called. The key is never shown.

    Attributes:
        model: the server's name of it. api_key_env: the environment variable that the key comes from.
        timeout: seconds without any answer before a try counts as failed.
        max_retries: further tries after the first on 429, 5xx, time-outs and broken connections.
        temperature, reasoning_effort: left out for models that refuse them. max_tokens: longest reply.
        reply: what the server answers with, for messages.
    """

    model: str
    base_url: str = field(repr=False)
    api_key: str = field(repr=False)
    api_key_env: str
    timeout: float = 60.0
    max_retries: int = 4
    temperature: float = 0.0
    max_tokens: int = MAX_TOKENS
    reasoning_effort: str | None = None
    reply: str = "chat completion"

    @property
    def where(self) -> str:
        """The server, for messages: its address without any password that stands in it."""
        parts = urlsplit(self.base_url)
        return f"the model server at {parts._replace(netloc=parts.netloc.rpartition('@')[2]).geturl()}"

    @property
    def is_openai(self) -> bool:
        """Whether it is OpenAI's own, in whatever region."""
        return f".{urlsplit(self.base_url).hostname}".endswith(".api.openai.com")


def find_server(model: str, base_url: str | None, api_key_env: str, **settings: Any) -> Server:
    """Return the server of a model, with the address and the key that the environment holds.

    Args:
        model: the server's name of it.
        base_url: e.g. `http://localhost:8000/v1`; None takes OPENAI_BASE_URL, then OpenAI.
        api_key_env: environment variable of the key. Servers other than OpenAI need none.
        settings: further ones of `Server`.

    Raises:
        ConfigurationError: the URL is none, or OpenAI would refuse to answer without a key.
    """
    url = whole_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).strip().rstrip("/")
    split_url(url, "base_url", "http://localhost:8000/v1")
    key = os.environ.get(api_key_env, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigurationError(f"the key in {api_key_env} holds characters no key has; copy it again")
    remember(key)
    server = Server(model, url, key or "no-key", api_key_env, **settings)
    if not key and server.is_openai:
        raise ConfigurationError(
            f"no key for {url}: set environment variable {api_key_env}, or give base_url of a server "
            'that needs none, or use model="embedded"'
        )
    return server


def split_model(model: str) -> tuple[str, str]:
    """Return provider and name of a model. Raises `ConfigurationError` where it is not `provider:NAME`."""
    provider, _, name = (part.strip() for part in model.partition(":"))
    if provider and name:
        return provider, name
    raise ConfigurationError(
        f"{model!r} is no language model; give openai:NAME, e.g. openai:gpt-4o-mini, or provider:NAME for "
        "another provider's LangChain package"
    )


def open_model(
    model: str,
    base_url: str | None = None,
    api_key_env: str = "OPENAI_API_KEY",
    prices: str | None = None,
    **settings: Any,
) -> ChatModel:
    """Return a language model, opened once per settings. Nothing is sent before the first call.

    Args:
        model: `openai:NAME`, for any server that speaks the OpenAI API, or `provider:NAME`, through the
            LangChain package of the provider, which finds its key itself.
        base_url, api_key_env, settings: see `find_server`.
        prices: price table to lay over the shipped one.

    Raises:
        ConfigurationError: unknown form of model, missing package or key, or a base URL that is none.
        DataError: the price table cannot be read.
    """
    provider, name = split_model(model)
    remember_environment()
    if provider == "openai":
        return _opened(find_server(name, base_url, api_key_env, **settings), prices)
    address = whole_url(base_url) if base_url is not None else None
    given = {"max_tokens": MAX_TOKENS, **settings, "base_url": address}
    items = sorted((name, value) for name, value in given.items() if value is not None)
    return _opened_by_provider(provider, name, tuple(items), prices)


@lru_cache(maxsize=32)
def _opened(server: Server, prices: str | None) -> ChatModel:
    """Return one model per settings, so that connections are reused."""
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    chat = ChatOpenAI(
        model=server.model,
        base_url=server.base_url,
        api_key=SecretStr(server.api_key),
        timeout=server.timeout,
        max_retries=server.max_retries,
        use_responses_api=False,
        stream_usage=True,
    )
    return ChatModel(chat, server.model, prices, server)


@lru_cache(maxsize=32)
def _opened_by_provider(
    provider: str, name: str, settings: tuple[tuple[str, Any], ...], prices: str | None
) -> ChatModel:
    """Return one model per settings; those that it turns out not to take are left out."""
    from langchain_core._api import suppress_langchain_deprecation_warning
    from pydantic import ValidationError

    # Both have the function; the second comes with langchain-community and warns that it is the older one.
    package = "langchain" if find_spec("langchain") else "langchain_classic"
    open_chat = import_module(f"{package}.chat_models").init_chat_model

    def reopen(dropped: AbstractSet[str]) -> BaseChatModel:
        left = {setting: value for setting, value in settings if setting not in dropped}
        try:
            with suppress_langchain_deprecation_warning():
                chat: BaseChatModel = open_chat(name, model_provider=provider, **left)
                return chat
        except Exception as error:  # each package reports a missing key by an error of its own
            if isinstance(error, ValidationError):
                extra = {str(e["loc"][0]) for e in error.errors() if e["type"] == "extra_forbidden"}
                if extra & left.keys():
                    return reopen(extra | dropped)
            raise ConfigurationError(f"{provider}:{name} cannot be opened: {_quote(error)}") from error

    return ChatModel(reopen(frozenset()), name, prices, reopen=reopen)


class ChatModel:
    """A language model, for any thread.

    Args:
        chat: any LangChain chat model. name: looked up among the prices; "" takes the chat model's own.
        prices: price table to lay over the shipped one.
        server: of a model behind the OpenAI API; None for any other.
        reopen: gives the model without the settings that it refused; None for one that the caller made.
    """

    def __init__(
        self,
        chat: BaseChatModel,
        name: str = "",
        prices: str | None = None,
        server: Server | None = None,
        reopen: Callable[[AbstractSet[str]], BaseChatModel] | None = None,
    ) -> None:
        names = (name, getattr(chat, "model_name", None), getattr(chat, "model", None), type(chat).__name__)
        self.chat, self.name, self.server = chat, str(next(filter(None, names))), server
        self._prices, self._reopen = load_prices(prices), reopen
        # Shared by all runs: a parameter that the model does not know is refused only once.
        self._dropped: set[str] = set()

    def __repr__(self) -> str:
        return f"ChatModel({self.name}{f', {self.server.where}' if self.server else ''})"

    def reply(self, call: ModelCall, deadline: Deadline | None = None) -> Reply:
        """Return the reply, waiting in this thread until the deadline has passed or is cancelled.

        Raises:
            ConfigurationError: the person must set something right (key, model name, address).
            ModelUnavailableError: the server gave no usable reply after all retries.
            OutOfTimeError: the seconds are over.
        """
        seconds = deadline.left if deadline is not None else None
        if seconds is not None and seconds <= 0:
            raise OutOfTimeError("the budget of seconds is spent")

        async def answered() -> AIMessage:
            async with asyncio.timeout(seconds):
                return await self._message(call)

        try:
            return self._read(wait_for(answered(), deadline), call)
        except TimeoutError:
            words = f"{self!r} did not answer within the {seconds:.1f} s left to the run"
            raise OutOfTimeError(words) from None

    async def _message(self, call: ModelCall) -> AIMessage:
        """Return the model's message; malformed ones and refused parameters lead to another request."""
        malformed = 0
        # Every provider's package has errors of its own.
        errors = (Exception,) if self._reopen else client_errors(self.server is not None)
        while True:
            chat, request = self._request(call)
            dropped = frozenset(self._dropped)  # other calls may drop more in the meantime
            try:
                message: AIMessage = await chat.ainvoke(call.messages, **request)
            except errors as error:
                if self._drop_parameter(error, dropped):
                    continue
                again = self.server is not None and is_malformed(error)
                malformed += again
                if not again or malformed > MALFORMED_RETRIES:
                    raise self._explained(error) from error
                continue
            text = _REASONING[0].sub("", self._text(message))
            is_stopped = message.response_metadata.get("finish_reason") == "stop"
            if not (call.stop and "stop" not in self._dropped and is_stopped and _UNCLOSED.search(text)):
                return message
            # A stop word ended the model's reasoning block: ask again without any.
            self._dropped.add("stop")

    def _drop_parameter(self, error: Exception, dropped: AbstractSet[str]) -> bool:
        """Whether the model refused a parameter that was sent; it is left out from now on."""
        parameter = unknown_parameter(error) if self.server or self._reopen else ""
        if not parameter or parameter in dropped:
            return False
        self._dropped.add(parameter)
        if self._reopen:
            self.chat = self._reopen(self._dropped)
        return True

    def _explained(self, error: Exception) -> TriplewiseError:
        """Return an error as one of ours. Its causes are not quoted: they may hold the key."""
        if self.server is not None:
            return explained(error, self.server)
        words, status = f"model {self.name} failed: {_quote(error)}", getattr(error, "status_code", 0)
        if self._reopen is None or status not in (0, None, 400, 401, 403, 404):
            return ModelUnavailableError(words)
        kind = ConfigurationError if status else ModelUnavailableError
        return kind(f"{words}; check its name, its address, and the key that its package reads")

    @property
    def _most(self) -> int:
        """Characters of a reply that are read."""
        return _CHARACTERS * (self.server.max_tokens if self.server else MAX_TOKENS)

    def _text(self, message: AIMessage) -> str:
        """Return the text of a message, cut before anything reads it: a server need not keep to a limit."""
        return str(message.text)[: self._most]

    def _request(self, call: ModelCall) -> tuple[Any, dict[str, Any]]:
        """Return what is invoked, and the request without parameters that this model refused before."""
        tools = [dict(s) if "function" in s else {"type": "function", "function": s} for s in call.schemas]
        request: dict[str, Any] = {"stop": list(call.stop) or None}
        chat: Any = self.chat
        if (server := self.server) is not None:
            request |= {"temperature": server.temperature, "reasoning_effort": server.reasoning_effort}
            if tools:
                request |= {"tools": tools, "tool_choice": "auto"}
                request["parallel_tool_calls"] = None if call.parallel else False
            # OpenAI knows only the new name of this limit, most other servers only the old one.
            if server.is_openai != ("max_tokens" in self._dropped):
                request["max_completion_tokens"] = server.max_tokens
            else:
                request["extra_body"] = {"max_tokens": server.max_tokens}
        elif tools:
            try:
                chat = chat.bind_tools(tools)
            except NotImplementedError:
                raise ConfigurationError(
                    f'model {self.name} has no tool calls; use calling="react"'
                ) from None
        return chat, {k: v for k, v in request.items() if v is not None and k not in self._dropped}

    def _read(self, message: AIMessage, call: ModelCall) -> Reply:
        """Return the reply, with tokens as reported, or estimated where the server reports none."""
        text, used = self._text(message), message.usage_metadata
        tokens_in, tokens_out = (_count(used, f"{way}put_tokens") for way in ("in", "out"))
        is_cut = len(text) < len(str(message.text))
        if estimated := min(tokens_in, tokens_out) < 0 or not (tokens_in or tokens_out):
            given = call.messages
            texts = [given] if isinstance(given, str) else [m["content"] for m in given]
            tokens_in = estimate_tokens([*texts, *map(json.dumps, call.schemas)])
            tokens_out = estimate_tokens([text, *(json.dumps(c["args"]) for c in message.tool_calls)])
        cost = self._prices.cost(self.name, tokens_in, tokens_out)
        for block in _REASONING:
            text = block.sub("", text)
        text = "\n".join(map(one_line, text.split("\n"))).strip()
        # Not every server honours stop words.
        ends = [at for word in call.stop if word and (at := text.find(word)) >= 0]
        return Reply(
            text=text[: min(ends)].rstrip() if ends else text,
            tool_calls=tuple((c["name"], dict(c["args"])) for c in message.tool_calls),
            invalid_calls=tuple(
                (c["name"] or "", (c["args"] or "")[: self._most]) for c in message.invalid_tool_calls
            ),
            usage=Usage(1, tokens_in, tokens_out, cost, estimated),
            # Anthropic and Ollama say it under names of their own.
            truncated=is_cut
            or not {"length", "max_tokens", "MAX_TOKENS"}.isdisjoint(
                str(message.response_metadata.get(name))
                for name in ("finish_reason", "stop_reason", "done_reason")
            ),
        )


def _count(used: Mapping[str, Any] | None, name: str) -> int:
    """Return a number of tokens as a server reports it, which may be a text or a float; 0 for none."""
    try:
        return int(float((used or {})[name]))
    except (KeyError, TypeError, ValueError, OverflowError):
        return 0


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop that all calls are made on, in a thread of its own."""
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="triplewise-models", daemon=True).start()
    return loop


def wait_for(coroutine: Coroutine[Any, Any, T], deadline: Deadline | None = None) -> T:
    """Run a coroutine on that loop and wait in this thread; it is given up with the wait.

    Raises `OutOfTimeError` when the deadline is cancelled.
    """
    with _STARTING:  # two first calls at a time would start one loop each
        future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        with deadline.waking(future.cancel) if deadline is not None else nullcontext():
            return future.result()
    except CancelledError:
        raise OutOfTimeError("the run was cancelled") from None
    finally:
        future.cancel()


_STARTING = threading.Lock()


def _forget_all() -> None:
    """Leave loop and clients to the parent: their thread and connections are not those of a child."""
    global _STARTING
    _STARTING = threading.Lock()
    for opened in (_loop, _opened, _opened_by_provider):
        opened.cache_clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_all)


@cache
def client_errors(own: bool) -> tuple[type[Exception], ...]:
    """What a call can fail with; the built-in ones are how our own client reports a malformed reply."""
    import openai
    from langchain_core.exceptions import ModelError

    builtin = (ValueError, TypeError, KeyError, IndexError, AttributeError) if own else ()
    return (openai.OpenAIError, ModelError, *builtin)


def is_malformed(error: Exception) -> bool:
    """Return whether a reply was HTTP 200 but nothing that the client could read."""
    import openai

    return not isinstance(error, openai.APIError) or isinstance(error, openai.APIResponseValidationError)


def unknown_parameter(error: Exception) -> str:
    """Return the optional parameter that a model does not take, "" if that is not what is wrong."""
    if getattr(error, "status_code", None) not in (400, 422) and not isinstance(error, TypeError):
        return ""
    code, param = getattr(error, "code", None), getattr(error, "param", None)
    words = f"{code} {_server_words(error)}".lower()
    if not _REFUSED.search(words):
        return ""
    named = f"{str(param or '').split('.')[0]} {words}".replace("max_completion_tokens", "max_tokens")
    places = {p: match.start() for p in _OPTIONAL if (match := re.search(rf"\b{p}\b", named))}
    return min(places, key=places.__getitem__, default="")


def explained(error: Exception, server: Server) -> TriplewiseError:
    """The error that says what happened and who acts: the person (`ConfigurationError`), or nobody."""
    import openai

    where, tries = server.where, f"given up after {server.max_retries + 1} tries"
    if isinstance(error, openai.APITimeoutError):
        return ModelUnavailableError(f"{where} did not answer within {server.timeout:g} s; {tries}")
    if isinstance(error, openai.APIConnectionError):
        causes = list(_causes(error))
        words = _quote("; ".join(dict.fromkeys(str(cause) for cause in causes if str(cause))))
        lasting = (ConnectionRefusedError, socket.gaierror, ssl.SSLCertVerificationError)
        if any(isinstance(cause, lasting) for cause in causes):
            return ConfigurationError(
                f"{where} cannot be reached ({words}): is the server running, and is its address right?"
            )
        return ModelUnavailableError(f"the connection to {where} failed ({words}); {tries}")
    if not isinstance(error, openai.APIStatusError):
        if not is_malformed(error):
            return ModelUnavailableError(f"{where} broke off: {_quote(error)}")
        kind = type(error).__name__
        return ModelUnavailableError(
            f"{where} sent a reply that is no {server.reply} ({kind}: {_quote(error)})"
        )
    status, words = error.status_code, _quote(_server_words(error))
    text = f"{where} refused the request (HTTP {status}: {words})"
    key = f"check the key in environment variable {server.api_key_env}, and that it may use this model"
    missing = f"check model {server.model!r} and the base URL, which usually ends in /v1"
    advice = {401: key, 403: key, 404: missing}
    if status == 429 and error.code == "insufficient_quota":
        advice[429] = "top up this key's account, or use another key"
    if status in advice:
        return ConfigurationError(f"{text}: {advice[status]}")
    if status in (408, 409, 425, 429) or status >= 500:
        delay = error.response.headers.get("retry-after", "")
        wait = f"it asks to wait {delay} s: run again later" if delay.isdigit() and int(delay) > 60 else tries
        return ModelUnavailableError(f"{text}; {wait}")
    lowered = words.lower()
    if error.code == "context_length_exceeded" or re.search(r"context (length|window|size)", lowered):
        fix = "use a model with a longer context, fewer steps, or a smaller observation"
        return ModelUnavailableError(f"{text}; {fix}")
    if re.search(r"\btools?\b|tool[_ -](choice|call)|function call", lowered):
        text += '; if this model has no tool calls, use calling="react"'
    return ConfigurationError(text)


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield the exception and everything that led to it, async clients' groups included."""
    while error is not None:
        yield error
        for inner in getattr(error, "exceptions", ()):
            yield from _causes(inner)
        error = error.__cause__ or error.__context__


def _server_words(error: Exception) -> str:
    """Return the server's own message, without the client's wrapping."""
    body, message = getattr(error, "body", None), getattr(error, "message", error)
    if isinstance(body, dict):
        body = body.get("message") or body.get("detail")
    return str(body or message)


def _quote(words: object) -> str:
    """Foreign words on one line, cut to a readable length."""
    text = redact(" ".join(str(words).split()))
    return text if len(text) <= _LONGEST_QUOTE else f"{text[:_LONGEST_QUOTE]}..."
