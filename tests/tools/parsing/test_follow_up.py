"""Follow-ups: what a message leans on, as a question that stands alone with its entities."""

from __future__ import annotations

import pytest

from triplewise.tools.kg import KnowledgeGraph, open_kg
from triplewise.tools.parsing.follow_up import FollowUp, Turn, with_names
from triplewise.tools.retrieval.encoder import open_encoder


@pytest.fixture(scope="module")
def kg() -> KnowledgeGraph:
    return open_kg("demo")


def node(kg: KnowledgeGraph, name: str) -> str:
    assert kg.index is not None
    return kg.profile.short(kg.index.exact(name)[0].iri)


def follow_up(kg: KnowledgeGraph, message: str, *turns: Turn) -> FollowUp:
    return FollowUp(message, turns, kg, open_encoder())


def frankenstein(kg: KnowledgeGraph) -> Turn:
    author = node(kg, "Mary Shelley")
    return Turn(
        "Who wrote Frankenstein?", {"Frankenstein": node(kg, "Frankenstein")}, (author,), ("Mary Shelley",)
    )


def test_a_pronoun_keeps_its_place_and_is_the_entity(kg: KnowledgeGraph) -> None:
    first = follow_up(kg, "Where was she born?", frankenstein(kg)).rewrites[0]
    assert first.question == "Where was she born?"
    assert dict(first.entities) == {"she": node(kg, "Mary Shelley")}


def test_a_part_of_the_question_before_is_replaced(kg: KnowledgeGraph) -> None:
    born = with_names(Turn("Where was she born?", {"she": node(kg, "Mary Shelley")}), kg)
    assert born.question == "Where was Mary Shelley born?"
    first = follow_up(kg, "And Bram Stoker?", frankenstein(kg), born).rewrites[0]
    assert first.question == "Where was Bram Stoker born?"
    assert dict(first.entities) == {"Bram Stoker": node(kg, "Bram Stoker")}


@pytest.mark.parametrize(
    ("message", "purpose"), [("Why?", "proof"), ("show me the query", "query"), ("And when?", "question")]
)
def test_what_a_message_is_for(kg: KnowledgeGraph, message: str, purpose: str) -> None:
    assert follow_up(kg, message, frankenstein(kg)).purpose == purpose


def test_a_message_without_anything_before_it_is_unclear(kg: KnowledgeGraph) -> None:
    assert follow_up(kg, "Where was she born?").rewrites == ()
    assert follow_up(kg, "When?").rewrites == ()
    assert follow_up(kg, "Who wrote Dracula?").is_alone
