"""LangGraph Server (what Studio talks to) serves every preset, offline and without a key."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import fields
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_type_hints

import httpx
import pytest

from tests.support.openai_server import OpenAIServer
from tests.support.virtuoso import free_port
from triplewise.graphs import PRESETS, Context
from triplewise.nodes.context import RESOURCES
from triplewise.tools.core.errors import ConfigurationError

ROOT = Path(__file__).parent.parent.parent
COMMAND = shutil.which("langgraph", path=str(Path(sys.executable).parent))
CONTEXT = {"kg": "demo", "model": "embedded"}
START_SECONDS, CALL_SECONDS = 25, 20

studio = pytest.importorskip("triplewise.graphs.studio", exc_type=ImportError)

pytestmark = pytest.mark.skipif(
    COMMAND is None or find_spec("langgraph_api") is None,
    reason="langgraph dev is not installed: pip install 'triplewise[studio]'",
)


def wait_until_up(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    end = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with suppress(httpx.HTTPError):
            if httpx.get(f"{url}/ok", trust_env=False, timeout=2).status_code == 200:
                return
        time.sleep(0.1)
    pytest.fail(f"langgraph dev did not start: {log.read_text(errors='replace')[-3000:]}")


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a process and what it started, gently at first."""
    for sign in (signal.SIGTERM, signal.SIGKILL):
        if process.poll() is not None:
            return
        os.killpg(process.pid, sign)
        with suppress(subprocess.TimeoutExpired):
            process.wait(10)


FILMS = '<http://e/1> <http://www.w3.org/2000/01/rdf-schema#label> "Early Frost" .'
ALLOWED = """
[server.kg]
films = { kg = "films.nt", profile = "generic" }
lost = "nowhere.nt"
[server.model]
scripted = { model = "openai:scripted", base_url = "URL", api_key_env = "SCRIPTED_KEY" }
"""


