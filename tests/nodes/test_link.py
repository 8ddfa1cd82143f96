"""Linking starts a question: entities found or given, everything of the question before forgotten."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from langgraph.runtime import Runtime

from tests.support.states import after
from triplewise.graphs import Context, State
from triplewise.nodes.link import VARIANTS, check_question, link, none
from triplewise.tools.core.errors import ConfigurationError, QuestionError

from .conftest import WILD


def test_entities_are_found_in_the_question(runtime: Runtime[Context]) -> None:
    update = link(State(question="Where is White Fang set?"), runtime)
    assert [(e.mention, e.id) for e in update["linked"]] == [("White Fang", "Q844836")]
    assert update["focus"] == ("Q844836",)


def test_given_entities_are_taken_as_they_are(runtime: Runtime[Context]) -> None:
    state = State(question="Where is it set?", entities={"it": WILD, "White Fang": None})
    assert none(state, runtime)["linked"] == ()
    for phase in (phase for name, phase in VARIANTS.items() if name != "none"):
        assert [e.id for e in phase(state, runtime)["linked"]] == [WILD, "Q844836"]


def test_everything_else_starts_anew(runtime: Runtime[Context], state: Callable[..., State]) -> None:
    used = state(WILD, question="Where is White Fang set?", program="add_fact(?x, P19, ?y)", attempt=3)
    update = link(used, runtime)
    kept = {"linked": update["linked"], "focus": update["focus"]}
    assert after(used, update) == State(question=used.question, **kept)
    assert update.keys() == State.model_fields.keys() - {"question", "entities", "turns"}


def test_mistakes_of_the_caller_are_told(runtime: Runtime[Context]) -> None:
    with pytest.raises(ConfigurationError, match="has no entity 'Q999999999'"):
        link(State(question="Who?", entities={"x": "Q999999999"}), runtime)
    with pytest.raises(ConfigurationError, match=r"no entity '\"7\"\^\^xsd:integer'"):
        link(State(question="Who?", entities={"seven": '"7"^^xsd:integer'}), runtime)


@pytest.mark.parametrize("question", ["x" * 60_000, "who is " * 400, " \n ", "who \ud800"])
def test_a_question_that_cannot_be_asked_is_refused(question: str) -> None:
    with pytest.raises(QuestionError):
        check_question(question)
