"""Options that several commands share, and the settings of a run that they give."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer

from triplewise.tools.core.errors import ConfigurationError, DataError

if TYPE_CHECKING:
    from triplewise.graphs.cli.runs import RunRequest

KG_FORMS = (
    "demo, an RDF file, a folder of them or one made by `triplewise kg load`, or the URL of a SPARQL endpoint"
)
DEFAULT_PRESET = "agent"

Kg = Annotated[str | None, typer.Option(metavar="KG", help=f"Knowledge graph: {KG_FORMS}. [dim](demo)[/dim]")]
Profile = Annotated[
    str | None,
    typer.Option(metavar="NAME|FILE", help="How the graph is shaped: a packaged profile or a YAML file."),
]
Preset = Annotated[str | None, typer.Option(metavar="P", help="See `triplewise presets`. [dim](agent)[/dim]")]
Entities = Annotated[
    list[str] | None,
    typer.Option(metavar='"mention=id"', help="An entity you know; without id it is linked. Repeatable."),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Any other setting of a run, e.g. max_steps=20. Repeatable."
    ),
]
Checkpoints = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|URL",
        envvar="TRIPLEWISE_CHECKPOINTS",
        help="Checkpoint file instead of the user's own, or a PostgreSQL database (postgresql://...) whose "
        "workers go on with each other's runs.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]


@dataclass(frozen=True)
class RunOptions:
    """Options of a run that `ask`, `plan` and `learn` share."""

    kg: Kg = None
    profile: Profile = None
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M",
            help="embedded (no key, no network), openai:NAME, or provider:NAME such as anthropic:NAME. "
            "[dim](embedded)[/dim]",
        ),
    ] = None
    base_url: Annotated[
        str | None,
        typer.Option(metavar="URL", help="OpenAI-compatible server, e.g. http://localhost:8000/v1."),
    ] = None
    seeds: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="Answered example questions of this graph, as JSON lines; none for none. "
            "[dim](those of triplewise plan index)[/dim]",
        ),
    ] = None
    settings: Settings = None

    def context_settings(self, **more: Any) -> dict[str, Any]:
        """Return the settings of these options, of more, and of `triplewise.toml`, in that order, checked.
        Those not set are left to the preset.

        Raises:
            ConfigurationError: an unknown setting, or a value that does not fit; lists what is legal.
        """
        from triplewise.nodes.context import Context
        from triplewise.nodes.models import split_model

        named = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "settings"}
        values = (
            read_config(None)[1] | more | {name: value for name, value in named.items() if value is not None}
        )
        values |= parse_settings(self.settings or [])
        context = Context(**values)
        if not context.embedded:
            split_model(context.model)
        return {name: getattr(context, name) for name in values}


def unfold(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer, which takes the fields of each parameter that is a dataclass as options."""
    signature = inspect.signature(command, eval_str=True)
    groups: dict[str, Any] = {
        p.name: p.annotation for p in signature.parameters.values() if is_dataclass(p.annotation)
    }
    options = {name: inspect.signature(kind, eval_str=True).parameters for name, kind in groups.items()}

    @functools.wraps(command)
    def unfolded(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{option: values.pop(option) for option in options[name]})
        command(**values)

    parameters = (q for p in signature.parameters.values() for q in options.get(p.name, {"": p}).values())
    keywords = [p.replace(kind=p.KEYWORD_ONLY) for p in parameters]
    vars(unfolded).update(__signature__=signature.replace(parameters=keywords), __annotations__={})
    return unfolded


def split_pair(option: str, pair: str, example: str) -> tuple[str, str]:
    """Return name and value of NAME=VALUE. Raises `ConfigurationError` on any other form."""
    name, equals, value = pair.partition("=")
    if not equals:
        raise ConfigurationError(f"{option} {pair!r} needs the form NAME=VALUE, e.g. {option} {example}")
    return name.strip().replace("-", "_"), value


def parse_settings(pairs: Iterable[str]) -> dict[str, Any]:
    """Return the settings of `--set` pairs, each as its type. Raises `ConfigurationError` as `RunOptions`."""
    from pydantic import TypeAdapter, ValidationError

    from triplewise.nodes.context import Context

    values: dict[str, Any] = {}
    kinds = get_type_hints(Context) if pairs else {}
    for pair in pairs:
        name, value = split_pair("--set", pair, "max_steps=20")
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


def read_config(path: Path | None) -> tuple[str | None, dict[str, Any]]:
    """Return the preset (None for none) and the settings of a `--config` file, or of `triplewise.toml`.

    Raises:
        DataError: it cannot be read, or maps no settings.
        ConfigurationError: an unknown setting; says what is legal.
    """
    from triplewise.nodes.context import Context
    from triplewise.tools.core.configuration import configuration_file, read_section
    from triplewise.tools.core.files import read_yaml

    values = read_yaml(path).value if path else dict(read_section("settings"))
    if not isinstance(values, dict):
        raise DataError("must map settings to values, e.g. `encoder: learned/policy-1`", path)
    preset = values.pop("preset", None)
    legal = [f.name for f in fields(Context)]
    for name in values:
        if name not in legal:
            place = path or configuration_file()
            raise ConfigurationError.unknown(f"setting in {place}", name, ["preset", *legal])
    return preset, values


def run_request(
    question: str | None,
    preset: str | None,
    entities: Iterable[str],
    settings: Mapping[str, Any],
    thread: str | None = None,
) -> RunRequest:
    """Return what to run.

    Args:
        entities: `mention=id` pairs; a mention without id is to be linked.

    Raises:
        ConfigurationError: something that cannot be run, found before anything is opened.
    """
    from triplewise.graphs.cli.runs import RunRequest
    from triplewise.graphs.presets import find_preset

    db = settings.get("db")
    preset = preset or ("sql" if db else "symagent" if settings.get("documents") else DEFAULT_PRESET)
    toolset = find_preset(preset).settings["toolset"]
    if db or toolset == "sparql":
        from triplewise.nodes.context import Context
        from triplewise.nodes.sql import require_model
        from triplewise.tools.actions import DATABASE_TOOLSETS

        if db and toolset not in DATABASE_TOOLSETS:
            raise ConfigurationError(f"preset {preset} asks a knowledge graph; leave out --preset, or --db")
        require_model(Context(**settings), "asking a database" if db else "writing SPARQL")
    if not question or not question.strip():
        raise ConfigurationError('no question; ask one, e.g. triplewise ask "Who wrote Dracula?"')
    ids: dict[str, str | None] = {}
    for pair in entities:
        mention, _, node = (part.strip() for part in pair.partition("="))
        if not mention:
            raise ConfigurationError(f'--entity {pair!r} needs the form "mention=id", e.g. "Goethe=Q5879"')
        ids[mention] = node or None
    request = RunRequest(question.strip(), ids, preset, dict(settings))
    return request if thread is None else replace(request, thread=thread, named=True)
