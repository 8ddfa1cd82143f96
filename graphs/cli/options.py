"""The options that several commands share."""

# ruff: noqa: RUF009 - an option stands for the default of a field

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass, fields
from datetime import date, time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from triplewise.graphs.commands import (
    argument as argument,
    command as command,
    flag as flag,
    option as option,
)
from triplewise.tools.core.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from triplewise.graphs.runs import RunRequest
    from triplewise.tools.kg import KnowledgeGraph

DEFAULT_PRESET = "agent"
KG_FORMS = (
    "demo, a file (RDF, SQLite, CSV), a folder of RDF or of `triplewise kg load`, or a SPARQL endpoint's URL"
)
MORE = "Repeatable. A login goes in the URL, or in TRIPLEWISE_HOST_TOKEN (docs/endpoints.md)."
SHAPE = "How the graph is shaped: a packaged profile or a YAML file."

Profile = Annotated[str | None, typer.Option(metavar="NAME|FILE", help=SHAPE)]
_MENTION = "An entity you know; without id it is linked. Repeatable."
Entities = Annotated[list[str] | None, typer.Option(metavar='"mention=id"', help=_MENTION)]

_common = functools.partial(option, rich_help_panel="Graph, model and settings")


def given(context: typer.Context, *ignored: str) -> list[str]:
    """Return the options and arguments on the command line, as a person writes them, but for some."""
    return [
        p.opts[0] if p.opts[0].startswith("-") else str(p.metavar)
        for p in context.command.params
        if p.name not in ignored and "COMMANDLINE" in str(context.get_parameter_source(p.name or ""))
    ]


def check_resume(context: typer.Context, *ignored: str) -> None:
    """Raise `ConfigurationError` for options that `--resume` takes from the run it resumes."""
    if extra := given(context, "resume", *ignored):
        message = f"--resume takes all settings from the run it resumes, not {', '.join(extra)}"
        raise ConfigurationError(f"{message}; leave them out")


@dataclass(frozen=True)
class GraphOptions:
    """Which graph."""

    kg: list[str] | None = _common("[NAME=]KG", f"Knowledge graph: {KG_FORMS}. {MORE}", shown="demo")
    profile: str | None = _common("NAME|FILE", SHAPE)

    @property
    def source(self) -> str:
        """The graph of the option, or of `triplewise.toml`, or the demo graph."""
        from triplewise.tools.federation.sources import join_sources

        return join_sources(self.kg or read_config().get("kg", "demo"))

    def open_graph(self) -> KnowledgeGraph:
        """Open the graph, as `open_sources`."""
        from triplewise.tools.federation.sources import open_sources

        profile = self.profile or (None if self.kg else read_config().get("profile"))
        return open_sources(self.source, profile=profile)


@dataclass(frozen=True)
class SettingOptions(GraphOptions):
    """A graph, a model, and any setting of a run. Fields that have the name of a setting are that setting."""

    model: str | None = _common(
        "M", "embedded (no key, no network), openai:NAME, or provider:NAME.", shown="embedded"
    )
    base_url: str | None = _common("URL", "OpenAI-compatible server, e.g. http://localhost:8000/v1.")
    seeds: str | None = _common(
        "FILE",
        "Answered example questions, as JSON lines, or none.",
        shown="those of `triplewise plan index`",
    )
    examples: str | None = _common(
        "FILE", "Solved questions that a model is shown, as JSON lines, or none.", shown="those marked right"
    )
    pairs: list[str] | None = _common(
        "NAME=VALUE", "Any other setting of a run, e.g. max_steps=20. Repeatable.", None, "--set"
    )

    def context_settings(self, config: Path | None = None) -> dict[str, Any]:
        """Return the settings of these options and of the configuration, checked. Raises as `read_config`."""
        from triplewise.nodes.context import Context
        from triplewise.nodes.models import split_model

        legal = {f.name for f in fields(Context)}
        options = {f.name: getattr(self, f.name) for f in fields(self) if f.name in legal}
        values = read_config(config) | {name: v for name, v in options.items() if v not in (None, False)}
        values |= parse_settings(self.pairs or [])
        if self.kg and values.get("db"):  # a database next to graphs is one of the sources
            values["kg"] = [*self.kg, values.pop("db")]
        values.pop("preset", None)
        context = Context(**values)
        if not context.offline:
            split_model(context.model)
        return {name: getattr(context, name) for name in values}


