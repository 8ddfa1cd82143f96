"""Language models behind any OpenAI-compatible server, through langchain-openai's Chat Completions.

The wrapper adds what a long run needs: bounded retries that can be told apart from mistakes of the
person, replies cleaned of reasoning blocks, and usage that is counted whether or not the server reports it.
"""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

from triplewise.nodes.model_errors import Attempts, MalformedReplyError
from triplewise.nodes.model_settings import ModelSettings, api_key_for, base_url_for, model_name
from triplewise.nodes.usage import Usage, estimate_tokens, load_prices, prices_path

if TYPE_CHECKING:
    from langchain_core.messages import AIMessage, BaseMessage
    from langchain_openai import ChatOpenAI

Message = Mapping[str, Any]
"""A chat message in OpenAI's form: `{"role": "user", "content": "..."}`."""

ToolCall = tuple[str, dict[str, Any]]
"""Name and arguments of a native tool call."""

_THOUGHT = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL)
_UNOPENED = re.compile(r"\A.*</(?:think|thinking)>", re.DOTALL)
_UNCLOSED = re.compile(r"<(?:think|thinking)>.*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Reply:
    """What a model answered.

    Attributes:
        text: the answer without reasoning blocks, cut before any stop word; may be empty.
        tool_calls: native tool calls, in order.
        invalid_calls: tool calls whose arguments are not a JSON object: (name, the arguments as written).
        usage: one call, its tokens and its cost.
        truncated: whether the reply ended at the limit of tokens (`finish_reason` is `length`).
        attempts: how many requests it took.
        seconds: wall-clock time, waits between the attempts included.
    """

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage = field(default_factory=Usage)
    invalid_calls: tuple[tuple[str, str], ...] = ()
    truncated: bool = False
    attempts: int = 1
    seconds: float = 0.0


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
    backoff: float = 0.5,
    max_wait: float = 60.0,
    stream: bool = False,
    prices: str | Path | None = None,
) -> ChatModel:
    """A language model, opened once per settings. Nothing is sent before the first call.

    Args:
        model: `openai:NAME`, for any server that speaks the OpenAI API.
        base_url: of the server, e.g. `http://localhost:8000/v1`; None takes OPENAI_BASE_URL, then OpenAI.
        api_key: None takes environment variable `api_key_env`. Servers other than OpenAI need none.
        temperature: 0 for repeatable runs. Left out for models that refuse it.
        max_tokens: longest reply.
        timeout: seconds without any answer before a try counts as failed.
        max_retries: further tries after the first on 429, 5xx, time-outs and lost connections.
        api_key_env: the environment variable meant by `api_key=None`.
        backoff: seconds before the first retry, doubled for each further one.
        max_wait: longest single wait in seconds; a server that asks for more ends the call.
        stream: receive replies as a stream, for gateways that cut long silent requests.
        prices: price table to lay over the shipped one; None takes TRIPLEWISE_PRICES.

    Raises:
        ConfigurationError: unknown form of model, missing key, or a base URL that is none.
        DataError: the price table cannot be read.
    """
    name, url = model_name(model), base_url_for(base_url)
    settings = ModelSettings(
        name=name,
        base_url=url,
        api_key=api_key_for(api_key, api_key_env, url),
        api_key_env=api_key_env,
        temperature=temperature,
        max_tokens=max_tokens,
        timeout=timeout,
        max_retries=max_retries,
        backoff=backoff,
        max_wait=max_wait,
        stream=stream,
        prices=prices_path(prices),
    )
    return _cached(settings)


@lru_cache(maxsize=32)
def _cached(settings: ModelSettings) -> ChatModel:
    """One model per settings, so that connections are reused."""
    return ChatModel(settings)


