"""When two answers are the same, and how far a set of answers agrees with a set of gold answers.

Strict: a name is not its id unless it is known to be one of its names, a part of a text is not the text, a
less precise date is not the date, a number with a unit is a text. Where gold and answer are both empty they
agree (all figures 1); where only one is, they have nothing in common (all 0). None is not an answer; an empty
text is one. Duplicates count once, and order matters to Hits@1 alone.
"""

from __future__ import annotations

import calendar
import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Literal, NamedTuple

Compare = Literal["ids", "names"]
"""`ids`: values are ids or literals, read by their form. `names`: every value is a name, however it looks."""
Names = Mapping[str, Collection[str]]
"""Entity id -> the names it is known by; what is a key is an entity, also without any name."""
TOLERANCE = 1e-6  # Relative difference at which two numbers are still the same, unless both are whole

_LONGEST = 60  # Characters of a text that is still read as a number
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
_YEAR = re.compile(r"[+-]?\d{4,}")
_DATE = re.compile(
    r"(?P<year>[+-]?\d{4,})(-(?P<month>\d{2})(-(?P<day>\d{2})"
    r"([T ](?P<time>\d{2}:\d{2}(:\d{2})?)(\.\d+)?)?)?)?(?P<zone>Z|[+-]\d{2}:\d{2})?"
)
_MONTHS = {form.lower(): i for i, name in enumerate(calendar.month_name) if name for form in (name, name[:3])}
_WORDED = re.compile(
    r"(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>[A-Za-z]+)\.?"
    r"(?:\s+(?P<second>\d{1,2})(?:st|nd|rd|th)?)?,?\s+(?P<year>\d{4})"
)
_TERM = re.compile(r'"(?P<text>.*)"(@[A-Za-z0-9-]+|\^\^\S+)', re.DOTALL)
_BOOLEANS = {"true": "true", "yes": "true", "false": "false", "no": "false"}


class Overlap(NamedTuple):
    """Agreement of a set of answers with a gold set; all between 0 and 1."""

    precision: float
    recall: float
    f1: float
    hits_at_1: float
    exact_match: float


NOTHING = Overlap(0.0, 0.0, 0.0, 0.0, 0.0)  # The overlap of a question that crashed


class Value(NamedTuple):
    """A value as it is compared: an answer is right if one of its `given` forms is `wanted` of a gold one."""

    key: str  # equal for values that are the same beyond doubt, but written differently ("2" and "2.0")
    given: frozenset[str] = frozenset()
    wanted: frozenset[str] = frozenset()


def overlap(
    answers: Iterable[Any], gold: Iterable[Any], compare: Compare = "ids", names: Names | None = None
) -> Overlap:
    """Compare a question's answers, best first, with its gold answers, as sets; see `read_value`."""
    read = ((read_value(v, compare, names) for v in values if v is not None) for values in (answers, gold))
    given, expected = (list({value.key: value for value in values}.values()) for values in read)
    if not given or not expected:
        return Overlap(1.0, 1.0, 1.0, 1.0, 1.0) if not given and not expected else NOTHING
    sought = frozenset[str]().union(*(value.wanted for value in expected))
    found = frozenset[str]().union(*(value.given for value in given))
    right = [not sought.isdisjoint(value.given) for value in given]
    reached = [not found.isdisjoint(value.wanted) for value in expected]
    precision, recall = sum(right) / len(given), sum(reached) / len(expected)
    f1 = 2 * precision * recall / (precision + recall) if precision + recall else 0.0
    return Overlap(precision, recall, f1, float(right[0]), float(all(right) and all(reached)))


def best_overlap(
    answers: Iterable[Any],
    gold_sets: Iterable[Iterable[Any]],
    compare: Compare = "ids",
    names: Names | None = None,
) -> Overlap:
    """The overlap with the gold set of highest F1, as WebQSP scores it; Hits@1 and exact match with any."""
    given = list(answers)
    overlaps = [overlap(given, gold, compare, names) for gold in gold_sets]
    hits, exact = max(o.hits_at_1 for o in overlaps), max(o.exact_match for o in overlaps)
    return max(overlaps, key=lambda o: o.f1)._replace(hits_at_1=hits, exact_match=exact)


