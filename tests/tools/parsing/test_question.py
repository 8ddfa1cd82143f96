"""What is known of a question as a whole."""

from __future__ import annotations

import pytest

from triplewise.tools.parsing.grounding import ground
from triplewise.tools.parsing.index import GraphIndex


@pytest.mark.parametrize(
    ("question", "late"),
    [
        ("Jon Keita works on which projects", 4),
        ("the Oslo office is in which country", 5),
        ("Ida Brandt is mentored by whom", 5),
        ("which projects does Jon Keita work on", None),
        ("on which projects does Jon Keita work", None),
        ("projects which have a budget", None),
        ("is there a project which Jon Keita works on", None),
    ],
)
def test_question_word_may_stand_late(company: GraphIndex, question: str, late: int | None) -> None:
    assert ground(question, company).late == late


@pytest.mark.parametrize(
    ("question", "cue"),
    [
        ("employees in the same department as Jon Keita", "same"),
        ("employees who share a department with Jon Keita", "shared"),
        ("other employees in research", "cued"),
        ("employees in research", ""),
    ],
)
def test_words_tell_whether_named_things_are_meant(company: GraphIndex, question: str, cue: str) -> None:
    assert ground(question, company).other_cue == cue
