"""`triplewise eval systems`: what can be evaluated, and what each of it takes."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.table import Table

from triplewise.evals.baselines import BASELINES
from triplewise.graphs.cli.console import examples, out
from triplewise.graphs.presets import FAITHFUL, PRESETS, Preset

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


def register(app: typer.Typer) -> None:
    """Add the command to the app."""
    app.command(
        "systems",
        epilog=examples("triplewise eval systems", "triplewise eval metaqa --system rog --limit 20"),
    )(list_systems)


def list_systems(
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON, settings too.")] = False,
) -> None:
    """List presets and baselines: what they do, the paper they follow, and what can be set."""
    found = systems()
    if as_json:
        typer.echo(json.dumps([asdict(system) for system in found], indent=2, ensure_ascii=False))
        return
    out().print(_table(found))
    phases = ", ".join(PRESETS["agent"].phases)
    out().print(f"Set with --set NAME=VALUE; the phases of a preset are {phases}.")


def systems() -> list[System]:
    """All presets and baselines."""
    faithful = {f"{name}-faithful": preset for name, preset in FAITHFUL.items()}
    presets = [_preset(name, preset) for name, preset in {**PRESETS, **faithful}.items()]
    return [*presets, *(_baseline(name) for name in BASELINES)]


def _preset(name: str, preset: Preset) -> System:
    return System(
        name=name,
        kind="preset",
        summary=preset.summary,
        source=SOURCES.get(name, ""),
        parameters=dict(preset.phases),
        settings=dict(preset.settings),
        needs_model=False,
    )


def _baseline(name: str) -> System:
    found = BASELINES[name]
    parameters = inspect.signature(found.build).parameters
    return System(
        name=name,
        kind="baseline",
        summary=found.summary,
        source=found.source,
        parameters={key: parameter.default for key, parameter in parameters.items()},
        settings={},
        needs_model=not found.embedded,
    )


def _table(found: list[System]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("system", no_wrap=True, style="bold")
    table.add_column("what it does")
    for kind in ("preset", "baseline"):
        for system in (s for s in found if s.kind == kind):
            table.add_row(system.name, f"{system.summary}\n{_told(system)}")
    return table


def _told(system: System) -> str:
    """The paper, what can be set, and whether a model is needed; all presets have the same phases."""
    own = ", ".join(f"{name}={value}" for name, value in system.parameters.items())
    told = (system.source, own if system.kind == "baseline" else "")
    return "; ".join([*filter(None, told), *(["needs a language model"] if system.needs_model else [])])
