"""Questions, claims and slots are told apart by their form alone."""

from __future__ import annotations

import pytest

from triplewise.nodes.result import normal_values
from triplewise.tools.parsing.statements import decides, form_of, slot_of


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("Eating soup means eating only solids.", "claim"),
        ("Bamboo is a plant which pandas eat.", "claim"),
        ("In Germany, people drink beer!", "claim"),
        ("Mapo Bridge [SEP] crosses", "slot"),
        (" Tipitapa River [SEP] mouth of the watercourse ", "slot"),
        ("Apart from Dracula, name all of its author's works.", "question"),
        ("The list, the name and the tale are lost.", "claim"),
        ("Who wrote Dracula?", "question"),
        ("who wrote dracula", "question"),
        ("Name the films of Ridley Scott.", "question"),
        ("In which year was Dracula written.", "question"),
        ("Is Yukon in Canada?", "question"),
        ("the films that Ridley Scott directed", "question"),
        ("[SEP] crosses", "question"),
        ("a [SEP] b [SEP] c", "question"),
        ("", "question"),
        ("I'd like to know how many pubs there are in Harrowby, please.", "question"),
        ("I was hoping you could tell me which house Harry is in.", "question"),
        ("I am looking for the highest mountain.", "question"),
        ("You can see that Malcolm in the Middle won a Peabody Award.", "claim"),
    ],
)
def test_forms(text: str, form: str) -> None:
    assert form_of(text) == form


def test_parts_of_a_slot() -> None:
    assert slot_of("Mapo Bridge [SEP] crosses") == ("Mapo Bridge", "crosses")


def test_true_and_false_are_said_in_one_way_where_they_are_asked_for() -> None:
    assert decides("Is Yukon in Canada?")
    for said in ("Yes", "true.", "Supported"):
        assert normal_values("Yukon is in Canada.", [said]) == ("true",)
    assert normal_values("Is Yukon in Peru?", ["No."]) == ("false",)
    assert normal_values("Which song is by McAlmont & Butler?", ["Yes"]) == ("Yes",)
    assert normal_values("Yukon is in Canada.", ["Canada"]) == ("Canada",)
