"""The phases of the agent: one module each, with its interchangeable variants.

`VARIANTS` maps phase -> variant name -> callable `(state, runtime) -> update`. Any callable of that shape
may stand in for a variant (`build_graph(reflect=my_reflect)`). It is imported when it is first used, so that
a process that only wants a context or a model does not load every phase.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from triplewise.nodes.variants import VARIANTS

__all__ = ["VARIANTS"]


def __getattr__(name: str) -> Any:
    """Import the variants where they are put together."""
    if name == "VARIANTS":
        from triplewise.nodes.variants import VARIANTS

        return VARIANTS
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
