"""`triplewise serve`: the web page and its API, the TEXT2SPARQL challenge's API."""

from __future__ import annotations

import socket
from importlib.resources import files
from typing import Annotated

import typer

from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import examples, say
from triplewise.tools.core.errors import ConfigurationError

commands = typer.Typer(help="Serve a graph: a web page with an API.")

EXAMPLES = examples(
    "triplewise serve",
    "triplewise serve --kg films.ttl --port 8080",
    "triplewise serve --kg mykg --model openai:gpt-4o-mini --set max_seconds=60",
    "triplewise serve --dataset https://text2sparql.aksw.org/2025/corporate/=prod-inst.ttl",
)


@commands.callback(invoke_without_command=True, epilog=EXAMPLES)
@o.unfold
def serve(
    context: typer.Context,
    options: o.RunOptions,
    preset: o.Preset = None,
    host: Annotated[
        str, typer.Option(help="Address to listen on; 0.0.0.0 lets other machines ask.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port to listen on; 0 takes a free one.")
    ] = 8000,
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            metavar="IRI=KG", help="A graph that /text2sparql answers from for this dataset. Repeatable."
        ),
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, help="Questions worked on at a time; others wait.")] = 4,
) -> None:
    """Serve a web page that asks a graph, its API, and the API of the TEXT2SPARQL challenge."""
    if context.invoked_subcommand is not None:
        return
    try:
        import uvicorn

        from triplewise.graphs.serve import LOOPBACK, ServedGraph, Service
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            f"triplewise serve needs {error.name}, which is not installed; pip install 'triplewise[serve]'"
        ) from error
    file_preset, settings = o.read_config(None)
    settings = options.context_settings(**settings)
    request = o.run_request("?", preset or file_preset, [], settings)
    datasets = {}
    for pair in dataset or []:
        iri, _, kg = pair.rpartition("=")
        if not iri or not kg:
            raise ConfigurationError(f"--dataset {pair!r} needs the form IRI=KG, e.g. urn:films=films.ttl")
        datasets[iri] = ServedGraph.open(request.preset, settings | {"kg": kg})
    main = ServedGraph.open(request.preset, settings)
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        listening = socket.create_server((host, port), family=family)
    except OSError as error:
        raise ConfigurationError(
            f"cannot listen on {host}:{port} ({error.strerror}); choose with --host, --port"
        ) from error
    is_local = host in LOOPBACK
    app = Service(main, datasets, jobs, is_local, demo_questions() if main.context.kg == "demo" else ()).app
    shown = f"[{host}]" if ":" in host else host
    say(f"serving {main.kg.name} on http://{shown}:{listening.getsockname()[1]} (Ctrl-C stops it)")
    if not is_local:
        say("whoever reaches this address can ask; put what checks who they are before it", "notice")
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, server_header=False)
    uvicorn.Server(config).run(sockets=[listening])


def demo_questions() -> tuple[str, ...]:
    """Return a question of each topic of the demo graph."""
    import yaml

    data = yaml.safe_load((files("triplewise.graphs.cli") / "demo.yaml").read_text(encoding="utf-8"))
    return tuple(topic["questions"][0] for topic in data["topics"])
