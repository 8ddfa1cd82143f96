"""Correct: the guideline becomes the observation, the failed step leaves the reasoning memory.

QueryAgent, algorithm 1, lines 12 to 15. The variants are the methods that its table 3 compares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.nodes.act import EXECUTE
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Environment, Update, environment
from triplewise.nodes.prompting import load_prompt
from triplewise.nodes.reasoning import action_context
from triplewise.nodes.state import Correction, State
from triplewise.tools.actions.repair.verify import VerifiedFix, find_fixes

QUERIES = 12  # Most KG queries that verifying fixes may take in one correction
OFFERS = 3  # Most fixes offered in one correction
READ_ONLY = frozenset({"search", "get_relation"})  # Actions that neither read nor change the program


def eraser(state: State, runtime: Runtime[Context]) -> Update:
    """Show the tailored guideline (lines 13 and 14), and fixes that were tried and find something."""
    assert state.verdict is not None
    observation, fixes = f"ERROR_INFO: {state.verdict.text}", verified_fixes(state, environment(runtime))
    if fixes:
        shown = [{"calls": fix.call.text(), "finds": fix.finds} for fix in fixes]
        observation = f"{observation} {load_prompt('_correction').render('fixes', fixes=shown)}"
    return _roll_back(state, observation, fixes)


def raw(state: State, runtime: Runtime[Context]) -> Update:
    """Show the raw message of interpreter or KG (QueryAgent, table 3, w/o ERASER)."""
    feedback, n = state.last.feedback, state.last.number + 1
    message = feedback.message or f"the query returned: {feedback.outcome or 'nothing'}"
    return _roll_back(state, f"{message} Please check again and re-generate only Thought {n} and Action {n}.")


def _fixed_text(part: str) -> Callable[[State, Runtime[Context]], Update]:
    """Return a correction that shows the same text whatever the error was."""

    def correct(state: State, runtime: Runtime[Context]) -> Update:
        return _roll_back(state, load_prompt("_correction").render(part, step=state.last.number + 1))

    correct.__name__ = part
    return correct


VARIANTS = {
    "eraser": eraser,
    "raw": raw,
    "zero-shot": _fixed_text("zero_shot"),  # a general checklist (table 3, zero-shot SC)
    "few-shot": _fixed_text("few_shot"),  # a fixed set of explained corrections (table 3, few-shot SC)
    "none": _fixed_text("neutral"),  # the step is undone without an explanation
}


def _roll_back(state: State, observation: str, fixes: Sequence[VerifiedFix] = ()) -> Update:
    """Show `observation` for the last step and go back to the program before it (line 15)."""
    verdict, step = state.verdict, state.last
    assert verdict is not None, "correct runs after inspect"
    # Look-ups that follow a failed look-up in one reply do not depend on it: they are still carried out.
    kept = tuple(call for call in state.pending if {call.name, step.feedback.action} <= READ_ONLY)
    others = [call.text() for call in state.pending if call not in kept and call.name != EXECUTE]
    if dropped := "; ".join(others):
        observation = f"{observation} Not carried out after it: {dropped}."
    failed = replace(step, observation=observation, guideline=verdict.guideline, rolled_back=True)
    offered, about = tuple(fix.text() for fix in fixes), (verdict.guideline, verdict.source)
    record = Correction(step.number, step.call, *about, observation, offered, verdict.reason)
    return {"steps": (failed,), "corrections": (record,), "program": step.program_before, "pending": kept}


def verified_fixes(state: State, env: Environment) -> Sequence[VerifiedFix]:
    """Return fixes of the last step that find something on the KG; () without a model to read them."""
    context, step = env.context, state.last
    if not context.verify_corrections or context.offline or context.db is not None:
        return ()
    before = state.model_copy(update={"steps": state.steps[:-1], "program": step.program_before})
    actions = action_context(before, env)
    actions = replace(actions, encoder=None if context.ranking == "none" else env.encoder)
    return find_fixes(actions, env.toolset, step.feedback, budget=QUERIES, most=OFFERS)
