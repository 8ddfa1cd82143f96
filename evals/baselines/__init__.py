"""Baselines: other ways to answer, as graphs over the same state, tools, knowledge graph and budgets.

`baselines.yaml` lists them. The AgentBench baselines of QueryAgent's table 6 are the presets `agentbench` and
`agentbench-plain`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import Any, cast

from langgraph.graph.state import CompiledStateGraph
from pydantic import ConfigDict, ValidationError, validate_call

from triplewise.graphs import PRESETS, Context, State, build_graph
from triplewise.graphs.presets import VARIANTS, Preset
from triplewise.tools.core.configuration import find_part
from triplewise.tools.core.errors import ConfigurationError
from triplewise.tools.core.files import packaged

Graph = CompiledStateGraph[State, Context, Any, Any]


@dataclass(frozen=True, slots=True)
class Baseline:
    """One way to answer: what it does, the paper it follows, and what compiles it.

    The builder is a function, or `module:function` of this package; `offline` tells whether it works without
    a language model.
    """

    summary: str
    source: str
    builder: str | Callable[..., Any]
    offline: bool = True

    @property
    def build(self) -> Callable[..., Any]:
        """The builder, imported now. Its keyword parameters are the baseline's own, each with a default."""
        if isinstance(self.builder, str):
            return cast("Callable[..., Any]", resolve_name(f"{__name__}.{self.builder}"))
        return self.builder


BASELINES: Mapping[str, Baseline] = {
    name: Baseline(**entry) for name, entry in packaged(__name__, "baselines.yaml").items()
}


def check_model(name: str, context: Context) -> None:
    """Raise `ConfigurationError` where a baseline needs a language model and the context has none."""
    baseline = find_system(name) if ":" in name else BASELINES.get(name)
    if context.offline and isinstance(baseline, Baseline) and not baseline.offline:
        raise ConfigurationError(
            f"baseline {name} needs a language model: --set model=openai:NAME "
            "(and base_url=URL, for a server of your own)"
        )


def find_system(given: str) -> Preset | Baseline:
    """Return a preset or baseline: see `find_part`. Raises `ConfigurationError` on an unknown name."""
    kinds, both = Preset | Baseline, {**PRESETS, **BASELINES}
    system: Preset | Baseline = find_part("preset or baseline", given, both, lambda p: isinstance(p, kinds))
    return system


def build_system(name: str, **parts: Any) -> Graph:
    """Compile a preset or a baseline: `parts` are phase -> variant, or parameter -> value.

    Raises `ConfigurationError` on an unknown name, phase, variant or parameter, with the legal ones.
    """
    if isinstance(system := find_system(name), Preset):
        return build_graph(name, **parts)
    legal = parts_of(name)
    if unknown := set(parts) - set(legal):
        raise ConfigurationError.unknown(f"parameter of baseline {name}", unknown.pop(), legal)
    try:
        built: Graph = validate_call(config=ConfigDict(strict=True))(system.build)(**parts)
    except ValidationError as error:
        wrong = error.errors()[0]
        message = f"parameter {wrong['loc'][0]} of baseline {name}: {wrong['msg'].lower()}"
        raise ConfigurationError(f"{message}, got {wrong['input']!r}") from error
    return built


def parts_of(name: str) -> Collection[str]:
    """Return the names by which a system is changed: the phases of a preset, a baseline's parameters."""
    system = find_system(name or "agent")
    return VARIANTS if isinstance(system, Preset) else inspect.signature(system.build).parameters
