"""Language models over real HTTP, against a loopback server that replays and misbehaves."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.support.openai_server import Fault, OpenAIServer
from triplewise.nodes.models import ChatModel, ContextOverflowError, ModelCall, OutOfTimeError, open_model
from triplewise.nodes.state import Usage
from triplewise.tools.core.errors import ConfigurationError, DataError, ModelUnavailableError

Start = Callable[..., OpenAIServer]
ASK = [{"role": "user", "content": "Which capital has Austria?"}]
SCHEMAS = [
    {
        "name": "get_relation",
        "description": "Relations of a node.",
        "parameters": {"type": "object", "properties": {"node": {"type": "string"}}, "required": ["node"]},
    }
]


TOOLS = ModelCall.of(ASK, schemas=SCHEMAS)


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's retries, with hardly a wait between them."""
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.01)


def model_on(server: OpenAIServer, **settings: Any) -> ChatModel:
    settings = {"max_retries": 3, **settings}
    return open_model(settings.pop("model", "openai:scripted"), base_url=server.url, **settings)


def test_completes_with_reported_usage(openai_server: Start) -> None:
    server = openai_server(["Vienna is the answer"])
    reply = model_on(server, temperature=0.3, max_tokens=77).complete(ASK, stop=["\nObservation"])
    assert reply.text == "Vienna is the answer"
    assert (reply.usage.calls, reply.usage.input_tokens, reply.usage.output_tokens) == (1, 4, 4)
    assert (reply.usage.estimated, reply.truncated) == (False, False)
    body = server.requests[0].body
    assert body["messages"] == ASK
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("scripted", 0.3, 77)
    assert body["stop"] == ["\nObservation"]


def test_calls_tools(openai_server: Start) -> None:
    server = openai_server([{"text": "Look.", "tool_calls": [("get_relation", {"node": "Q40"})]}])
    reply = model_on(server).reply(TOOLS)
    assert reply.tool_calls == (("get_relation", {"node": "Q40"}),)
    assert reply.text == "Look."
    assert server.requests[0].body["tools"] == [{"type": "function", "function": SCHEMAS[0]}]


def test_tool_call_with_broken_arguments_is_the_models_mistake(openai_server: Start) -> None:
    server = openai_server([{"tool_calls": [("get_relation", '{"node": "Q40"')]}])
    reply = model_on(server).reply(TOOLS)
    assert reply.tool_calls == ()
    assert reply.invalid_calls == (("get_relation", '{"node": "Q40"'),)


def test_async_works_in_one_event_loop_after_another(openai_server: Start) -> None:
    server = openai_server(lambda messages: f"re: {messages[0]['content']}", [Fault.SERVER_ERROR])
    model = model_on(server)

    async def both() -> list[str]:
        questions = [[{"role": "user", "content": str(i)}] for i in range(5)]
        return [r.text for r in await asyncio.gather(*(model.areply(ModelCall.of(q)) for q in questions))]

    for _ in range(2):
        assert asyncio.run(both()) == [f"re: {i}" for i in range(5)]
    reply = asyncio.run(model.areply(TOOLS))
    assert reply.text.startswith("re: ")


def test_threads_share_a_model(openai_server: Start) -> None:
    server = openai_server(lambda messages: messages[0]["content"])
    model = model_on(server)
    with ThreadPoolExecutor(8) as pool:
        replies = pool.map(lambda i: model.complete([{"role": "user", "content": str(i)}]).text, range(40))
    assert list(replies) == [str(i) for i in range(40)]


@pytest.mark.parametrize(
    "fault", [Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.OVERLOADED, Fault.CUT, Fault.CUT_BODY]
)
def test_passing_trouble_is_retried(openai_server: Start, fault: Fault) -> None:
    server = openai_server(["Vienna"], [fault, fault])
    reply = model_on(server, max_retries=2).complete(ASK)
    assert (reply.text, len(server.requests)) == ("Vienna", 3)
    assert reply.usage.calls == 1


@pytest.mark.parametrize("fault", [Fault.RATE_LIMIT, Fault.SERVER_ERROR, Fault.CUT])
def test_lasting_trouble_ends_in_one_clear_error(openai_server: Start, fault: Fault) -> None:
    server = openai_server(["never"], [fault] * 9, retry_after=0)
    with pytest.raises(ModelUnavailableError, match=r"127\.0\.0\.1.*given up after 3 tries"):
        model_on(server, max_retries=2).complete(ASK)
    assert len(server.requests) == 3