@dataclass(frozen=True)
class RunOptions(SettingOptions):
    """Everything a run is made of but its question."""

    preset: str | None = _common("P", "See `triplewise presets`.", shown=DEFAULT_PRESET)

    def request(
        self, question: str | None = "?", entities: Iterable[str] | None = None, config: Path | None = None
    ) -> RunRequest:
        """Return what to run; entities are `mention=id` or `mention`. Raises before anything is opened."""
        from triplewise.graphs.presets import find_preset
        from triplewise.graphs.runs import RunRequest
        from triplewise.tools.actions import DATABASE_TOOLSETS

        settings = self.context_settings(config)
        preset, db = self.preset or read_config(config).get("preset"), settings.get("db")
        preset = preset or ("sql" if db else "symagent" if settings.get("documents") else DEFAULT_PRESET)
        if db and find_preset(preset).settings["toolset"] not in DATABASE_TOOLSETS:
            raise ConfigurationError(f"preset {preset} asks a knowledge graph; leave out --preset, or --db")
        if settings.get("review") or settings.get("interactive"):
            message = "review and interactive stop a run, for Python and Studio; leave them out here"
            raise ConfigurationError(f"{message}: decide by `triplewise facts`, pick a reading on the page")
        if not question or not question.strip():
            raise ConfigurationError('no question; ask one, e.g. triplewise ask "Who wrote Dracula?"')
        ids: dict[str, str | None] = {}
        for pair in entities or ():
            mention, _, node = (part.strip() for part in pair.partition("="))
            if not mention:
                message = f'--entity {pair!r} needs the form "mention=id", e.g. "Goethe=Q5879"'
                raise ConfigurationError(message)
            ids[mention] = node or None
        return RunRequest(question.strip(), ids, preset, settings)


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Return the settings of `--set` pairs, each as its type. Raises `ConfigurationError`."""
    from pydantic import TypeAdapter, ValidationError

    from triplewise.nodes.context import Context

    values: dict[str, Any] = {}
    kinds = get_type_hints(Context) if pairs else {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ConfigurationError(f"--set {pair!r} needs the form NAME=VALUE, e.g. --set max_steps=20")
        if name not in kinds:
            raise ConfigurationError.unknown("setting", name, kinds)
        if value.strip().lower() == "none" and type(None) in get_args(kinds[name]):
            values[name] = None
        elif kinds[name] == list[str]:
            values[name] = [part.strip() for part in value.split(",") if part.strip()]
        else:
            try:
                values[name] = TypeAdapter(kinds[name]).validate_strings(value)
            except ValidationError as error:
                message = error.errors()[0]["msg"].lower()
                raise ConfigurationError(f"--set {name}={value}: {message}") from error
    return values


def read_config(path: Path | None = None) -> dict[str, Any]:
    """Return the settings of `triplewise.toml`, and over them those of a `--config` file, with `preset`.

    Raises `DataError` where one cannot be read or maps no settings, `ConfigurationError` on an unknown one.
    """
    from triplewise.nodes.context import Context, check_settings
    from triplewise.tools.core.configuration import configuration_file, read_section
    from triplewise.tools.core.files import read_yaml

    legal, settings = ["preset", *(f.name for f in fields(Context))], dict[str, Any]()
    sources = [(configuration_file(), read_section("settings"))]
    if path is not None:
        sources.append((path, read_yaml(path).value))
    for place, values in sources:
        if not isinstance(values, dict):
            raise DataError("must map settings to values, e.g. `encoder: learned/policy-1`", place)
        for name, value in values.items():
            if name not in legal:
                raise ConfigurationError.unknown(f"setting in {place}", name, legal)
            if name == "preset" and not isinstance(value, str):
                raise DataError(f"setting preset: should be a name, got {value!r}", place)
            try:
                check_settings({name: value})
            except ConfigurationError as error:
                hint = " (is read as a date; write it in quotes)" if isinstance(value, date | time) else ""
                raise DataError(f"{error}{hint}", place) from None
        settings |= values
    return settings
