"""Agreement of a set of answers with a set of gold answers: precision, recall, F1, Hits@1, exact match.

Where gold and answer are both empty they agree (all figures 1); where only one is, they have nothing in
common (all 0). None is no answer; an empty text is one. Duplicates count once, and order matters to Hits@1
alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from triplewise.tools.core.values import CONVERTED, Compare, Names, Value, read_value, same


class Overlap(NamedTuple):
    """Agreement of a set of answers with a gold set; all between 0 and 1."""

    precision: float
    recall: float
    f1: float
    hits_at_1: float
    exact_match: float


NOTHING = Overlap(0.0, 0.0, 0.0, 0.0, 0.0)
"""The overlap of a question that crashed."""


def overlap(
    answers: Iterable[Any], gold: Iterable[Any], compare: Compare = "ids", names: Names | None = None
) -> Overlap:
    """Compare a question's answers, best first, with its gold answers, as sets; see `read_value`."""
    given, expected = _distinct(answers, compare, names), _distinct(gold, compare, names)
    if not given or not expected:
        return Overlap(1.0, 1.0, 1.0, 1.0, 1.0) if not given and not expected else NOTHING
    right = _members(given, expected)
    reached = _members(expected, given, turned=True)
    precision, recall = sum(right) / len(given), sum(reached) / len(expected)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Overlap(precision, recall, f1, float(right[0]), float(all(right) and all(reached)))


def best_overlap(
    answers: Iterable[Any],
    gold_sets: Iterable[Iterable[Any]],
    compare: Compare = "ids",
    names: Names | None = None,
) -> Overlap:
    """The overlap with the gold set of highest F1, as WebQSP's official scorer takes it.

    Hits@1 and exact match hold if they hold for any gold set. Raises ValueError if there is no gold set.
    """
    given = list(answers)
    overlaps = [overlap(given, gold, compare, names) for gold in gold_sets]
    best = max(overlaps, key=lambda o: o.f1)
    return best._replace(
        hits_at_1=max(o.hits_at_1 for o in overlaps), exact_match=max(o.exact_match for o in overlaps)
    )


def _distinct(values: Iterable[Any], compare: Compare, names: Names | None) -> list[Value]:
    read = (read_value(value, compare, names) for value in values if value is not None)
    return list({value.key: value for value in read}.values())


def _members(values: Sequence[Value], others: Sequence[Value], turned: bool = False) -> list[bool]:
    """Return for each value whether it is the same as any of the others (`turned`: the values are gold).

    Sets of answers may have many thousands: a value is compared with those alone that share a handle with it.
    """
    by_handle: dict[str, list[Value]] = {}
    for other in others:
        for handle in _handles(other):
            by_handle.setdefault(handle, []).append(other)
    return [
        any(
            same(other, value) if turned else same(value, other)
            for handle in _handles(value)
            for other in by_handle.get(handle, ())
        )
        for value in values
    ]


def _handles(value: Value) -> list[str]:
    """Return texts of which two values that are the same share one at least, the surest first."""
    handles = [value.key, *(f"name {name}" for name in value.names)]
    quantity = value.quantity.magnitude if value.quantity is not None else None
    for kind, number in (("number", value.number), ("quantity", quantity)):
        # Two roundings, wider apart than any tolerance: no limit between two rounded values separates both.
        if number is not None:
            handles += [f"{kind} {number * (1 + way * CONVERTED):.4g}" for way in (-2, 2)]
    return handles + [f"year {date[0]}" for date in (value.date, value.instant) if date]