def test_retry_after_is_honoured(openai_server: Start) -> None:
    server = openai_server(["ok"], [Fault.RATE_LIMIT], retry_after=0.3)
    model_on(server).complete(ASK)
    assert server.requests[1].at - server.requests[0].at >= 0.3


def test_a_wait_beyond_reason_ends_the_call(openai_server: Start) -> None:
    server = openai_server(["ok"], [Fault.RATE_LIMIT], retry_after=3600)
    with pytest.raises(ModelUnavailableError, match="asks to wait 3600 s"):
        model_on(server).complete(ASK)


def test_slow_server_times_out_and_is_retried(openai_server: Start) -> None:
    server = openai_server(["ok"], [Fault.SLOW], slow=120)
    start = time.perf_counter()
    assert model_on(server, timeout=1.0).complete(ASK).text == "ok"
    assert len(server.requests) == 2
    assert time.perf_counter() - start < 60


def test_server_that_never_answers(openai_server: Start) -> None:
    server = openai_server(["ok"], [Fault.SLOW] * 3, slow=5)
    with pytest.raises(ModelUnavailableError, match=r"did not answer within 0\.1 s; given up after 2 tries"):
        model_on(server, timeout=0.1, max_retries=1).complete(ASK)


BAD_BODIES = [
    Fault.MALFORMED,
    Fault.EMPTY_BODY,
    Fault.HTML,
    Fault.EMPTY_CHOICES,
    Fault.NULL_CHOICES,
    Fault.NULL_MESSAGE,
]


@pytest.mark.parametrize("fault", BAD_BODIES)
def test_malformed_reply_is_asked_for_again(openai_server: Start, fault: Fault) -> None:
    server = openai_server(["ok"], [fault, fault])
    assert model_on(server).complete(ASK).text == "ok"


@pytest.mark.parametrize("fault", BAD_BODIES)
def test_malformed_replies_are_not_asked_for_forever(openai_server: Start, fault: Fault) -> None:
    server = openai_server(["ok"], [fault] * 9)
    with pytest.raises(ModelUnavailableError, match="no chat completion"):
        model_on(server, max_retries=8).complete(ASK)
    assert len(server.requests) == 3


@pytest.mark.parametrize("text", ["", None, "  \n"])
def test_empty_text_is_a_reply(openai_server: Start, text: str | None) -> None:
    assert model_on(openai_server([{"text": text}])).complete(ASK).text == ""


def test_truncated_reply_says_so(openai_server: Start) -> None:
    assert model_on(openai_server([{"text": "Vien", "finish_reason": "length"}])).complete(ASK).truncated


def test_stop_words_are_cut_even_if_the_server_ignores_them(openai_server: Start) -> None:
    server = openai_server(["Action: execute()\nObservation: made up"])
    assert model_on(server).complete(ASK, stop=["\nObservation"]).text == "Action: execute()"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        ("<think>hm\nhm</think>\nVienna", "Vienna"),
        ("hm, so </think>Vienna", "Vienna"),
        ("<think>a</think>Vienna<think>b</think>", "Vienna"),
        ("<thinking>a</thinking>Vienna", "Vienna"),
        ("<think>never ends", ""),
        ("Vienna", "Vienna"),
    ],
)
def test_reasoning_is_cut(openai_server: Start, raw: str, text: str) -> None:
    assert model_on(openai_server([raw])).complete(ASK).text == text


def test_stop_word_inside_reasoning_is_not_the_end(openai_server: Start) -> None:
    server = openai_server(["<think>The", "<think>The Observation</think>Action: execute()\nObservation"])
    model = model_on(server)
    assert model.complete(ASK, stop=["\nObservation"]).text == "Action: execute()"
    assert "stop" in server.requests[0].body
    assert "stop" not in server.requests[1].body


@pytest.mark.parametrize("given", [None, "sk-wrong"])
def test_wrong_key(openai_server: Start, given: str | None) -> None:
    server = openai_server(["ok"], key="sk-right")
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY") as caught:
        model_on(server, api_key=given).complete(ASK)
    assert "sk-wrong" not in str(caught.value)
    assert len(server.requests) == 1


