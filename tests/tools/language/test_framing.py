"""Frames around a question: what is left out, and what is not."""

from __future__ import annotations

import pytest

from triplewise.tools.language.framing import MOST, asked_part, asked_parts


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("Could you please tell me who wrote Dracula?", "who wrote Dracula"),
        ("I'd like to know the height of K2.", "the height of K2"),
        ("I was wondering which rivers flow through Ulm.", "which rivers flow through Ulm"),
        ("Do you happen to know in which year Ulm was founded?", "in which year Ulm was founded"),
        ("Any idea whether Ulm is in Germany?", "Is Ulm is in Germany"),
        ("Am I right in thinking that Ulm is in Germany?", "Is Ulm is in Germany"),
        ("My neighbour swears that Ulm is a port. Is she right?", "Is Ulm is a port"),
        (
            "I have a bet going: which is longer, the Rhine or the Main?",
            "which is longer, the Rhine or the Main",
        ),
        ("I need it for school; could you list the lakes of Peru, please?", "the lakes of Peru"),
        ("Which lakes are in Peru, if I may ask?", "Which lakes are in Peru"),
        ("I'd like to know how many concerts there were, if you don't mind.", "how many concerts there were"),
        ("I would like to find out, if I may, whether Leo eats hay.", "Is Leo eats hay"),
        ("Excuse me, would it be possible to tell me who wrote Dracula?", "who wrote Dracula"),
        ("My question is how much Leo weighs.", "how much Leo weighs"),
        ("I want to know which pubs are open, if you can help me with that.", "which pubs are open"),
        ("I am new here, so which lakes are in Peru?", "which lakes are in Peru"),
        ("It looks old to me - when was Ulm founded?", "when was Ulm founded"),
        ("Here is one for you: who wrote Dracula?", "who wrote Dracula"),
        ("Sorry to bother you, but is Ulm in Germany?", "is Ulm in Germany"),
        ("I write for a paper and need to know who the mayor of Ulm is.", "who the mayor of Ulm is"),
        ("I'm trying to find out who wrote Dracula - could you help?", "who wrote Dracula"),
    ],
)
def test_a_frame_is_left_out(text: str, asked: str) -> None:
    assert asked_part(text) == asked


@pytest.mark.parametrize(
    "text",
    [
        "Who wrote Dracula?",
        "Who directed Avatar: The Way of Water?",
        "Ulm - population",
        "Which films did Ang Lee direct, but did not write?",
        "Which pupils need to know French?",
        "Do you know?",
        "St. Moritz is in which country?",
        "Ulm is in Germany.",
        "Which of the people who can play the flute know Ida Brandt?",
        "",
    ],
)
def test_another_text_stays_as_it_is(text: str) -> None:
    assert asked_part(text).rstrip("?") == text.rstrip("?")


def test_words_of_other_sentences_are_kept_apart_from_those_of_frames() -> None:
    (asked,) = asked_parts("I never spend more than 20 euros. Could you tell me which hotels are left?")
    assert asked.text == "which hotels are left"
    assert {"20", "euros"} <= asked.context
    assert "could" not in asked.context
    assert asked.is_personal


def test_parts_that_may_be_what_is_asked() -> None:
    parts = asked_parts("Who is the mayor of Ulm, as I would like to thank him?")
    assert [part.text for part in parts] == [
        "Who is the mayor of Ulm, as I would like to thank him", "Who is the mayor of Ulm"
    ]  # fmt: skip
    (asked,) = asked_parts("My aunt loves Ulm; which river flows through it?")
    assert (asked.text, asked.before) == ("which river flows through it", ("My aunt loves Ulm",))
    assert len(asked_parts("Which lakes are in Peru? Which are in Chile?")) == 2


@pytest.mark.parametrize(
    "text", ["i am, and i ask, so who is, " * 34, "i - " * 240, "who, me? " * 110, "i, " * 9_000]
)
def test_a_text_of_many_clauses_is_cut_into_few(text: str) -> None:
    assert 1 <= len(asked_parts(text)) <= MOST
