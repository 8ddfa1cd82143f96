"""The Model Context Protocol: a knowledge graph as tools of an assistant or an editor.

`ask` reports each phase as progress. Results are structured, and as JSON text besides.
"""

from __future__ import annotations

from importlib.metadata import version
from inspect import getdoc
from typing import Annotated, Any

from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import ToolAnnotations
from pydantic import Field

from triplewise.graphs.around import schema_of
from triplewise.graphs.assistant_tools import AskResult, AssistantTools, with_errors
from triplewise.graphs.trace import DOING
from triplewise.tools.core.errors import TriplewiseError

READ_ONLY = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)


def mcp_server(tools: AssistantTools) -> MCPServer[Any]:
    """Return a server of these tools; `run()` speaks on standard input and output."""
    server: MCPServer[Any] = MCPServer(
        "triplewise",
        title=f"Knowledge graph {tools.kg.name}",
        instructions=f"Tools over the knowledge graph {tools.kg.name}. `ask` first: it proves its answers. "
        "Where it is not sure, `search` for ids, and look with `describe`, `relations`, `paths` and `query`.",
        version=version("triplewise"),
        log_level="WARNING",
    )

    async def ask(
        question: Annotated[str, Field(description="In plain language.")], run: Context
    ) -> AskResult:
        phases, state, modes = 0, dict[str, Any](), ["tasks", "values"]
        try:
            stream = tools.graph.astream({"question": question}, context=tools.context, stream_mode=modes)
            async for mode, data in stream:
                if mode == "values":
                    state = data
                elif "input" in data:
                    phases += 1
                    await run.report_progress(phases, message=DOING[data["name"]])
        except TriplewiseError as error:
            raise ToolError(str(error)) from error
        return AskResult.of(state["answer"])

    @server.resource("schema://graph", title="Classes and relations", mime_type="application/json")
    def schema() -> dict[str, Any]:
        """What the graph holds: classes with members, relations with names, ranges and samples."""
        return schema_of(tools.kg.session(), tools.served.encoder)

    for tool in tools.all:
        served = ask if tool == tools.ask else with_errors(tool, ToolError)
        server.add_tool(served, description=getdoc(tool), annotations=READ_ONLY, structured_output=True)
    return server