def test_key_comes_from_the_environment(openai_server: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    server = openai_server(["ok"], key="sk-right")
    monkeypatch.setenv("MY_KEY", " sk-right\n")
    model = model_on(server, api_key_env="MY_KEY")
    assert model.complete(ASK).text == "ok"
    assert "sk-right" not in f"{model!r} {model.settings!r}"


def test_missing_model(openai_server: Start) -> None:
    server = openai_server(["ok"])
    with pytest.raises(ConfigurationError, match=r"no model 'llama'.*curl http://127.*/v1/models"):
        model_on(server, model="openai:llama").complete(ASK)


def test_account_without_quota_is_said(openai_server: Start) -> None:
    server = openai_server(["ok"], [Fault.QUOTA] * 9)
    with pytest.raises(ConfigurationError, match="quota"):
        model_on(server).complete(ASK)


def test_missing_key_is_said_before_anything_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(ConfigurationError, match="set environment variable OPENAI_API_KEY"):
        open_model("openai:gpt-4o")


def test_key_that_cannot_be_a_header() -> None:
    with pytest.raises(ConfigurationError, match="characters no key has"):
        open_model("openai:gpt-4o", api_key="sk-ключ")


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}/v1"
    model = open_model("openai:scripted", base_url=url, max_retries=1)
    with pytest.raises(ConfigurationError, match="is the server running"):
        model.complete(ASK)
    with pytest.raises(ConfigurationError, match="is the server running"):
        asyncio.run(model.areply(ModelCall.of(ASK)))


def test_host_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "*")
    model = open_model("openai:scripted", base_url="http://me:secret@no-such-host.invalid/v1")
    with pytest.raises(
        ConfigurationError, match=r"http://no-such-host\.invalid/v1 cannot be found"
    ) as caught:
        model.complete(ASK)
    assert "secret" not in str(caught.value)


def test_server_that_goes_away_is_said(openai_server: Start) -> None:
    server = openai_server(["ok"])
    model = model_on(server, max_retries=2)
    model.complete(ASK)
    server.close()
    with pytest.raises(ConfigurationError, match="refuses connections"):
        model.complete(ASK)


@pytest.mark.parametrize("model", ["gpt-4o", "embedded", "openai:", "anthropic:x", ""])
def test_unknown_form_of_model(model: str) -> None:
    with pytest.raises(ConfigurationError, match="openai:NAME"):
        open_model(model, base_url="http://127.0.0.1:1/v1")


def test_forgotten_scheme_gets_a_hint() -> None:
    with pytest.raises(ConfigurationError, match="did you mean 'openai:gpt-4o'"):
        open_model("gpt-4o")


@pytest.mark.parametrize("url", ["localhost:8000/v1", "ftp://x/v1", "http://"])
def test_base_url_that_is_none(url: str) -> None:
    with pytest.raises(ConfigurationError, match="base_url"):
        open_model("openai:x", base_url=url)


@pytest.mark.parametrize("parameter", ["temperature", "parallel_tool_calls", "max_tokens"])
def test_refused_parameter_is_left_out(openai_server: Start, parameter: str) -> None:
    refuse = {parameter: f"Unsupported parameter: '{parameter}' is not supported with this model."}
    server = openai_server(["one", "two"], refuse=refuse)
    model = model_on(server)
    assert model.reply(TOOLS).text == "one"
    assert model.reply(TOOLS).text == "two"
    assert [parameter in r.body for r in server.requests] == [True, False, False]
    assert "max_tokens" in server.requests[-1].body or "max_completion_tokens" in server.requests[-1].body


def test_model_without_tool_calls(openai_server: Start) -> None:
    server = openai_server([{"error": "scripted does not support tools"}])
    with pytest.raises(ConfigurationError, match='calling="react"'):
        model_on(server).reply(TOOLS)


def test_prompt_too_long(openai_server: Start) -> None:
    server = openai_server([{"error": "maximum context length is 8", "code": "context_length_exceeded"}])
    with pytest.raises(ContextOverflowError, match="longer context"):
        model_on(server).complete(ASK)


def test_usage_is_estimated_where_none_is_reported(openai_server: Start) -> None:
    reply = model_on(openai_server(["Vienna it is"], report_usage=False)).complete(ASK)
    assert reply.usage.estimated
    assert 5 <= reply.usage.input_tokens <= 20
    assert 2 <= reply.usage.output_tokens <= 10


