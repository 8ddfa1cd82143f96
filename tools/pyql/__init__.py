"""PyQL: a query built action by action, and its forms as text and SPARQL (QueryAgent 3.2)."""

from __future__ import annotations

from triplewise.tools.pyql.program import (
    COMPARISONS,
    KINDS,
    OPERATORS,
    Clause,
    Count,
    Extreme,
    Fact,
    Filter,
    Kind,
    Not,
    Order,
    Pattern,
    PatternItem,
    PyQL,
    TimeWindow,
    Typed,
    Union,
)

__all__ = [
    "COMPARISONS",
    "KINDS",
    "OPERATORS",
    "Clause",
    "Count",
    "Extreme",
    "Fact",
    "Filter",
    "Kind",
    "Not",
    "Order",
    "Pattern",
    "PatternItem",
    "PyQL",
    "TimeWindow",
    "Typed",
    "Union",
]
