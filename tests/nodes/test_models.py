"""Language models over real HTTP, against a loopback server that replays and misbehaves."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import time
import traceback
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage

from tests.support.openai_server import Fault, OpenAIServer
from triplewise.nodes.context import Context
from triplewise.nodes.models import ChatModel, open_model
from triplewise.tools.core.errors import ConfigurationError, ModelUnavailableError, OutOfTimeError
from triplewise.tools.kg.protocol import Deadline

Start = Callable[..., OpenAIServer]
SCHEMAS = [
    {
        "name": "get_relation",
        "description": "Relations of a node.",
        "parameters": {"type": "object", "properties": {"node": {"type": "string"}}, "required": ["node"]},
    }
]
QUESTION = [{"role": "user", "content": "Which capital has Austria?"}]
STOP = ["\nObservation"]


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's retries, with hardly a wait between them."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


def model_on(server: OpenAIServer, model: str = "openai:scripted", **settings: Any) -> ChatModel:
    return open_model(Context(model=model, base_url=server.url, **{"model_retries": 3, **settings}))


def test_text_with_reported_usage(openai_server: Start) -> None:
    server = openai_server(["Vienna is the answer"])
    reply = model_on(server, temperature=0.3, max_reply_tokens=77).reply(QUESTION, stop=STOP)
    assert reply.text == "Vienna is the answer"
    assert (reply.usage.calls, reply.usage.input_tokens, reply.usage.output_tokens) == (1, 4, 4)
    assert (reply.usage.estimated, reply.truncated) == (False, False)
    body = server.requests[0].body
    assert body["messages"] == QUESTION
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("scripted", 0.3, 77)
    assert body["stop"] == ["\nObservation"]


def test_tool_calls(openai_server: Start) -> None:
    broken = {"tool_calls": [("get_relation", '{"node": "Q40"')]}
    server = openai_server([{"text": "Look.", "tool_calls": [("get_relation", {"node": "Q40"})]}, broken])
    reply = model_on(server).reply(QUESTION, schemas=SCHEMAS)
    assert (reply.text, reply.tool_calls) == ("Look.", (("get_relation", {"node": "Q40"}),))
    assert server.requests[0].body["tools"] == [{"type": "function", "function": SCHEMAS[0]}]
    mistaken = model_on(server).reply(QUESTION, schemas=SCHEMAS)
    assert (mistaken.tool_calls, mistaken.invalid_calls) == ((), (("get_relation", '{"node": "Q40"'),))


def test_one_model_serves_threads_and_event_loops(openai_server: Start) -> None:
    server = openai_server(lambda messages: messages[0]["content"], [Fault.SERVER_ERROR])
    model, calls = model_on(server), [str(i) for i in range(20)]
    assert model is model_on(server)
    assert model is not model_on(server, temperature=1.0)

    async def gathered() -> list[str]:
        return [
            reply.text for reply in await asyncio.gather(*(asyncio.to_thread(model.reply, c) for c in calls))
        ]

    for _ in range(2):
        assert asyncio.run(gathered()) == [str(i) for i in range(20)]
    with ThreadPoolExecutor(8) as pool:
        assert [reply.text for reply in pool.map(model.reply, calls)] == [str(i) for i in range(20)]


@pytest.mark.parametrize(
    "fault", [Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.CUT, Fault.CUT_BODY]
)
def test_passing_trouble_is_retried(openai_server: Start, fault: Fault) -> None:
    server = openai_server(["Vienna"], [fault, fault])
    reply = model_on(server, model_retries=2).reply(QUESTION)
    assert (reply.text, len(server.requests), reply.usage.calls) == ("Vienna", 3, 1)


@pytest.mark.parametrize("fault", [Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.CUT])
def test_lasting_trouble_ends_in_one_clear_error(openai_server: Start, fault: Fault) -> None:
    server = openai_server(["never"], [fault] * 9, retry_after=0)
    with pytest.raises(ModelUnavailableError, match=r"127\.0\.0\.1.*given up after 3 tries"):
        model_on(server, model_retries=2).reply(QUESTION)
    assert len(server.requests) == 3


def test_retry_after_is_honoured_within_reason(openai_server: Start) -> None:
    server = openai_server(["ok"], [Fault.RATE_LIMIT], retry_after=0.3)
    model_on(server).reply(QUESTION)
    assert server.requests[1].at - server.requests[0].at >= 0.3


def test_a_slow_server_times_out_and_is_retried(openai_server: Start) -> None:
    server = openai_server(["ok"], [Fault.SLOW], slow=120)
    assert model_on(server, model_timeout=1.0).reply(QUESTION).text == "ok"
    server = openai_server(["ok"], [Fault.SLOW] * 3, slow=5)
    with pytest.raises(ModelUnavailableError, match=r"did not answer within 0\.1 s; given up after 2 tries"):
        model_on(server, model_timeout=0.1, model_retries=1).reply(QUESTION)


BAD_BODIES = [
    Fault.MALFORMED,
    Fault.EMPTY_BODY,
    Fault.HTML,
    Fault.EMPTY_CHOICES,
    Fault.NULL_CHOICES,
    Fault.NULL_MESSAGE,
    Fault.DEEP,
]


@pytest.mark.parametrize("fault", BAD_BODIES)
def test_a_malformed_reply_is_asked_for_again_but_not_forever(openai_server: Start, fault: Fault) -> None:
    assert model_on(openai_server(["ok"], [fault, fault])).reply(QUESTION).text == "ok"
    server = openai_server(["ok"], [fault] * 9)
    with pytest.raises(ModelUnavailableError, match="did not send a chat completion"):
        model_on(server, model_retries=8).reply(QUESTION)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("", ""),
        (None, ""),
        ("Vienna\nObservation: made up", "Vienna"),  # the server ignores stop words
        ("<think>hm\nhm</think>\nVienna", "Vienna"),
        ("hm, so </think>Vienna", "Vienna"),
        ("<think>a</think>Vienna<think>b</think>", "Vienna"),
        ("Vien\ud800na", "Vien?na"),  # half a character
        ("<thinking>a</thinking>Vienna", "Vienna"),
    ],
)
def test_the_text_without_reasoning_and_what_follows_a_stop_word(
    openai_server: Start, raw: str | None, text: str
) -> None:
    assert model_on(openai_server([{"text": raw}])).reply(QUESTION, stop=STOP).text == text


def test_a_reply_may_be_cut_off(openai_server: Start) -> None:
    server = openai_server([{"text": "Vien", "finish_reason": "length"}, "<think>never ends"])
    assert model_on(server).reply(QUESTION).truncated
    assert model_on(server).reply(QUESTION).text == ""


def test_stop_word_inside_reasoning_is_not_the_end(openai_server: Start) -> None:
    server = openai_server(["<think>The", "<think>The Observation</think>Action: execute()\nObservation"])
    assert model_on(server).reply(QUESTION, stop=STOP).text == "Action: execute()"
    assert ["stop" in request.body for request in server.requests] == [True, False]


def test_the_key_comes_from_the_environment(openai_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = openai_server(["ok"], key="sk-right")
    for key in ("", "sk-wrong"):
        monkeypatch.setenv("MY_KEY", key)
        with pytest.raises(ConfigurationError, match="MY_KEY") as caught:
            model_on(server, api_key_env="MY_KEY").reply(QUESTION)
        # Nor in what the server says of it, which a traceback shows as the cause.
        assert "sk-wrong" not in "".join(traceback.format_exception(caught.value))
    assert len(server.requests) == 2
    monkeypatch.setenv("MY_KEY", " sk-right\n")
    model = model_on(server, api_key_env="MY_KEY")
    assert model.reply(QUESTION).text == "ok"
    assert "sk-right" not in f"{model!r} {model.server!r}"


@pytest.mark.parametrize(
    ("model", "url", "key", "message"),
    [
        ("openai:gpt-4o", None, "", "set environment variable MY_KEY"),
        ("openai:gpt-4o", None, "sk-ключ", "characters that no key has"),
        *((model, None, "x", "give openai:NAME") for model in ("gpt-4o", "embedded", "openai:", "")),
        *(("openai:x", url, "x", "base_url") for url in ("localhost:8000/v1", "ftp://x/v1", "http://")),
    ],
)
def test_mistakes_of_the_caller_are_told_before_anything_is_sent(
    monkeypatch: pytest.MonkeyPatch, model: str, url: str | None, key: str, message: str
) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(ConfigurationError, match=message):
        open_model(Context(model=model, base_url=url, api_key_env="MY_KEY"))


@pytest.mark.parametrize(
    ("reply", "kind", "message"),
    [
        (
            {"error": "maximum context length is 8", "code": "context_length_exceeded"},
            ModelUnavailableError,
            "longer context",
        ),
        ({"error": "scripted does not support tools"}, ConfigurationError, 'calling="react"'),
    ],
)
def test_requests_that_a_model_refuses(
    openai_server: Start, reply: dict[str, str], kind: type[Exception], message: str
) -> None:
    with pytest.raises(kind, match=message):
        model_on(openai_server([reply])).reply(QUESTION, schemas=SCHEMAS)


def test_a_model_that_the_server_has_not_and_an_account_without_quota(openai_server: Start) -> None:
    with pytest.raises(ConfigurationError, match="check model 'llama'"):
        model_on(openai_server(["ok"]), "openai:llama").reply(QUESTION)
    with pytest.raises(ConfigurationError, match="quota"):
        model_on(openai_server(["ok"], [Fault.QUOTA] * 9)).reply(QUESTION)


def test_servers_that_cannot_be_reached(openai_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    for address in (url, "http://me:secret@no-such-host.invalid/v1"):
        with pytest.raises(ConfigurationError, match="is the server running") as caught:
            open_model(Context(model="openai:scripted", base_url=address, model_retries=1)).reply(QUESTION)
        assert "secret" not in str(caught.value)
    server = openai_server(["ok"])
    model = model_on(server, model_retries=1)
    model.reply(QUESTION)
    server.close()
    with pytest.raises(ConfigurationError, match="cannot be reached"):
        model.reply(QUESTION)


@pytest.mark.parametrize(
    ("parameter", "words"),
    [
        *(
            (name, f"Unsupported parameter: '{name}' is not supported with this model.")
            for name in ("temperature", "parallel_tool_calls", "max_tokens", "reasoning_effort")
        ),
        ("temperature", "invalid temperature: only 1 is allowed for this model"),
        ("temperature", "`temperature` is deprecated for this model."),
    ],
)
def test_refused_parameter_is_left_out(openai_server: Start, parameter: str, words: str) -> None:
    server = openai_server(["one", "two"], refuse={parameter: words})
    model = model_on(server, reasoning_effort="low")
    assert [model.reply(QUESTION, schemas=SCHEMAS).text for _ in range(2)] == ["one", "two"]
    assert [parameter in r.body for r in server.requests] == [True, False, False]
    assert "max_tokens" in server.requests[-1].body or "max_completion_tokens" in server.requests[-1].body


def test_a_parameter_that_calls_at_the_same_time_are_refused(openai_server: Start) -> None:
    refuse = {"temperature": "temperature is not supported"}
    server = openai_server(["ok"] * 8, [Fault.SLOW] * 8, slow=0.3, refuse=refuse)
    model = model_on(server)
    with ThreadPoolExecutor(8) as pool:
        assert {reply.text for reply in pool.map(model.reply, [QUESTION] * 8)} == {"ok"}


def test_parallel_tool_calls_are_forbidden_only_where_one_is_due(openai_server: Start) -> None:
    server = openai_server(["one", "several"])
    for parallel in (False, True):
        model_on(server).reply(QUESTION, schemas=SCHEMAS, parallel=parallel)
    assert [r.body.get("parallel_tool_calls") for r in server.requests] == [False, None]


@pytest.mark.parametrize(
    "settings",
    [
        {"report_usage": False},
        *(
            {"replies": [{"text": "Vienna it is", "usage": {"prompt_tokens": n, "completion_tokens": 4}}]}
            for n in (-9, 10**40)
        ),
    ],
)
def test_usage_is_estimated_where_none_can_be_believed(
    openai_server: Start, settings: dict[str, Any]
) -> None:
    usage = model_on(openai_server(**{"replies": ["Vienna it is"], **settings})).reply(QUESTION).usage
    assert usage.estimated
    assert 5 <= usage.input_tokens <= 20
    assert 2 <= usage.output_tokens <= 10


def test_cost_by_price_table(openai_server: Start) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}
    server = openai_server([{"text": "x", "usage": usage}] * 2, models=["gpt-3.5-turbo", "mine"])
    assert model_on(server, "openai:gpt-3.5-turbo").reply(QUESTION).usage.cost == pytest.approx(0.0025)
    assert model_on(server, "openai:mine").reply(QUESTION).usage.cost is None


def test_the_client_is_imported_when_a_model_is_opened() -> None:
    code = "import sys, triplewise.nodes.models; print({'openai', 'langchain_openai'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


@pytest.mark.parametrize("fault", [Fault.SLOW, Fault.DRIP])
def test_a_deadline_ends_a_call(openai_server: Start, fault: Fault) -> None:
    model = model_on(openai_server(["late"], [fault] * 4, slow=60))
    start = time.perf_counter()
    with pytest.raises(OutOfTimeError):
        model.reply(QUESTION, Deadline(1.5))
    with pytest.raises(OutOfTimeError):
        asyncio.run(asyncio.to_thread(model.reply, QUESTION, Deadline(1.5)))
    assert time.perf_counter() - start < 8


def test_an_error_of_our_own_is_not_the_servers_fault(
    openai_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = openai_server(["ok", "ok"])
    monkeypatch.setattr("triplewise.nodes.models.cost", lambda *_: dict[str, float]()["missing"])
    with pytest.raises(KeyError):
        model_on(server).reply(QUESTION)
    assert len(server.requests) == 1


class RefusedError(Exception):
    """How a provider's package says that a request is wrong."""

    status_code = 400