def test_cost_by_price_table(openai_server: Start, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = {"prompt_tokens": 1000, "completion_tokens": 500, "total_tokens": 1500}
    server = openai_server([{"text": "x", "usage": usage}] * 3, models=["gpt-3.5-turbo", "mine"])
    # QueryAgent, appendix C.2: 0.0015 and 0.0020 USD per thousand tokens.
    assert model_on(server, model="openai:gpt-3.5-turbo").complete(ASK).usage.cost == pytest.approx(0.0025)
    assert model_on(server, model="openai:mine").complete(ASK).usage.cost is None
    table = tmp_path / "prices.yaml"
    table.write_text("models: {mine: {input: 4, output: 8}}")
    monkeypatch.setenv("TRIPLEWISE_PRICES", str(table))
    assert model_on(server, model="openai:mine").complete(ASK).usage.cost == pytest.approx(0.008)
    with pytest.raises(DataError, match="none\\.yaml"):
        model_on(server, prices=tmp_path / "none.yaml")


def test_a_session_is_told_what_each_reply_used(openai_server: Start) -> None:
    uses: list[Usage] = []
    model = model_on(openai_server(["a b", "c"], [Fault.SERVER_ERROR])).session(uses.append)
    model.complete(ASK)
    asyncio.run(model.areply(ModelCall.of(ASK)))
    total = uses[0] + uses[1]
    assert (total.calls, total.input_tokens, total.output_tokens) == (2, 8, 3)
    assert total.cost is None


def test_models_are_cached_per_settings(openai_server: Start) -> None:
    server = openai_server()
    assert model_on(server) is model_on(server)
    assert model_on(server) is not model_on(server, temperature=1.0)


def test_streamed_replies_are_the_same(openai_server: Start) -> None:
    scripted = {"text": "Vienna it is", "tool_calls": [("get_relation", {"node": "Q40"})]}
    server = openai_server([scripted, scripted], [None, Fault.SERVER_ERROR])
    plain = model_on(server).reply(TOOLS)
    streamed = model_on(server, stream=True).reply(TOOLS)
    assert (streamed.text, streamed.tool_calls, streamed.usage) == (plain.text, plain.tool_calls, plain.usage)
    assert server.requests[-1].body["stream"] is True
    assert len(server.requests) == 3


def test_exhausted_script_fails_loudly_and_at_once(openai_server: Start) -> None:
    server = openai_server(["only one"])
    model = model_on(server)
    model.complete(ASK)
    with pytest.raises(ModelUnavailableError, match="script exhausted: request 2"):
        model.complete(ASK)
    assert len(server.requests) == 2


def test_the_client_is_imported_when_a_model_is_opened() -> None:
    code = "import sys, triplewise.nodes.models; print({'openai', 'langchain_openai'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


def test_server_lists_models_and_embeds(openai_server: Start) -> None:
    from openai import OpenAI

    server = openai_server()
    with urllib.request.urlopen(f"{server.url}/models") as answer:
        assert [m["id"] for m in json.load(answer)["data"]] == ["scripted"]
    with OpenAI(base_url=server.url, api_key="none") as client:
        data = client.embeddings.create(model="scripted", input=["a", "b", "a"]).data
        floats = client.embeddings.create(model="scripted", input="a", encoding_format="float").data
    assert data[0].embedding == data[2].embedding != data[1].embedding
    assert data[0].embedding == pytest.approx(floats[0].embedding, abs=1e-6)
    assert sum(x * x for x in floats[0].embedding) == pytest.approx(1)


def test_a_deadline_ends_a_call(openai_server: Start) -> None:
    server = openai_server(["late"], [Fault.SLOW] * 4, slow=2)
    model = model_on(server).session(lambda usage: None, lambda: 0.3)
    start = time.perf_counter()
    with pytest.raises(OutOfTimeError):
        model.complete(ASK)
    with pytest.raises(OutOfTimeError):
        asyncio.run(model.areply(ModelCall.of(ASK)))
    assert time.perf_counter() - start < 5


def test_an_error_of_our_own_is_not_the_servers_fault(
    openai_server: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = openai_server(["ok", "ok"])
    model = model_on(server)
    monkeypatch.setattr(type(model._prices), "cost", lambda *_: {}["missing"])
    with pytest.raises(KeyError):
        model.complete(ASK)
    assert len(server.requests) == 1
