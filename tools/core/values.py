"""When two answer values are the same: ids, texts, numbers, quantities, dates, booleans.

Strict: a name is not its id unless it is known to be one of its names, a part of a text is not the text, a
less precise date is not the date.
"""

from __future__ import annotations

import calendar
import math
import re
import unicodedata
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from pint import UnitRegistry

Compare = Literal["ids", "names"]
"""`ids`: values are ids or literals, read by their form. `names`: every value is a name, however it looks."""

Names = Mapping[str, Collection[str]]
"""Entity id -> the names it is known by; what is a key is an entity, also without any name."""

TOLERANCE = 1e-6
"""Relative difference at which two numbers are still the same, unless both are whole."""

CONVERTED = 1e-5
"""The same for quantities with units, some of which have two definitions (survey and international acre)."""

NOT_A_NUMBER = "not a number"
"""The key of NaN, which is the same as nothing, not even itself."""

_LONGEST = 60
"""Characters of a text that is still read as a number."""
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?")
_QUANTITY = re.compile(
    r"(?P<number>[+-]?[\d.,]*\d([eE][+-]?\d{1,3})?)"
    # Without a space, one letter is more often something else: "1950s", "200k", "3d".
    r"(?:\s+(?P<unit>[%°A-Za-zµμΩ].{0,40})|(?P<attached>[%°].{0,10}|[A-Za-zµμ]{2}.{0,40}))"
)
_YEAR = re.compile(r"[+-]?\d{4,}")
_DATE = re.compile(
    r"(?P<year>[+-]?\d{4,})(-(?P<month>\d{2})(-(?P<day>\d{2})"
    r"([T ](?P<time>\d{2}:\d{2}(:\d{2})?)(\.\d+)?)?)?)?(?P<zone>Z|[+-]\d{2}:\d{2})?"
)
_MONTHS = {name.lower(): number for number, name in enumerate(calendar.month_name) if name}
_WORDED = re.compile(
    r"(?:(?P<day>\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?)?(?P<month>[A-Za-z]+)"
    r"(?:\s+(?P<second>\d{1,2})(?:st|nd|rd|th)?)?,?\s+(?P<year>\d{4})"
)
_TERM = re.compile(r'"(?P<text>.*)"(@[A-Za-z0-9-]+|\^\^\S+)', re.DOTALL)
_BOOLEANS = {"true": "true", "yes": "true", "false": "false", "no": "false"}


@dataclass(frozen=True, slots=True)
class Value:
    """An answer value as it is compared.

    Attributes:
        key: equal for values that are written differently but are the same beyond doubt ("2" and "2.0").
        names: normalised texts that it goes by, its own among them.
        entity: whether it is known to be the id of something: two ids are compared as such, never by name.
        number: what it reads as, if a number; an int for a whole one. quantity: the same in base units, if it
            has a unit.
        date: year, month, day, time, second, as far as it goes, if a date. instant: the same in UTC, if it
            has a time and a time zone.
    """

    key: str
    names: frozenset[str] = frozenset()
    entity: bool = False
    number: float | None = None
    quantity: Quantity | None = None
    date: tuple[str, ...] = ()
    instant: tuple[str, ...] = ()


def read_value(value: Any, compare: Compare = "ids", names: Names | None = None) -> Value:
    """An answer or gold value (text, number or boolean) in the form in which it is compared.

    Args:
        value: a text as SPARQL results, N-Triples ("2"^^xsd:integer) or people write it.
        compare: whether it is read by its form. names: other names of entities; in them it is an entity.
    """
    text = str(value)
    if isinstance(value, float) and math.isnan(value):
        return Value(NOT_A_NUMBER)
    if names is not None and text in names:
        normal_names = frozenset(normal_text(name) for name in (text, *names[text]))
        return Value(f"text {normal_text(text)}", normal_names, entity=compare == "ids")
    plain = normal_text(text)
    if compare == "names":
        return Value(f"text {plain}", frozenset({plain}))
    text = text.strip()
    if text.startswith('"') and (term := _TERM.fullmatch(text)):
        text, plain = term["text"], normal_text(term["text"])
    own_name = frozenset({plain})
    return _by_form(text, own_name) or Value(f"text {plain}", own_name)


