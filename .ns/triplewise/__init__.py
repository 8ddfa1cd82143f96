"""triplewise: ask a question in plain language, get the answer from a knowledge graph, with its proof.

>>> import triplewise
>>> triplewise.ask("Who wrote Dracula?").labels
('Bram Stoker',)

The names are imported when they are first used, so that `import triplewise` costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triplewise.graphs.api import aask, ask, ask_many, stream
    from triplewise.graphs.assistant_tools import tools_for
    from triplewise.graphs.build import build_graph
    from triplewise.nodes.context import Context
    from triplewise.nodes.state import Answer
    from triplewise.tools.kg.open import open_kg

    __version__: str

__all__ = [
    "Answer",
    "Context",
    "__version__",
    "aask",
    "ask",
    "ask_many",
    "build_graph",
    "open_kg",
    "stream",
    "tools_for",
]

_MODULES = {
    "Answer": "nodes.state",
    "Context": "nodes.context",
    "aask": "graphs.api",
    "ask": "graphs.api",
    "ask_many": "graphs.api",
    "build_graph": "graphs.build",
    "open_kg": "tools.kg.open",
    "stream": "graphs.api",
    "tools_for": "graphs.assistant_tools",
}


def __getattr__(name: str) -> Any:
    """Import a name where it is written."""
    if name in _MODULES:
        value = getattr(import_module(f"triplewise.{_MODULES[name]}"), name)
    elif name == "__version__":
        try:
            value = version("triplewise")
        except PackageNotFoundError:
            value = "0"
    else:
        raise AttributeError(f"module 'triplewise' has no attribute {name!r}; it has {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """Return the public names."""
    return list(__all__)
