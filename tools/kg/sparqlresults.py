"""Answers of SPARQL endpoints, read into terms of one form whichever engine sent them.

Lexical forms follow what the embedded engine stores: canonical numbers, `true` and `false`, language tags
in lower case. What one engine lost when it loaded the data (Virtuoso reads `"bad"^^xsd:integer` as 0 and
keeps durations as months) cannot be brought back.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from triplewise.tools.core.terms import RDF, XSD, Literal, Term

_INTEGERS = {
    XSD + name
    for name in (
        "integer", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger",
        "nonPositiveInteger", "negativeInteger", "unsignedLong", "unsignedInt", "unsignedShort",
        "unsignedByte",
    )
}  # fmt: skip
_TIMES = {XSD + name for name in ("date", "dateTime", "dateTimeStamp", "time", "gYear", "gYearMonth")}
_DATATYPES = {
    "http://www.openlinksw.com/schemas/virtrdf#Geometry": "http://www.opengis.net/ont/geosparql#wktLiteral",
}
_INTEGER = re.compile(r"([+-]?)0*(\d{1,4000})")
_SHORT_YEAR_BC = re.compile(r"-(\d{1,3})(?!\d)")
_ZERO_FRACTION = re.compile(r"(:\d\d)(?:\.0+|(\.\d*?[1-9])0+)(?!\d)")


class NotResultsError(ValueError):
    """A body that is no SPARQL result. `cut`: it begins like one and ends in the middle."""

    def __init__(self, message: str, cut: bool = False) -> None:
        super().__init__(message)
        self.cut = cut


@dataclass(frozen=True, slots=True)
class Answer:
    """A parsed body: rows of a SELECT, or the boolean of an ASK.

    `remark` is whatever the engine wrote beside the results, such as that they are incomplete.
    """

    variables: tuple[str, ...] = ()
    rows: tuple[tuple[Term | None, ...], ...] = ()
    boolean: bool | None = None
    remark: str = ""


def parse_answer(body: bytes) -> Answer:
    """SPARQL results in JSON or XML. Raises NotResultsError."""
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1]
    if start == b"{":
        return _parse_json(body)
    if start == b"<" and b"http://www.w3.org/2005/sparql-results#" in body[:2000]:
        return _parse_xml(body)
    raise NotResultsError("the body is neither JSON nor XML results")


def canonical(value: str, datatype: str, language: str = "") -> Literal:
    """A literal in the one form that all engines' answers get."""
    if language:
        return Literal(value, RDF + "langString", language.lower())
    datatype = _DATATYPES.get(datatype, datatype)
    if datatype in _INTEGERS:
        return Literal(_integer(value), XSD + "integer")
    if rewrite := _REWRITES.get(datatype):
        value = rewrite(value)
    return Literal(value, datatype)


def _parse_json(body: bytes) -> Answer:
    try:
        data = json.loads(body)
        head, remark = data["head"], _remark(data)
        if "boolean" in data:
            return Answer(boolean=bool(data["boolean"]), remark=remark)
        names = tuple(head["vars"])
        rows = tuple(
            tuple(_json_term(binding[n]) if n in binding else None for n in names)
            for binding in data["results"]["bindings"]
        )
    except ValueError as error:
        raise NotResultsError(f"the JSON results end in the middle ({error})", cut=True) from None
    except (KeyError, TypeError) as error:
        raise NotResultsError(f"the JSON holds no SPARQL results ({error!r})") from None
    return Answer(names, rows, remark=remark)


def _remark(data: Mapping[str, Any]) -> str:
    """Text beside the results: engines put time-outs and errors there."""
    beside = {k: v for k, v in data.items() if k not in ("head", "results", "boolean")}
    return json.dumps(beside) if beside else ""


def _json_term(cell: Mapping[str, Any]) -> Term:
    # pyoxigraph takes 10 ms to import, and JSON, the usual form, does not need it.
    from triplewise.tools.kg.oxterms import safe_iri

    kind, value = cell["type"], cell["value"]
    if kind == "uri":
        return safe_iri(value)
    if kind == "bnode":
        return safe_iri(value if ":" in value else f"_:{value}")
    if kind in ("literal", "typed-literal"):
        return canonical(value, cell.get("datatype", XSD + "string"), cell.get("xml:lang", ""))
    return Literal(json.dumps(value), XSD + "string")


def _parse_xml(body: bytes) -> Answer:
    import pyoxigraph as ox

    from triplewise.tools.kg.oxterms import from_ox

    try:
        parsed = ox.parse_query_results(body, format=ox.QueryResultsFormat.XML)
        if isinstance(parsed, ox.QueryBoolean):
            return Answer(boolean=bool(parsed))
        names = tuple(v.value for v in parsed.variables)
        rows = tuple(tuple(_again(from_ox(term)) for term in solution) for solution in parsed)
    except (SyntaxError, ValueError) as error:
        raise NotResultsError(f"the XML results cannot be read to their end ({error})", cut=True) from None
    return Answer(names, rows)


def _again(term: Term | None) -> Term | None:
    return canonical(term.value, term.datatype, term.language) if isinstance(term, Literal) else term


def _integer(value: str) -> str:
    if not (match := _INTEGER.fullmatch(value.strip())):
        return value
    sign, digits = match.groups()
    return f"-{digits}" if sign == "-" and digits != "0" else digits


def _decimal(value: str) -> str:
    try:
        number = format(Decimal(value), "f")
    except InvalidOperation:
        return value
    return number.rstrip("0").rstrip(".") if "." in number else number


def _double(value: str) -> str:
    try:
        number = float(value)
    except ValueError:
        return value
    if number != number or number in (float("inf"), float("-inf")):
        return {"inf": "INF", "-inf": "-INF"}.get(str(number), "NaN")
    return _decimal(repr(number))


def _boolean(value: str) -> str:
    return {"1": "true", "0": "false"}.get(value, value)


def _time(value: str) -> str:
    value = _SHORT_YEAR_BC.sub(lambda m: f"-{m[1].zfill(4)}", value, count=1) if value[:1] == "-" else value
    value = _ZERO_FRACTION.sub(lambda m: m[1] + (m[2] or ""), value)
    return re.sub(r"[+-]00:00$", "Z", value)


_REWRITES: dict[str, Callable[[str], str]] = {
    XSD + "decimal": _decimal,
    XSD + "double": _double,
    XSD + "float": _double,
    XSD + "boolean": _boolean,
    **dict.fromkeys(_TIMES, _time),
}
