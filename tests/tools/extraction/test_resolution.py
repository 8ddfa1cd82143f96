"""Values as English writes them."""

from __future__ import annotations

import pytest

from triplewise.tools.core.terms import XSD, Literal
from triplewise.tools.extraction.resolution import agree, literal, places


@pytest.mark.parametrize(
    ("text", "datatype", "value"),
    [
        ("20 October 1958", "date", "1958-10-20"),
        ("October 20th, 1958", "date", "1958-10-20"),
        ("Oct. 1958", "gYearMonth", "1958-10"),
        ("1958-10-20", "dateTime", "1958-10-20T00:00:00Z"),
        ("20 October 1958", "gYear", "1958"),
        ("1,234,567", "integer", "1234567"),
        ("3.5 million", "integer", "3500000"),
        ("3.50", "decimal", "3.5"),
        ("about 3", "integer", None),
        ("Tuesday", "date", None),
    ],
)
def test_literals(text: str, datatype: str, value: str | None) -> None:
    made = literal(text, XSD + datatype)
    assert (made.value if made else None) == value


def test_a_date_less_exact_is_the_same_value() -> None:
    assert agree(Literal("1958", XSD + "gYear"), Literal("1958-10-20", XSD + "date"))
    assert agree(Literal("1958-01-01T00:00:00Z", XSD + "dateTime"), Literal("1958", XSD + "gYear"))
    assert not agree(Literal("1958", XSD + "gYear"), Literal("1959-10-20", XSD + "date"))
    assert agree(Literal("3.0", XSD + "double"), Literal("3", XSD + "integer"))
    assert not agree(Literal("x", XSD + "string"), Literal("y", XSD + "string"))


def test_places_of_values() -> None:
    text = "It opened on May 3, 1987, took 12,500 dollars, and ran for 90 days in 2001."
    assert [(text[a:b], kind) for a, b, kind in places(text)] == [
        ("May 3, 1987", "date"),
        ("2001", "date"),
        ("12,500", "number"),
        ("90", "number"),
    ]