class ChatModel:
    """A language model that can be asked, from any thread and any event loop.

    Every method raises `ConfigurationError` for what the person must mend (key, model name, address) and
    `ModelUnavailableError` when the server gave no usable reply after all retries.
    """

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.prices = load_prices(settings.prices)
        self._dropped: set[str] = set()
        self._state = {"reachable": False}
        self.record: Callable[[Usage], None] = lambda usage: None
        self._client: ChatOpenAI | None = None
        # Connections of an async client die with the event loop they were made in.
        self._async_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, ChatOpenAI] = WeakKeyDictionary()

    def session(self, record: Callable[[Usage], None]) -> Self:
        """The same model, telling `record` what each reply used."""
        session = copy(self)
        session.record = record
        return session

    def __repr__(self) -> str:
        return f"ChatModel(openai:{self.settings.name}, {self.settings.where})"

    def complete(self, messages: Sequence[Message], *, stop: Sequence[str] | None = None) -> Reply:
        """Ask for text, ended before any of the `stop` words."""
        return self._ask(messages, None, tuple(stop or ()))

    def call_tools(
        self, messages: Sequence[Message], schemas: Sequence[Mapping[str, Any]], *, choice: str = "auto"
    ) -> Reply:
        """Ask for native tool calls. `schemas` are OpenAI function schemas; `choice` may be `required`."""
        return self._ask(messages, schemas, (), choice)

    async def acomplete(self, messages: Sequence[Message], *, stop: Sequence[str] | None = None) -> Reply:
        """`complete` without blocking the event loop."""
        return await self._aask(messages, None, tuple(stop or ()))

    async def acall_tools(
        self, messages: Sequence[Message], schemas: Sequence[Mapping[str, Any]], *, choice: str = "auto"
    ) -> Reply:
        """`call_tools` without blocking the event loop."""
        return await self._aask(messages, schemas, (), choice)

    def _ask(
        self,
        messages: Sequence[Message],
        schemas: Sequence[Mapping[str, Any]] | None,
        stop: tuple[str, ...],
        choice: str = "auto",
    ) -> Reply:
        """One reply, however many tries it takes."""
        client = self._sync_client()
        exchange, attempts = _Exchange(messages, schemas, stop, choice, self), self._attempts()
        while True:
            try:
                message = client.invoke(exchange.messages, **exchange.request())
                return exchange.finish(message, attempts.made)
            except client_errors() as error:
                time.sleep(attempts.delay(error))

    async def _aask(
        self,
        messages: Sequence[Message],
        schemas: Sequence[Mapping[str, Any]] | None,
        stop: tuple[str, ...],
        choice: str = "auto",
    ) -> Reply:
        """`_ask`, awaited."""
        client = self._async_client()
        exchange, attempts = _Exchange(messages, schemas, stop, choice, self), self._attempts()
        while True:
            try:
                # Nobody closes kept connections when a loop ends, so none are kept.
                request = {**exchange.request(), "extra_headers": {"Connection": "close"}}
                return exchange.finish(await client.ainvoke(exchange.messages, **request), attempts.made)
            except client_errors() as error:
                await asyncio.sleep(attempts.delay(error))

    def _attempts(self) -> Attempts:
        """The tries of a new call."""
        return Attempts(self.settings, self._dropped, reachable=self._state["reachable"])

    def _sync_client(self) -> ChatOpenAI:
        """The client all threads share, made at the first call."""
        if self._client is None:
            self._client = _chat_openai(self.settings)
        return self._client

    def _async_client(self) -> ChatOpenAI:
        """The client of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._async_clients:
            self._async_clients[loop] = _chat_openai(self.settings, own_async_client=True)
        return self._async_clients[loop]

    def answered(self) -> None:
        """The server was reached: from now on a refused connection is worth a retry."""
        self._state["reachable"] = True

    @property
    def dropped(self) -> set[str]:
        """Request parameters this model turned out not to take."""
        return self._dropped


class _Exchange:
    """One question to a model: the request to send, and the reply made from what comes back."""

    def __init__(
        self,
        messages: Sequence[Message],
        schemas: Sequence[Mapping[str, Any]] | None,
        stop: tuple[str, ...],
        choice: str,
        model: ChatModel,
    ) -> None:
        from langchain_core.messages import convert_to_messages

        # Made before any try, so that a mistake in our messages never looks like a broken reply.
        self.messages: list[BaseMessage] = convert_to_messages([dict(m) for m in messages])
        self.texts = [json.dumps(m.get("content"), ensure_ascii=False) for m in messages]
        self.tools = [_tool(s) for s in schemas or ()]
        self.stop, self.choice, self.model = stop, choice, model
        self.start = time.perf_counter()

    def request(self) -> dict[str, Any]:
        """Keyword arguments of the call, without the parameters this model refused before."""
        settings, dropped = self.model.settings, self.model.dropped
        request: dict[str, Any] = {"temperature": settings.temperature, "stop": list(self.stop) or None}
        if self.tools:
            request |= {"tools": self.tools, "tool_choice": self.choice, "parallel_tool_calls": False}
        request = {k: v for k, v in request.items() if v is not None and k not in dropped}
        # OpenAI knows only the new name of this limit, most other servers only the old one.
        new_name = settings.is_openai != ("max_tokens" in dropped)
        limit = settings.max_tokens
        return request | (
            {"max_completion_tokens": limit} if new_name else {"extra_body": {"max_tokens": limit}}
        )

    def finish(self, message: AIMessage, attempts: int) -> Reply:
        """The reply, its usage recorded. Raises `MalformedReplyError` if the stop word hit the reasoning."""
        self.model.answered()
        raw, metadata = str(message.text), message.response_metadata
        if self.stop and "stop" not in self.model.dropped and _thought_was_stopped(raw, metadata):
            self.model.dropped.add("stop")
            raise MalformedReplyError("a stop word ended the model's reasoning block; asked again without")
        usage = self._usage(message, raw)
        self.model.record(usage)
        return Reply(
            text=_cut(without_thoughts(raw), self.stop),
            tool_calls=tuple((c["name"], dict(c["args"])) for c in message.tool_calls),
            invalid_calls=tuple((c["name"] or "", c["args"] or "") for c in message.invalid_tool_calls),
            usage=usage,
            truncated=metadata.get("finish_reason") == "length",
            attempts=attempts,
            seconds=time.perf_counter() - self.start,
        )

    def _usage(self, message: AIMessage, raw: str) -> Usage:
        """One call, with tokens as reported, or estimated where the server reports none."""
        reported = message.usage_metadata
        estimated = reported is None or not (reported["input_tokens"] or reported["output_tokens"])
        if reported is None or estimated:
            calls = [json.dumps(c["args"]) for c in message.tool_calls]
            tokens_in = estimate_tokens([*self.texts, *(json.dumps(t) for t in self.tools)])
            tokens_out = estimate_tokens([raw, *calls])
        else:
            tokens_in, tokens_out = reported["input_tokens"], reported["output_tokens"]
        cost = self.model.prices.cost(self.model.settings.name, tokens_in, tokens_out)
        return Usage(1, tokens_in, tokens_out, cost, estimated)


def _chat_openai(settings: ModelSettings, own_async_client: bool = False) -> ChatOpenAI:
    """langchain-openai's client, with its own retries off: ours tell the causes apart."""
    import openai
    from langchain_openai import ChatOpenAI
    from pydantic import SecretStr

    extra: dict[str, Any] = {}
    if own_async_client:
        extra["http_async_client"] = openai.DefaultAsyncHttpxClient(timeout=settings.timeout)
    return ChatOpenAI(
        model=settings.name,
        base_url=settings.base_url,
        api_key=SecretStr(settings.api_key),
        timeout=settings.timeout,
        max_retries=0,
        use_responses_api=False,
        streaming=settings.stream,
        disable_streaming=not settings.stream,
        stream_usage=True,
        **extra,
    )


