"""Agreement of a set of answers with a set of gold answers: precision, recall, F1, Hits@1, exact match.

Where gold and answer are both empty they agree (all figures 1); where only one is, they have nothing in
common (all 0). None is no answer; an empty text is one. Duplicates count once, and order matters to Hits@1
alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from triplewise.tools.core.values import (
    CONVERTED,
    NOT_A_NUMBER,
    Compare,
    Names,
    Value,
    read_value,
    same,
    same_number,
)


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
    """Compare a question's answers, best first, with its gold answers, as sets.

    Args:
        answers, gold: values. compare, names: see `read_value`.
    """
    given, wanted = _distinct(answers, compare, names), _distinct(gold, compare, names)
    if not given or not wanted:
        return Overlap(1.0, 1.0, 1.0, 1.0, 1.0) if not given and not wanted else NOTHING
    right = _members(given, wanted)
    found = _members(wanted, given, turned=True)
    precision, recall = sum(right) / len(given), sum(found) / len(wanted)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Overlap(precision, recall, f1, float(right[0]), float(all(right) and all(found)))


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


def same_multiset(answers: Iterable[Any], gold: Iterable[Any]) -> bool:
    """Whether answers and gold answers are the same values, each as often."""
    given, expected = ([read_value(v) for v in values if v is not None] for values in (answers, gold))
    if len(given) != len(expected):
        return False
    rest = Counter(value.key for value in expected)
    rest.subtract(value.key for value in given)
    # What is left over on both sides may still be the same number or date, written differently.
    left = {value.key: value for value in (*given, *expected)}
    missing = [left[key] for key, n in rest.items() for _ in range(n)]
    for extra in (left[key] for key, n in rest.items() for _ in range(-n)):
        match = next((m for m in missing if same(extra, m)), None)
        if match is None:
            return False
        missing.remove(match)
    return NOT_A_NUMBER not in left


def _distinct(values: Iterable[Any], compare: Compare, names: Names | None) -> list[Value]:
    read = (read_value(value, compare, names) for value in values if value is not None)
    return list({value.key: value for value in read}.values())


def _members(values: Sequence[Value], others: Sequence[Value], turned: bool = False) -> list[bool]:
    """For each value, whether it is the same as any of the others (`turned`: the values are gold)."""
    index = _Index.of(others, turned)
    return [index.holds(value) for value in values]


@dataclass(slots=True)
class _Index:
    """Values in which another is found without a look at each: sets of answers may have many thousands."""

    turned: bool
    keys: set[str] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    numbers: list[tuple[float, Value]] = field(default_factory=list)
    quantities: list[tuple[float, Value]] = field(default_factory=list)
    dates: set[tuple[str, ...]] = field(default_factory=set)
    moments: list[Value] = field(default_factory=list)

    @classmethod
    def of(cls, values: Sequence[Value], turned: bool) -> _Index:
        """The index of some values (`turned`: they are answers, in which gold ones will be looked for)."""
        index = cls(turned)
        for value in (v for v in values if v.key != NOT_A_NUMBER):
            index.keys.add(value.key)
            (index.ids if value.entity else index.names).update(value.names)
            if value.number is not None:
                index.numbers.append((value.number, value))
            if value.quantity is not None:
                index.quantities.append((value.quantity.magnitude, value))
            if value.instant:
                index.moments.append(value)
            elif value.date:
                index.dates.update(_starts(value.date) if turned else (value.date,))
        index.numbers.sort(key=_first)
        index.quantities.sort(key=_first)
        return index

    def holds(self, value: Value) -> bool:
        """Whether one of the values is the same as this one."""
        if value.key in self.keys or not self.names.isdisjoint(value.names):
            return True
        if not value.entity and not self.ids.isdisjoint(value.names):
            return True
        if value.quantity is not None and _near(value, value.quantity.magnitude, self.quantities):
            return True
        if value.number is not None and _near(value, value.number, self.numbers):
            return True
        if not value.date:
            return False
        starts = (value.date,) if self.turned else _starts(value.date)
        if not self.dates.isdisjoint(starts):
            return True
        return any(same(m, value) if self.turned else same(value, m) for m in self.moments)


def _near(value: Value, number: float, others: Sequence[tuple[float, Value]]) -> bool:
    """Whether any of the others, by rising number, is the same number or quantity as a value."""
    reach = 2 * CONVERTED * abs(number)  # wide enough for any: `same_number` decides
    at = bisect_left(others, number - reach, key=_first)
    while at < len(others) and others[at][0] <= number + reach:
        if same_number(value, others[at][1]):
            return True
        at += 1
    return False


def _first(pair: tuple[float, Value]) -> float:
    return pair[0]


def _starts(date: tuple[str, ...]) -> list[tuple[str, ...]]:
    """A date in every precision up to its own."""
    return [date[:n] for n in range(1, len(date) + 1)]
