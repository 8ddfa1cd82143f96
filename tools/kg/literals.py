"""Literals as people read them: dates, numbers and truth values (XML Schema 1.1 part 2, datatypes).

For answers only: queries, observations and proofs keep the exact form.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation

from triplewise.tools.core.terms import XSD, Literal, Term

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
SEPARATED_FROM = 10_000
"""Numbers of this size and more get thousands separators: years and most codes are smaller."""

_ZONE = r"(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?"
_YEAR, _MONTH, _DAY = r"(?P<year>-?[0-9]{4,9})", r"(?P<month>0[1-9]|1[0-2])", r"(?P<day>[0-3][0-9])"
_TIME = r"T(?P<minutes>[0-9]{2}:[0-9]{2})(?P<seconds>:[0-9]{2}(\.[0-9]+)?)"
_DATE_TIME = re.compile(f"{_YEAR}-{_MONTH}-{_DAY}{_TIME}{_ZONE}")
_DATE = re.compile(rf"{_YEAR}-{_MONTH}-{_DAY}{_ZONE}")
_FORMS = {
    "dateTime": _DATE_TIME,
    "dateTimeStamp": _DATE_TIME,
    "date": _DATE,
    "gYear": re.compile(_YEAR + _ZONE),
    "gYearMonth": re.compile(f"{_YEAR}-{_MONTH}{_ZONE}"),
    "gMonthDay": re.compile(f"--{_MONTH}-{_DAY}{_ZONE}"),
}
_INTEGERS = ("integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger")
_OTHERS = (
    "negativeInteger",
    "nonPositiveInteger",
    "unsignedLong",
    "unsignedInt",
    "unsignedShort",
    "unsignedByte",
)
_TRUTH = {"true": "yes", "1": "yes", "false": "no", "0": "no"}
_LONGEST = 15
"""Digits up to which a number with an exponent is written out."""


def readable(term: Term) -> str:
    """A term as people read it: `25 June 1903`, `1,972,550`, `yes`. What it cannot read stays as it is.

    A date with a time of midnight is a date. Labels of nodes are the KG's to give: of an IRI, its text.
    """
    if not isinstance(term, Literal) or not term.datatype.startswith(XSD):
        return term.value
    read = _READERS.get(term.datatype.removeprefix(XSD))
    return (read(term.value) if read else None) or term.value


def readable_text(value: str) -> str:
    """The text of a value whose datatype is not known: only full dates with time are read as such."""
    return _date(_DATE_TIME, value) or value


def _date(form: re.Pattern[str], value: str) -> str | None:
    """A date in words; None if the value has not this form."""
    match = form.fullmatch(value.strip())
    if match is None:
        return None
    parts = match.groupdict()
    words = [
        str(int(parts["day"])) if parts.get("day") else "",
        MONTHS[int(parts["month"]) - 1] if parts.get("month") else "",
        _year(parts["year"]) if parts.get("year") else "",
    ]
    return " ".join(word for word in words if word) + _time(parts)


def _year(written: str) -> str:
    """Without leading zeros. Years before 1 keep their sign: XML Schema 1.0 and 1.1 count them apart."""
    return str(int(written))


def _time(parts: Mapping[str, str | None]) -> str:
    """The time of day, unless it is midnight, which stands for no time at all."""
    minutes, seconds = parts.get("minutes"), parts.get("seconds") or ""
    silent = not seconds.strip(":.0")
    if not minutes or (minutes == "00:00" and silent):
        return ""
    zone = parts["zone"]
    return f", {minutes}{'' if silent else seconds}{' UTC' if zone == 'Z' else f' {zone}' if zone else ''}"


def _number(value: str) -> str | None:
    """Without trailing zeros, with thousands separators where it is long; None if it is no finite number."""
    try:
        number = Decimal(value.strip())
    except InvalidOperation:
        return None
    if not number.is_finite() or (
        number and not -_LONGEST < number.adjusted() < _LONGEST and "e" in value.lower()
    ):
        return None
    written = f"{number:,f}" if abs(number) >= SEPARATED_FROM else f"{number:f}"
    shown = written.rstrip("0").rstrip(".") if "." in written else written
    return "0" if shown == "-0" else shown


def _boolean(value: str) -> str | None:
    return _TRUTH.get(value.strip())


def _reader(form: re.Pattern[str]) -> Callable[[str], str | None]:
    return lambda value: _date(form, value)


_READERS: Mapping[str, Callable[[str], str | None]] = {
    **{name: _reader(form) for name, form in _FORMS.items()},
    **dict.fromkeys((*_INTEGERS, *_OTHERS, "decimal", "double", "float"), _number),
    "boolean": _boolean,
}
