"""Follow-ups: what was asked before as anchors of the next question, and parts in place of others."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.parsing.follow_up import PROVENANCE, Turn, lacks, purpose_of, read_tree, write_tree
from triplewise.tools.parsing.index import GraphIndex
from triplewise.tools.parsing.reading import Reading, derive, read_question
from triplewise.tools.retrieval.encoder import open_encoder


@pytest.fixture(scope="module")
def kg() -> KnowledgeGraph:
    return open_kg("demo")


def labels(kg: KnowledgeGraph, reading: Reading) -> set[str]:
    iris = {value: kg.profile.expand(value) for value in reading.values}
    known = kg.labels([iri for iri in iris.values() if iri is not None])
    return {known.get(iri, value) if iri is not None else value for value, iri in iris.items()}


def talk(kg: KnowledgeGraph, messages: Sequence[str]) -> Reading:
    """Return the best reading of the last message, after those before it."""
    turns: tuple[Turn, ...] = ()
    for message in messages:
        reading = read_question(message, kg, open_encoder(), turns=turns)[0]
        turns = (Turn(message, reading.tree, reading.values, reading.features), *turns)
    return reading


@pytest.mark.parametrize(
    ("messages", "answer"),
    [
        (["Who wrote Frankenstein?", "Where was she born?"], {"London"}),
        (["Who wrote Frankenstein?", "Where was she born?", "And Bram Stoker?"], {"Clontarf, Dublin"}),
        (["Who wrote Frankenstein?", "Where was she born?", "What about Dracula?"], {"Bram Stoker"}),
        (["What is the capital of Peru?", "And of Brazil?"], {"Brasília"}),
        (["Which is the longest river in Africa?", "How long is it?"], {"6650"}),
        (["Which countries border both Germany and Italy?", "What are their capitals?"],
         {"Vienna", "Paris", "Bern"}),
        (["Which moons orbit Mars?", "How many?"], {"2"}),
        (["Who directed 2001: A Space Odyssey?", "Where was that man born?"], {"New York City"}),
    ],
)  # fmt: skip
def test_a_message_leans_on_the_questions_before(
    kg: KnowledgeGraph, messages: list[str], answer: set[str]
) -> None:
    reading = talk(kg, messages)
    assert labels(kg, reading) == answer
    assert reading.provenance == PROVENANCE


@pytest.mark.parametrize("before", ["Who wrote Frankenstein?", "Which countries border Germany?"])
def test_a_question_of_its_own_leans_on_nothing(kg: KnowledgeGraph, before: str) -> None:
    alone = read_question("What is the capital of Peru?", kg, open_encoder())[0]
    after = talk(kg, [before, "What is the capital of Peru?"])
    assert (after.program, after.provenance) == (alone.program, alone.provenance)


def test_other_things_are_others_than_those_asked_about(kg: KnowledgeGraph) -> None:
    films = labels(kg, talk(kg, ["Who directed Spartacus?", "Which other films did he direct?"]))
    assert "The Shining" in films
    assert "Spartacus" not in films


def test_trees_are_read_as_they_were_written(kg: KnowledgeGraph) -> None:
    index = GraphIndex.whole(kg, open_encoder())
    assert index is not None
    for question in (
        "Which films did Stanley Kubrick direct after 1970?",
        "Which country in South America has the largest area?",
        "How many moons orbit Mars?",
        "Was Marie Curie born in Warsaw?",
    ):
        _, candidates = derive(question, kg, open_encoder())
        for candidate in candidates:
            assert read_tree(write_tree(candidate.query, index), index) == candidate.query
    assert read_tree('["Nodes", ["<urn:nowhere>"]]', index) is None
    assert read_tree("", index) is None


@pytest.mark.parametrize(
    ("message", "purpose"), [("Why?", "proof"), ("show me the query", "query"), ("And when?", "question")]
)
def test_what_a_message_is_for(message: str, purpose: str) -> None:
    assert purpose_of(message) == purpose


def test_what_a_message_lacks_when_nothing_is_before_it() -> None:
    assert lacks("Where was she born?") == "she"
    assert lacks("And when?") == ""
    assert lacks("Who wrote the author of Dracula?") is None
    assert lacks("How many rivers are there?") is None
