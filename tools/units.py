"""Quantities as texts: a number and a unit ("5 km", "20 °C", "3 square miles"), brought to base units.

Units are pint's. Where it is not installed (it comes with the evaluations), no text is read as a quantity.
"""

from __future__ import annotations

import importlib.util
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
_PERCENT = ("percent", "per cent")
_CACHED = 10_000


class Quantity(NamedTuple):
    """A magnitude in base units, and what it measures: pint's dimensions ("[length]"), or "percent"."""

    magnitude: float
    dimension: str


def read_quantity(number: float, unit: str) -> Quantity | None:
    """So much of a unit, in base units; None for what is no unit.

    Args:
        number: how much. unit: a name or symbol ("km", "square kilometres", "km/h", "°F"); where the writing
            is unknown as it stands, small letters are tried.
    """
    read = _scale(" ".join(unit.split()))
    if read is None:
        return None
    factor, offset, dimension = read
    return Quantity(number * factor + offset, dimension)


@lru_cache(maxsize=_CACHED)
def _scale(unit: str) -> tuple[float, float, str] | None:
    """Factor, offset and dimension of a unit."""
    if unit == "%" or unit.casefold() in _PERCENT:
        return 1.0, 0.0, "percent"
    # Only plain names, products and small powers reach pint's parser: it would work out any expression.
    if not _UNIT.fullmatch(unit) or (registry := _registry()) is None:
        return None
    for pattern, plain in _SPELLED:
        unit = pattern.sub(plain, unit)
    for writing in dict.fromkeys((unit, unit.lower())):
        if (read := _parsed(registry, writing)) is not None:
            return read
    return None


def _parsed(registry: UnitRegistry[Any], unit: str) -> tuple[float, float, str] | None:
    """A unit as pint reads it; None for an unknown one, and for one that measures nothing (radian, bit)."""
    from pint.errors import PintError

    try:
        none = registry.Quantity(0.0, unit).to_base_units()
        one = registry.Quantity(1.0, unit).to_base_units()
    except (PintError, TypeError, ValueError, AttributeError):
        return None
    if none.dimensionless:
        return None
    return float(one.magnitude - none.magnitude), float(none.magnitude), str(none.dimensionality)


@cache
def _registry() -> UnitRegistry[Any] | None:
    """Pint's units; None where it is not installed."""
    if importlib.util.find_spec("pint") is None:
        return None
    import pint

    return pint.UnitRegistry()
