"""triplewise: ask a question in plain language, get the answer from a knowledge graph, with its proof.

>>> import triplewise
>>> triplewise.ask("Who wrote Dracula?").labels
('Bram Stoker',)

The names are imported when they are first used, so that `import triplewise` costs nothing.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # that of `typing`, whose import takes long: Ctrl-C would print a traceback meanwhile
if TYPE_CHECKING:  # for type checkers and editors, which do not run this
    from typing import Any

    from triplewise.graphs.api import aask as aask, ask as ask, ask_many as ask_many, stream as stream
    from triplewise.graphs.assistant_tools import tools_for as tools_for
    from triplewise.graphs.build import build_graph as build_graph, serializer as serializer
    from triplewise.graphs.presets import PRESETS as PRESETS
    from triplewise.nodes.context import Context as Context
    from triplewise.nodes.state import Answer as Answer, State as State
    from triplewise.tools.kg.open import open_kg as open_kg

    __version__: str

_MODULES = {"Answer": "nodes.state", "Context": "nodes.context", "PRESETS": "graphs.presets"}
_MODULES |= {"State": "nodes.state", "open_kg": "tools.kg.open", "tools_for": "graphs.assistant_tools"}
_MODULES |= dict.fromkeys(("aask", "ask", "ask_many", "stream"), "graphs.api")
_MODULES |= dict.fromkeys(("build_graph", "serializer"), "graphs.build")
__all__ = sorted([*_MODULES, "__version__"])


def __getattr__(name: str) -> Any:
    """Import a name where it is written; `triplewise.graphs` has the same names."""
    if name in _MODULES:
        return getattr(import_module(f"triplewise.{_MODULES[name]}"), name)
    if name != "__version__":
        raise AttributeError(f"triplewise has no attribute {name!r}; it has {', '.join(__all__)}")
    from importlib.metadata import PackageNotFoundError, version  # takes most of the time of a start

    try:
        return version("triplewise")
    except PackageNotFoundError:
        return "0"


def __dir__() -> list[str]:
    """Return the public names."""
    return __all__
