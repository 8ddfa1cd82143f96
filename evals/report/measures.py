"""Measures as readers know them: their names, units, and figures as text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from triplewise.evals.report.stats import Interval, interval_of_seeds
from triplewise.evals.results import Result
from triplewise.graphs.page.model import Cell

Unit = Literal["percent", "count", "seconds", "dollars"]
NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured: name in logs, heading, unit, whether less is better, name in a plot."""

    name: str
    heading: str
    unit: Unit = "percent"
    less_is_better: bool = False
    plotted: str = ""

    def text(self, value: float) -> str:
        """A value as text, in the unit's usual number of digits; percent from a share."""
        if math.isnan(value):
            return NOTHING
        match self.unit:
            case "percent":
                return f"{100 * value:.1f}"
            case "seconds":
                return f"{value:.2f}"
            case "dollars":
                return f"{value:.4f}" if value else "0"
        return f"{value:,.1f}"

    @property
    def scale(self) -> float:
        """What a value is multiplied with to be in the unit of its text."""
        return 100.0 if self.unit == "percent" else 1.0


QUALITY = (
    Measure("f1", "F1"),
    Measure("hits_at_1", "Hits@1"),
    Measure("exact_match", "EM"),
    Measure("accuracy", "Accuracy"),
    Measure("denotation", "Denotation"),
)
"""How right the answers are, strictly, in the order of the tables' columns."""
LENIENT = (
    Measure("substring_hits_at_1", "Substring (lenient)"),
    Measure("substring_hits_at_1_single", "Substring, one gold (lenient)"),
)
"""The substring matching of some published code, under its own name."""
COST = (
    Measure("queries", "Queries (QPQ)", "count", True, "queries"),
    Measure("model_calls", "Model calls", "count", True, "model calls"),
    Measure("tokens", "Tokens", "count", True, "tokens"),
    Measure("cost", "US$ (CPQ)", "dollars", True, "US$"),
    Measure("seconds", "Seconds (TPQ)", "seconds", True, "seconds"),
)
"""What a question takes on average."""
_MORE = (
    Measure("recall", "Recall"),
    Measure("precision", "Precision"),
    Measure("not_found", "Not found"),
    Measure("budget_spent", "Budget spent"),
    Measure("steps", "Steps", "count", True),
    Measure("corrections", "Corrections", "count"),
    Measure("proven", "Proven"),
    *LENIENT,
)
_KNOWN = {known.name: known for known in (*QUALITY, *COST, *_MORE)}


def measure(name: str) -> Measure:
    """A measure by its name in logs; one nobody described is taken for a share."""
    return _KNOWN.get(name) or Measure(name, name.replace("_", " "))


def figure(results: Sequence[Result], of: Measure, *, answerable: bool = False) -> Interval:
    """A measure's average over runs of one system that differ in their seed, with its interval."""
    return interval_of_seeds([result.scores(of.name, answerable=answerable) for result in results])


def figure_cell(found: Interval, of: Measure, *, best: bool = False, n: bool = False) -> Cell:
    """A figure with its interval, its spread over seeds, and with `n` how many questions it is of."""
    if not found.n:
        return Cell(NOTHING)
    known = not math.isnan(found.low)
    parts = [f"n = {found.n:,}"] if n else []
    if found.seeds > 1:
        parts.append(f"± {found.spread * of.scale:.1f} over {found.seeds} seeds")
    return Cell(
        of.text(found.mean),
        detail=", ".join(parts),
        low=found.low * of.scale if known else None,
        high=found.high * of.scale if known else None,
        number=found.mean * of.scale,
        best=best,
    )


def number_cell(value: float, digits: int = 0) -> Cell:
    """A plain number."""
    return Cell(NOTHING) if math.isnan(value) else Cell(f"{value:,.{digits}f}", number=value)
