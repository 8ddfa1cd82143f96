"""The Model Context Protocol: a knowledge graph as tools of an assistant or an editor."""

from __future__ import annotations

from dataclasses import asdict
from importlib.metadata import version
from inspect import getdoc
from typing import Any

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations

from triplewise.graphs.assistant_tools import AssistantTools, with_errors
from triplewise.tools.parsing.card import SchemaCard

READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


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
        served = with_errors(tool, ToolError)
        server.add_tool(served, description=getdoc(tool), annotations=READ_ONLY, structured_output=True)
    return server
