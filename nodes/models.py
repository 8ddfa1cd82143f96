"""Language models and embeddings of any OpenAI-compatible server, and any LangChain chat model.

LangChain does retries, time-outs and usage. All calls run on one event loop in a background thread, where
they can be cancelled when the time of a run is up.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import socket
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field
from functools import cache, lru_cache
from itertools import cycle
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies

import httpx
import numpy as np
from langchain_core.messages import AIMessage
from langchain_core.messages.utils import count_tokens_approximately
from pydantic import SecretStr

from triplewise.nodes.context import Context
from triplewise.nodes.state import Usage
from triplewise.tools.core import errors, secrets
from triplewise.tools.core.addresses import split_url, usable_proxies, whole_url, without_login
from triplewise.tools.core.errors import ConfigurationError, ModelUnavailableError, OutOfTimeError
from triplewise.tools.core.files import packaged
from triplewise.tools.core.terms import one_line
from triplewise.tools.kg.protocol import Deadline
from triplewise.tools.retrieval.encoder import Encoder

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel
T = TypeVar("T")
Messages = Sequence[Mapping[str, str]] | str  # `{"role": "user", "content": "..."}`, or the text of one

MALFORMED_RETRIES = 2  # Retries after a reply that is not a chat completion, which the client does not retry
MAX_TOKENS = 1024  # Most tokens of a reply where nothing sets a limit
# A reply is read up to so many characters of text per token, and bytes per token plus a constant
CHARACTERS, BYTES, OTHER_BYTES = 16, 1024, 2**20
# Texts per embedding request, texts whose vectors are cached, most bytes of a reply with vectors
BATCH, CACHED_TEXTS, LONGEST_VECTORS = 256, 2_000, 64 * 2**20
# Connections to a server
LIMITS, POOLS = httpx.Limits(max_connections=1000, max_keepalive_connections=100), 16
# Optional parameters of a request, and how providers report that a model does not support one or its value
_OPTIONAL = ("max_tokens", "parallel_tool_calls", "reasoning_effort", "stop", "temperature")
_REFUSED = re.compile(
    r"not support|unsupported|unrecogni[sz]ed|unknown|extra inputs|not permitted|unexpected keyword"
    r"|deprecated for this model|only \S+ is allowed"
)
# Blocks of reasoning: complete ones, then text before a closing tag alone, then text after an opening one
_REASONING = (
    re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL),
    re.compile(r"\A.*</(?:think|thinking)>", re.DOTALL),
    re.compile(r"<(?:think|thinking)>.*\Z", re.DOTALL),
)


@dataclass(frozen=True, slots=True)
class Reply:
    """The text of a reply without reasoning, cut before any stop sequence, and its tool calls."""

    text: str
    tool_calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    usage: Usage = field(default_factory=Usage)
    invalid_calls: tuple[tuple[str, str], ...] = ()  # their arguments are not a JSON object
    truncated: bool = False  # the token limit cut it off


_packaged = cache(packaged)


def cost(model: str, input_tokens: int, output_tokens: int) -> float | None:
    """Return the USD of a call at list price; None, never 0, for a model without a listed price."""
    prices = _packaged("triplewise.nodes", "pricing.yaml")["models"]
    undated = re.sub(r"-(\d{4}-\d{2}-\d{2}|\d{4})$", "", model)
    if (price := prices.get(model) or prices.get(undated)) is None:
        return None
    return float(input_tokens * price["input"] + output_tokens * price["output"]) / 1e6


class ReplyTooLongError(Exception):
    """A server sent more bytes than a reply within the token limit can have."""


class _Limited(httpx.AsyncByteStream):
    """A response body that raises `ReplyTooLongError` after `left` bytes."""

    def __init__(self, whole: Any, left: int) -> None:
        self.whole, self.left = whole, left

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self.whole:
            self.left -= len(chunk)
            if self.left < 0:
                raise ReplyTooLongError("more bytes than a reply takes")
            yield chunk

    async def aclose(self) -> None:
        await self.whole.aclose()


class _Pools(httpx.AsyncBaseTransport):
    """Connection pools that take turns: for every request, a pool looks through all of its connections."""

    def __init__(self) -> None:
        context = httpx.create_ssl_context()
        self._pools = [httpx.AsyncHTTPTransport(verify=context, limits=LIMITS) for _ in range(POOLS)]
        self._turns = cycle(self._pools)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await next(self._turns).handle_async_request(request)

    async def aclose(self) -> None:
        for pool in self._pools:
            await pool.aclose()


@dataclass(frozen=True, slots=True)
class Server:
    """A model on an OpenAI-compatible server. The key is never shown."""

    model: str
    base_url: str = field(repr=False)
    api_key: str = field(repr=False)
    api_key_env: str
    timeout: float
    max_retries: int

    @property
    def where(self) -> str:
        """The server as messages name it: by its address, without a password in it."""
        return f"the model server at {without_login(self.base_url)}"

    def client_settings(self, most_bytes: int) -> dict[str, Any]:
        """Return settings for a langchain-openai client that reads at most `most_bytes` of a reply."""

        async def limit(response: httpx.Response) -> None:
            response.headers.pop("content-encoding", None)  # do not decompress: few bytes can become many
            response.stream = _Limited(response.stream, most_bytes)

        with usable_proxies():
            client = httpx.AsyncClient(
                event_hooks={"response": [limit]},
                headers={"Accept-Encoding": "identity"},
                limits=LIMITS,
                transport=None if getproxies() else _Pools(),  # the client makes its own for proxies
                follow_redirects=True,
            )
        own = {name: getattr(self, name) for name in ("model", "base_url", "timeout", "max_retries")}
        return {**own, "api_key": SecretStr(self.api_key), "http_async_client": client}


def find_server(model: str, own: Context) -> Server:
    """Return the server of a model; the key, and the address if not given, are environment variables."""
    url = own.base_url or os.environ.get("OPENAI_BASE_URL") or "https://api.openai.com/v1"
    url, variable = whole_url(url).strip().rstrip("/"), own.api_key_env
    split_url(url, "base_url", "http://localhost:8000/v1")
    key = os.environ.get(variable, "").strip()
    if not key.isascii() or not key.isprintable():
        raise ConfigurationError(f"the key in {variable} has characters that no key has; copy it again")
    secrets.remember(key)
    if not key and f".{urlsplit(url).hostname}".endswith(".api.openai.com"):  # of any region
        others = 'give base_url of a server that needs none, or use model="embedded"'
        raise ConfigurationError(f"no key for {url}: set environment variable {variable}, or {others}")
    return Server(model, url, key or "no-key", variable, own.model_timeout, own.model_retries)


def split_model(model: str) -> tuple[str, str]:
    """Return provider and name of a model. Raises `ConfigurationError` if it is not `provider:NAME`."""
    provider, _, name = (part.strip() for part in model.partition(":"))
    if provider and name:
        return provider, name
    forms = "openai:NAME, e.g. openai:gpt-4o-mini, or provider:NAME for another provider's LangChain package"
    raise ConfigurationError(f"{model!r} is not a language model; give {forms}")


def open_model(own: Context) -> ChatModel:
    """Return the language model of some settings, opened once. Nothing is sent before the first call.

    `model` is a LangChain chat model; `openai:NAME`, for any server with the OpenAI API; or `provider:NAME`,
    through the LangChain package of the provider, which finds its key itself.
    """
    if not isinstance(own.model, str):
        return ChatModel(own.model)
    provider, name = split_model(own.model)
    secrets.remember_environment()
    given: dict[str, Any] = {"max_tokens": own.max_reply_tokens, "temperature": own.temperature}
    given |= {"reasoning_effort": own.reasoning_effort} if own.reasoning_effort else {}
    if provider == "openai":
        return _opened(provider, name, find_server(name, own), **given)
    given |= {"timeout": own.model_timeout, "max_retries": own.model_retries}
    address = {"base_url": whole_url(own.base_url)} if own.base_url is not None else {}
    return _opened(provider, name, None, **given, **address)


@lru_cache(maxsize=32)
def _opened(provider: str, name: str, server: Server | None, **given: Any) -> ChatModel:
    if server is not None:
        from langchain_openai.chat_models.base import BaseChatOpenAI

        client = server.client_settings(OTHER_BYTES + BYTES * given["max_tokens"])
        # This client sends `max_tokens`, which most servers know; `ChatModel` renames it where it is refused.
        plain = {"use_responses_api": False, "stream_usage": True, "http_socket_options": ()}
        return ChatModel(BaseChatOpenAI(**client, **given, **plain), name, server)
    from langchain_classic.chat_models import init_chat_model
    from langchain_core._api import suppress_langchain_deprecation_warning

    try:
        with suppress_langchain_deprecation_warning():
            return ChatModel(init_chat_model(name, model_provider=provider, **given), name)
    except Exception as error:  # each package reports a missing key by an error of its own
        raise ConfigurationError(f"{provider}:{name} cannot be opened: {_words(error)}") from error


class ChatModel:
    """A thread-safe language model; `name` is the one its price is listed under, "" the chat model's own."""

    def __init__(self, chat: BaseChatModel, name: str = "", server: Server | None = None) -> None:
        names = (name, getattr(chat, "model_name", None), getattr(chat, "model", None), type(chat).__name__)
        self.chat, self.name, self.server = chat, str(next(filter(None, names))), server
        self._max_tokens = getattr(chat, "max_tokens", None) or MAX_TOKENS
        self._refused: set[str] = set()  # Parameters that the model does not support, remembered for all runs

    def __repr__(self) -> str:
        return f"ChatModel({self.name}{f', {self.server.where}' if self.server else ''})"

    def reply(
        self,
        messages: Messages,
        deadline: Deadline | None = None,
        *,
        stop: Sequence[str] = (),
        schemas: Sequence[Mapping[str, Any]] = (),
        parallel: bool = False,
    ) -> Reply:
        """Return the reply, waiting in this thread until the deadline has passed or is cancelled.

        `stop` sequences end it; with `schemas` (OpenAI functions) native tool calls are requested, `parallel`
        ones too. Raises `ConfigurationError` if the user must fix something, `ModelUnavailableError` after
        all retries, and `OutOfTimeError` at the deadline.
        """
        if deadline is not None and deadline.passed:
            raise OutOfTimeError("the budget of seconds is spent")
        tools = [dict(s) if "function" in s else {"type": "function", "function": s} for s in schemas]
        request: dict[str, Any] = {"stop": list(stop)} if stop else {}
        if tools and self.server is not None and not parallel:
            request["parallel_tool_calls"] = False
        message = wait_for(self._message(messages, request, tools), deadline)
        return self._read(message, [messages] if isinstance(messages, str) else messages, tools, stop)

    async def _message(self, messages: Messages, request: dict[str, Any], tools: list[Any]) -> AIMessage:
        """Return the model's message; retry malformed ones, and without parameters that were refused."""
        malformed = 0
        while True:
            sent = {name: value for name, value in request.items() if name not in self._refused}
            if "max_tokens" in self._refused and self.server is not None:
                sent["max_completion_tokens"] = self._max_tokens
            chat = self.chat
            bound: Any = chat.bind_tools(tools) if tools else chat
            try:
                reply = await bound.ainvoke(messages, **sent)
                # One of another role than the assistant's is the model's all the same.
                message = reply if isinstance(reply, AIMessage) else AIMessage(reply.content)
            except ReplyTooLongError:
                return AIMessage("", response_metadata={"finish_reason": "length"})
            except Exception as error:  # every provider's package has errors of its own
                name = refused_parameter(error)
                if name in sent or getattr(chat, name, None) is not None:
                    self._refused.add(name)
                    if name not in sent:
                        self.chat = self.chat.model_copy(update={name: None})
                    continue
                malformed += 1
                if not is_malformed(error) or malformed > MALFORMED_RETRIES:
                    # The causes are not quoted: they may hold the key.
                    raise explained(error, self.server, model=self.name) from error
                continue
            is_stopped = "stop" in sent and message.response_metadata.get("finish_reason") == "stop"
            if not (is_stopped and _REASONING[-1].search(_REASONING[0].sub("", self._text(message)))):
                return message
            # A stop sequence cut the block of reasoning: repeat the request without any.
            self._refused.add("stop")

    def _text(self, message: AIMessage) -> str:
        """Return the text of a message, cut to a safe length: servers may ignore the limit of tokens."""
        return _clean(str(message.text)[: CHARACTERS * self._max_tokens])

    def _read(self, message: AIMessage, sent: Sequence[Any], tools: list[Any], stop: Sequence[str]) -> Reply:
        """Return a message as a `Reply`; tokens are estimated where the server reports none."""
        text, used = self._text(message), dict[str, Any](message.usage_metadata or {})
        is_cut = len(str(message.text)) > (longest := CHARACTERS * self._max_tokens)
        counts = used.get("input_tokens", 0), used.get("output_tokens", 0)
        if estimated := not (any(counts) and all(isinstance(n, int) and 0 <= n < 2**53 for n in counts)):
            written = [message.model_copy(update={"content": text})]
            counts = count_tokens_approximately(sent, tools=tools), count_tokens_approximately(written)
        for block in _REASONING:
            text = block.sub("", text)
        text = "\n".join(map(one_line, text.split("\n"))).strip()
        # Not every server honours stop sequences.
        ends = [at for word in stop if word and (at := text.find(word)) >= 0]
        # Anthropic and Ollama have other names for the finish reason.
        reasons = {str(message.response_metadata.get(f"{n}_reason")) for n in ("finish", "stop", "done")}
        called = [(c["name"], json.dumps(c["args"], ensure_ascii=False)) for c in message.tool_calls]
        invalid = [(c["name"] or "", (c["args"] or "")[:longest]) for c in message.invalid_tool_calls]
        return Reply(
            text=text[: min(ends)].rstrip() if ends else text,
            tool_calls=tuple((_clean(name), json.loads(_clean(arguments))) for name, arguments in called),
            invalid_calls=tuple((_clean(name), _clean(arguments)) for name, arguments in invalid),
            usage=Usage(1, *counts, cost(self.name, *counts), estimated),
            truncated=is_cut or not reasons.isdisjoint({"length", "max_tokens", "MAX_TOKENS"}),
        )


