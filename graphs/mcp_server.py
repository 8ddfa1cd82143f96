"""The Model Context Protocol: a knowledge graph as tools of an assistant or an editor."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import asdict
from importlib.metadata import version
from inspect import getdoc
from typing import Any

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError, ToolAnnotations

from triplewise.graphs.assistant_tools import AssistantTools, cancellable
from triplewise.tools.actions.toolset import whole
from triplewise.tools.parsing.card import SchemaCard

READ_ONLY = ToolAnnotations(read_only_hint=True, destructive_hint=False, open_world_hint=False)


def mcp_server(tools: AssistantTools) -> MCPServer[Any]:
    """Return a server of these tools; `run()` serves standard input and output."""
    server: MCPServer[Any] = MCPServer(
        "triplewise",
        title=f"Knowledge graph {tools.kg.name}",
        instructions=f"Tools over the knowledge graph {tools.kg.name}. `ask` first: it proves its answers. "
        "Where it is not sure, `search` for ids, and look with `describe` and `query`.",
        version=version("triplewise"),
        log_level="WARNING",
    )

    @server.resource("schema://graph", title="Classes and relations", mime_type="application/json")
    def schema() -> dict[str, Any]:
        """What the graph holds: classes with members, relations with names, ranges and samples."""
        return asdict(SchemaCard.of(tools.kg.session(), tools.served.encoder))

    for tool in tools.all:
        served = cancellable(tool, ToolError)
        server.add_tool(served, description=getdoc(tool), annotations=READ_ONLY, structured_output=True)
    return server


async def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve standard input and output; a message that is not one is answered with an error.

    The SDK's own `run()` drops such a message, and its client waits for ever.
    """
    lowlevel = server._lowlevel_server
    send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    async with stdio_server() as (messages, replies), anyio.create_task_group() as group:

        async def forward() -> None:
            async with send:
                async for message in messages:
                    if isinstance(message, Exception):
                        await replies.send(SessionMessage(_refusal(message)))
                    else:
                        await send.send(message)

        group.start_soon(forward)
        await lowlevel.run(receive, replies, lowlevel.create_initialization_options())


def _refusal(error: Exception) -> JSONRPCError:
    """Return the answer to a message that could not be read, with its id where that can be told."""
    about, id_ = {"msg": str(error)}, None
    with suppress(AttributeError, LookupError, TypeError, ValueError, RecursionError):
        about = error.errors()[0]  # type: ignore[attr-defined]
        id_ = json.loads(whole(json.dumps(json.loads(about["input"])["id"], ensure_ascii=False)))
    reason = ErrorData(code=PARSE_ERROR, message=f"not a message of JSON-RPC: {about['msg']}")
    return JSONRPCError(jsonrpc="2.0", id=id_ if isinstance(id_, str | int) else None, error=reason)
