"""What can be evaluated: the presets of the one machine, and baselines over the same tools and budgets."""

from __future__ import annotations

import inspect
from typing import Any

from langgraph.graph.state import CompiledStateGraph

from triplewise.evals.baselines import BASELINES, without_model
from triplewise.graphs import PRESETS, Context, State, build_graph
from triplewise.nodes import VARIANTS
from triplewise.tools.core.errors import ConfigurationError

Graph = CompiledStateGraph[State, Context, Any, Any]


def build_system(name: str, **parts: Any) -> Graph:
    """Compile a preset or a baseline.

    Args:
        name: of `PRESETS` or of `BASELINES`.
        **parts: phase -> variant for a preset, parameter -> value for a baseline.

    Raises:
        ConfigurationError: unknown name, phase, variant or parameter; the message lists the legal ones.
    """
    if name not in BASELINES:
        if name not in PRESETS and "-faithful" not in name:
            raise ConfigurationError.unknown("preset or baseline", name, [*PRESETS, *BASELINES])
        return build_graph(name, **parts)
    build = BASELINES[name].build
    known = inspect.signature(build).parameters
    if unknown := set(parts) - set(known):
        raise ConfigurationError.unknown(f"parameter of baseline {name}", unknown.pop(), known)
    built: Graph = build(**parts)
    return built


def parts_of(name: str) -> set[str]:
    """The names by which a system is changed: phases, and for a baseline its own parameters too.

    A baseline has no phase but `link`; the others are listed so that `build_system` can say so.
    """
    own = inspect.signature(BASELINES[name].build).parameters if name in BASELINES else ()
    return {*VARIANTS, *own}


def check_model(name: str, context: Context) -> None:
    """Raise `ConfigurationError` where a baseline needs a language model and the context has none."""
    if name in BASELINES and not BASELINES[name].embedded and context.embedded:
        raise without_model(name)
