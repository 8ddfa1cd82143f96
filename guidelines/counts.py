"""How often each guideline fired over many runs (QueryAgent C.4.1, tables 8 and 9)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
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

    runs: int = 0
    corrected: int = 0
    fired: Mapping[str, int] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict)
    written: Mapping[str, int] = field(default_factory=dict)

    @property
    def by_source(self) -> dict[str, int]:
        """Source -> times its guidelines fired, every source in order; `unknown` last, where there is one."""
        times: Counter[str] = Counter()
        for id, count in self.fired.items():
            times[self.sources[id]] += count
        shown = [*SOURCES, *([UNKNOWN] if times[UNKNOWN] else [])]
        return {source: times[source] for source in shown}


def guideline_counts(runs: Iterable[Any], guidelines: Guidelines | None = None) -> Counts:
    """Count the guidelines that fired over runs.

    Args:
        runs: finished states as `graph.invoke` returns them, `Answer`s, documents of
            `triplewise ask --json`, or records with lists of ids as `corrections` and `notes`. An
            `Answer` alone knows errors only.
        guidelines: those that were used; None takes the shipped ones.
    """
    known = {g.id: str(g.source) for g in guidelines or load_guidelines()}
    fired: Counter[str] = Counter()
    sources = dict(known)
    total = corrected = 0
    for run in runs:
        ids = list(_fired(run))
        fired.update(id for id, _ in ids)
        for id, source in ids:
            sources.setdefault(id, source or UNKNOWN)
        total, corrected = total + 1, corrected + bool(ids)
    written = Counter(known.values())
    return Counts(
        total,
        corrected,
        dict(fired.most_common()),
        {id: sources[id] for id in fired},
        {source: written[source] for source in SOURCES},
    )


def _fired(run: Any) -> Iterator[tuple[str, str]]:
    """Id and source ("" if not told) of each guideline that fired, from the steps if there are any."""
    corrections = [(_of(c, "guideline"), _of(c, "source")) for c in _part(run, "corrections")]
    told = {id: source for id, source in corrections if source in SOURCES}
    steps = [_of(step, "guideline") for step in _part(run, "steps")]
    recorded = [*(id for id, _ in corrections), *(_of(note, "guideline") for note in _part(run, "notes"))]
    ids = [id for id in steps if id] or recorded
    yield from ((id, told.get(id, "")) for id in ids if id)


def _part(run: Any, name: str) -> list[Any]:
    """The steps or corrections of a run; [] where it has none, or only their number."""
    part = run.get(name) if isinstance(run, Mapping) else getattr(run, name, None)
    return list(part) if isinstance(part, list | tuple) else []


def _of(item: Any, name: str) -> str:
    """A field of a step or correction; a correction may be the id alone."""
    if isinstance(item, str):
        return item if name == "guideline" else ""
    value = item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)
    return str(value or "")
