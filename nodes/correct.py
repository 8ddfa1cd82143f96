"""Correct: the guideline becomes the observation, the failed step leaves the reasoning memory.

QueryAgent, Algorithm 1, lines 12 to 15.
"""

from __future__ import annotations

from dataclasses import replace

from langgraph.runtime import Runtime

from triplewise.nodes.context import Context
from triplewise.nodes.phase import Update
from triplewise.nodes.state import Correction, State

RETRY = "Please check again and re-generate only Thought {n} and Action {n}."


def _roll_back(state: State, observation: str) -> Update:
    """Show `observation` for the last step and go back to the program before it."""
    verdict, step = state.verdict, state.last
    assert verdict is not None, "correct runs after inspect"
    failed = replace(step, observation=observation, guideline=verdict.guideline, rolled_back=True)
    record = Correction(step.number, step.call, verdict.guideline, verdict.source, observation)
    return {
        "steps": (*state.steps[:-1], failed),
        "corrections": (*state.corrections, record),
        "program": step.program_before,
    }


def eraser(state: State, runtime: Runtime[Context]) -> Update:
    """Show the tailored guideline."""
    assert state.verdict is not None
    return _roll_back(state, f"ERROR_INFO: {state.verdict.text}")


def raw(state: State, runtime: Runtime[Context]) -> Update:
    """Show the interpreter's or engine's own message (QueryAgent, table 3, w/o ERASER)."""
    feedback = state.last.feedback
    message = feedback.message or f"the query returned: {feedback.outcome or 'nothing'}"
    return _roll_back(state, f"{message} {RETRY.format(n=state.last.number + 1)}")


VARIANTS = {"eraser": eraser, "raw": raw}
