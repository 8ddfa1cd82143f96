"""The compiled state machines: `build_graph`, the presets, the command line.

>>> from triplewise.graphs import Context, build_graph
>>> graph = build_graph(preset="agent")
>>> state = graph.invoke({"question": "What is the capital of Japan?"}, context=Context(kg="demo"))
>>> state["answer"].text
'Tokyo.'

The names below are imported when they are first used, so that the command line starts at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triplewise.graphs.build import build_graph, serializer
    from triplewise.graphs.presets import PRESETS
    from triplewise.nodes.context import Context
    from triplewise.nodes.state import Answer, State

__all__ = ["PRESETS", "Answer", "Context", "State", "build_graph", "serializer"]

_HOMES = {
    "PRESETS": "triplewise.graphs.presets",
    "Answer": "triplewise.nodes.state",
    "Context": "triplewise.nodes.context",
    "State": "triplewise.nodes.state",
    "build_graph": "triplewise.graphs.build",
    "serializer": "triplewise.graphs.build",
}


def __getattr__(name: str) -> Any:
    """Import a name where it is written."""
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
