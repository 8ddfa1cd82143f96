"""What can be evaluated: the presets of the one machine, and baselines over the same tools and budgets."""

from __future__ import annotations

import inspect
from collections.abc import Collection
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from triplewise.evals.baselines import BASELINES, Baseline
from triplewise.graphs import PRESETS, Context, State, build_graph
from triplewise.graphs.presets import VARIANTS, Preset
from triplewise.tools.actions import MODEL_TOOLSETS
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.parts import find_part


def find_system(given: str) -> Preset | Baseline:
    """Return a preset or baseline: see `find_part`. Raises `ConfigurationError` on an unknown name."""
    both: dict[str, Preset | Baseline] = {**PRESETS, **BASELINES}
    system: Preset | Baseline = find_part(
        "preset or baseline", given, both, lambda part: isinstance(part, Preset | Baseline)
    )
    return system


def build_system(name: str, **parts: Any) -> CompiledStateGraph[State, Context, Any, Any]:
    """Compile a preset or a baseline: `parts` are phase -> variant, or parameter -> value.

    Raises `ConfigurationError` on an unknown name, phase, variant or parameter, with the legal ones.
    """
    if isinstance(system := find_system(name), Preset):
        return build_graph(name, **parts)
    legal = inspect.signature(system.build).parameters
    if unknown := set(parts) - set(legal):
        raise ConfigurationError.unknown(f"parameter of baseline {name}", unknown.pop(), legal)
    built: CompiledStateGraph[State, Context, Any, Any] = system.build(**parts)
    return built


def parts_of(name: str) -> Collection[str]:
    """Return the names by which a system is changed: the phases of a preset, a baseline's parameters."""
    system = find_system(name or "agent")
    return VARIANTS if isinstance(system, Preset) else inspect.signature(system.build).parameters


def systems() -> list[dict[str, Any]]:
    """Return all presets and baselines.

    Each with its name, kind, summary, source (the paper that a baseline follows), parameters (phase ->
    variant of a preset, parameter -> default of a baseline), the settings that it lays over a run's defaults,
    and whether it needs a language model.
    """
    listed: list[dict[str, Any]] = []
    for name, preset in PRESETS.items():
        about: dict[str, Any] = {"name": name, "summary": preset.summary, "kind": "preset", "source": ""}
        about |= {"parameters": dict(preset.phases), "settings": dict(preset.settings)}
        listed.append({**about, "needs_model": preset.settings["toolset"] in MODEL_TOOLSETS})
    for name, baseline in BASELINES.items():
        about = {"name": name, "summary": baseline.summary, "kind": "baseline", "source": baseline.source}
        parameters = inspect.signature(baseline.build).parameters
        about |= {"parameters": {key: value.default for key, value in parameters.items()}, "settings": {}}
        listed.append({**about, "needs_model": not baseline.embedded})
    return listed
