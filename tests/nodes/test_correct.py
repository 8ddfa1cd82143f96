"""Correction: the guideline is the observation, the failed step leaves the reasoning memory."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from langgraph.runtime import Runtime

from tests.support.calls import parse_call
from tests.support.openai_server import Messages, OpenAIServer
from tests.support.states import after
from triplewise.graphs import Context, State, build_graph
from triplewise.nodes.correct import VARIANTS, verified_fixes
from triplewise.nodes.environment import Environment, environment
from triplewise.nodes.inspect import eraser as inspect_step, unchecked
from triplewise.nodes.reasoning import action_context, reasoning_memory
from triplewise.nodes.state import Step, Verdict
from triplewise.tools.actions.toolset import Feedback
from triplewise.tools.kg.protocol import Meter

from .conftest import GOETHE, WILD

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


STARTS = {
    "eraser": "ERROR_INFO: ",
    "raw": "the query returned: empty",
    "zero-shot": "Read your last action again",
    "few-shot": "Here are examples of how a wrong action is explained",
    "none": "Step 3 was undone.",
}


@pytest.mark.parametrize(("variant", "start"), STARTS.items())
def test_the_failed_step_is_rolled_back(
    variant: str, start: str, failed: State, runtime: Runtime[Context]
) -> None:
    judged = after(failed, inspect_step(failed, runtime))
    assert judged.verdict is not None
    assert (judged.verdict.status, judged.verdict.guideline) == ("error", "fact_empty_not_looked_up")
    update = VARIANTS[variant](judged, runtime)
    assert update["program"] == BEFORE
    last = update["steps"][-1]
    assert (last.rolled_back, last.guideline) == (True, "fact_empty_not_looked_up")
    assert last.observation.startswith(start)
    assert ("Thought 4 and Action 4" in last.observation) is (variant != "none")
    (record,) = update["corrections"]
    assert (record.step, record.call, record.text) == (3, last.call, last.observation)


def test_what_was_rolled_back_is_no_longer_known(failed: State, context: Context) -> None:
    shown = replace(FAILED, values={"x": ["a"]}, ids={"x": ["Q1"]})
    step = replace(failed.steps[2], feedback=shown)
    for rolled_back, program in ((False, FAILED.program), (True, BEFORE)):
        steps = (*failed.steps[:2], replace(step, rolled_back=rolled_back))
        state = failed.model_copy(update={"steps": steps, "program": program})
        memory = reasoning_memory(state, Environment(context))
        assert ("?x" in memory.bound) is not rolled_back
        assert ("Q1" in memory.seen) is not rolled_back
        assert ("add_fact(?partner, P99, ?x)" in memory.failed) is rolled_back
        assert memory.bound[0] == "?partner"
        assert list(memory.looked_up) == [GOETHE]


def test_all_variables_of_a_reading_that_was_taken_are_bound(failed: State, context: Context) -> None:
    taken = Feedback("take", ("1",), outcome="rows", values={"town": ["Weimar"]})
    program = "add_fact(Q5879, P451, ?partner)\nadd_fact(?partner, P19, ?town)\nset_answer(?town)"
    state = failed.model_copy(update={"steps": (Step(1, "", "take(1)", taken, ""),), "program": program})
    assert reasoning_memory(state, Environment(context)).bound == ("?partner", "?town")


def test_without_guidelines_only_the_interpreter_objects(failed: State, runtime: Runtime[Context]) -> None:
    assert unchecked(failed, runtime)["verdict"] == Verdict("ok")
    refused = replace(failed.last, feedback=Feedback(error="arity", message="three are due"))
    update = unchecked(failed.model_copy(update={"steps": (*failed.steps[:2], refused)}), runtime)
    assert update["verdict"] == Verdict(
        "error", "arity", "interpreter", "three are due", reason="three are due"
    )


def test_an_error_at_the_end_of_a_budget_ends_the_run(failed: State, context: Context) -> None:
    verdict = inspect_step(failed, Runtime(context=replace(context, max_steps=3)))["verdict"]
    assert (verdict.status, verdict.note) == ("spent", "the budget of 3 steps is spent")


TURNED = f"add_fact(?place, P840, {WILD})"
MEANT = f"add_fact({WILD}, P840, ?place)"


@pytest.fixture
def turned(state: Callable[..., State], context: Context) -> State:
    """A fact in the wrong direction, as the inspector leaves it to be corrected."""
    start = state(WILD, question="Where is The Call of the Wild set?")
    feedback = Environment(context).toolset.execute(
        action_context(start, Environment(context)), parse_call(TURNED)
    )
    step = Step(1, "", TURNED, replace(feedback, outcome=str(feedback.outcome)), feedback.observation)
    verdict = Verdict("error", "fact_empty", "kb", "Nothing found. Regenerate only Thought 2 and Action 2.")
    return start.model_copy(update={"steps": (step,), "program": feedback.program, "verdict": verdict})


def scripted(context: Context, **changed: Any) -> Runtime[Context]:
    """A run with a language model, which nothing here calls."""
    return Runtime(context=replace(context, model="openai:scripted", **changed))


def test_what_finds_something_is_offered_behind_the_guideline(turned: State, context: Context) -> None:
    update = VARIANTS["eraser"](turned, scripted(context))
    (record,) = update["corrections"]
    assert record.fixes[0].startswith(f"{MEANT} -> ?place: ")
    offered = f"These were tried on the graph and find something: {record.fixes[0]}"
    assert record.text.startswith(f"ERROR_INFO: {turned.verdict.text if turned.verdict else None} {offered}")


@pytest.mark.parametrize("changed", [{"verify_corrections": False}, {"model": "embedded"}])
def test_fixes_that_are_switched_off_take_no_query(
    changed: dict[str, Any], turned: State, context: Context
) -> None:
    runtime = Runtime(context=replace(context, **{"model": "openai:scripted", **changed}))
    meter = Meter(environment(runtime).kg.meter)
    update = VARIANTS["eraser"](turned, runtime)
    assert (update["corrections"][0].fixes, meter.queries) == ((), 0)
    assert "tried on the graph" not in update["steps"][-1].observation


@pytest.mark.parametrize("budget", [1, 2, 3, 5, 12])
def test_fixes_keep_to_their_budget(
    budget: int, turned: State, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = scripted(context)
    monkeypatch.setattr("triplewise.nodes.correct.QUERIES", budget)
    meter = Meter(environment(runtime).kg.meter)
    fixes = verified_fixes(turned, Environment(runtime.context))
    assert meter.queries <= budget
    assert len(fixes) <= 3


@pytest.mark.parametrize("correct", STARTS)
@pytest.mark.parametrize("inspect", ["eraser", "none"])
def test_a_run_takes_the_fix_it_was_offered(
    inspect: str, correct: str, context: Context, openai_server: Callable[..., OpenAIServer]
) -> None:
    """The model misspells a name, and then does as it is told, if it is told anything."""
    fact = f"add_fact({WILD}, P840, ?x)"

    def reply(messages: Messages) -> str:
        said = str(messages[-1]["content"])
        step = int(re.findall(r"Action (\d+)", said)[-1])
        _, _, offered = said.partition("find something: ")
        second = offered.split(" -> ")[0] or fact
        action = {
            1: "add_fact(The Call of the Wilde, P840, ?x)",
            2: second,
            3: "set_answer(?x)",
            4: "execute()",
        }[step]
        return f"Thought {step}: so be it\nAction {step}: {action}"

    server = openai_server(reply)
    graph = build_graph("queryagent", inspect=inspect, correct=correct)
    settings = replace(context, model="openai:scripted", base_url=server.url, prompt=None)
    given = {"question": "Where is The Call of the Wild set?", "entities": {"The Call of the Wild": WILD}}
    final = graph.invoke(given, context=settings)
    answer = final["answer"]
    assert answer.status == "answered", (answer.reason, [s.observation for s in final["steps"]])
    (record,) = answer.corrections
    assert record.call == "add_fact(The Call of the Wilde, P840, ?x)"
    assert bool(record.fixes) is (correct == "eraser")
    if record.fixes:
        assert final["steps"][1].call == record.fixes[0].split(" -> ")[0]
