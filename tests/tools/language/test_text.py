"""Words: questions and names are cut by the same rules, and their forms meet."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from triplewise.tools.core.names import fold
from triplewise.tools.language.lexicon import root
from triplewise.tools.language.text import key, singular, split_name, tokenise, tokens


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("What is Iceland's capital?", ["what", "is", "iceland", "capital"]),
        ("Isn't São Tomé here?", ["is", "not", "sao", "tome", "here"]),
        ("don’t", ["do", "not"]),
        ("1,200.5 at 10:30am on the 2nd", ["1,200.5", "at", "10:30", "am", "on", "the", "2nd"]),
        ("TR7 of 1971.", ["tr7", "of", "1971"]),
        ("?!", []),
    ],
)
def test_a_text_is_cut_into_words(text: str, words: list[str]) -> None:
    assert tokens(text) == words


@given(st.text(max_size=60))
def test_tokens_know_their_place(text: str) -> None:
    for token in tokenise(text):
        assert text[token.start : token.end] == token.text
        assert token.word == fold(token.word)


@pytest.mark.parametrize(
    ("one", "other"),
    [("TR7", "TR 7"), ("horse power", "horsepower"), ("São Paulo", "sao paulo"), ("Strauß", "STRAUSS")],
)
def test_spellings_of_one_name_have_one_key(one: str, other: str) -> None:
    assert key(tokens(one)) == key(tokens(other))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("fiatStrada1979", "fiat Strada 1979"),
        ("number_of_reviews", "number of reviews"),
        ("USState", "US State"),
    ],
)
def test_a_name_in_one_word_is_split(name: str, words: str) -> None:
    assert split_name(name) == words


@pytest.mark.parametrize(
    ("plural", "noun"),
    [("cities", "city"), ("boxes", "box"), ("rivers", "river"), ("class", "class"), ("Paris", "Paris")],
)
def test_plurals_lose_their_ending(plural: str, noun: str) -> None:
    assert singular(plural) == noun


@pytest.mark.parametrize(
    "forms",
    [
        ("founded", "founder", "founders"),
        ("wrote", "writer", "written"),
        ("died", "death"),
        ("discovered", "discoverer", "discovery"),
        ("directed", "director"),
        ("ends", "ending"),
    ],
)
def test_forms_of_a_word_share_its_root(forms: tuple[str, ...]) -> None:
    assert len({root(form) for form in forms}) == 1
