"""QueryAgent's figures 2, 5, 6 and 7, replayed with a scripted model over HTTP."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.support.cases import replay
from tests.support.openai_server import OpenAIServer

Server = Callable[..., OpenAIServer]
FIGURES = ("figure2", "figure5", "figure6", "figure7")


@pytest.mark.parametrize("figure", FIGURES)
def test_figures(figure: str, openai_server: Server) -> None:
    done = replay(f"queryagent/{figure}", openai_server, history="full")
    # The next step is decided on with the guideline in the trajectory (Algorithm 1, line 20).
    for correction in done.state.corrections:
        assert correction.text in done.server.chats[correction.step].text


def test_each_error_goes_through_its_own_branch(openai_server: Server) -> None:
    done = replay("queryagent/figure5", openai_server)
    wrong, right = ("act", "inspect", "correct"), ("act", "inspect", "reflect")
    steps = [wrong, right, wrong, right, right, wrong, right, ("act", "inspect", "answer")]
    assert done.phases == ("link", "plan", "observe", *(phase for step in steps for phase in step))
