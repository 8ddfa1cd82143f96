"""When two answer values are the same: `triplewise.tools.values`, by the name it has among the scorers."""

from __future__ import annotations

from triplewise.tools.values import (
    NOTHING,
    TOLERANCE,
    Compare,
    Overlap,
    Value,
    best_overlap,
    normal_text,
    overlap,
    read_value,
    same,
)

__all__ = [
    "NOTHING",
    "TOLERANCE",
    "Compare",
    "Overlap",
    "Value",
    "best_overlap",
    "normal_text",
    "overlap",
    "read_value",
    "same",
]
