"""When two answer values are the same: ids, texts, numbers, dates, booleans.

Strict: a name is not its id, a part of a text is not the text, a less precise date is not the date.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

Compare = Literal["ids", "names"]
"""`ids`: values are ids or literals, read by their form. `names`: every value is a name, however it looks."""

TOLERANCE = 1e-6
"""Relative difference at which two numbers are still the same."""

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_YEAR = re.compile(r"[+-]?\d{4,}")
_DATE = re.compile(
    r"(?P<year>[+-]?\d{4,})(-(?P<month>\d{2})(-(?P<day>\d{2})(T(?P<time>\d{2}:\d{2}(:\d{2})?)(\.\d+)?)?)?)?"
    r"(?P<zone>Z|[+-]\d{2}:\d{2})?"
)


@dataclass(frozen=True, slots=True)
class Value:
    """An answer value as it is compared.

    Attributes:
        key: equal for values that are written differently but are the same beyond doubt ("2" and "2.0").
        number: what it reads as, if a number. date: year, month, day, time, as far as it goes, if a date.
    """

    key: str
    number: float | None = None
    date: tuple[str, ...] = ()


class Overlap(NamedTuple):
    """How a set of answers agrees with a gold set; all between 0 and 1."""

    precision: float
    recall: float
    f1: float
    hits_at_1: float
    exact_match: float


NOTHING = Overlap(0.0, 0.0, 0.0, 0.0, 0.0)
"""The overlap of a question that crashed."""


def read_value(value: Any, compare: Compare = "ids") -> Value:
    """An answer or gold value (text, number or boolean) in the form in which it is compared."""
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if compare == "ids":
        text = text.strip()
        if _NUMBER.fullmatch(text):
            number = float(text)
            return Value(
                f"number {number!r}", number=number, date=(_year(text),) if _YEAR.fullmatch(text) else ()
            )
        if (match := _DATE.fullmatch(text)) and (match["month"] or match["zone"]):
            date = _date(match)
            return Value(f"date {date!r}", date=date)
    return Value(f"text {normal_text(text)}")


def normal_text(text: str) -> str:
    """A text without differences of case, spacing, or Unicode composition."""
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())


def same(answer: Value, gold: Value) -> bool:
    """Whether an answer says what the gold value says: a date, with at least the gold one's precision."""
    if answer.key == gold.key:
        return True
    if answer.number is not None and gold.number is not None:
        return math.isclose(answer.number, gold.number, rel_tol=TOLERANCE)
    return bool(gold.date) and answer.date[: len(gold.date)] == gold.date


def overlap(answers: Iterable[Any], gold: Iterable[Any], compare: Compare = "ids") -> Overlap:
    """Compare a question's answers, best first, with its gold answers, as sets (duplicates count once).

    Two empty sets agree; an empty one against any other has nothing in common with it.
    """
    given, wanted = _distinct(answers, compare), _distinct(gold, compare)
    if not given or not wanted:
        return Overlap(1.0, 1.0, 1.0, 1.0, 1.0) if not given and not wanted else NOTHING
    right = _members(given, wanted)
    found = _members(wanted, given, turned=True)
    precision, recall = sum(right) / len(given), sum(found) / len(wanted)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Overlap(precision, recall, f1, float(right[0]), float(all(right) and all(found)))


def best_overlap(
    answers: Iterable[Any], gold_sets: Iterable[Iterable[Any]], compare: Compare = "ids"
) -> Overlap:
    """The overlap with the gold set of highest F1, as WebQSP's official scorer takes it.

    Hits@1 and exact match hold if they hold for any gold set. Raises ValueError if there is no gold set.
    """
    given = list(answers)
    overlaps = [overlap(given, gold, compare) for gold in gold_sets]
    best = max(overlaps, key=lambda o: o.f1)
    return best._replace(
        hits_at_1=max(o.hits_at_1 for o in overlaps), exact_match=max(o.exact_match for o in overlaps)
    )


def _distinct(values: Iterable[Any], compare: Compare) -> list[Value]:
    return list({value.key: value for value in (read_value(v, compare) for v in values)}.values())


def _members(values: Sequence[Value], others: Sequence[Value], turned: bool = False) -> list[bool]:
    """For each value, whether it is among the others (`turned`: the values are the gold ones)."""
    keys = {other.key for other in others}
    # Only numbers and dates can be the same without the same key.
    open_ones = [other for other in others if other.number is not None or other.date]

    def among(value: Value) -> bool:
        if value.key in keys:
            return True
        if value.number is None and not value.date:
            return False
        return any(same(other, value) if turned else same(value, other) for other in open_ones)

    return [among(value) for value in values]


def _year(text: str) -> str:
    """A year without plus sign and leading zeros."""
    return str(int(text))


def _date(match: re.Match[str]) -> tuple[str, ...]:
    """Year, month, day, time of a date, as far as it goes; without midnight and time zone."""
    parts = [_year(match["year"]), match["month"], match["day"]]
    if match["time"] and match["time"] not in ("00:00", "00:00:00"):
        parts.append(match["time"][:5])
    return tuple(part for part in parts if part)
