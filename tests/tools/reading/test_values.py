"""Values as English writes them, and sentences."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.tools.core.terms import XSD, Literal
from triplewise.tools.reading.candidates import candidates, groups
from triplewise.tools.reading.sentences import occurrences, sentences
from triplewise.tools.reading.values import agree, literal, places


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


def test_sentences_end_where_they_end() -> None:
    text = (
        'Mr. J. R. R. Smith met Dr. No. He left the U.S. in May! "Why?" she asked.\n\nS.N. Behrman wrote. ok'
    )
    assert [s for _, s in sentences(text)] == [
        "Mr. J. R. R. Smith met Dr. No. He left the U.S. in May!",
        '"Why?" she asked.',
        "S.N. Behrman wrote. ok",
    ]


@given(st.text(max_size=2000))
def test_sentences_stand_in_the_text(text: str) -> None:
    for start, sentence in sentences(text):
        assert text[start : start + len(sentence)] == sentence
        assert sentence.strip()


def test_names_are_found_whole() -> None:
    assert [s.text for s in occurrences("Ann Lee met Ann Leeds, and Ann Lee's son.", {"ann lee"})] == [
        "Ann Lee",
        "Ann Lee",
    ]


def test_names_without_a_graph() -> None:
    text = (
        "In May, Director Ann Lee and Bo Kim saw “Pride and Prejudice” at the Museum of Modern Art in 1999."
    )
    assert [c.text for c in candidates(text, None, ())] == [
        *("May", "Director Ann Lee", "Bo Kim", "Pride and Prejudice", "Museum of Modern Art", "1999"),
    ]
    listed = "Ann Lee, Bo Kim, and the Blue Cats met Jon Snow."
    assert [len(g) for g in groups(listed, candidates(listed, None, ()))] == [3, 1]