def normal_text(text: str) -> str:
    """A text without differences of case, spacing, or Unicode composition."""
    return " ".join(unicodedata.normalize("NFC", unicodedata.normalize("NFC", text).casefold()).split())


def same(answer: Value, gold: Value) -> bool:
    """Whether an answer means what the gold value means.

    - Two ids: if they are the same id. An id and a name: if it is one of the id's names.
    - Numbers: whole ones exactly, others within `TOLERANCE`. With units on both sides: in base units; with a
      unit on one side only: by their value as written.
    - Dates: the answer's must have at least the gold one's precision. Times of known zones are compared as
      moments; a zone that only one side gives is not looked at.
    - Booleans: true and yes, false and no; 1 and 0 are numbers.
    - NaN is never right.
    """
    if NOT_A_NUMBER in (answer.key, gold.key):
        return False
    if answer.key == gold.key:
        return True
    if answer.entity and gold.entity:
        return False
    if answer.instant and gold.instant:
        is_same_date = answer.instant[: len(gold.instant)] == gold.instant
    else:
        is_same_date = bool(gold.date) and answer.date[: len(gold.date)] == gold.date
    return is_same_date or _same_number(answer, gold) or not answer.names.isdisjoint(gold.names)


def _same_number(one: Value, other: Value) -> bool:
    """Whether both are numbers or quantities, and the same one."""
    if one.quantity is not None and other.quantity is not None:
        is_close = math.isclose(one.quantity.magnitude, other.quantity.magnitude, rel_tol=CONVERTED)
        return is_close and one.quantity.dimension == other.quantity.dimension
    if one.number is None or other.number is None:
        return False
    if isinstance(one.number, int) and isinstance(other.number, int):
        return one.number == other.number
    return math.isclose(one.number, other.number, rel_tol=TOLERANCE)


def _by_form(text: str, names: frozenset[str]) -> Value | None:
    """A boolean, number, quantity or date; None for any other text."""
    if text in ("NaN", "nan"):
        return Value(NOT_A_NUMBER)
    if (boolean := _BOOLEANS.get(text.casefold())) is not None:
        return Value(f"boolean {boolean}", names)
    if text[:1].isascii() and not text[:1].isalpha():
        if (number := _number(text)) is not None:
            year = (str(int(text)),) if _YEAR.fullmatch(text) else ()
            return Value(f"number {number!r}", names, number=number, date=year)
        if (match := _DATE.fullmatch(text)) and (match["month"] or match["zone"]):
            date, instant = _iso_date(match)
            return Value(f"date {date!r} {instant!r}", names, date=date, instant=instant)
        match = _QUANTITY.fullmatch(text)
        number = _number(match["number"]) if match else None
        if match and number is not None:
            unit = " ".join((match["unit"] or match["attached"]).split())
            if scale := _scale(unit):
                factor, offset, dimension = scale
                quantity = Quantity(number * factor + offset, dimension)
                key = f"quantity {quantity.magnitude!r} {dimension}"
                return Value(key, names, number=number, quantity=quantity)
    if worded := _worded_date(text):
        return Value(f"date {worded!r} ()", names, date=worded)
    return None


def _number(text: str) -> float | None:
    """A finite number, commas between thousands or not; an int if it is whole."""
    if len(text) > _LONGEST:
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


