"""PyQL: a query built action by action, and its forms as text and SPARQL (QueryAgent 3.2)."""

from __future__ import annotations

from triplewise.tools.pyql.clauses import (
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
    TimeWindow,
    Typed,
    Union,
)
from triplewise.tools.pyql.codes import CODES
from triplewise.tools.pyql.program import PyQL

__all__ = [
    "CODES",
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
