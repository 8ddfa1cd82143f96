"""How often each guideline fired over many runs (QueryAgent C.4.1, tables 8 and 9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from triplewise.guidelines.guideline import SOURCES, Guidelines, load_guidelines

UNKNOWN: Final = "unknown"
"""Source of an id that none of the loaded guidelines has."""


@dataclass(frozen=True, slots=True)
class Counts:
    """What fired over some runs.

    Attributes:
        runs: runs counted. corrected: those in which at least one guideline fired.
        fired: guideline id -> times, most often first.
        sources: guideline id -> source, for every id that fired.
        written: source -> number of guidelines there are.
    """

    runs: int
    corrected: int
    fired: Mapping[str, int]
    sources: Mapping[str, str]
    written: Mapping[str, int]

    @property
    def by_source(self) -> dict[str, int]:
        """Source -> times its guidelines fired, every source in order; `unknown` last, where there is one."""
        times: Counter[str] = Counter()
        for id, count in self.fired.items():
            times[self.sources[id]] += count
        shown = [*SOURCES, *([UNKNOWN] if times[UNKNOWN] else [])]
        return {source: times[source] for source in shown}


def guideline_counts(runs: Iterable[Mapping[str, Any]], guidelines: Guidelines | None = None) -> Counts:
    """Count the guidelines that fired over runs.

    Args:
        runs: documents of `triplewise ask --json`, whose `steps` name the guideline that fired, or records of
            an evaluation, which list the ids of `corrections` and `notes`.
        guidelines: those that were used; None takes the shipped ones.
    """
    sources = {g.id: str(g.source) for g in guidelines or load_guidelines()}
    written, fired = Counter(sources.values()), Counter[str]()
    total = corrected = 0
    for run in runs:
        if isinstance(run.get("steps"), list):
            ids = [step["guideline"] for step in run["steps"] if step["guideline"]]
        else:
            ids = [*run.get("corrections", ()), *run.get("notes", ())]
        fired.update(ids)
        total, corrected = total + 1, corrected + bool(ids)
    return Counts(
        total,
        corrected,
        dict(fired.most_common()),
        {id: sources.get(id, UNKNOWN) for id in fired},
        {source: written[source] for source in SOURCES},
    )
