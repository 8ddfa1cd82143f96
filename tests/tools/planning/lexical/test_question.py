"""What the words of a question say of its structure, whatever its mentions are called."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from triplewise.tools.planning.lexical.question import (
    Comparison,
    QuestionView,
    Superlative,
    masked,
    view,
)

MENTION = re.compile(r"\[[^\]]*\]")
Spans = list[tuple[int, int]]


def spans_of(question: str) -> Spans:
    """Where the [mentions] of a question stand."""
    return [m.span() for m in MENTION.finditer(question)]


def read(question: str) -> QuestionView:
    return view(question, spans_of(question))


@pytest.mark.parametrize(
    ("question", "cues"),
    [
        ("How many moons does [Mars] have?", {"counting": True, "expected": "moons"}),
        ("How many people live in [Rome]?", {"kind": "", "expected": "people"}),
        ("How tall is [Mount Everest]?", {"quantities": ("height", "elevation"), "kind": "number"}),
        ("How old is [Ada]?", {"quantities": ("date of birth", "inception"), "kind": "time"}),
        ("When was [Ada] born?", {"kind": "time"}),
        ("Where was [Ada] born?", {"kind": "place"}),
        ("Who wrote [Dracula]?", {"kind": "person"}),
        ("Does [A] border [B]?", {"boolean": True}),
        ("Does [A] border [B] or [C]?", {"boolean": True, "joint": "or"}),
        ("Who has the same director as [Alien]?", {"same": True}),
        ("Who worked together with [Ada]?", {"same": True}),
        ("Which country borders the most countries?", {"most": "countries", "least": False}),
        ("Which country borders the fewest countries?", {"most": "countries", "least": True}),
        ("What are the most famous works of [Jack London]?", {"most": "", "superlative": None}),
        ("Is [A] longer than [B]?", {"comparative": (">", "length", "duration"), "boolean": True}),
        ("Who is older, [A] or [B]?", {"comparative": ("<", "date of birth", "inception"), "joint": "or"}),
    ],
)
def test_cues(question: str, cues: dict[str, Any]) -> None:
    seen = read(question)
    assert {name: getattr(seen, name) for name in cues} == cues


@pytest.mark.parametrize(
    ("question", "direction", "quantity"),
    [
        ("Which river in [France] is the shortest?", "min", "length"),
        ("What is the most populous country in [Africa]?", "max", "population"),
        ("Which film has the most recent release?", "max", "publication date"),
        ("Who is the oldest child of [Ada]?", "min", "date of birth"),
    ],
)
def test_superlatives(question: str, direction: str, quantity: str) -> None:
    seen = read(question)
    assert isinstance(seen.superlative, Superlative)
    assert (seen.superlative.direction, seen.superlative.quantities[0]) == (direction, quantity)
    assert seen.constrained
    assert not seen.most


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("higher than 8,500 metres", Comparison(">", "8500", False)),
        ("with more than 2 million people", Comparison(">", "2000000", False)),
        ("with at least 3 awards", Comparison(">=", "3", False)),
        ("with no more than 3 awards", Comparison("<=", "3", False)),
        ("over 2000 kilometres long", Comparison(">", "2000", False)),
        ("before the year 1960", Comparison("<", "1960", True)),
        ("no later than 1960", Comparison("<=", "1960", True)),
        ("since 1960-05-01", Comparison(">=", "1960-05-01", True)),
    ],
)
def test_a_comparison_with_a_number_or_a_date_and_nothing_else(words: str, expected: Comparison) -> None:
    seen = read(f"Which things of [A] are there {words}?")
    assert seen.comparisons == (expected,)
    assert (seen.superlative, seen.most, seen.negated, seen.comparative) == (None, "", -1, ())


def test_before_another_entity_compares_its_date() -> None:
    assert read("Was [Einstein] born before [Bohr]?").comparative == ("<", "born")
    assert "date of birth" in read("Was [Einstein] before [Bohr]?").comparative
    assert read("Which film came out after [Alien]?").comparative[0] == ">"
    assert read("What happened after the war?").comparative == ()


@pytest.mark.parametrize("negation", ["do not", "don't", "don’t", "never"])
def test_a_negation_is_placed_and_no_content_word(negation: str) -> None:
    seen = read(f"Which countries in [South America] {negation} border [Brazil]?")
    assert seen.mention_position(0) < seen.negated < seen.mention_position(1)
    assert [w for w, _ in seen.words] == ["countries", "border"]


@pytest.mark.parametrize(
    ("question", "expected", "phrase", "determined"),
    [
        ("Which feature films did [Kubrick] direct?", "films", "feature films", True),
        ("What is the capital of [France]?", "capital", "capital", False),
        ("What languages are spoken in [France]?", "languages", "languages", True),
        ("What is the longest river in [France]?", "river", "longest river", True),
        ("Name all films of [Kubrick].", "films", "films", False),
        ("Who wrote [Dracula]?", "", "", False),
        ("Which film won an award?", "film", "film won", True),
    ],
)
def test_the_noun_asked_for(question: str, expected: str, phrase: str, determined: bool) -> None:
    seen = read(question)
    assert (seen.expected, seen.phrase, seen.determined) == (expected, phrase, determined)


@pytest.mark.parametrize(
    ("question", "unlinked"),
    [
        ("Which films did Christopher Nolan direct?", ("Christopher", "Nolan")),
        ("Does [Norway] border Atlantis?", ("Atlantis",)),
        ("Which Mountains Are Higher Than 8500 Metres?", ()),
        ("Which Planets orbit [Sun]?", ()),
    ],
)
def test_names_that_are_no_linked_mention(question: str, unlinked: tuple[str, ...]) -> None:
    assert read(question).unlinked == unlinked


def test_like_questions_have_one_masked_text() -> None:
    asked = ["What is the capital of [France]?", "what is the Capital of [The United States] ?"]
    assert {masked(q, spans_of(q)) for q in asked} == {"what is the capital of entity"}
    owned = "Who is [Ada]'s father?"
    assert masked(owned, spans_of(owned)) == "who is entity s father"


ANY_SPANS = st.lists(st.tuples(st.integers(-3, 60), st.integers(-3, 60)), max_size=4)
CUES = """
how many the most least at than more not no or before after since of which what is did number 12 1,000.5 1960
2 million longest populous 's [x] ? don't
"""
SPOKEN = st.lists(st.sampled_from(CUES.split()), max_size=14).map(" ".join)


@given(st.one_of(st.text(max_size=60), SPOKEN), ANY_SPANS)
def test_any_text_and_spans_can_be_read(question: str, spans: Spans) -> None:
    seen = view(question, spans)
    assert all(0 <= i < len(seen.tokens) and seen.tokens[i].mention < 0 for _, i in seen.words)
    assert -1 <= seen.negated < len(seen.tokens)
    assert masked(question, spans).count(" ") == max(len(seen.tokens) - 1, 0)
    assert all(float(c.value) >= 0 for c in seen.comparisons if "-" not in c.value)
