"""Options that several commands share, and the context they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from triplewise.tools.core.errors import ConfigurationError

if TYPE_CHECKING:
    from triplewise.graphs.cli.runs import RunRequest
    from triplewise.nodes.context import Context

KG_FORMS = "demo, a folder made by `triplewise kg load`, an RDF file, or the URL of a SPARQL endpoint"

Question = Annotated[
    str, typer.Argument(help="The question, in quotes.", metavar="QUESTION", show_default=False)
]
Kg = Annotated[
    str | None, typer.Option("--kg", metavar="KG", help=f"Knowledge graph: {KG_FORMS}. [dim](demo)[/dim]")
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME|FILE", help="How the graph is shaped: a packaged profile or a YAML file."
    ),
]
Db = Annotated[
    str | None,
    typer.Option(
        "--db",
        metavar="URL|FILE",
        help="Ask a relational database: SQLite, DuckDB, CSV or PostgreSQL. Implies --preset sql.",
    ),
]
Model = Annotated[
    str | None,
    typer.Option(
        "--model", metavar="M", help="embedded (no key, no network) or openai:NAME. [dim](embedded)[/dim]"
    ),
]
BaseUrl = Annotated[
    str | None,
    typer.Option(
        "--base-url", metavar="URL", help="OpenAI-compatible server, e.g. http://localhost:8000/v1."
    ),
]
Preset = Annotated[
    str | None, typer.Option("--preset", metavar="P", help="See `triplewise presets`. [dim](agent)[/dim]")
]
Faithful = Annotated[
    bool,
    typer.Option(
        "--faithful", help="The preset's loop as its paper has it, to compare with. [dim](queryagent)[/dim]"
    ),
]
Entities = Annotated[
    list[str] | None,
    typer.Option(
        "--entity", metavar='"mention=id"', help="An entity you know; without id it is linked. Repeatable."
    ),
]
Seeds = Annotated[
    str | None,
    typer.Option(
        "--seeds",
        metavar="FILE",
        help="Answered example questions of this graph, as JSON lines; none for none. "
        "[dim](those of triplewise plan index)[/dim]",
    ),
]
Documents = Annotated[
    str | None,
    typer.Option(
        "--documents",
        metavar="FOLDER|wikipedia",
        help="What to read where the graph has a gap: text and HTML files, or Wikipedia online. "
        "Implies --preset symagent.",
    ),
]
Overlay = Annotated[
    str | None,
    typer.Option(
        "--overlay",
        metavar="WHICH",
        help="See kept facts besides the graph: accepted ones, or proposed ones too. [dim](none)[/dim]",
    ),
]
Facts = Annotated[
    str | None,
    typer.Option(
        "--facts", metavar="FILE", help="Keep facts read from documents there. See `triplewise facts`."
    ),
]
Review = Annotated[
    bool, typer.Option("--review", help="Ask for your yes before a fact read from a document is used.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other setting of a run, e.g. max_steps=20. Repeatable."
    ),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Settings and preset as YAML, e.g. what `triplewise learn` leaves; other options go before it.",
    ),
]

DEFAULT_PRESET, SQL_PRESET, READING_PRESET = "agent", "sql", "symagent"


def given(**named: str | None) -> dict[str, str]:
    """The options that were given."""
    return {name: value for name, value in named.items() if value is not None}


def read_config(path: Path | None) -> tuple[str | None, dict[str, Any]]:
    """The preset (None for none) and the settings of a `--config` file; nothing without a file.

    Raises:
        DataError: it cannot be read, or maps no settings.
        ConfigurationError: an unknown setting; lists what is legal.
    """
    if path is None:
        return None, {}
    import yaml

    from triplewise.nodes.context import Context
    from triplewise.tools.core.errors import DataError

    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DataError(f"cannot read settings: {error}", path) from error
    if not isinstance(values, dict):
        raise DataError("must map settings to values, e.g. `encoder: learned/policy-1`", path)
    preset = values.pop("preset", None)
    legal = [f.name for f in fields(Context)]
    for name in values:
        if name not in legal:
            raise ConfigurationError.unknown(f"setting in {path}", name, ["preset", *legal])
    return preset, values


def context_of(named: Mapping[str, Any], settings: Iterable[str] = ()) -> Context:
    """The context of a run from options and `--set` pairs.

    Raises:
        ConfigurationError: an unknown setting, or a value that does not fit; lists what is legal.
    """
    from triplewise.nodes.context import Context

    values: dict[str, Any] = dict(named)
    hints = get_type_hints(Context)
    for pair in settings:
        name, equals, value = pair.partition("=")
        name = name.strip().replace("-", "_")
        if not equals:
            raise ConfigurationError(f"--set {pair!r} needs the form NAME=VALUE, e.g. --set max_steps=20")
        if name not in hints:
            raise ConfigurationError.unknown("setting", name, (f.name for f in fields(Context)))
        values[name] = _typed(name, value, hints[name])
    context = Context(**values)
    if not context.embedded:
        from triplewise.nodes.models import model_name

        model_name(context.model)
    return context


def _typed(name: str, value: str, kind: Any) -> Any:
    """The value of a setting as its type. Raises `ConfigurationError` where it does not fit."""
    from pydantic import TypeAdapter, ValidationError

    if value.strip().lower() == "none" and type(None) in get_args(kind):
        return None
    if kind == list[str]:
        return [part.strip() for part in value.split(",") if part.strip()]
    try:
        return TypeAdapter(kind).validate_strings(value)
    except ValidationError as error:
        raise ConfigurationError(f"--set {name}={value}: {error.errors()[0]['msg'].lower()}") from error


def preset_of(preset: str | None, faithful: bool, settings: Iterable[str] = ()) -> str | None:
    """The preset that was asked for, in its faithful form where that was asked for.

    Raises:
        ConfigurationError: it has no faithful form, or `--set` asks for what that form is there to leave out.
    """
    if not faithful:
        return preset
    from triplewise.graphs.presets import faithful_name, find_preset

    name = faithful_name(preset or DEFAULT_PRESET)
    fixed = find_preset(name).settings
    for pair in settings:
        setting = pair.partition("=")[0].strip().replace("-", "_")
        if setting in fixed:
            raise ConfigurationError(
                f"--faithful sets {setting}={fixed[setting]}; leave out --set {pair}, or leave out --faithful"
            )
    return name


def entities_of(pairs: Iterable[str]) -> dict[str, str | None]:
    """`mention=id` pairs; a mention without id is to be linked."""
    entities: dict[str, str | None] = {}
    for pair in pairs:
        mention, _, node = (part.strip() for part in pair.partition("="))
        if not mention:
            raise ConfigurationError(f'--entity {pair!r} needs the form "mention=id", e.g. "Goethe=Q5879"')
        entities[mention] = node or None
    return entities


def request_of(
    question: str | None,
    preset: str | None,
    entity: Iterable[str],
    context: Context,
    thread: str | None = None,
) -> RunRequest:
    """What to run. Raises `ConfigurationError` before anything is opened."""
    from triplewise.graphs.cli.runs import RunRequest
    from triplewise.graphs.presets import find_preset

    reads = READING_PRESET if context.documents is not None else DEFAULT_PRESET
    preset = preset or (SQL_PRESET if context.db is not None else reads)
    toolset = find_preset(preset).settings.get("toolset")
    if context.db is not None and toolset != SQL_PRESET:
        raise ConfigurationError(f"preset {preset} asks a knowledge graph; leave out --preset, or --db")
    if context.db is not None:
        from triplewise.nodes.sql import require_model

        require_model(context)
    if not question or not question.strip():
        raise ConfigurationError('no question; ask one, e.g. triplewise ask "Who wrote Dracula?"')
    request = RunRequest(question.strip(), entities_of(entity), preset, asdict(context))
    return request if thread is None else replace(request, thread=thread, named=True)
