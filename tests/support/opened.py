"""Graphs that a test process keeps open."""

from __future__ import annotations

from triplewise.tools.kg.open import _opened


def close_all() -> None:
    """Close every graph that `open_kg` keeps open in this process."""
    for key in list(_opened):
        if (future := _opened.pop(key, None)) is not None:
            future.result().close()
