"""What kind of answer a question surely wants."""

from __future__ import annotations

import re

import pytest

from triplewise.guidelines.language import (
    asking_words,
    environment,
    extreme_of,
    situation,
    wanted_kind as wanted,
)
from triplewise.tools.actions.toolset import Feedback, ReasoningMemory


@pytest.mark.parametrize(
    ("question", "kind"),
    [
        ("Who directed Alien?", "who"),
        ("by whom was Alien directed", "who"),
        ("When was Alien released?", "when"),
        ("How many films did Ridley Scott direct?", "count"),
        ("Is Berlin the capital of Germany?", "yes_no"),
        # Nothing is sure where two kinds are named, a choice is given, or the word stands for something else.
        ("Who was president when Lincoln died?", ""),
        ("Is Berlin or Paris larger?", ""),
        ("Can you name a film by Ridley Scott?", ""),
        ("Which country has the highest number of lakes?", ""),
        ("In which year was Alien released?", ""),
        ("What happened when Rome fell?", ""),
        ("How old is Ridley Scott?", ""),
        ("", ""),
    ],
)
def test_only_what_the_words_leave_no_doubt_of(question: str, kind: str) -> None:
    assert wanted(question) == kind


def test_words_of_a_name_ask_for_nothing() -> None:
    question = "what is the year of When Harry Met Sally and who is in it"
    assert wanted("which film is like Who Framed Roger Rabbit") == ""
    assert wanted("Who directed When Harry Met Sally?") == ""
    assert wanted("Who directed When Harry Met Sally?", ["when harry met sally"]) == "who"
    assert wanted("Who directed When Harry Met Sally?", spans=[(13, 33)]) == "who"
    assert wanted(question, ["When Harry Met Sally"]) == ""
    assert wanted("Is It a film?", ["It", "It a film", ""], [(-1, -1), (3, 5)]) == "yes_no"


@pytest.mark.parametrize(
    ("question", "extreme"),
    [
        ("Which is the longest river?", "most"),
        ("What state has the most people?", "most"),
        ("Which city has the fewest people?", "least"),
        ("What is the smallest state?", "least"),
        ("the two most famous works", ""),
        ("Which forest is old?", ""),
        ("meetings that last three hours", ""),
        ("what countries speak German as a first language?", ""),
        ("Who directed Alien?", ""),
    ],
)
def test_a_superlative_asks_for_one_end_of_a_scale(question: str, extreme: str) -> None:
    assert extreme_of(asking_words(question)) == extreme


@pytest.mark.parametrize(
    ("question", "program", "first"),
    [
        # What is compared or ranked is not what is asked for, unless the question names it first.
        (
            "Which Alfas weigh over 900 kg?",
            "add_fact(?x, madeBy, alfa)\nadd_fact(?x, weight, ?w)\nadd_filter(?w, >, 9)",
            "?x",
        ),
        ("Which is longer?", "add_fact(?x, length, ?l)\nadd_max(?l)", "?x"),
        ("What is the length of the longest?", "add_fact(?x, length, ?l)\nadd_max(?l)", "?l"),
        (
            "Name the prices of the cars of Alfa",
            "add_fact(?x, madeBy, alfa)\nadd_type(?x, Car)\nadd_fact(?x, price, ?v)",
            "?v",
        ),
        (
            "Which car is cheapest?",
            "add_type(?car, Car)\nadd_fact(?car, carPrice, ?price)\nadd_min(?price)",
            "?car",
        ),
        ("How many are there?", "add_type(?x, Car)\nadd_count(?x, ?n)", "?n"),
        ("And those?", "add_fact(?x, madeBy, ?y)\nadd_type(?x, Car)", "?x"),
        ("And those?", "add_fact(?x, madeBy, ?y)", "?y"),
    ],
)
def test_the_likeliest_answer_is_offered_first(question: str, program: str, first: str) -> None:
    bound = tuple(dict.fromkeys(re.findall(r"\?\w+", program)))
    feedback, memory = (
        Feedback(action="set_answer", error="arity", program=program),
        ReasoningMemory(bound=bound),
    )
    template = environment().from_string('{% include "answers" %}')
    text = template.render(situation(feedback, memory, question=question))
    assert re.findall(r"set_answer\((.*?)\)", text)[0] == first


def test_a_comparison_without_a_value_gets_the_numbers_of_the_question() -> None:
    feedback = Feedback(action="add_filter", arguments=("?n", "="), error="arity")
    values = situation(
        feedback, ReasoningMemory(linked={"b7": "Boat 7"}), question="Has Boat 7 three masts or 4?"
    )
    text = environment().from_string('{% include "completed" %}').render(values)
    assert text.strip().split("example: ")[1] == "add_filter(?n, =, 3), add_filter(?n, =, 4)."


def test_words_of_another_sentence_ask_for_nothing() -> None:
    question = "We thank our biggest spenders. Which members have made more than 3 bookings, please?"
    assert extreme_of(asking_words(question)) == ""
    assert "3" in asking_words(question)
