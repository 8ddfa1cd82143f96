"""When answer values and sets of them agree, by the names these things have among the scorers."""

from __future__ import annotations

from triplewise.tools.core.overlap import NOTHING, Overlap, best_overlap, overlap, same_multiset
from triplewise.tools.core.values import TOLERANCE, Compare, Names, Value, normal_text, read_value, same

__all__ = [
    "NOTHING",
    "TOLERANCE",
    "Compare",
    "Names",
    "Overlap",
    "Value",
    "best_overlap",
    "normal_text",
    "overlap",
    "read_value",
    "same",
    "same_multiset",
]