@lru_cache(maxsize=1)
def client_errors() -> tuple[type[Exception], ...]:
    """What a call can fail with. The built-in ones are how the client reports a malformed reply."""
    import openai

    return (
        openai.OpenAIError,
        MalformedReplyError,
        ValueError,
        TypeError,
        KeyError,
        IndexError,
        AttributeError,
    )


def _tool(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A function schema in the envelope that the API wants."""
    return dict(schema) if "function" in schema else {"type": "function", "function": dict(schema)}


def without_thoughts(text: str) -> str:
    """A reply without its reasoning blocks, also where the server sends only one of the two tags."""
    text = _UNOPENED.sub("", _THOUGHT.sub("", text))
    return _UNCLOSED.sub("", text).strip()


def _thought_was_stopped(raw: str, metadata: Mapping[str, Any]) -> bool:
    """Whether a stop word fell inside a reasoning block, so that nothing was answered."""
    return metadata.get("finish_reason") == "stop" and _UNCLOSED.search(_THOUGHT.sub("", raw)) is not None


def _cut(text: str, stop: Sequence[str]) -> str:
    """The text before the first stop word: not every server honours them."""
    ends = [at for word in stop if word and (at := text.find(word)) >= 0]
    return text[: min(ends)].rstrip() if ends else text
