"""A graph as tools of an assistant: over MCP, driven by the SDK's own client, and as LangChain tools."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from typing import Any

import pytest
import rdflib
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from mcp import Client, StdioServerParameters
from mcp_types import CallToolResult
from pydantic import SecretStr

import triplewise
from tests.graphs.conftest import Cli
from tests.support.openai_server import Fault, OpenAIServer
from triplewise.graphs.assistant_tools import AssistantTools, tools_for
from triplewise.graphs.mcp_server import mcp_server

NOISY = """
import functools, os, sys
from triplewise.graphs.assistant_tools import AssistantTools
from triplewise.graphs.cli.app import run

def noisy(method):
    @functools.wraps(method)
    def call(*given, **named):
        print("printed", flush=True)
        if method.__name__ == "query":
            os.write(1, b"written")
        return method(*given, **named)
    return call

AssistantTools.__init__, AssistantTools.query = noisy(AssistantTools.__init__), noisy(AssistantTools.query)
sys.exit(run(["serve", "mcp"]))
"""
"""The server, with code that prints where the protocol is spoken."""


def text_of(result: CallToolResult) -> str:
    return " ".join(getattr(block, "text", "") for block in result.content)


async def use(server: Any) -> None:
    """Call each tool."""
    unreadable: list[Exception] = []

    async def listen(message: object) -> None:
        if isinstance(message, Exception):
            unreadable.append(message)

    async with Client(server, message_handler=listen) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert list(tools) == ["ask", "search", "describe", "query"]
        assert all(t.annotations and t.annotations.read_only_hint and t.output_schema for t in tools.values())
        assert tools["ask"].input_schema["required"] == ["question"]

        async def call(name: str, **arguments: Any) -> dict[str, Any]:
            result = await client.call_tool(name, arguments)
            assert not result.is_error, text_of(result)
            assert isinstance(result.structured_content, dict)
            return result.structured_content

        question = {"question": "Who wrote Dracula?"}
        answer = await call("ask", **question)
        assert (answer["status"], answer["values"], answer["labels"]) == (
            "answered",
            ["Q36184"],
            ["Bram Stoker"],
        )
        assert answer["proof"] == ["(Dracula, author, Bram Stoker)"]

        (match,) = (await call("search", text="tokyo", kind="entity", limit=1))["matches"]
        assert match["id"] == "Q1490"
        described = await call("describe", entity="Q1490", about="country", values=1)
        assert described["entity"]["label"] == "Tokyo"
        first = described["relations"][0]
        assert (first["label"], first["direction"], first["count"]) == ("country", "out", 1)
        assert first["values"] == [{"id": "Q17", "label": "Japan"}]
        around = await call("describe", entity="Japan")
        assert {"capital", "country"} <= {r["label"] for r in around["relations"]}
        assert max(r["count"] for r in around["relations"] if r["direction"] == "in") > 1
        (content,) = (await client.read_resource("schema://graph")).contents
        schema = json.loads(getattr(content, "text", ""))
        assert {"human", "country"} <= {of["names"][0] for of in schema["classes"]}
        rows = await call("query", sparql="SELECT ?city { e:Q17 r:P36 ?city }")
        assert rows["rows"] == [{"city": {"id": "Q1490", "label": "Tokyo"}}]

        hostile = await client.call_tool("query", {"sparql": "DELETE WHERE { ?s ?p ?o }"})
        assert hostile.is_error
        assert "DELETE is refused: it would change the knowledge graph" in text_of(hostile)
        unknown = await client.call_tool("describe", {"entity": "Draculla the Impala of Nowhere"})
        assert unknown.is_error
        assert "nothing in demo is called" in text_of(unknown)
        assert (await client.call_tool("search", {"text": "x", "limit": 0})).is_error
    assert unreadable == []


def test_over_standard_input_and_output() -> None:
    asyncio.run(use(StdioServerParameters(command=sys.executable, args=["-c", NOISY], env=dict(os.environ))))


RUNAWAY = "SELECT * {?a ?b ?c . ?d ?e ?f . ?g ?h ?i . ?j ?k ?l} ORDER BY ?a ?d ?g"


def test_a_call_that_is_cancelled_ends_its_query() -> None:
    """Else two such calls would occupy both processes that run queries, for `query_timeout` seconds."""

    async def use_tools() -> None:
        server = mcp_server(AssistantTools("demo", query_timeout=300.0))
        async with Client(server) as client:
            calls = [asyncio.ensure_future(client.call_tool("query", {"sparql": RUNAWAY})) for _ in "ab"]
            await asyncio.sleep(3)
            for call in calls:
                call.cancel()
            async with asyncio.timeout(30):
                done = await client.call_tool("query", {"sparql": "ASK { ?s ?p ?o }"})
            assert not done.is_error, text_of(done)
        query = tools_for(query_timeout=300.0)[-1]  # LangChain's too
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(3):
                await query.ainvoke({"sparql": RUNAWAY})

    asyncio.run(use_tools())


def test_a_question_that_is_cancelled_ends() -> None:
    before = set(threading.enumerate())

    async def ask(url: str) -> None:
        async with Client(mcp_server(AssistantTools("demo", model="openai:m", base_url=url))) as client:
            call = asyncio.ensure_future(client.call_tool("ask", {"question": "Who wrote Dracula?"}))
            while not server.requests:
                await asyncio.sleep(0.1)
            call.cancel()

    with OpenAIServer([Fault.DRIP]) as server:
        asyncio.run(ask(server.url))
        waiting = [t for t in threading.enumerate() if t.name.startswith("AnyIO") and t not in before]
        for thread in waiting:
            thread.join(10)
        assert not any(thread.is_alive() for thread in waiting)


def test_what_is_no_message_is_answered_and_the_next_one_too() -> None:
    """A client that sends half a character, or no JSON, gets an error with its id, and does not wait."""
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}

    def call(id_: str, text: str) -> str:
        asked = f'{{"name": "search", "arguments": {{"text": "{text}"}}}}'
        return f'{{"jsonrpc": "2.0", "id": {id_}, "method": "tools/call", "params": {asked}}}'

    sent = [
        json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}),
        '{"jsonrpc": "2.0", "method": "notifications/initialized"}',
        *(call("2", r"Tok\ud800yo"), call("3", r"\udfff"), call(r'"\ud800"', r"\ud800"), call("4", '"')),
        *("[" * 60_000, call("5", "Tokyo")),
    ]
    command = [sys.executable, "-m", "triplewise.graphs", "serve", "mcp"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n".join(sent) + "\n")
        server.stdin.flush()
        replies = [json.loads(server.stdout.readline()) for _ in range(7)]
        server.stdin.close()
    errors = [(r.get("id"), r["error"]["code"]) for r in replies if "error" in r]
    assert errors == [(2, -32700), (3, -32700), ("\ufffd", -32700), (None, -32700), (None, -32700)]
    (found,) = (r["result"] for r in replies if r.get("id") == 5)
    assert "Q1490" in found["content"][0]["text"]


@pytest.mark.parametrize("text", ["Tok\ud800yo", "\udfff", "\ude00\ud83d"])
def test_half_characters_in_arguments_are_replaced(text: str) -> None:
    given: dict[str, dict[str, str]] = {
        "ask": {"question": f"Who wrote {text}?"},
        "search": {"text": text},
        "describe": {"entity": text, "about": text},
        "query": {"sparql": f'ASK {{ ?x ?y "{text}" }}'},
    }
    for tool in triplewise.tools_for("demo"):
        assert isinstance(tool.invoke(given[tool.name]), str)


def test_over_http() -> None:
    command = [sys.executable, "-m", "triplewise.graphs", "serve", "mcp", "--http", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        try:
            assert server.stderr is not None
            address = re.search(r"http://\S+/mcp", server.stderr.readline())
            assert address is not None
            asyncio.run(use(address[0]))
        finally:
            server.terminate()


def test_options_that_the_server_would_not_see_are_refused(cli: Cli) -> None:
    done = cli("serve", "--kg", "films.ttl", "mcp")
    assert done.code == 2
    assert "options of mcp go behind it: triplewise serve mcp --kg" in done.err


def test_an_agent_of_ones_own_uses_the_tools() -> None:
    tools = triplewise.tools_for("demo", prefix="kg_")
    replies: list[Any] = [
        {"tool_calls": [("kg_describe", {"entity": "Dracula"}), ("kg_search", {"text": "x", "limit": 0})]},
        {
            "tool_calls": [
                ("kg_query", {"sparql": "DROP ALL"}),
                ("kg_ask", {"question": "Who wrote Dracula?"}),
            ]
        },
        "Bram Stoker.",
    ]
    with OpenAIServer(replies) as server:
        model = ChatOpenAI(model="scripted", base_url=server.url, api_key=SecretStr("none")).bind_tools(tools)
        agent = StateGraph(MessagesState)
        agent.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
        agent.add_node("tools", ToolNode(tools))
        agent.add_edge(START, "model")
        agent.add_conditional_edges("model", tools_condition)
        agent.add_edge("tools", "model")
        asked = MessagesState(messages=[HumanMessage("Who wrote Dracula?")])
        messages = agent.compile().invoke(asked)["messages"]
        offered = {tool["function"]["name"]: tool["function"] for tool in server.requests[0].body["tools"]}
    assert offered["kg_describe"]["parameters"]["properties"]["entity"]["description"]
    assert offered["kg_ask"]["description"].startswith("Answer a question")
    described, wrong, refused, answer = [m for m in messages if isinstance(m, ToolMessage)]
    assert described.artifact.entity.types == ("novel",)
    assert "Bram Stoker" in described.content
    assert wrong.status == refused.status == "error"
    assert "DROP is refused" in refused.content
    assert answer.artifact.status == "answered"
    assert messages[-1].content == "Bram Stoker."


def test_a_mediator_is_shown_by_what_it_holds() -> None:
    graph = rdflib.Graph().parse(
        data="""@prefix : <http://example.org/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
        :alien rdfs:label "Alien" ; :cast [ :actor :weaver ; :role "Ripley" ] .
        :weaver rdfs:label "Sigourney Weaver" ."""
    )
    (cast,) = AssistantTools(graph).describe("Alien").relations
    (part,) = cast.values
    assert set(part.label.split("; ")) == {"actor: Sigourney Weaver", "role: Ripley"}


def test_a_class_without_a_label_is_shown_by_the_words_of_its_id() -> None:
    graph = rdflib.Graph().parse(
        data="""@prefix : <http://example.org/id/> . @prefix o: <http://onto.org/> .
        @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
        :1 rdfs:label "Alien" ; a o:SpaceFilm . :2 rdfs:label "Jaws" ; a o:SpaceFilm ."""
    )
    tools = AssistantTools(graph)
    (kind,) = tools.describe("Alien").relations
    (value,) = kind.values
    assert value.label == "space film"
    assert tools.describe(value.id).entity.label == "space film"
