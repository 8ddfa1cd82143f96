"""Literals as people read them."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core.terms import XSD, Literal
from triplewise.tools.kg import readable, readable_text


@pytest.mark.parametrize(
    ("kind", "value", "shown"),
    [
        ("dateTime", "1903-06-25T00:00:00Z", "25 June 1903"),
        ("dateTime", "1903-06-25T00:00:00.000+00:00", "25 June 1903"),
        ("dateTime", "1969-07-20T20:17:40Z", "20 July 1969, 20:17:40 UTC"),
        ("dateTime", "2024-01-02T08:30:00+02:00", "2 January 2024, 08:30 +02:00"),
        ("dateTime", "-0043-03-15T00:00:00Z", "15 March -43"),
        ("date", "0476-09-04", "4 September 476"),
        ("gYear", "1953", "1953"),
        ("gYear", "12026", "12026"),
        ("gYearMonth", "1903-06", "June 1903"),
        ("gMonthDay", "--12-25", "25 December"),
        ("integer", "9999", "9999"),
        ("integer", "+1972550", "1,972,550"),
        ("decimal", "37274000.50", "37,274,000.5"),
        ("decimal", "-12.500", "-12.5"),
        ("decimal", "100", "100"),
        ("double", "1.5E7", "15,000,000"),
        ("double", "-0.0", "0"),
        ("boolean", "1", "yes"),
        ("boolean", "false", "no"),
    ],
)
def test_literals_read_as_people_write_them(kind: str, value: str, shown: str) -> None:
    assert readable(Literal(value, XSD + kind)) == shown


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("dateTime", "1903-13-25T00:00:00Z"),
        ("dateTime", "last summer"),
        ("date", "25.6.1903"),
        ("integer", "many"),
        ("double", "INF"),
        ("double", "6.02E23"),
        ("boolean", "perhaps"),
        ("string", "1903-06-25T00:00:00Z"),
        ("anyURI", "20000"),
    ],
)
def test_what_cannot_be_read_stays_as_it_is(kind: str, value: str) -> None:
    assert readable(Literal(value, XSD + kind)) == value


def test_without_a_datatype_only_full_dates_are_read() -> None:
    assert readable_text("1903-06-25T00:00:00Z") == "25 June 1903"
    for value in ("1984", "20000", "1903-06-25", "true", "Q42", ""):
        assert readable_text(value) == value


@given(st.decimals(allow_nan=False, allow_infinity=False, places=6, min_value=-(10**20), max_value=10**20))
def test_a_number_keeps_its_value(number: Decimal) -> None:
    assert Decimal(readable(Literal(f"{number:f}", XSD + "decimal")).replace(",", "")) == number