class FakeChat(GenericFakeChatModel):
    """A provider's chat model, which takes no temperature."""

    messages: Iterator[AIMessage | str] = iter(())
    model: str
    timeout: float
    max_retries: int
    temperature: float | None = None

    def _generate(self, *args: Any, **options: Any) -> Any:
        if self.temperature is not None:
            raise RefusedError("`temperature` is deprecated for this model.")
        if self.model == "missing":
            raise RefusedError("there is no such model")
        self.messages = iter([AIMessage(f"{self.model}, {self.timeout:g} s, {self.max_retries} retries")])
        return super()._generate(*args, **options)


def test_any_provider_through_its_langchain_package(monkeypatch: pytest.MonkeyPatch) -> None:
    package = ModuleType("langchain_anthropic")
    package.__spec__ = ModuleSpec("langchain_anthropic", None)
    vars(package)["ChatAnthropic"] = FakeChat
    monkeypatch.setitem(sys.modules, "langchain_anthropic", package)
    settings: dict[str, Any] = {"temperature": 0.0, "model_timeout": 7.0, "model_retries": 2}
    model = open_model(Context(model="anthropic:claude:latest", **settings))
    assert model is open_model(Context(model="anthropic:claude:latest", **settings))
    assert [model.reply(QUESTION).text for _ in range(2)] == ["claude:latest, 7 s, 2 retries"] * 2
    with pytest.raises(ConfigurationError, match="model missing failed: there is no such model"):
        open_model(Context(model="anthropic:missing", **settings)).reply(QUESTION)


