"""The graphs that LangGraph Studio and LangGraph Server serve (`langgraph.json`), and what clients may set.

Settings that name something outside of the run (files, addresses, models, environment variables) are chosen
by the names that the operator gave them in `triplewise.toml` (docs/python.md). A page of another origin is
answered only where `http.cors` of `langgraph.json` allows it.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeAlias

from langgraph.graph.state import CompiledStateGraph
from langgraph_sdk.runtime import ServerRuntime
from pydantic import ValidationError
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from triplewise.graphs.build import build_chat, build_graph
from triplewise.graphs.presets import PRESETS
from triplewise.nodes.context import NAME_ONE, RESOURCES, Context, check_settings
from triplewise.tools.actions import TOOLSETS
from triplewise.tools.core import errors
from triplewise.tools.core.addresses import LOOPBACK, host_of
from triplewise.tools.core.configuration import NAME, configuration_file, read_section
from triplewise.tools.core.errors import ConfigurationError, DataError
from triplewise.tools.core.files import packaged

HARMLESS = {f.name: [[] if f.default is MISSING else f.default] for f in fields(Context)}
HARMLESS |= {"toolset": [None, *TOOLSETS], "seeds": [None, "none"], "examples": [None, "none"]}
HARMLESS["ranking"] = ["none", "hybrid", "sentence-transformers"]
"""Values of `RESOURCES` settings that name nothing outside: their defaults, above all."""
GROUPS: Mapping[str, str] = packaged("triplewise.graphs", "studio.yaml")
"""The settings in the order that Studio shows, each with its group before its name."""


def read_allowed() -> dict[str, dict[str, Any]]:
    """Return what clients may choose: setting -> name -> the settings it stands for. Raises `DataError`."""
    allowed: dict[str, dict[str, Any]] = {}
    for setting, names in read_section("server").items():
        if setting not in RESOURCES or not isinstance(names, dict):
            message = f'[server.{setting}]: needs to be a setting, and to hold lines NAME = "VALUE"'
            raise DataError(f"{message}{errors.did_you_mean(setting, RESOURCES)}", configuration_file())
        for name, meant in names.items():
            settings = meant if isinstance(meant, dict) else {setting: meant}
            try:
                for unknown in sorted(settings.keys() - HARMLESS.keys()):
                    raise ConfigurationError.unknown("setting", unknown, HARMLESS)
                check_settings(settings)
            except ConfigurationError as error:
                raise DataError(f"[server.{setting}] {name}: {error}", configuration_file()) from None
            allowed.setdefault(setting, {})[name] = settings
    return allowed


def admit(requested: Mapping[str, Any], allowed: Mapping[str, Mapping[str, Any]]) -> Context:
    """Return the settings that a client gets for those it requests. Raises `ConfigurationError`."""
    plain, named = dict[str, Any](), dict[str, Any]()
    for name, value in requested.items():
        names = allowed.get(name, {})
        if isinstance(value, str) and value in names:
            named |= names[value]
        elif name in RESOURCES and value not in HARMLESS[name]:
            legal = ", ".join(str(choice) for choice in (*HARMLESS[name], *sorted(names)) if choice)
            fix = f'adds NAME = "VALUE" under [server.{name}] in {NAME}, and clients choose it by NAME'
            refused = f"setting {name}: this server does not allow {value!r}; it allows {legal or 'none'}"
            raise ConfigurationError(f"{refused}. Its operator {fix}")
        else:
            plain[name] = value
    return Context(**plain | named)


ALLOWED = read_allowed()


class ServedContext(Context):
    """What a client's settings become: a `Context` of those that it is allowed."""

    def __new__(cls, **requested: Any) -> Context:  # type: ignore[misc]
        """Return the settings of the run."""
        return admit(requested, ALLOWED)


Graph: TypeAlias = CompiledStateGraph[Any, Context, Any, Any]


class ServedGraph(CompiledStateGraph[Any, Context, Any, Any]):
    """A machine whose errors are of the kinds whose words the server shows: of others it says nothing."""

    def get_context_jsonschema(self) -> dict[str, Any]:
        """Return the settings as Studio shows them: in groups, with what clients may choose as enums."""
        schema: dict[str, Any] = super().get_context_jsonschema() or {}
        left, shown = schema.get("properties", {}), dict[str, Any]()
        for group, names in GROUPS.items():
            for name in names.split():
                if (setting := left.pop(name, None)) is None:
                    continue
                if name in RESOURCES:
                    setting = {key: setting[key] for key in ("default", "description") if key in setting}
                    setting["enum"] = [*HARMLESS[name], *ALLOWED.get(name, {})]
                    here = f"A name that the operator allows, under [server.{name}] in {NAME}"
                    setting["description"] = f"{here}. In Python: {setting['description']}"
                shown[name] = setting | {"title": f"{group}: {name}"}
        return schema | {"properties": shown | left}

    async def astream(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        """Yield what the machine does. Raises `ValueError` for `UserError`, `RuntimeError` for `RunError`."""
        try:
            async for part in super().astream(*args, **kwargs):
                yield part
        except ValidationError as error:
            first = error.errors()[0]
            message = f"input {'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
            raise ValueError(f'{message}; send e.g. {{"question": "Who wrote Dracula?"}}') from error
        except errors.UserError as error:
            allowed = f"choose as `model` one that the operator allows, under [server.model] in {NAME}"
            raise ValueError(str(error).replace(NAME_ONE, allowed)) from error
        except errors.TriplewiseError as error:
            raise RuntimeError(str(error)) from error


def served(preset: str, build: Callable[..., Graph] = build_graph) -> Callable[[ServerRuntime[Any]], Graph]:
    """Return what the server makes the graph of a preset with."""
    graph = build(preset, context_schema=ServedContext)
    graph.__class__ = ServedGraph

    def graph_for(runtime: ServerRuntime[Any]) -> Graph:
        """Return the graph, once no setting is unknown: the server would drop those without a word."""
        run = runtime.execution_runtime
        requested = run.context if run is not None else None
        try:
            # Names that begin so are the server's own.
            admit({n: v for n, v in (requested or {}).items() if not n.startswith("__")}, ALLOWED)
        except ConfigurationError as error:
            raise ValueError(str(error)) from error  # the server shows its clients the words of few errors
        return graph

    return graph_for


class OriginCheck(CORSMiddleware):
    """Refuses pages of other origins, of which CORS hides only the reply, and on loopback any other name."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand a request on, or answer it with 403."""
        headers = Headers(scope=scope) if scope["type"] in ("http", "websocket") else {}
        origin, host = headers.get("origin"), headers.get("host", "")
        message, address = "", (scope.get("server") or ("",))[0]
        if origin is not None and not self.is_allowed_origin(origin):
            message = f"pages of {origin!r} may not ask this server; http.cors of langgraph.json allows them"
        elif address in LOOPBACK and host_of(f"//{host}") not in LOOPBACK:
            message = f"this server answers to {', '.join(LOOPBACK)}, not to {host!r}"
        if message:
            await PlainTextResponse(message, 403)(scope, receive, send)
        else:
            await self.app(scope, receive, send)


_HTTP = json.loads(os.environ.get("LANGGRAPH_HTTP") or "{}")  # of langgraph.json, as the server gets it
app = Starlette(middleware=[Middleware(OriginCheck, **_HTTP.get("cors", {}))])

chat = served("agent", build_chat)
globals().update({name.replace("-", "_"): served(name) for name in PRESETS})  # as langgraph.json names them
