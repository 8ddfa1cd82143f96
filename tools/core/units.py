"""Quantities as texts ("5 km", "20 °C", "3 square miles"), brought to base units by pint."""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pint import UnitRegistry

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
_PERCENT = ("percent", "per cent")
_CACHED = 10_000


class Quantity(NamedTuple):
    """A magnitude in base units, and what it measures: pint's dimensions ("[length]"), or "percent"."""

    magnitude: float
    dimension: str


def read_quantity(number: float, unit: str) -> Quantity | None:
    """Return an amount of a unit in base units; None for what is no unit.

    Args:
        number: how much. unit: a name or symbol ("km", "square kilometres", "km/h", "°F"); where the writing
            is unknown as it stands, small letters are tried.
    """
    scale = _scale(" ".join(unit.split()))
    if scale is None:
        return None
    factor, offset, dimension = scale
    return Quantity(number * factor + offset, dimension)


@lru_cache(maxsize=_CACHED)
def _scale(unit: str) -> tuple[float, float, str] | None:
    """Return factor, offset and dimension of a unit; None for an unknown one, or one people hardly mean."""
    if unit == "%" or unit.casefold() in _PERCENT:
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
