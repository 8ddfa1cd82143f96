"""Inspect: read the environment's feedback and pick the guideline (ERASER, QueryAgent 3.3).

Detection is deterministic and costs no model call: every trigger is a `when` of `guidelines/*.yaml`.
"""

from __future__ import annotations

from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.guidelines import Match
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment, spent
from triplewise.nodes.reasoning import reasoning_memory
from triplewise.nodes.state import State, Verdict, VerdictStatus
from triplewise.tools.kg.protocol import Outcome

_GIVES = ("", Outcome.ROWS, Outcome.TRUNCATED)  # Outcomes that are nothing against a step


def eraser(state: State, runtime: Runtime[Context]) -> Update:
    """Match the last step: the first matching error wins, otherwise all matching notes are joined."""
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
    if match.own and context.embedded and not step.feedback.error and step.feedback.outcome in _GIVES:
        # Without a model a user's guideline on a successful step is only a note, since undoing the step
        # would only discard the best reading.
        match = replace(match, severity="note", text=match.reason)
    noted = replace(step, guideline=match.id)
    if match.severity == "note" and step.feedback.finished:  # others are settled when they are reflected on
        noted = replace(noted, observation=f"{step.observation}\n{match.text}".strip())
    return {"verdict": _verdict(state, context, match), "steps": (noted,)}


def unchecked(state: State, runtime: Runtime[Context]) -> Update:
    """No guidelines: only what the interpreter itself refuses counts as an error (ablation)."""
    match: Match | None = None
    if state.steps and (error := state.last.feedback.error):
        message = state.last.feedback.message
        match = Match(error, "interpreter", "error", text=message, reason=message)
    return {"verdict": _verdict(state, runtime.context, match)}


VARIANTS = {"eraser": eraser, "none": unchecked}


def _verdict(state: State, context: Context, match: Match | None) -> Verdict:
    """Return the verdict on the last step.

    A failed step is `error`, or `spent` where a budget is used up; else a finished run is `finished`, even
    over budget; else `spent`; else `ok`.
    """
    failed = match is not None and match.severity == "error"
    over = spent(state, context, failed)
    if not state.steps:  # the seconds were over before the first one
        return Verdict("spent", note=over or "no step was made")
    if match is not None and failed:
        status: VerdictStatus = "spent" if over else "error"
        return Verdict(status, match.id, match.source, match.text, note=over, reason=match.reason)
    if over and not state.last.feedback.finished:
        return Verdict("spent", note=over)
    status = "finished" if state.last.feedback.finished else "ok"
    if match is None:
        return Verdict(status)
    return Verdict(status, match.id, match.source, note=match.text, reason=match.reason)
