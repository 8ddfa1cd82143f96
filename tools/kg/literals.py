"""Literals (XML Schema 1.1 part 2, datatypes): their one form for all engines, and as people read them.

The readable form is for answers only: queries, observations and proofs keep the exact form.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Callable, Mapping
from decimal import Context, Decimal, InvalidOperation
from functools import lru_cache, partial
from typing import Any

from triplewise.tools.core.terms import RDF, XSD, Literal, Term, one_line

MONTHS = tuple(calendar.month_name)[1:]
SEPARATED_FROM = 10_000  # from which numbers get thousands separators: years and most codes are smaller

_ZONE = r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?"
_YEAR, _MONTH, _DAY = r"(?P<year>-?[0-9]{4,9})", r"(?P<month>0[1-9]|1[0-2])", r"(?P<day>[0-3][0-9])"
_TIME = r"T(?P<minutes>[0-9]{2}:[0-9]{2})(?P<seconds>:[0-9]{2}(\.[0-9]+)?)"
_DATE_TIME = re.compile(f"{_YEAR}-{_MONTH}-{_DAY}{_TIME}{_ZONE}")
_DATE = re.compile(rf"{_YEAR}-{_MONTH}-{_DAY}{_ZONE}")
_FORMS = {
    **dict.fromkeys(("dateTime", "dateTimeStamp"), _DATE_TIME),
    "date": _DATE,
    "gYear": re.compile(_YEAR + _ZONE),
    "gYearMonth": re.compile(f"{_YEAR}-{_MONTH}{_ZONE}"),
    "gMonthDay": re.compile(f"--{_MONTH}-{_DAY}{_ZONE}"),
}
_INTEGERS = """integer int long short byte nonNegativeInteger positiveInteger nonPositiveInteger
negativeInteger unsignedLong unsignedInt unsignedShort unsignedByte"""
INTEGERS = frozenset(XSD + name for name in _INTEGERS.split())
NUMERIC = INTEGERS | {XSD + name for name in ("decimal", "double", "float")}
_TRUTH = {"true": "yes", "1": "yes", "false": "no", "0": "no"}
_GEOMETRY = "http://www.openlinksw.com/schemas/virtrdf#Geometry"
_SHORT_YEAR_BC = re.compile(r"-(\d{1,3})(?!\d)")
_LONGEST = 15  # digits up to which a number with an exponent is written out
_ROUND = Context(prec=12)


@lru_cache(50_000)
def canonical(value: str, datatype: str, language: str = "") -> Literal:
    """A literal in the form that the local engine stores, which all engines' answers get.

    What an engine changed when it loaded the data (Virtuoso keeps durations as months) cannot be restored.
    """
    if language:
        return Literal(value, RDF + "langString", language.lower())
    if datatype == _GEOMETRY:
        return Literal(value, "http://www.opengis.net/ont/geosparql#wktLiteral")
    name = datatype.removeprefix(XSD)
    if name in (datatype, "string") or not name.isalpha():
        return Literal(value, datatype)
    import pyoxigraph as ox

    if name in _FORMS and (match := _SHORT_YEAR_BC.match(value)):
        value = f"-{match[1].zfill(4)}{value[match.end() :]}"
    store, node = ox.Store(), ox.NamedNode("urn:x")
    store.add(ox.Quad(node, node, ox.Literal(value, datatype=ox.NamedNode(datatype))))
    stored: Any = next(iter(store)).object
    return Literal(stored.value, stored.datatype.value)


def readable(term: Term) -> str:
    """A term as people read it: `25 June 1903`, `1,972,550`, `yes`. What it cannot read stays as it is.

    A date with a time of midnight is a date. Labels of nodes are the KG's to give: of an IRI, its text.
    """
    if not isinstance(term, Literal) or not term.datatype.startswith(XSD):
        return one_line(term.value)
    read = _READERS.get(term.datatype.removeprefix(XSD))
    return (read(term.value) if read else None) or one_line(term.value)


def readable_text(value: str) -> str:
    """The text of a value whose datatype is not known: only full dates with time are read as such."""
    return _date(_DATE_TIME, value) or value


def _date(form: re.Pattern[str], value: str) -> str | None:
    """A date in words; None if the value has not this form."""
    match = form.fullmatch(value.strip())
    if match is None:
        return None
    parts = match.groupdict()
    # Years before 1 keep their sign: XML Schema 1.0 and 1.1 count them apart.
    numbers = ((name, int(parts[name])) for name in ("day", "month", "year") if parts.get(name))
    day = " ".join(MONTHS[number - 1] if name == "month" else str(number) for name, number in numbers)
    minutes, seconds, zone = parts.get("minutes"), parts.get("seconds") or "", parts["zone"]
    if not seconds.strip(":.0"):
        seconds = ""
    if not minutes or (minutes == "00:00" and not seconds):  # midnight stands for no time at all
        return day
    return f"{day}, {minutes}{seconds}{' UTC' if zone == 'Z' else f' {zone}' if zone else ''}"


def _number(value: str) -> str | None:
    """Return a number without trailing zeros, with thousands separators if it is long; None if not finite."""
    try:
        number = Decimal(value.strip())
    except InvalidOperation:
        return None
    has_exponent = "e" in value.lower()
    if not number.is_finite() or (number and has_exponent and abs(number.adjusted()) >= _LONGEST):
        return None
    if not has_exponent and len(value.partition(".")[2].strip()) > _ROUND.prec:
        number = _ROUND.plus(number)  # noise of binary fractions
    written = f"{number:,f}" if abs(number) >= SEPARATED_FROM else f"{number:f}"
    shown = written.rstrip("0").rstrip(".") if "." in written else written
    return "0" if shown == "-0" else shown


_READERS: Mapping[str, Callable[[str], str | None]] = {
    **{name: partial(_date, form) for name, form in _FORMS.items()},
    **dict.fromkeys((datatype.removeprefix(XSD) for datatype in NUMERIC), _number),
    "boolean": lambda value: _TRUTH.get(value.strip()),
}
