"""The fast path: a reading as one step, with the inspector's word on it, and steps where that does not do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from langgraph.runtime import Runtime

from tests.support.openai_server import OpenAIServer
from triplewise.graphs import Context, State, build_graph
from triplewise.nodes.act import auto
from triplewise.nodes.embedded import whole_program
from triplewise.nodes.environment import Environment, Update
from triplewise.nodes.inspect import eraser
from triplewise.nodes.reasoning import action_context
from triplewise.nodes.state import Verdict

from .conftest import GOETHE, planned, reading

Server = Callable[..., OpenAIServer]
Make = Callable[..., State]

PARTNER = f"add_fact({GOETHE}, P451, ?partner)"
BORN = reading(PARTNER, "add_fact(?partner, P19, ?place)", "set_answer(?place)")
EMPTY = reading(PARTNER, "add_fact(?partner, P840, ?place)", "set_answer(?place)")
QUESTION = {
    "question": "What is the birthplace of Goethe's unmarried partner?",
    "entities": {"Goethe": GOETHE},
}


@pytest.fixture
def fast(context: Context) -> Context:
    return replace(context, fast_path=True)


def test_the_best_reading_is_one_step_with_its_program_in_lines(fast: Context, state: Make) -> None:
    update = auto(state(GOETHE, readings=(BORN, EMPTY)), Runtime(context=fast))
    (step,) = update["steps"]
    assert step.call.splitlines() == [
        "add_fact(Q5879, P451, ?partner)",
        "add_fact(?partner, P19, ?place)",
        "set_answer(?place)",
        "execute()",
    ]
    assert step.feedback.finished
    assert step.feedback.answers == ("Q3042",)
    assert update["program"].splitlines() == step.call.splitlines()[:-1]
    assert BORN.text in step.thought


@pytest.mark.parametrize(
    ("changed", "settings"),
    [
        ({"readings": (EMPTY, BORN)}, {}),
        ({"readings": ()}, {}),
        ({"readings": (BORN,)}, {"toolset": "explore"}),
    ],
    ids=["nothing found", "no reading", "no query"],
)
def test_otherwise_nothing_is_recorded(
    fast: Context, state: Make, changed: dict[str, Any], settings: dict[str, Any]
) -> None:
    before, context = state(GOETHE, **changed), replace(fast, **settings)
    toolset = Environment(context).toolset
    assert whole_program(before, action_context(before, Environment(context)), toolset) is None


@pytest.mark.parametrize(
    ("replies", "values", "calls"),
    [
        (["Thought 2: Yes.\nAction 2: execute()"], ("Q3042",), 1),
        (
            [
                "Thought 2: No, the partner herself.\nAction 2: undo(all)\n"
                "Action 3: add_fact(Q5879, P451, ?partner)\nAction 4: set_answer(?partner)"
            ],
            ("Q78495",),
            1,
        ),
    ],
    ids=["yes", "no"],
)
def test_a_model_says_whether_the_reading_answers(
    context: Context, openai_server: Server, replies: list[str], values: tuple[str, ...], calls: int
) -> None:
    server = openai_server(replies)
    settings = replace(context, fast_path=True, max_actions=4, model="openai:scripted", base_url=server.url)
    graph = build_graph("agent", observe="none", plan=planned(BORN))
    answer = graph.invoke(QUESTION, context=settings)["answer"]
    assert answer.usage.calls == calls
    assert "If this query says what the question asks, execute()" in str(server.chats[0])
    assert answer.values == values


def test_steps_follow_where_the_inspector_objects(fast: Context) -> None:
    def objecting(state: State, runtime: Runtime[Context]) -> Update:
        if len(state.steps) == 1:
            return {"verdict": Verdict("error", guideline="doubted", source="kb", text="Look again.")}
        return eraser(state, runtime)

    slow = build_graph("agent", plan=planned(BORN)).invoke(QUESTION, context=replace(fast, fast_path=False))
    state = build_graph("agent", inspect=objecting, plan=planned(BORN)).invoke(QUESTION, context=fast)
    first, *others = state["steps"]
    assert first.rolled_back
    assert first.guideline == "doubted"
    assert [s.call for s in others] == [s.call for s in slow["steps"]]
    assert not any(s.rolled_back for s in others)
    assert state["answer"].values == slow["answer"].values
