"""What a model says becomes an answer: read, linked, and kept as it was said where no name is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from tests.support.film_library import film_context
from tests.support.films import iri
from triplewise.evals.baselines.loop import name_answers, read_answers
from triplewise.nodes.environment import Environment
from triplewise.nodes.state import State
from triplewise.tools.core.terms import IRI
from triplewise.tools.linking.linker import LinkedEntity

SIMPLE = st.text("abcdefgh XYZäé", min_size=1, max_size=12).map(str.strip).filter(bool)


@pytest.mark.parametrize(
    ("reply", "texts"),
    [
        ("Ridley Scott.", ("Ridley Scott",)),
        ("Alien\nGladiator\nAlien\n", ("Alien", "Gladiator")),
        ("1. Alien\n2. Gladiator", ("Alien", "Gladiator")),
        ("2. Bundesliga", ("2. Bundesliga",)),
        ("- Alien\n- **Gladiator**", ("Alien", "Gladiator")),
        ("[\"Paris, Texas\", 'Alien']", ("Paris, Texas", "Alien")),
        ("```\nAlien\n```", ("Alien",)),
        ("Answer: Washington, D.C.", ("Washington, D.C.",)),
        ("Robert Downey Jr.", ("Robert Downey Jr.",)),
        ("unknown", ()),
        ("Unknown.", ()),
        ("", ()),
        (" \n\n ", ()),
    ],
)
def test_answers_are_read_from_lines_and_lists(reply: str, texts: tuple[str, ...]) -> None:
    assert read_answers(reply) == texts


@pytest.mark.parametrize(
    ("reply", "texts"),
    [
        ("It is a film of Scott.\nAnswer: [Alien, Gladiator]", ("Alien", "Gladiator")),
        ("First guess\nAnswer: Jaws\nNo, wait.\n**Answer:** Duel", ("Duel",)),
        ("He made it. So the answer is: Alien", ("Alien",)),
        ("Both are of 1985. The answers are Ran.", ("Ran",)),
        ("Final answer: true", ("true",)),
        ("The final answer is: Alien", ("Alien",)),
        ("Answer:\nAlien\nDuel", ("Alien", "Duel")),
        ("I think it is Alien.", ()),
        ("Answer: unknown", ()),
        ("Answer:", ()),
    ],
)
def test_of_reasoning_only_what_is_marked_as_answer_counts(reply: str, texts: tuple[str, ...]) -> None:
    assert read_answers(reply, reasoned=True) == texts


@given(st.lists(SIMPLE, min_size=1, max_size=5, unique=True))
def test_what_is_written_as_asked_is_read_as_meant(names: list[str]) -> None:
    listed = ", ".join(f'"{name}"' for name in names)
    assert read_answers(f"some reasoning\nAnswer: [{listed}]", reasoned=True) == tuple(names)


@pytest.mark.parametrize(
    ("question", "texts", "values", "labels"),
    [
        ("who?", ["ridley scott"], ("Ridley_Scott",), ("Ridley Scott",)),
        ("who?", ["Alien and Godzilla"], ("Alien and Godzilla",), ("Alien and Godzilla",)),
        ("who?", ["Gladiators"], ("Gladiators",), ("Gladiators",)),
        ("who?", ["Ridley Scot"], ("Ridley Scot",), ("Ridley Scot",)),
        ("who?", ["x" * 1_000], ("x" * 1_000,), ("x" * 1_000,)),
        ("who?", ["Godzilla"], ("Godzilla",), ("Godzilla",)),
        ("who?", ["Alien", "ALIEN"], ("Alien",), ("Alien",)),
        ("when?", ["1979", "1979-05-25"], ("1979", "1979-05-25"), ("1979", "1979-05-25")),
        (
            "when?",
            ["9 November 1989", "May 1990"],
            ("1989-11-09", "1990-05"),
            ("9 November 1989", "May 1990"),
        ),
        ("how many?", ["12,000"], ("12000",), ("12,000",)),
        ("what?", ["21 Grams"], ("21 Grams",), ("21 Grams",)),
        ("Is Alien a film?", ["Yes"], ("true",), ("Yes",)),
        ("Alien is a film.", ["False"], ("false",), ("No",)),
        ("who said no?", ["no"], ("no",), ("no",)),
        ("who?", ["?!"], ("?!",), ("?!",)),
    ],
)
def test_names_become_ids_and_keep_their_words(
    tmp_path: Path, question: str, texts: list[str], values: tuple[str, ...], labels: tuple[str, ...]
) -> None:
    named = name_answers(texts, State(question=question), Environment(film_context(tmp_path)))
    assert tuple(n.value for n in named) == values
    assert tuple(n.label for n in named) == labels


def test_nodes_that_were_shown_go_before_others_of_their_name(tmp_path: Path) -> None:
    state = State(question="who?", linked=(LinkedEntity("a", 0, 1, "a", "a", 1.0),))
    shown = [IRI(iri("Jaws"))]
    (named,) = name_answers(["jaws"], state, Environment(film_context(tmp_path)), shown)
    assert named == ("Jaws", "jaws")
