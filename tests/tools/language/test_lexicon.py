"""The lexicon of English, and function words of other languages."""

from __future__ import annotations

from typing import Any

import pytest

from triplewise.tools.language.lexicon import grammar_of, lexicon, root, section, synonyms


@pytest.mark.parametrize(
    ("word", "ending", "adjective"),
    [
        ("longest", "est", "long"),
        ("biggest", "est", "big"),
        ("heaviest", "est", "heavy"),
        ("best", "est", "best"),
        ("strangest", "est", "strang"),  # not listed: its meaning is compared
        ("forest", "est", None),
        ("older", "er", "old"),
        ("worse", "er", "bad"),
        ("river", "er", None),
    ],
)
def test_degrees_lead_to_their_adjective(word: str, ending: str, adjective: str | None) -> None:
    assert lexicon().adjective_of(word, ending) == adjective


def test_every_hint_is_a_word() -> None:
    assert all(hint.isalpha() for hint in lexicon().hints)


def test_no_phrase_is_two_operators() -> None:
    phrases = [phrase for phrases in section("operators").values() for phrase in phrases]
    assert len(phrases) == len(set(phrases))


def test_words_of_one_meaning_are_found_in_every_form() -> None:
    assert root("supervisor") in synonyms("bosses")
    assert root("fired") in synonyms("dismissed")  # a side of opposites
    for words in section("synonyms"):
        roots = {root(word) for word in words.split()}
        assert 1 < len(roots) == len(words.split()), words


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("Wie lautet das Symbol des Pascal?", {"lautet": "is", "das": "the"}),
        ("Quel est le symbole du pascal ?", {"quel": "what", "est": "is"}),
        ("¿Cuál es el símbolo del segundo?", {"cuál": "what", "el": "the"}),
        ("What is the symbol of the Pascal?", {"is": None}),
        ("Who was in die Brücke?", {"die": None}),
        ("Who wrote the book Les Piliers de la terre?", {"de": None}),
    ],
)
def test_grammar_of_other_languages_reads_as_that_of_english(question: str, words: dict[str, Any]) -> None:
    grammar = grammar_of(question)
    assert all(grammar.get(word) == english for word, english in words.items() if english or not grammar)
