"""The commands put together."""

from __future__ import annotations

import importlib.metadata
import os
import signal
import sys
from collections.abc import Sequence

import typer

from triplewise.graphs.cli import ask, chat, facts, guidelines, kg, learn, options as o, plan, query, serve
from triplewise.graphs.console import EXIT_CODES, out, pairs, relax_collector, run_command
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import packaged

# Read by LangGraph when it is imported, later: only types of the state are ever loaded from a checkpoint.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

app = typer.Typer(
    name="triplewise",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (ask, chat, learn, query):
    app.add_typer(module.commands)
for module in (kg, plan, guidelines, facts, serve):
    app.add_typer(module.commands, name=module.__name__.rpartition(".")[2])


@o.command(app, add="callback", after=EXIT_CODES, invoke_without_command=True)
def top(
    context: typer.Context,
    version: bool = o.flag("Show the version.", "--version"),
    debug: bool = o.flag("Show the traceback of an error. May stand anywhere.", "--debug"),
) -> None:
    """Answers questions from a knowledge graph: with the query, the facts that prove it, and every mistake
    that was caught on the way.

    Examples:
        triplewise ask "Where was Goethe's unmarried partner born?"
        triplewise ask "Who directed Alien?" --kg films.ttl
        triplewise demo
    """
    if version:
        typer.echo(f"triplewise {importlib.metadata.version('triplewise')}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


@o.command(app)
def presets() -> None:
    """List the presets: what each is made of, and the variants of each phase."""
    from triplewise.graphs.presets import PRESETS, VARIANTS

    for name, preset in PRESETS.items():
        phases = ", ".join(f"{phase}={preset.phases[phase]}" for phase in VARIANTS)
        settings = ", ".join(f"{setting}={value}" for setting, value in preset.settings.items())
        out().print(pairs(name, {"is": preset.summary, "phases": phases, "settings": settings}.items()), "")
    variants = [(phase, ", ".join(variants)) for phase, variants in VARIANTS.items()]
    out().print(pairs("Variants of each phase, for build_graph(preset, phase=variant)", variants))


@o.command(app)
def demo() -> None:
    """Show what the demo graph is about, with questions to try."""
    data, console = packaged("triplewise.graphs.cli", "demo.yaml"), out()
    console.print(data["about"].strip() + "\n")
    for topic in data["topics"]:
        console.print(topic["topic"], style="bold")
        for question in topic["questions"]:
            console.print(f'  triplewise ask "{question}"', soft_wrap=True)


# What follows the name is the other app's to read, `--help` included.
_PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command("eval", context_settings=_PASSED_ON, add_help_option=False)
def evaluate(context: typer.Context) -> object:
    """Run a benchmark, a grid of ablations, or write the report of runs."""
    fix = "pip install 'triplewise[evals]'"
    # The command of the layer above is found by its entry point.
    entry = next(iter(importlib.metadata.entry_points(group="triplewise.commands", name="eval")), None)
    if entry is None:
        raise ConfigurationError(f"nothing brings the command `triplewise eval` here; {fix}")
    try:
        commands: typer.Typer = entry.load()
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("triplewise"):
            raise
        raise ConfigurationError(f"`triplewise eval` needs {error.name}: {fix}") from error
    command, name = typer.main.get_command(commands), context.command_path
    return command.main(list(context.args), prog_name=name, standalone_mode=False)


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    return run_command(arguments, app)


def main() -> None:
    """Run the command line and leave with its exit code; a signal that ends it leaves no files behind."""
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:  # not by `nohup`
        signal.signal(signal.SIGHUP, lambda *_: signal.raise_signal(signal.SIGTERM))
    relax_collector()
    sys.exit(run(sys.argv[1:]))
