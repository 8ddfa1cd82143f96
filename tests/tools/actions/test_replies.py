"""Reading calls and ReAct replies in the forms that models write them."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from tests.support.calls import parse_call
from triplewise.tools.actions import TOOLSETS, parse_reply
from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.errors import ActionError

LEGAL = TOOLSETS["pyql"]


@pytest.mark.parametrize(
    ("text", "call"),
    [
        ("add_fact(Q1490, P36, ?capital)", Call("add_fact", ("Q1490", "P36", "?capital"))),
        ("`get_relation(?x)`.", Call("get_relation", ("?x",))),
        ("```python\nexecute()\n```", Call("execute")),
        ("execute", Call("execute")),
        ("I will call get_relation(Q1) (the capital) now", Call("get_relation", ("Q1",))),
        ("get_relation(Q1", Call("get_relation", ("Q1",))),
        ("get_relation(Kill Bill (Vol. 1))", Call("get_relation", ("Kill Bill (Vol. 1)",))),
        ('add_filter(?x, =, "a, b)")', Call("add_filter", ("?x", "=", '"a, b)"'))),
        ("add_filter(?x, =, 'O''Neil, John')", Call("add_filter", ("?x", "=", "'O''Neil, John'"))),
        ('add_fact(?x, P1, "1,5"^^xsd:decimal)', Call("add_fact", ("?x", "P1", '"1,5"^^xsd:decimal'))),
        ("add_fact(<http://x/a,(b>, P1, ?x)", Call("add_fact", ("<http://x/a,(b>", "P1", "?x"))),
        ("add_fact(head=?x, relation=P1, tail=Q2)", Call("add_fact", ("?x", "P1", "Q2"))),
        (
            "add_union((?x, P1, Q1) & (?x, P2, ?y), (?x, P3, Q1))",
            Call("add_union", ("(?x, P1, Q1) & (?x, P2, ?y)", "(?x, P3, Q1)")),
        ),
        ("add_fact(\n  ?x,\n  P1,\n  Q2\n)", Call("add_fact", ("?x", "P1", "Q2"))),
        ("fly_to(moon)", Call("fly_to", ("moon",))),
    ],
)
def test_one_call(text: str, call: Call) -> None:
    assert parse_call(text, LEGAL) == call


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Since we couldn't find a suitable relation, we need another approach.", "no_action"),
        ("", "no_action"),
        ("get_relation(Q1), get_relation(Q2)", "several_actions"),
    ],
)
def test_no_single_call(text: str, code: str) -> None:
    with pytest.raises(ActionError) as caught:
        parse_call(text, LEGAL)
    assert caught.value.code == code


def test_arguments_on_their_own_lines() -> None:
    explore = TOOLSETS["explore"]
    assert parse_call("GetNeighbor\nEntity_id: White Fang", explore) == Call("GetNeighbor", ("White Fang",))
    assert parse_call("GetPath\nEntity1: Q30\nEntity2: Q25231", explore) == Call("GetPath", ("Q30", "Q25231"))


@pytest.mark.parametrize(
    ("reply", "thought", "call"),
    [
        ("Thought 1: look\nAction 1: get_relation(Q1)", "look", "get_relation(Q1)"),
        ("Thought: look\nAction: get_relation(Q1)\nObservation: {'forward': []}\nThought: more", "look",
         "get_relation(Q1)"),
        ("**Thought 2:** look\n\n**Action 2:** `get_relation(Q1)`", "look", "get_relation(Q1)"),
        ("Thought 1: look Action 1: get_relation(Q1)", "look", "get_relation(Q1)"),
        ("I should look.\nAction: get_relation(Q1)", "I should look.", "get_relation(Q1)"),
        ("get_relation(Q1)", "", "get_relation(Q1)"),
        ("<think>hm</think>\nAction: execute()", "hm", "execute()"),
        ("Thought 4: one way\nThought 4: another\nAction 4: execute()", "one way another", "execute()"),
        ("Thought 1: a\nAction 1: execute()\nAction 1: execute()", "a", "execute()"),
    ],
)  # fmt: skip
def test_react(reply: str, thought: str, call: str) -> None:
    assert parse_reply(reply, LEGAL.by_name) == (thought, [parse_call(call, LEGAL)])


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        ("Thought 1: I cannot go on", "no_action"),
        ("Thought 1: a\nThought 2: b\nAction 2: execute()", "several_thoughts"),
        ("Thought 1: a\nAction 1: get_relation(Q1)\nThought 2: b\nAction 2: execute()", "several_actions"),
    ],
)
def test_react_that_breaks_the_form(reply: str, code: str) -> None:
    with pytest.raises(ActionError) as caught:
        parse_reply(reply)
    assert caught.value.code == code
    assert {"thought", "written"} <= caught.value.detail.keys()


@given(st.text(max_size=80) | st.text(alphabet="abc_(),\"'<>?: \n&\\Tthoughacin1", max_size=80))
def test_any_text_is_a_call_or_an_action_error(reply: str) -> None:
    for parse in (parse_reply, lambda text: parse_call(text, LEGAL)):
        try:
            parse(reply)
        except ActionError as error:
            assert error.code in {"no_action", "several_actions", "several_thoughts"}  # noqa: PT017


@pytest.mark.parametrize(
    ("reply", "calls"),
    [
        ("Thought 1: so\nAction 1: get_relation(Q64)\nAction 2: ask()", ["get_relation(Q64)", "ask()"]),
        ("Thought 1: so\nAction 1: get_relation(Q64)\nask()\n", ["get_relation(Q64)", "ask()"]),
        ("Thought 1: so\nAction 1: ask()\nObservation 1: no\nAction 2: execute()", ["ask()"]),
        ("Thought 1: so\nAction 1: ask()\nThought 2: on\nAction 2: execute()", ["ask()", "execute()"]),
    ],
)
def test_several_actions_of_a_reply_are_read_in_order(reply: str, calls: list[str]) -> None:
    thought, parsed = parse_reply(reply, LEGAL.by_name, most=9)
    assert [call.text() for call in parsed] == calls
    assert thought.startswith("so")