@pytest.mark.parametrize(
    ("model", "words"),
    [("cohere:command", "pip install langchain-cohere"), ("nobody:x", "nobody.*Supported model providers")],
)
def test_a_provider_without_a_package_is_named(model: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        open_model(Context(model=model))


@pytest.mark.parametrize(
    "usage",
    [
        {"prompt_tokens": "12", "completion_tokens": "3", "total_tokens": "15"},
        {"prompt_tokens": 12.0, "completion_tokens": 3.0, "total_tokens": 15.0},
    ],
)
def test_usage_as_text_or_float_is_read(openai_server: Start, usage: dict[str, Any]) -> None:
    server = openai_server([{"text": "Action: execute()", "usage": usage}])
    reply = model_on(server).reply("hi")
    assert (reply.text, reply.usage.calls) == ("Action: execute()", 1)
    assert reply.usage.input_tokens > 0


@pytest.mark.parametrize("piece", ["<think>", "a ", "'", "(", "Thought: ", "\n> "])
def test_a_reply_without_end_is_cut_before_it_is_read(openai_server: Start, piece: str) -> None:
    server = openai_server([{"text": piece * (2_000_000 // len(piece))}])
    start = time.monotonic()
    reply = model_on(server).reply("hi")
    assert len(reply.text) <= 16 * 1024
    assert reply.truncated
    assert time.monotonic() - start < 10.0


@pytest.mark.parametrize("role", ["user", "system", "banana", ""])
def test_a_reply_of_another_role_is_the_models(openai_server: Start, role: str) -> None:
    message = {"index": 0, "finish_reason": "stop", "message": {"role": role, "content": "Vienna"}}
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m", "choices": [message]}
    server = openai_server([{"body": json.dumps(body).encode()}])
    assert model_on(server).reply(QUESTION).text == "Vienna"


@pytest.mark.parametrize("encoding", ["identity", "gzip"])
def test_a_server_that_sends_without_end_is_given_up_early(
    openai_server: Start, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    block = zlib.compress(bytes(2**24), wbits=31) if encoding == "gzip" else b" " * 2**16
    sent = list[int]()

    def flood(handler: Any, body: Any) -> None:
        handler.send_head(200, "application/json", {"Content-Encoding": encoding})
        with contextlib.suppress(OSError):
            while len(sent) < 2**14:
                handler.wfile.write(block)
                sent.append(len(block))

    server = openai_server(["never"])
    monkeypatch.setattr(server.handler, "post", flood)
    reply = model_on(server, max_reply_tokens=64).reply(QUESTION)
    assert (reply.text, reply.truncated, reply.usage.estimated) == ("", True, True)
    assert sum(sent) < 2**26