@contextmanager
def langgraph_dev(folder: Path, **variables: str) -> Iterator[str]:
    """The URL of a server with these environment variables, which keeps its threads in the folder."""
    port, log = free_port(), folder / "server.log"
    quiet = {"LANGGRAPH_CLI_NO_ANALYTICS": "1", "LANGGRAPH_NO_VERSION_CHECK": "true", "NO_PROXY": "127.0.0.1"}
    environment = {**os.environ, **quiet, "LANGSMITH_TRACING": "false", **variables}
    for name in {"OPENAI_API_KEY", "OPENAI_BASE_URL", "TRIPLEWISE_CONFIG"} - variables.keys():
        environment.pop(name, None)
    command = [str(COMMAND), "dev", "--no-browser", "--no-reload", "--port", str(port)]
    for name in ("langgraph.json", "graphs"):
        (folder / name).symlink_to(ROOT / name)
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=out, stderr=out, start_new_session=True
        )
    try:
        wait_until_up(f"http://127.0.0.1:{port}", process, log)
        yield f"http://127.0.0.1:{port}"
    finally:
        stop(process)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URL of a server of its own, whose clients may ask the graph `films` too, stopped afterwards."""
    tmp_path = tmp_path_factory.mktemp("server")
    (tmp_path / "films.nt").write_text(FILMS, encoding="utf-8")
    model = OpenAIServer(["Thought: look at Japan first\nAction: get_relation(Q17)"])
    (tmp_path / "triplewise.toml").write_text(ALLOWED.replace("URL", model.url), encoding="utf-8")
    with langgraph_dev(tmp_path, SCRIPTED_KEY="k") as url, model:
        yield url


def phases(chunks: Iterator[Any]) -> list[str]:
    """The phases whose updates were streamed, in order."""
    return [name for chunk in chunks if chunk.event == "updates" for name in chunk.data]


def reading(relation: str) -> dict[str, Any]:
    """A reading as a person would write it in Studio."""
    program = f"add_fact(Q17, {relation}, ?x)\nset_answer(?x)"
    return {"program": program, "text": f"Japan -[{relation}]-> ?x", "score": 0, "confidence": 1}


def test_the_server_runs_interrupts_and_resumes(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from langgraph_sdk import get_sync_client

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with get_sync_client(url=server, timeout=CALL_SECONDS) as client:
        assistants = client.assistants.search(limit=100)
        assert all(len(a["description"] or "") > 20 for a in assistants)
        found = {a["graph_id"]: a["assistant_id"] for a in assistants}
        assert set(found) == {*PRESETS, "chat"}
        edges = client.assistants.get_graph(found["agent"])["edges"]
        edges += client.assistants.get_graph(found["chat"])["edges"]
        assert {"facts to review", "a question"} < {e.get("data") for e in edges if e.get("conditional")}
        for assistant in found.values():
            settings = (client.assistants.get_schemas(assistant)["context_schema"] or {})["properties"]
            assert {"kg", "model", "base_url", "seeds", "max_steps"} <= set(settings)
            assert all(field["description"] for field in settings.values())

        question = {"question": "What is the capital of Japan?"}
        done = client.runs.stream(None, "agent", input=question, context=CONTEXT, stream_mode="updates")
        order = phases(done)
        assert order[:4] == ["link", "plan", "observe", "act"]
        assert order[-2:] == ["inspect", "answer"]
        assert {"reflect", "inspect"} < set(order)

        thread = client.threads.create()["thread_id"]
        paused = client.runs.stream(
            thread,
            "agent",
            input=question,
            context=CONTEXT,
            stream_mode="updates",
            interrupt_before=["act"],
        )
        assert phases(paused) == ["link", "plan", "observe", "__interrupt__"]
        assert client.threads.get_state(thread)["next"] == ["act"]
        client.threads.update_state(thread, {"readings": [reading("P30")]}, as_node="observe")
        resumed = client.runs.stream(thread, "agent", input=None, context=CONTEXT, stream_mode="updates")
        assert phases(resumed)[0] == "act"
        values: Any = client.threads.get_state(thread)["values"]
        answer = values["answer"]
        assert (answer["labels"], answer["status"]) == (["Asia"], "answered")

        # Where the answer is unsure, a person picks a reading.
        thread, asks = client.threads.create()["thread_id"], CONTEXT | {"interactive": True}
        unsure = {"question": "Who was the husband of the discoverer of polonium who was born in Warsaw?"}
        stopped: Any = client.runs.wait(thread, "agent", input=unsure, context=asks)
        readings = stopped["__interrupt__"][0]["value"]["readings"]
        assert [r["number"] for r in readings[:2]] == [1, 2]
        resume: Any = {"resume": readings[1]["number"]}
        picked: Any = client.runs.wait(thread, "agent", command=resume, context=asks)
        assert set(readings[1]["answers"]) <= set(picked["answer"]["labels"])
        assert picked["answer"]["status"] == "answered"


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"model": "openai:m", "base_url": "http://evil.example/v1"}, "setting model: .*it allows embedded"),
        ({"base_url": "http://evil.example/v1"}, r"setting base_url: .*\[server\.base_url\]"),
        ({"api_key_env": "AWS_SECRET_ACCESS_KEY"}, "setting api_key_env"),
        ({"kg": "http://169.254.169.254/"}, "setting kg: .*it allows demo, films"),
        ({"kg": "films.nt"}, "setting kg"),
        ({"documents": "/etc"}, "setting documents"),
        ({"ranking": "openai"}, "setting ranking"),
        ({"guidelines": ["/etc/passwd"]}, "setting guidelines"),
        ({"max_step": 3}, "unknown setting 'max_step'; did you mean 'max_steps'"),
        ({"max_steps": "3"}, "setting max_steps: input should be a valid integer, got '3'"),
    ],
)
def test_a_client_chooses_only_what_the_operator_allows(context: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        studio.admit(context, {"kg": {"films": {"kg": "films.nt"}}})


def test_the_server_says_what_it_refuses(server: str) -> None:
    for context, message in (
        (
            {"model": "openai:m", "base_url": "http://evil.example"},
            "setting model: this server does not allow",
        ),
        ({"max_step": 3}, "unknown setting 'max_step'; did you mean 'max_steps'"),
        ({"kg": "lost"}, "nowhere.nt: no such knowledge graph"),
        ({"toolset": "sql"}, "needs a language model; choose as `model` one that the operator allows"),
    ):
        run = {"assistant_id": "agent", "input": {"question": "Who wrote Dracula?"}, "context": context}
        reply = httpx.post(f"{server}/runs/wait", json=run, trust_env=False, timeout=CALL_SECONDS).json()
        assert message in reply["__error__"]["message"]


@pytest.mark.parametrize("question", [{}, {"question": 3}])
def test_input_of_a_wrong_type_is_refused_by_name(server: str, question: dict[str, Any]) -> None:
    run = {"assistant_id": "agent", "input": question}
    reply = httpx.post(f"{server}/runs/wait", json=run, trust_env=False, timeout=CALL_SECONDS).json()
    assert re.match("input question: (field|input should be) ", reply["__error__"]["message"])


def test_a_thread_is_a_conversation(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from langgraph_sdk import get_sync_client

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with get_sync_client(url=server, timeout=CALL_SECONDS) as client:
        thread = client.threads.create()["thread_id"]
        for text, answer in (("What is the capital of Peru?", "Lima."), ("And of Brazil?", "Brasília.")):
            message: Any = {"messages": [{"role": "user", "content": text}]}
            state: Any = client.runs.wait(thread, "chat", input=message, context=CONTEXT)
            assert state["messages"][-1]["content"].startswith(answer)


def test_what_a_model_writes_streams(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from langgraph_sdk import get_sync_client

    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    question: Any = {"question": "Where is Japan?"}
    context: Any = {"model": "scripted", "max_steps": 1}
    with get_sync_client(url=server, timeout=CALL_SECONDS) as client:
        parts = client.runs.stream(
            None, "queryagent", input=question, context=context, stream_mode="messages-tuple"
        )
        pieces = [part.data[0]["content"] for part in parts if part.event == "messages"]
    assert len(pieces) > 3
    assert "look at Japan first" in "".join(pieces)


def test_a_client_gets_by_name_what_the_operator_wrote(server: str) -> None:
    run = {
        "assistant_id": "agent",
        "input": {"question": "Who directed Early Frost?"},
        "context": {"kg": "films", "model": "embedded", "base_url": None, "max_seconds": 20},
    }
    reply = httpx.post(f"{server}/runs/wait", json=run, trust_env=False, timeout=CALL_SECONDS).json()
    assert [e["label"] for e in reply["linked"]] == ["Early Frost"]


@pytest.mark.parametrize(
    ("origin", "status"), [("http://evil.example", 403), ("null", 403), ("http://localhost:3000", 200)]
)
def test_a_page_of_another_origin_is_refused(origin: str, status: int, server: str) -> None:
    """A form of any page can post plain text without being asked for leave first."""
    headers = {"origin": origin, "content-type": "text/plain"}
    reply = httpx.post(f"{server}/assistants/search", content="{}", headers=headers, trust_env=False)
    assert reply.status_code == status
    assert reply.headers.get("access-control-allow-origin") == (origin if status == 200 else None)


@pytest.mark.parametrize(
    ("host", "status"), [("evil.example", 403), ("[::1", 403), ("", 403), ("localhost:1", 200)]
)
def test_a_server_of_this_machine_answers_to_no_other_name(host: str, status: int, server: str) -> None:
    reply = httpx.post(f"{server}/assistants/search", json={}, headers={"host": host}, trust_env=False)
    assert reply.status_code == status


def test_settings_come_in_groups_with_what_may_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sorted(" ".join(studio.GROUPS.values()).split()) == sorted(f.name for f in fields(Context))
    monkeypatch.setattr(studio, "ALLOWED", {"kg": {"films": {"kg": "films.nt"}}})
    graph = studio.served("agent")(SimpleNamespace(execution_runtime=None))
    shown = graph.get_context_jsonschema()["properties"]
    assert list(shown)[:2] == ["kg", "profile"]
    assert (shown["kg"]["title"], shown["kg"]["enum"]) == ("Graph: kg", ["demo", "films"])
    assert shown["kg"]["description"].startswith("A name that the operator allows, under [server.kg]")
    assert shown["toolset"]["enum"][:2] == [None, "pyql"]
    assert shown["max_steps"]["title"] == "Budget: max_steps"


def test_every_setting_that_takes_any_text_is_the_operators_to_allow() -> None:
    """A setting added later is not forgotten: free text is either known to be harmless, or `RESOURCES`."""
    free = {
        name for name, kind in get_type_hints(Context).items() if kind in (Any, str, str | None, list[str])
    }
    assert free - {"toolset", "earlier"} <= set(RESOURCES)
