"""Scorers and metrics of question answering over knowledge graphs, named as the field names them.

Strict by default: see `triplewise.tools.core.values` for when two values are the same.
"""

from triplewise.evals.scorers.answers import accuracy, answerable, denotation, denotation_of, strict
from triplewise.evals.scorers.effort import effort, main_figure
from triplewise.evals.scorers.lenient import SINGLE_GOLD, substring_figures, substring_match
from triplewise.evals.scorers.metrics import by_guideline, count, median, total
from triplewise.evals.scorers.names import GOLD_NAMES
from triplewise.evals.scorers.slots import is_accepted, slot, verdict

__all__ = [
    "GOLD_NAMES",
    "SINGLE_GOLD",
    "accuracy",
    "answerable",
    "by_guideline",
    "count",
    "denotation",
    "denotation_of",
    "effort",
    "is_accepted",
    "main_figure",
    "median",
    "slot",
    "strict",
    "substring_figures",
    "substring_match",
    "total",
    "verdict",
]
