"""Numbers and dates as English writes them, and as a KG's datatypes do."""

from __future__ import annotations

import re
from collections.abc import Iterator

from triplewise.tools.core.terms import RDF, XSD, Literal
from triplewise.tools.kg.literals import INTEGERS, MONTHS

_MONTH = "|".join(f"{m}|{m[:3]}\\.?" for m in MONTHS)
_YEAR = r"(?:1[0-9]{3}|20[0-9]{2})"
_DAY = r"(?:0?[1-9]|[12][0-9]|3[01])(?:st|nd|rd|th)?"
_DATE = re.compile(
    rf"\b(?:(?P<d1>{_DAY})\s+(?:of\s+)?(?P<m1>{_MONTH}),?\s+(?P<y1>{_YEAR})"
    rf"|(?P<m2>{_MONTH})\s+(?P<d2>{_DAY}),?\s+(?P<y2>{_YEAR})"
    rf"|(?P<m3>{_MONTH}),?\s+(?P<y3>{_YEAR})"
    rf"|(?P<y4>{_YEAR})-(?P<m4>[01][0-9])-(?P<d4>[0-3][0-9])"
    rf"|(?P<y5>{_YEAR}))\b(?!%|,[0-9]{{3}})",
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w.,-])[-+]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+)(?:\.[0-9]+)?(?:\s(?:thousand|million|billion))?(?![\w])"
)
_TIMES = {"thousand": 10**3, "million": 10**6, "billion": 10**9}
_DATES = frozenset({"date", "dateTime", "gYear", "gYearMonth"})


def places(sentence: str) -> Iterator[tuple[int, int, str]]:
    """Start, end and kind (`date` or `number`) of the values written in a sentence; a year is a date."""
    taken: list[tuple[int, int]] = []
    for match in _DATE.finditer(sentence):
        taken.append(match.span())
        yield *match.span(), "date"
    for match in _NUMBER.finditer(sentence):
        if not any(match.start() < end and start < match.end() for start, end in taken):
            yield *match.span(), "number"


def literal(text: str, datatype: str, language: str = "en") -> Literal | None:
    """A text as a literal of a datatype; None if it says no value of it."""
    name = datatype.removeprefix(XSD)
    if datatype in (XSD + "string", RDF + "langString"):
        return Literal(text, datatype, language if datatype == RDF + "langString" else "")
    if name in _DATES:
        return _date(text, name)
    if datatype in INTEGERS or name in ("decimal", "double", "float"):
        return _number(text, name)
    return None


def agree(a: Literal, b: Literal) -> bool:
    """Whether two values are one, or one is the other less exactly: a year, and a day of that year."""
    if {a.datatype.removeprefix(XSD), b.datatype.removeprefix(XSD)} <= _DATES:
        first, second = (re.sub(r"T00:00:00.*|Z$", "", v.value) for v in (a, b))
        short, long = sorted((first, second), key=len)
        return long.startswith(short) or long[:5] + "01-01" == short
    try:
        return float(a.value) == float(b.value)
    except ValueError:
        return a.value.strip().casefold() == b.value.strip().casefold()


def _date(text: str, name: str) -> Literal | None:
    match = _DATE.fullmatch(text.strip())
    if match is None:
        return None
    parts = {k[0]: v for k, v in match.groupdict().items() if v}
    year, written = parts["y"], parts.get("m", "0")
    if written.isdigit():
        month = min(max(int(written), 1), 12) if "m" in parts else 0
    else:
        month = next(i for i, m in enumerate(MONTHS, 1) if m.lower().startswith(written.lower()[:3]))
    day = int(re.sub(r"\D", "", parts.get("d", "0")))
    if name == "gYear" or not month:
        return Literal(year, XSD + "gYear")
    if name == "gYearMonth" or not day:
        return Literal(f"{year}-{month:02}", XSD + "gYearMonth")
    date = f"{year}-{month:02}-{day:02}"
    return Literal(date, XSD + name) if name == "date" else Literal(f"{date}T00:00:00Z", XSD + name)


def _number(text: str, name: str) -> Literal | None:
    match = _NUMBER.fullmatch(text.strip())
    if match is None:
        return None
    digits, _, times = match[0].replace(",", "").partition(" ")
    if not times and "." not in digits:
        return Literal(digits.lstrip("+"), XSD + name)
    value = float(digits) * _TIMES.get(times, 1)
    if XSD + name in INTEGERS:
        return Literal(str(int(value)), XSD + name) if value.is_integer() else None
    return Literal(f"{value:.10g}" if abs(value) < 10**9 else f"{value:.0f}", XSD + name)
