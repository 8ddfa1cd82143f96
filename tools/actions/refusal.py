"""The action with which an agent says that the answer is not in the data, instead of guessing one."""

from __future__ import annotations

from triplewise.tools.actions.toolset import ActionContext, Feedback, Parameter, action


@action(
    Parameter("reason", "text", "what is missing, in a few words"),
    example="unknown(there are no prices of cars)",
    variadic=True,
    aliases=("Unknown", "refuse", "not_found"),
)
def unknown(context: ActionContext, arguments: tuple[str, ...]) -> Feedback:
    """End without an answer: what is asked is not in the data. Never answer from your own knowledge."""
    reason = ", ".join(a.strip().strip("'\"") for a in arguments if a.strip()) or "the data does not say"
    return Feedback(
        arguments=(reason,), observation=f"Not known: {reason}.", program=context.program, finished=True
    )
