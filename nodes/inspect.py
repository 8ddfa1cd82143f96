"""Inspect: read the environment's feedback and pick the guideline (ERASER, QueryAgent 3.3).

Detection is deterministic and costs no model call: every trigger is a `when` of `guidelines/*.yaml`.
"""

from __future__ import annotations

from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.guidelines import Match
from triplewise.nodes.act import reasoning_memory
from triplewise.nodes.context import Context
from triplewise.nodes.environment import Update, environment, spent
from triplewise.nodes.state import State, Verdict
from triplewise.tools.kg.protocol import Outcome

_GIVES = ("", Outcome.ROWS, Outcome.TRUNCATED)
"""Outcomes that are nothing against a step."""


def eraser(state: State, runtime: Runtime[Context]) -> Update:
    """Match the last step's feedback against the guidelines; the first one that fires wins."""
    if not state.steps:
        return _out_of_time(state, runtime.context)
    context, step = runtime.context, state.last
    before = state.model_copy(update={"steps": state.steps[:-1], "program": step.program_before})
    match = environment(context).guidelines.match(
        step.feedback,
        reasoning_memory(before, context),
        question=state.question,
        budget_left=(context.max_steps or 0) - len(state.steps),
        actions=tuple(a.signature for a in environment(context).toolset.actions.values()),
        step=step.number + 1,
        several=context.max_actions > 1,
        toolset=environment(context).toolset.name,
        mentions=tuple((e.start, e.end) for e in state.linked),
    )
    if match is None:
        return {"verdict": _verdict(state, context, None)}
    if match.own and context.embedded and not step.feedback.error and step.feedback.outcome in _GIVES:
        # Without a model nobody could act on it: undoing the step would only drop the best rule.
        match = replace(match, severity="note", text=match.reason)
    noted = replace(step, guideline=match.id)
    if match.severity == "note" and step.feedback.finished:  # others are settled when they are reflected on
        noted = replace(noted, observation=f"{step.observation}\n{match.text}".strip())
    return {"verdict": _verdict(state, context, match), "steps": (*state.steps[:-1], noted)}


def _verdict(state: State, context: Context, match: Match | None) -> Verdict:
    """Return the verdict: an error goes before the end of the run, and the end before a spent budget."""
    failed = match is not None and match.severity == "error"
    reason = spent(state, context, failed)
    if match is not None and failed:
        if reason:
            return Verdict("spent", match.id, match.source, match.text, note=reason)
        return Verdict("error", match.id, match.source, match.text, reason=match.reason)
    note = match.text if match else ""
    fired, source = (match.id, match.source) if match else ("", "")
    if state.last.feedback.finished:
        return Verdict("finished", guideline=fired, source=source, note=note)
    if reason:
        return Verdict("spent", note=reason)
    return Verdict("ok", guideline=fired, source=source, note=note)


def _out_of_time(state: State, context: Context) -> Update:
    """The end of a run whose budget of seconds was spent before its first step."""
    return {"verdict": Verdict("spent", note=spent(state, context) or "no step was made")}


def unchecked(state: State, runtime: Runtime[Context]) -> Update:
    """No guidelines: only what the interpreter itself refuses counts as an error (ablation)."""
    if not state.steps:
        return _out_of_time(state, runtime.context)
    feedback = state.last.feedback
    if feedback.error:
        reason = spent(state, runtime.context, failed=True)
        verdict = Verdict(
            "spent" if reason else "error",
            guideline=feedback.error,
            source="interpreter",
            text=feedback.message,
            note=reason,
            reason=feedback.message,
        )
        return {"verdict": verdict}
    return {"verdict": _verdict(state, runtime.context, None)}


VARIANTS = {"eraser": eraser, "none": unchecked}
