"""Inspection: which guideline a step is given, and what of it stays in the state."""

from __future__ import annotations

from collections.abc import Callable

from langgraph.runtime import Runtime

from tests.support.calls import parse_call
from tests.support.states import after
from triplewise.graphs import Context, State
from triplewise.nodes.act import carry_out
from triplewise.nodes.correct import raw
from triplewise.nodes.environment import Environment
from triplewise.nodes.inspect import eraser
from triplewise.nodes.state import Verdict
from triplewise.tools.actions.toolset import Call
from triplewise.tools.linking.linker import LinkedEntity

from .conftest import GOETHE


def taken(state: State, context: Context, *calls: str) -> State:
    """The state after some calls, each inspected; an error is rolled back."""
    for text in calls:
        call = parse_call(text, ())
        assert isinstance(call, Call)
        state = after(state, carry_out(state, Environment(context), "", call))
        state = after(state, eraser(state, Runtime(context=context)))
    return state


def verdict(state: State) -> Verdict:
    assert state.verdict is not None
    return state.verdict


def test_a_note_stays_with_its_step_and_is_counted(state: Callable[..., State], context: Context) -> None:
    named = (LinkedEntity("Goethe", -1, -1, GOETHE, "Johann Wolfgang von Goethe", 1.0),)
    start = state(GOETHE).model_copy(update={"linked": named})
    after = taken(start, context, "get_relation(Johann Wolfgang von Goethe)")
    assert (verdict(after).status, after.last.guideline) == ("ok", "label_repaired")
    assert f"Johann Wolfgang von Goethe -> {GOETHE}" in verdict(after).note


def test_a_name_in_the_question_asks_for_nothing(state: Callable[..., State], context: Context) -> None:
    question = "When did the wife of When Harry Met Sally die?"
    calls = (f"get_relation({GOETHE})", f"add_fact({GOETHE}, P451, ?x)", "set_answer(?x)")
    plain = state(GOETHE, question=question)
    assert verdict(taken(plain, context, *calls)).guideline == "answer_type_when"
    covered = (LinkedEntity(question[:30], 0, 30, GOETHE, GOETHE, 1.0),)
    masked = plain.model_copy(update={"linked": covered})
    assert verdict(taken(masked, context, *calls)).guideline == ""


def test_a_doubt_holds_for_the_program_it_was_raised_on(
    state: Callable[..., State], context: Context
) -> None:
    start = state(GOETHE, question="When was it?")
    partner = (f"get_relation({GOETHE})", f"add_fact({GOETHE}, P451, ?x)", "set_answer(?x)")
    doubted = taken(start, context, *partner)
    assert verdict(doubted).guideline == "answer_type_when"
    back = after(doubted, raw(doubted, Runtime(context=context)))
    insisting = taken(back, context, "set_answer(?x)")
    assert verdict(insisting).guideline == ""
    assert verdict(taken(insisting, context, "execute()")).status == "finished"
    # The same words about what another rule found are another call.
    other = taken(back.model_copy(update={"program": ""}), context, f"add_fact({GOETHE}, P19, ?x)")
    assert verdict(taken(other, context, "set_answer(?x)")).guideline == "answer_type_when"