class OpenAIEncoder(Encoder):
    """An `Encoder` on a server. Its cost is not counted: all of GrailQA is a cent (QueryAgent, B.3)."""

    deadline: Deadline | None = None  # of the run

    def __init__(self, server: Server) -> None:
        # The server is part of the name, which is the key of cached vectors.
        super().__init__(f"openai:{server.model}@{server.where.rpartition(' ')[2]}", 0, CACHED_TEXTS)
        from langchain_openai import OpenAIEmbeddings

        settings = server.client_settings(LONGEST_VECTORS)
        self.server = server
        self._client = OpenAIEmbeddings(check_embedding_ctx_length=False, chunk_size=BATCH, **settings)

    def _embed(self, texts: Sequence[str]) -> np.ndarray:
        sent = [text if text.strip() else " " for text in texts]  # servers refuse an empty text
        try:
            vectors = np.asarray(wait_for(self._client.aembed_documents(sent), self.deadline), np.float32)
            expected = len(texts), self._dimension or vectors.shape[-1]
            if vectors.shape != expected or not np.isfinite(vectors).all():
                raise ValueError(f"expected {len(texts)} vectors of equal length, got {vectors.shape}")
        except OutOfTimeError:
            raise
        except Exception as error:  # the client has errors of its own, and of its HTTP and JSON libraries
            raise explained(error, self.server, "list of embeddings") from error
        self._dimension = vectors.shape[1]
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, 1e-12), np.float32)


