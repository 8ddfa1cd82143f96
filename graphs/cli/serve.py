"""`triplewise serve`: the web page and its API, the TEXT2SPARQL challenge's API, and an assistant's tools."""

from __future__ import annotations

import logging
import socket
import sys
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Annotated, Any

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.console import say
from triplewise.tools.core.addresses import LOOPBACK
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import packaged

if TYPE_CHECKING:
    from starlette.types import ASGIApp

_HOST = "Address to listen on; 0.0.0.0 lets other machines ask."
Host = Annotated[str, typer.Option(metavar="ADDRESS", help=_HOST)]
Port = Annotated[int, typer.Option(metavar="N", min=0, max=65_535, help="Port; 0 takes a free one.")]

commands = typer.Typer()


@o.command(commands, add="callback", invoke_without_command=True)
def serve(
    context: typer.Context,
    options: o.RunOptions,
    host: Host = "127.0.0.1",
    port: Port = 8000,
    jobs: int = o.option("N", "Questions worked on at a time; others wait.", 4, min=1),
) -> None:
    """Serve a web page that asks a graph, its API, and the API of the TEXT2SPARQL challenge.

    `triplewise serve mcp` serves a graph as tools of an assistant instead.

    Examples:
        triplewise serve
        triplewise serve --kg films.ttl --port 8080
        triplewise serve --kg mykg --model openai:gpt-4o-mini --set max_seconds=60
    """
    if context.invoked_subcommand is not None:
        if option := next(iter(o.given(context)), ""):
            raise ConfigurationError(f"options of mcp go behind it: triplewise serve mcp {option} ...")
        return
    from triplewise.graphs.serve import ServedGraph, Service

    request = options.request()
    main = ServedGraph.open(request.preset, request.context)
    topics = packaged("triplewise.graphs.cli", "demo.yaml")["topics"] if main.context.kg == "demo" else ()
    questions = tuple(topic["questions"][0] for topic in topics)
    _listen(Service(main, jobs, host in LOOPBACK, questions).app, host, port, main.kg.name)


@o.command(commands)
def mcp(
    options: o.RunOptions,
    http: bool = o.flag("Listen on a port (streamable HTTP), not on standard input.", "--http"),
    host: Host = "127.0.0.1",
    port: Port = 8000,
) -> None:
    """Serve a graph as tools of an assistant or an editor (Model Context Protocol).

    Tools: ask, search, describe, query. None of them changes the graph.

    Examples:
        triplewise serve mcp --kg films.ttl --http --port 8001
    """
    # Standard output is the protocol's: what is printed meanwhile goes to stderr, as the server has it later.
    with redirect_stdout(sys.stderr):
        try:
            import anyio

            from triplewise.graphs.assistant_tools import AssistantTools
            from triplewise.graphs.mcp_server import mcp_server, serve_stdio
        except ModuleNotFoundError as error:
            message = f"this command needs {error.name}: pip install 'triplewise[mcp]'"
            raise ConfigurationError(message) from error
        request = options.request()
        tools = AssistantTools(preset=request.preset, **request.context)
        server = mcp_server(tools)
    if http:
        _listen(server.streamable_http_app(host=host), host, port, tools.kg.name, "/mcp")
    else:
        if sys.stdin.isatty():
            say("speaking MCP on standard input and output, for the assistant that starts this command")
        anyio.run(serve_stdio, server)


def _listen(app: ASGIApp, host: str, port: int, name: str, path: str = "") -> None:
    """Serve an application until it is interrupted. Raises `ConfigurationError` if it cannot listen."""
    import uvicorn

    from triplewise.graphs.connections import ImpatientProtocol

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if not host:
            raise OSError(0, "no address; 0.0.0.0 are all of this machine")
        listening = socket.create_server((host, port), family=family)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", error)
        message = f"cannot listen on {host}:{port} ({reason}); choose with --host, --port"
        raise ConfigurationError(message) from error
    shown = f"[{host}]" if ":" in host else host
    say(f"serving {name} on http://{shown}:{listening.getsockname()[1]}{path} (Ctrl-C stops it)")
    if host not in LOOPBACK:
        say("whoever reaches this address can ask; put what checks who they are before it", "notice")
    quiet: Any = {"log_level": "warning", "timeout_graceful_shutdown": 1, "server_header": False}
    server = uvicorn.Server(uvicorn.Config(app, http=ImpatientProtocol, **quiet))
    # Whoever pressed Ctrl-C wants running answers to be cut off.
    logging.getLogger("uvicorn.error").addFilter(lambda record: not server.should_exit)
    server.run(sockets=[listening])