def _iso_date(match: re.Match[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Year, month, day, time, second as far as they say something; the same in UTC, () where that is unknown.

    Midnight is what engines add to a day, "00" what some dumps write for a month or day that is not known.
    """
    days = [part for part in (match["month"], match["day"]) if part and part != "00"]
    clock, zone = match["time"] or "", match["zone"]
    times = [] if clock in ("", "00:00", "00:00:00") else [clock[:5]]
    times += [clock[6:]] if times and clock[6:] not in ("", "00") else []
    date = (str(int(match["year"])), *days, *times)
    if not zone or not times:
        return date, ()
    try:
        local = datetime.fromisoformat(f"{match['year']}-{match['month']}-{match['day']}T{clock}")
        hours, minutes = (0, 0) if zone == "Z" else (int(zone[1:3]), int(zone[4:6]))
        shift = timedelta(hours=hours, minutes=minutes)
        moment = local + shift if zone[0] == "-" else local - shift
    except (ValueError, OverflowError):  # a year that no calendar here has
        return date, ()
    second = (f"{moment:%S}",) if moment.second else ()
    return date, (str(moment.year), f"{moment:%m}", f"{moment:%d}", f"{moment:%H:%M}", *second)


def _worded_date(text: str) -> tuple[str, ...]:
    """An English date: "1 May 1980", "May 1st, 1980", "May 1980"."""
    match = _WORDED.fullmatch(text)
    if match is None or (match["day"] and match["second"]):
        return ()
    month, day = _MONTHS.get(match["month"].lower()), match["day"] or match["second"]
    if month is None or (day is not None and not 1 <= int(day) <= 31):
        return ()
    return (str(int(match["year"])), f"{month:02}", *([f"{int(day):02}"] if day else []))


_UNIT = re.compile(
    r"(?P<percent>%)"
    r"|[A-Za-zµμ°Ω]+([ .·-][A-Za-zµμ°Ω]+){0,3}([²³]|\^[23])?(/[A-Za-zµμ]+([²³]|\^[23])?)?"
)
# Ways of writing that pint does not have: degrees of temperature, and units of more than one word.
_SPELLED = (
    (re.compile(r"\bdegrees? (celsius|centigrade)\b|\bcentigrade\b", re.I), "degC"),
    (re.compile(r"\bdegrees? fahrenheit\b", re.I), "degF"),
    (re.compile(r"\b(light|nautical|astronomical|metric)[ -](year|mile|unit|ton)s?\b", re.I), r"\1_\2"),
    (re.compile(r"\bsq(\. ?| )(?=[a-z])", re.I), "square "),
)
# What people measure things in. Pint knows hundreds more, among them "th" (thou), "b" (barn), "nd" (nanoday).
_PREFIXED = re.compile(
    r"(kilo|mega|giga|tera|hecto|deci|centi|milli|micro|nano)?"
    r"(meter|gram|liter|second|metric_ton|parsec|hertz|pascal|bar|watt|watt_hour|joule|calorie|newton|volt"
    r"|ampere|byte|bit)"
)
_PLAIN = re.compile(
    r"inch|foot|yard|mile|nautical_mile|light_year|astronomical_unit|ton|pound|ounce|stone|minute|hour|day"
    r"|week|month|year|decade|century|hectare|acre|gallon|pint|cubic_centimeter|mile_per_hour"
    r"|kilometer_per_hour|knot|kelvin|degree_Celsius|degree_Fahrenheit|horsepower|revolutions_per_minute"
)


class Quantity(NamedTuple):
    """A magnitude in base units, and what it measures: pint's dimensions ("[length]"), or "percent"."""

    magnitude: float
    dimension: str


@lru_cache(maxsize=10_000)
def _scale(unit: str) -> tuple[float, float, str] | None:
    """Return factor and offset to base units, and dimension of a unit; None for what people hardly mean.

    It is a name or symbol ("km", "square kilometres", "km/h", "°F"); where the writing is unknown as it
    stands, small letters are tried.
    """
    if unit == "%" or unit.casefold() in ("percent", "per cent"):
        return 1.0, 0.0, "percent"
    # Only plain names, products and small powers reach pint's parser: it would work out any expression.
    if not _UNIT.fullmatch(unit):
        return None
    from pint.errors import PintError

    for pattern, plain in _SPELLED:
        unit = pattern.sub(plain, unit)
    for writing in dict.fromkeys((unit, unit.lower() if len(unit) > 1 else unit)):
        try:
            powers: dict[str, Any] = dict(_registry().parse_units(writing)._units)
            # A common unit, with a prefix or not, or one such per another.
            signs = sorted(power > 0 for power in powers.values())
            is_common = all(_PREFIXED.fullmatch(name) or _PLAIN.fullmatch(name) for name in powers)
            if not is_common or signs not in ([True], [False, True]):
                continue
            none = _registry().Quantity(0.0, writing).to_base_units()
            one = _registry().Quantity(1.0, writing).to_base_units()
        except (PintError, TypeError, ValueError, AttributeError):
            continue
        return float(one.magnitude - none.magnitude), float(none.magnitude), str(none.dimensionality)
    return None


@cache
def _registry() -> UnitRegistry[Any]:
    """Return pint's units: half a second of imports, so only where a text may be a quantity."""
    import pint

    return pint.UnitRegistry()
