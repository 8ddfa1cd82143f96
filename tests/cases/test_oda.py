"""ODA's tables 5 and 6 and the workflow of its figure 3, replayed with a scripted model over HTTP."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.cases import replay
from tests.support.openai_server import OpenAIServer

Server = Callable[..., OpenAIServer]


@pytest.mark.parametrize("case", ["table5", "table6", "figure3"])
def test_cases(case: str, openai_server: Server) -> None:
    replay(f"oda/{case}", openai_server)


def test_the_loop_of_observation_action_and_reflection(openai_server: Server) -> None:
    done = replay("oda/figure3", openai_server)
    turn = ("observe", "act", "inspect", "reflect")
    assert done.phases == ("link", "plan", *turn, *turn, "observe", "act", "inspect", "answer")
    act, reflect, second = done.server.chats[0].text, done.server.chats[1].text, done.server.chats[2].text
    around = (
        "Around Johann Wolfgang von Goethe [Q5879]:\n-> P451 (unmarried partner): Lili Schöneman [Q78495]"
    )
    assert "-> P451 (unmarried partner): Lili Schöneman [Q78495]" in act
    assert "Candidates: Johann Wolfgang von Goethe [Q5879]" in act
    assert around in reflect.partition("Candidate triples")[2]
    partner = "(Johann Wolfgang von Goethe [Q5879], unmarried partner, Lili Schöneman [Q78495])"
    assert f"Memory:\n- {partner}" in second
    assert "-> P19 (place of birth): Offenbach am Main [Q3042]" in second
    assert "Candidates: Lili Schöneman [Q78495]" in second
    assert "1. GetNeighbor(Q5879)" in second


def test_answers_are_asked_for_with_the_memory_alone(openai_server: Server) -> None:
    done = replay("oda/table5", openai_server)
    asked = done.server.chats[-1].text
    assert "- (White Fang [Q844836], narrative location, Yukon [Q2009]; Canada [Q16])" in asked
    assert "Alaska" not in asked
