"""The commands put together, and the one place where errors become lines on stderr and exit codes."""

from __future__ import annotations

import gc
import importlib.metadata
import json
import os
import sqlite3
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import typer

from triplewise.graphs.cli import ask, calibrate, chat, facts, guidelines, kg, learn, plan, query, serve
from triplewise.graphs.cli import options as o
from triplewise.graphs.cli.console import EXIT_CODES, Interrupted, out, pairs, say
from triplewise.tools.core.errors import ConfigurationError, RunError, UserError
from triplewise.tools.core.secrets import redact

USER_ERROR, RUN_ERROR, INTERRUPTED = 2, 3, 130

# Read by LangGraph when it is imported, which is later: nothing but the types that the state is made of is
# ever loaded from a checkpoint.
os.environ.setdefault("LANGGRAPH_STRICT_MSGPACK", "true")

app = typer.Typer(
    name="triplewise",
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for module in (ask, chat, learn, calibrate, query):
    app.add_typer(module.commands)
for name, module in {
    "kg": kg,
    "plan": plan,
    "guidelines": guidelines,
    "facts": facts,
    "serve": serve,
}.items():
    app.add_typer(module.commands, name=name)
config = typer.Typer(help="The configuration file, triplewise.toml.", no_args_is_help=True)
app.add_typer(config, name="config")


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


@o.command(config, "show")
def show_config() -> None:
    """Print where the configuration file lies and what it says; or where one would be looked for."""
    from triplewise.tools.core.configuration import SECTIONS, configuration_file, places, read_section

    path = configuration_file()
    if path is None:
        say(f"no configuration file; it would be looked for as {' or '.join(map(str, places()))}")
        raise typer.Exit(1)
    say(str(path))
    tables = {section: table for section in SECTIONS if (table := read_section(section))}
    for login in tables.get("endpoints", {}).values():  # a header may hold a secret
        login |= {"headers": dict.fromkeys(login["headers"], "...")} if "headers" in login else {}
    typer.echo(json.dumps(tables, indent=2))


@o.command(app)
def presets() -> None:
    """List the presets: what each is made of, and the variants of each phase."""
    from triplewise.graphs.presets import PRESETS, VARIANTS

    console = out()
    for name, preset in PRESETS.items():
        phases = ", ".join(f"{phase}={preset.phases[phase]}" for phase in VARIANTS)
        settings = ", ".join(f"{setting}={value}" for setting, value in preset.settings.items())
        console.print(pairs(name, (("is", preset.summary), ("phases", phases), ("settings", settings))))
        console.print()
    console.print("Variants of each phase, for build_graph(preset, phase=variant)", style="bold")
    console.print(pairs("", [(phase, ", ".join(variants)) for phase, variants in VARIANTS.items()]))


@o.command(app)
def graph(preset: str = o.option("P", "See `triplewise presets`.", o.DEFAULT_PRESET)) -> None:
    """Print the state machine as a Mermaid drawing.

    Examples:
        triplewise graph
        triplewise graph --preset oda > oda.mmd
    """
    from triplewise.graphs.build import build_graph

    typer.echo(build_graph(preset).get_graph().draw_mermaid())


@o.command(app)
def demo() -> None:
    """Show what the demo graph is about, with questions to try."""
    data, console = serve.demo_contents(), out()
    console.print(data["about"].strip() + "\n")
    for topic in data["topics"]:
        console.print(topic["topic"], style="bold")
        for question in topic["questions"]:
            console.print(f'  triplewise ask "{question}"', soft_wrap=True)


@app.command(
    "eval",
    help="Run a benchmark, a grid of ablations, or write the report of runs.",
    # What follows the name is the other app's to read, `--help` included.
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
    add_help_option=False,
)
def evaluate(context: typer.Context) -> object:
    """Run the command of the layer above, found by its entry point of the group `triplewise.commands`."""
    fix = "pip install 'triplewise[evals]'"
    entry = next(iter(importlib.metadata.entry_points(group="triplewise.commands", name="eval")), None)
    if entry is None:
        raise ConfigurationError(f"nothing brings the command `triplewise eval` here; {fix}")
    try:
        commands: typer.Typer = entry.load()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "triplewise":
            raise
        raise ConfigurationError(
            f"`triplewise eval` needs {error.name}, which is not installed; {fix}"
        ) from error
    command = typer.main.get_command(commands)
    result: object = command.main(list(context.args), prog_name=context.command_path, standalone_mode=False)
    return result


def main() -> None:
    """Run the command line and leave with its exit code."""
    relax_collector()
    sys.exit(run(sys.argv[1:]))


def relax_collector() -> None:
    """Look for garbage less often: imports make objects by the hundred thousand, and they all stay.
    Looking among them takes a twentieth of the time to an answer, a seventh of an evaluation's."""
    gc.set_threshold(50_000, 20, 20)


def run(arguments: Sequence[str], commands: typer.Typer = app, name: str = "triplewise") -> int:
    """Run one command and return its exit code. Errors end as one or two lines on stderr.

    Args:
        arguments: what follows the program's name. commands: where the command is looked for.
        name: the program's, as help and errors give it.
    """
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        # Labels of a KG hold any character: one the terminal cannot show must not end the run. Nor must
        # bytes that are not text.
        reconfigure: Any = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="replace")
    debug = "--debug" in arguments
    for argument in arguments:
        if argument.encode("utf-8", "replace").decode() != argument:
            say(f"the argument {argument!r} is not UTF-8 text: set the terminal's encoding to UTF-8", "error")
            return USER_ERROR
    command = typer.main.get_command(commands)
    try:
        result = command.main([a for a in arguments if a != "--debug"], prog_name=name, standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - the last place: it is reported, and the exit code says it failed
        if debug:
            traceback.print_exc()
        return _explain(error)
    if result == INTERRUPTED:
        say("interrupted", "error")
    return result if isinstance(result, int) else 0


def _explain(error: Exception) -> int:
    """Say what went wrong and what to do about it; return the exit code."""
    match error:
        case Interrupted():
            say(f"interrupted{f'; {error}' if str(error) else ''}", "error")
            return INTERRUPTED
        case typer.TyperException():
            context = getattr(error, "ctx", None)
            command = context.command_path if context is not None else "triplewise"
            if error.format_message():  # empty where the help was printed instead
                say(f"{error.format_message()} (see: {command} --help)", "error")
            return USER_ERROR
        case UserError() | RunError():
            say(str(error), "error")
            return USER_ERROR if isinstance(error, UserError) else RUN_ERROR
        case sqlite3.Error():
            say(f"the checkpoints failed ({error}); repeat with --no-checkpoints to do without", "error")
            return RUN_ERROR
        case OSError():
            say(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", "error")
            return RUN_ERROR
    say(f"unexpected {type(error).__name__}: {redact(str(error))}", "error")
    say("This is a bug in triplewise; repeat with --debug for the traceback to report.")
    return RUN_ERROR
