"""Scorers and metrics of question answering over knowledge graphs, named as the field names them.

Strict by default: see `triplewise.tools.core.values` for when two values are the same.
"""

from triplewise.evals.scorers.answers import (
    GOLD_ROWS,
    accuracy,
    answerable,
    compare_rows,
    denotation,
    nontrivial,
    rows,
    rows_of,
    strict,
)
from triplewise.evals.scorers.effort import effort, main_figure
from triplewise.evals.scorers.metrics import by_guideline, count, median, total
from triplewise.evals.scorers.names import GOLD_NAMES
from triplewise.evals.scorers.statements import is_accepted, slot, verdict
from triplewise.evals.scorers.substring import SINGLE_GOLD, substring_figures, substring_match

__all__ = [
    "GOLD_NAMES",
    "GOLD_ROWS",
    "SINGLE_GOLD",
    "accuracy",
    "answerable",
    "by_guideline",
    "compare_rows",
    "count",
    "denotation",
    "effort",
    "is_accepted",
    "main_figure",
    "median",
    "nontrivial",
    "rows",
    "rows_of",
    "slot",
    "strict",
    "substring_figures",
    "substring_match",
    "total",
    "verdict",
]
