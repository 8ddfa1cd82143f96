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
    assert "- (Johann Wolfgang von Goethe, unmarried partner, Lili Schöneman)" in act
    assert "Candidates: Q5879 (Johann Wolfgang von Goethe)" in act
    assert "[Q5879, P451, Q78495]" in reflect
    assert "Memory:\n- (Johann Wolfgang von Goethe, unmarried partner, Lili Schöneman)" in second
    assert "- (Lili Schöneman, place of birth, Offenbach am Main)" in second
    assert "Candidates: Q78495" in second
    assert "1. GetNeighbor(Q5879)" in second


def test_answers_are_asked_for_with_the_memory_alone(openai_server: Server) -> None:
    done = replay("oda/table5", openai_server)
    asked = done.server.chats[-1].text
    assert "- (White Fang, narrative location, Yukon)" in asked
    assert "Alaska" not in asked
