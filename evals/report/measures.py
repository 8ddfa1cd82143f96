"""Measures as readers know them: their headings, units, and figures as cells of tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from triplewise.evals.logs import Log
from triplewise.evals.statistics import Interval, interval_of_seeds
from triplewise.graphs.page.model import Cell

NOTHING = "–"


@dataclass(frozen=True, slots=True)
class Measure:
    """What is measured: name in logs, heading, unit."""

    name: str
    heading: str
    unit: Literal["percent", "count", "seconds", "dollars"] = "percent"

    def text(self, value: float) -> str:
        """Return a value in the unit's usual number of digits; percent from a share."""
        if math.isnan(value):
            return NOTHING
        digits = {"percent": 1, "count": 1, "seconds": 2, "dollars": 4}[self.unit]
        return f"{self.scale * value:,.{digits}f}" if value or self.unit != "dollars" else "0"

    @property
    def scale(self) -> float:
        """What a value is multiplied with to be in the unit of its text."""
        return 100.0 if self.unit == "percent" else 1.0


_HEADINGS = {
    "f1": "F1",
    "hits_at_1": "Hits@1",
    "exact_match": "EM",
    "accuracy": "Accuracy",
    "denotation": "Denotation",
    "substring_hits_at_1": "Substring (lenient)",
    "substring_hits_at_1_single": "Substring, one gold (lenient)",
    "not_found": "Not found %",
    "budget_spent": "Budget spent %",
    "failed_ia": "IA",
    "failed_ea": "EA",
    "failed_ems": "EMS",
    "failed_re": "RE",
    "failed_crashed": "Crashed",
}
COST = (
    Measure("queries", "Queries (QPQ)", "count"),
    Measure("model_calls", "Model calls", "count"),
    Measure("tokens", "Tokens", "count"),
    Measure("cost", "US$ (CPQ)", "dollars"),
    Measure("seconds", "Seconds (TPQ)", "seconds"),
)
"""What a question takes on average; the figures of QueryAgent's table 4."""
_COUNTS = {one.name: one for one in (*COST, Measure("corrections", "Corrections", "count"))}


def measure(name: str) -> Measure:
    """Return a measure by its name in logs; one that nobody described is taken for a share."""
    return _COUNTS.get(name) or Measure(name, _HEADINGS.get(name, name.replace("_", " ").capitalize()))


def figure(logs: Sequence[Log], of: Measure, *, answerable: bool = False, trivial: bool = True) -> Interval:
    """Return a measure's average over runs of one system that differ in their seed, with its interval."""
    return interval_of_seeds([log.scores(of.name, answerable=answerable, trivial=trivial) for log in logs])


def figure_cell(value: Interval, of: Measure, *, best: bool = False, n: bool = False) -> Cell:
    """Return a figure with its interval, its spread over seeds, and with `n` how many questions it is of."""
    if not value.n:
        return Cell(NOTHING)
    parts = [f"n = {value.n:,}"] if n else []
    if value.seeds > 1:
        parts.append(f"± {value.spread * of.scale:.1f} over {value.seeds} seeds")
    return Cell(
        of.text(value.mean),
        detail=", ".join(parts),
        low=value.low * of.scale if value.known else None,
        high=value.high * of.scale if value.known else None,
        number=value.mean * of.scale,
        best=best,
    )


def number_cell(value: float, digits: int = 0, detail: str = "") -> Cell:
    """Return a plain number."""
    return Cell(NOTHING) if math.isnan(value) else Cell(f"{value:,.{digits}f}", detail, number=value)