def read_value(value: Any, compare: Compare = "ids", names: Names | None = None) -> Value:
    """An answer or gold value (text, number or boolean) with the forms by which it is compared.

    Two ids are the same if they are one; an id and a name if it is one of the id's names. Whole numbers are
    compared exactly, others within `TOLERANCE`. A date must have at least the gold one's precision; time
    zones are not looked at. True is yes, but not 1; NaN is never right.

    Args:
        value: a text as SPARQL results, N-Triples ("2"^^xsd:integer) or people write it.
        compare: whether it is read by its form. names: other names of entities; in them it is an entity.
    """
    text = str(value)
    if names is not None and text in names:
        key = f"text {normal_text(text)}"
        called = {f"is {normal_text(name)}" for name in (text, *names[text])}
        given = {f"known: {name}" for name in called} if compare == "ids" else called
        return Value(key, frozenset((key, *given)), frozenset((key, *called)))
    text = text.strip()
    if compare == "ids" and text.startswith('"') and (term := _TERM.fullmatch(text)):
        text = term["text"]
    name, number, date = f"is {normal_text(text)}", None, tuple[str, ...]()
    key = f"text {normal_text(text)}"
    if compare == "ids":
        if text in ("NaN", "nan"):
            return Value("not a number")
        number, date = _number(text), read_date(text)
        if (boolean := _BOOLEANS.get(text.casefold())) is not None:
            key = f"boolean {boolean}"
        elif number is not None:
            key = f"number {number!r}"
        elif date:
            key = f"date {date!r}"
    dates = [f"date {date[:i]!r}" for i in range(1, len(date) + 1)]
    given, wanted = {key, name, *dates}, {key, name, f"known: {name}", *dates[-1:]}
    if number is not None:
        is_whole, cell = isinstance(number, int), 0
        if number:  # numbers within the tolerance are in cells next to each other
            cell = math.floor(math.log(abs(number)) / TOLERANCE)
        sign = (number > 0) - (number < 0)
        given |= {f"{'whole ' if is_whole else ''}about {sign} {cell + i}" for i in (-1, 0, 1)}
        wanted |= {f"about {sign} {cell}"} | ({f"whole about {sign} {cell}"} if not is_whole else set())
    return Value(key, frozenset(given), frozenset(wanted))


def normal_text(text: str) -> str:
    """A text without differences of case, spacing, or Unicode composition."""
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())


def read_date(text: str) -> tuple[str, ...]:
    """Year, month, day, time and second of a date, as far as it goes; () for any other text."""
    if len(text) > _LONGEST:
        return ()
    if _YEAR.fullmatch(text):
        return (str(int(text)),)
    if (match := _DATE.fullmatch(text)) and (match["month"] or match["zone"]):
        # Midnight is what engines add to a day, "00" what some dumps write for what is not known.
        days = [part for part in (match["month"], match["day"]) if part and part != "00"]
        clock = match["time"] or ""
        hours, second = clock[:5], clock[6:].removeprefix("00")
        times = [hours, second] if hours.strip("0:") or second else []
        return (str(int(match["year"])), *days, *filter(None, times))
    # An English date: "1 May 1980", "May 1st, 1980", "May 1980".
    if (match := _WORDED.fullmatch(text)) and not (match["day"] and match["second"]):
        month, day = _MONTHS.get(match["month"].lower()), match["day"] or match["second"]
        if month is not None and (day is None or 1 <= int(day) <= 31):
            return (str(int(match["year"])), f"{month:02}", *([f"{int(day):02}"] if day else []))
    return ()


def _number(text: str) -> float | None:
    """A finite number, commas between thousands or not; an int if it is whole."""
    if len(text) > _LONGEST or not text.isascii():
        return None
    if _GROUPED.fullmatch(text):
        text = text.replace(",", "")
    if not _NUMBER.fullmatch(text):
        return None
    if text.lstrip("+-").isdigit():
        return int(text)
    number = float(text)
    if not math.isfinite(number):
        return None
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
