"""Inspect: read the environment's feedback and pick the guideline (ERASER, QueryAgent 3.3).

Detection is deterministic and costs no model call: every trigger is a `when` of `guidelines/*.yaml`.
"""

from __future__ import annotations

from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.guidelines import Match
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment, spent_budget
from triplewise.nodes.reasoning import reasoning_memory
from triplewise.nodes.state import State, Verdict, VerdictStatus
from triplewise.tools.kg.protocol import Outcome

_SUCCESSES = ("", Outcome.ROWS, Outcome.TRUNCATED)  # "" where the action sends no query


def eraser(state: State, runtime: Runtime[Context]) -> Update:
    """Match the guidelines with the last step: the first error, otherwise all notes joined."""
    context, env = runtime.context, environment(runtime)
    if not state.steps:
        return {"verdict": _verdict(state, context, None)}
    step = state.last
    before = state.model_copy(update={"steps": state.steps[:-1], "program": step.program_before})
    match = env.guidelines.match(  # line 11: detect and distinguish errors
        step.feedback,  # line 10: feedback of KB and interpreter
        reasoning_memory(before, env),  # lines 8 and 9: the reasoning memory
        question=state.question,
        budget_left=(context.max_steps or 0) - len(state.steps),
        actions=tuple(a.signature for a in env.toolset.actions.values()),
        step=step.number + 1,
        several=context.max_actions > 1,
        toolset=env.toolset.name,
        mentions=tuple((e.start, e.end) for e in state.linked),
    )
    if match is None:
        return {"verdict": _verdict(state, context, None)}
    if match.own and context.offline and not step.feedback.error and step.feedback.outcome in _SUCCESSES:
        # Without a model a user's own guideline cannot undo a step that succeeded: nobody would heed it, and
        # the best reading would be discarded.
        match = replace(match, severity="note", text=match.reason)
    step = replace(step, guideline=match.id)
    if match.severity == "note" and step.feedback.finished:  # after other steps `reflect` appends the note
        step = replace(step, observation=f"{step.observation}\n{match.text}".strip())
    return {"verdict": _verdict(state, context, match), "steps": (step,)}


def unchecked(state: State, runtime: Runtime[Context]) -> Update:
    """Use no guidelines: only errors of the interpreter count (ablation)."""
    match: Match | None = None
    if state.steps and (error := state.last.feedback.error):
        message = state.last.feedback.message
        match = Match(error, "interpreter", "error", text=message, reason=message)
    return {"verdict": _verdict(state, runtime.context, match)}


VARIANTS = {"eraser": eraser, "none": unchecked}


def _verdict(state: State, context: Context, match: Match | None) -> Verdict:
    """Return the verdict: `error` or `ok` (both are `spent` if a budget is used up), or `finished`."""
    failed = match is not None and match.severity == "error"
    budget = spent_budget(state, context, failed)
    if not state.steps:  # the time was up before the first one
        return Verdict("spent", note=budget or "no step was made")
    if match is not None and failed:
        status: VerdictStatus = "spent" if budget else "error"
        return Verdict(status, match.id, match.source, match.text, note=budget, reason=match.reason)
    if budget and not state.last.feedback.finished:
        return Verdict("spent", note=budget)
    status = "finished" if state.last.feedback.finished else "ok"
    if match is None:
        return Verdict(status)
    return Verdict(status, match.id, match.source, note=match.text, reason=match.reason)
