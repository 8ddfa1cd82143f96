"""The action with which an agent says that the graph does not hold the answer, instead of guessing one."""

from __future__ import annotations

from triplewise.tools.actions.toolset import ActionContext, Parameter, action
from triplewise.tools.core.call import Feedback


@action(
    Parameter("reason", "text", "what is missing, in a few words"),
    example="unknown(the graph has no prices of cars)",
    variadic=True,
    aliases=("Unknown", "refuse", "not_found"),
)
def unknown(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """End without an answer: the graph does not hold what is asked. Never answer from your own knowledge."""
    reason = ", ".join(a.strip().strip("'\"") for a in arguments if a.strip()) or "the graph does not say"
    return Feedback(
        arguments=(reason,), observation=f"Not known: {reason}.", program=context.program, finished=True
    )
