"""Correction: the guideline is the observation, the failed step leaves the reasoning memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from langgraph.runtime import Runtime

from triplewise.graphs import Context, State
from triplewise.nodes.correct import VARIANTS
from triplewise.nodes.inspect import eraser as inspect_step
from triplewise.nodes.inspect import unchecked
from triplewise.nodes.state import Step, Verdict
from triplewise.nodes.workbench import reasoning_memory
from triplewise.tools.toolsets.base import Feedback

from .conftest import GOETHE

BEFORE = "add_fact(Q5879, P451, ?partner)"
FAILED = Feedback(
    "add_fact", ("?partner", "P99", "?x"), outcome="empty", program=f"{BEFORE}\nadd_fact(?partner, P99, ?x)"
)
LOOKED = Feedback("get_relation", (GOETHE,), outcome="rows", relations={"forward": ["P451"], "backward": []})
ADDED = Feedback(
    "add_fact", (GOETHE, "P451", "?partner"), outcome="rows", values={"partner": ["Lili"]}, program=BEFORE
)


@pytest.fixture
def failed(state: Callable[..., State]) -> State:
    """Two good steps and one that found nothing."""
    steps = (
        Step(1, "", f"get_relation({GOETHE})", LOOKED, "{}"),
        Step(2, "", f"add_fact({GOETHE}, P451, ?partner)", ADDED, "Lili"),
        Step(3, "", "add_fact(?partner, P99, ?x)", FAILED, "", program_before=BEFORE),
    )
    return state(GOETHE, steps=steps, program=FAILED.program)


@pytest.mark.parametrize(
    ("variant", "start"), [("eraser", "ERROR_INFO: "), ("raw", "the query returned: empty")]
)
def test_the_failed_step_is_rolled_back(
    variant: str, start: str, failed: State, runtime: Runtime[Context]
) -> None:
    judged = failed.model_copy(update=inspect_step(failed, runtime))
    assert judged.verdict is not None
    assert (judged.verdict.status, judged.verdict.guideline) == ("error", "fact_empty_not_looked_up")
    update = VARIANTS[variant](judged, runtime)
    assert update["program"] == BEFORE
    last = update["steps"][-1]
    assert (last.rolled_back, last.guideline) == (True, "fact_empty_not_looked_up")
    assert last.observation.startswith(start)
    assert "Thought 4 and Action 4" in last.observation
    (record,) = update["corrections"]
    assert (record.step, record.call, record.text) == (3, last.call, last.observation)


def test_what_was_rolled_back_is_no_longer_known(failed: State, context: Context) -> None:
    shown = replace(FAILED, values={"x": ["a"]}, ids={"x": ["Q1"]})
    step = replace(failed.steps[2], feedback=shown)
    for rolled_back in (False, True):
        steps = (*failed.steps[:2], replace(step, rolled_back=rolled_back))
        memory = reasoning_memory(failed.model_copy(update={"steps": steps}), context)
        assert ("?x" in memory.bound) is not rolled_back
        assert ("Q1" in memory.seen) is not rolled_back
        assert ("add_fact(?partner, P99, ?x)" in memory.failed) is rolled_back
        assert memory.bound[0] == "?partner"
        assert list(memory.looked_up) == [GOETHE]


def test_replies_that_were_never_carried_out_count_as_no_attempt(
    state: Callable[..., State], context: Context
) -> None:
    unread = Step(1, "", "execute(); execute()", Feedback(error="several_actions"), "", rolled_back=True)
    memory = reasoning_memory(state(GOETHE, steps=(unread,)), context)
    assert "execute()" not in memory.failed
    assert memory.last == ""


def test_without_guidelines_only_the_interpreter_objects(failed: State, runtime: Runtime[Context]) -> None:
    assert unchecked(failed, runtime)["verdict"] == Verdict("ok")
    refused = replace(failed.last, feedback=Feedback(error="arity", message="three are due"))
    update = unchecked(failed.model_copy(update={"steps": (*failed.steps[:2], refused)}), runtime)
    assert update["verdict"] == Verdict("error", "arity", "interpreter", "three are due")


def test_an_error_at_the_end_of_a_budget_ends_the_run(failed: State, context: Context) -> None:
    verdict = inspect_step(failed, Runtime(context=replace(context, max_steps=3)))["verdict"]
    assert (verdict.status, verdict.note) == ("spent", "the budget of 3 steps is spent")