_encoder = lru_cache(maxsize=8)(OpenAIEncoder)


def open_embeddings(own: Context) -> OpenAIEncoder:
    """Return the embedding model of some settings, `NAME` or `openai:NAME`, opened once."""
    if not (name := own.ranking_model.removeprefix("openai:").strip()):
        raise ConfigurationError("setting ranking_model is empty; give e.g. text-embedding-3-small")
    return _encoder(find_server(name, own))


_STARTING = threading.Lock()


class _Loop(asyncio.SelectorEventLoop):
    """An event loop that looks names up in threads no exit waits for: a name server may never answer."""

    async def getaddrinfo(self, *address: Any, **settings: Any) -> Any:
        found: Future[Any] = Future()

        def look_up() -> None:
            try:
                found.set_result(socket.getaddrinfo(*address, **settings))
            except Exception as error:  # noqa: BLE001 - raised where it is waited for
                found.set_exception(error)

        found.set_running_or_notify_cancel()
        threading.Thread(target=look_up, name="triplewise-names", daemon=True).start()
        return await asyncio.wrap_future(found, loop=self)


@cache
def _loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all calls, running in a background thread."""
    loop = _Loop()
    threading.Thread(target=loop.run_forever, name="triplewise-models", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):  # a forked process has neither the thread nor the connections
    for _open in (_loop, _opened):
        os.register_at_fork(after_in_child=_open.cache_clear)


def wait_for(coroutine: Coroutine[Any, Any, T], deadline: Deadline | None = None) -> T:
    """Run a coroutine on that loop and wait in this thread; `OutOfTimeError` at the deadline."""
    deadline = deadline or Deadline(threading.TIMEOUT_MAX)
    with _STARTING:  # two concurrent first calls would start a loop each
        future = asyncio.run_coroutine_threadsafe(coroutine, _loop())
    try:
        with deadline.waking(future.cancel):
            return future.result(min(seconds := deadline.left, threading.TIMEOUT_MAX))
    except CancelledError:
        raise OutOfTimeError("the run was cancelled") from None
    except TimeoutError:
        if not deadline.passed:
            raise
        raise OutOfTimeError(f"no answer within the {seconds:.1f} s left to the run") from None
    finally:
        future.cancel()


def is_malformed(error: Exception) -> bool:
    """Return whether the client failed to parse a reply with HTTP status 200."""
    import openai

    # Raised by the client's code on unexpected JSON; RecursionError by very deep nesting.
    parsing = (ValueError, TypeError, LookupError, RecursionError, AttributeError)
    return isinstance(error, (*parsing, openai.APIResponseValidationError))


def refused_parameter(error: Exception) -> str:
    """Return the optional parameter that a model does not support, "" for any other error."""
    if getattr(error, "status_code", None) not in (400, 422) and not isinstance(error, TypeError):
        return ""
    words = f"{getattr(error, 'code', None)} {_words(error)}".lower()
    named = f"{getattr(error, 'param', None) or ''} {words}".replace("max_completion_tokens", "max_tokens")
    first = re.search(rf"\b({'|'.join(_OPTIONAL)})\b", named)
    return first[0] if first and _REFUSED.search(words) else ""


def explained(
    error: Exception, server: Server | None, expected: str = "chat completion", model: str = ""
) -> errors.TriplewiseError:
    """Return our error for one of a client: what happened, and what to do; `expected` names the reply."""
    import openai

    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    for cause in causes:  # a traceback shows them
        cause.args = tuple(secrets.redact(a) if isinstance(a, str) else a for a in cause.args)
    status, code, words = getattr(error, "status_code", None), getattr(error, "code", None), _words(error)
    if server is None:
        if status not in (400, 401, 403, 404):
            return ModelUnavailableError(f"model {model} failed: {words}")
        advice = "check its name, its address, and the key that its package reads"
        return ConfigurationError(f"model {model} failed: {words}; {advice}")
    where, tries = server.where, f"given up after {server.max_retries + 1} tries"
    if isinstance(error, openai.APITimeoutError):
        return ModelUnavailableError(f"{where} did not answer within {server.timeout:g} s; {tries}")
    if isinstance(error, openai.APIConnectionError):
        words = _words("; ".join(dict.fromkeys(filter(None, map(str, causes)))))
        if not any(type(cause).__name__ == "ConnectError" for cause in causes):
            return ModelUnavailableError(f"the connection to {where} failed ({words}); {tries}")
        advice = "is the server running, and is its address right?"
        return ConfigurationError(f"{where} cannot be reached ({words}): {advice}")
    if status is None:
        is_unread = is_malformed(error) or isinstance(error, ReplyTooLongError)
        problem = f"did not send a {expected} ({type(error).__name__}: {words})" if is_unread else words
        return ModelUnavailableError(f"{where} {problem}")
    about, known = f"{status} {code} {words}".lower(), _packaged("triplewise.nodes", "refusals.yaml")
    refusal = next(one for one in known["refusals"] if re.search(one["pattern"], about))
    kind: type[errors.TriplewiseError] = getattr(errors, refusal["error"])
    advice = refusal["advice"].format(tries=tries, key=server.api_key_env, model=server.model)
    return kind(f"{where} refused the request (HTTP {status}: {words}){advice}")


def _clean(text: str) -> str:
    """Return a text that can be stored: without lone surrogates and without secrets."""
    return secrets.redact_data(text.encode(errors="replace")).decode()


def _words(error: object) -> str:
    """Return the message of a server in an error: on one line, without secrets, at most 300 characters."""
    message = getattr(error, "body", None)
    if isinstance(message, dict):
        message = message.get("message") or message.get("detail")
    text = secrets.redact(" ".join(str(message or getattr(error, "message", error)).split()))
    return text if len(text) <= 300 else f"{text[:300]}..."
