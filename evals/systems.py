"""What can be evaluated: the presets of the one machine, and baselines over the same tools and budgets."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from langgraph.graph.state import CompiledStateGraph
from rich.table import Table

from triplewise.evals.baselines import BASELINES
from triplewise.graphs import PRESETS, Context, State, build_graph
from triplewise.graphs.cli.console import examples, out
from triplewise.graphs.presets import VARIANTS
from triplewise.tools.core.errors import ConfigurationError

Graph = CompiledStateGraph[State, Context, Any, Any]

SOURCES = {
    "agent": "QueryAgent, ODA and SymAgent together",
    "queryagent": "QueryAgent (2024)",
    "oda": "ODA (2024)",
    "symagent": "SymAgent (2025)",
    "agentbench": "QueryAgent (2024), table 6: AgentBench with ERASER",
    "agentbench-plain": "QueryAgent (2024), table 6: AgentBench without ERASER",
    "sql": "QueryAgent (2024), section 5.4",
    "queryagent-faithful": "QueryAgent (2024), algorithm 1 and appendices B and D",
}
"""Preset -> the paper it follows."""


def build_system(name: str, **parts: Any) -> Graph:
    """Compile a preset or a baseline.

    Args:
        name: of `PRESETS` or of `BASELINES`.
        **parts: phase -> variant for a preset, parameter -> value for a baseline.

    Raises:
        ConfigurationError: unknown name, phase, variant or parameter; the message lists the legal ones.
    """
    if name not in BASELINES:
        if name not in PRESETS:
            raise ConfigurationError.unknown("preset or baseline", name, [*PRESETS, *BASELINES])
        return build_graph(name, **parts)
    build = BASELINES[name].build
    legal = inspect.signature(build).parameters
    if unknown := set(parts) - set(legal):
        raise ConfigurationError.unknown(f"parameter of baseline {name}", unknown.pop(), legal)
    built: Graph = build(**parts)
    return built


def parts_of(name: str) -> Collection[str]:
    """Return the names by which a system is changed: the phases of a preset, a baseline's parameters."""
    return inspect.signature(BASELINES[name].build).parameters if name in BASELINES else VARIANTS


@dataclass(frozen=True, slots=True)
class System:
    """What a system is.

    Attributes:
        name: for `--system`. kind: preset or baseline. summary: what it does. source: the paper it follows.
        parameters: phase -> variant of a preset, parameter -> default of a baseline.
        settings: what it sets for a run, unless the run has values of its own.
        needs_model: whether it cannot work without a language model.
    """

    name: str
    kind: str
    summary: str
    source: str
    parameters: dict[str, Any]
    settings: dict[str, Any]
    needs_model: bool


def systems() -> list[System]:
    """Return all presets and baselines."""
    listed = [
        System(name, "preset", p.summary, SOURCES.get(name, ""), dict(p.phases), dict(p.settings), False)
        for name, p in PRESETS.items()
    ]
    for name, b in BASELINES.items():
        defaults = {key: p.default for key, p in inspect.signature(b.build).parameters.items()}
        listed.append(System(name, "baseline", b.summary, b.source, defaults, {}, not b.embedded))
    return listed


def register(app: typer.Typer) -> None:
    """Add the command `systems` to the app."""
    app.command(
        "systems",
        epilog=examples("triplewise eval systems", "triplewise eval metaqa --system rog --limit 20"),
    )(list_systems)


def list_systems(
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON, settings too.")] = False,
) -> None:
    """List presets and baselines: what they do, the paper they follow, and what can be set."""
    listed = systems()
    if as_json:
        typer.echo(json.dumps([asdict(system) for system in listed], indent=2, ensure_ascii=False))
        return
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("system", no_wrap=True, style="bold")
    table.add_column("what it does")
    for system in listed:
        own = ", ".join(f"{name}={value}" for name, value in system.parameters.items())
        about = [
            system.source,
            own if system.kind == "baseline" else "",
            "needs a language model" if system.needs_model else "",
        ]
        table.add_row(system.name, f"{system.summary}\n{'; '.join(filter(None, about))}")
    out().print(table)
    phases = ", ".join(PRESETS["agent"].phases)
    out().print(f"Set with --set NAME=VALUE; the phases of a preset are {phases}.")
