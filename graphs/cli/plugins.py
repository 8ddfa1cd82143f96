"""Commands that rooms above this one bring along, found by entry point and loaded only when they are run.

A package names a Typer app under the entry-point group `triplewise.commands`; here stands only what `--help`
shows of it, so that the start of every other command costs nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "triplewise.commands"
"""The entry-point group: command name -> `module:app`."""

_PASS_ON = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@dataclass(frozen=True, slots=True)
class Plugin:
    """A command that another package brings: its line in `--help`, and the extra that it needs."""

    help: str
    extra: str


PLUGINS: Mapping[str, Plugin] = {
    "eval": Plugin("Run a benchmark, a grid of ablations, or write the report of runs.", "evals"),
}


def register(app: typer.Typer) -> None:
    """Add the commands to the app; what follows their name is theirs to read, `--help` included."""
    for name, plugin in PLUGINS.items():
        app.command(name, help=plugin.help, context_settings=_PASS_ON, add_help_option=False)(run_plugin)


def run_plugin(context: typer.Context) -> object:
    """Run a plugged-in command with the arguments that follow its name; its exit code, if it gives one.

    Raises:
        ConfigurationError: what it needs is not installed; says how to install it.
    """
    name = context.info_name or ""
    command = typer.main.get_command(load_app(name))
    result: object = command.main(list(context.args), prog_name=context.command_path, standalone_mode=False)
    return result


def load_app(name: str) -> typer.Typer:
    """The app behind a command.

    Raises:
        ConfigurationError: it is not installed, or an import of it is not.
    """
    plugin, found = PLUGINS[name], _entry_point(name)
    mend = f"pip install 'triplewise[{plugin.extra}]'"
    if found is None:
        raise ConfigurationError(f"nothing brings the command `triplewise {name}` here; {mend}")
    try:
        app: typer.Typer = found.load()
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "triplewise":
            raise
        raise ConfigurationError(
            f"`triplewise {name}` needs {error.name}, which is not installed; {mend}"
        ) from error
    return app


def _entry_point(name: str) -> EntryPoint | None:
    from importlib.metadata import entry_points

    return next(iter(entry_points(group=GROUP, name=name)), None)
