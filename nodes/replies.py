"""Replies of a language model: the thought and the actions in them, or why they cannot be used."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from triplewise.nodes.context import Context
from triplewise.nodes.environment import REPLY_CUT, REPLY_EMPTY
from triplewise.tools.actions import Toolset, parse_actions, parse_call, parse_react
from triplewise.tools.actions.toolset import Call
from triplewise.tools.core.errors import ActionError
from triplewise.tools.pyql.text import scan_arguments

if TYPE_CHECKING:
    from triplewise.nodes.models import Reply


def read_reply(text: str, toolset: Toolset, most: int = 1) -> tuple[str, str, Sequence[Call] | ActionError]:
    """Return the thought, the action as written, and the calls it means or what is wrong with it.

    most: calls that a reply may hold; what goes beyond is dropped.
    """
    thought, written = "", ""
    try:
        if most > 1:
            thought, calls = parse_actions(toolset.spelled(text), toolset)
            return thought, "; ".join(call.text() for call in calls), calls[:most]
        thought, written = parse_react(toolset.spelled(text))
        return thought, written, [parse_call(written, toolset)]
    except ActionError as error:
        actions = error.detail.get("actions") or [error.detail.get("action", written)]
        return str(error.detail.get("thought", thought)), "; ".join(actions), error


def read_tool_calls(
    reply: Reply, toolset: Toolset, most: int
) -> tuple[str, str, Sequence[Call] | ActionError]:
    """Return the same of a reply with native tool calls."""
    calls = [toolset.from_tool_call(*c) for c in reply.tool_calls]
    thought, written = reply.text.strip(), "; ".join(c.text() for c in calls)
    if reply.invalid_calls:
        name, arguments = reply.invalid_calls[0]
        message = f"the arguments of {name} are no JSON object: {arguments}"
        return thought, written, ActionError("bad_arguments", message)
    if not calls or (len(calls) > 1 and most == 1):
        code = "several_actions" if calls else "no_action"
        message = f"{len(calls)} tool calls in one reply; exactly one is due"
        return thought, written, ActionError(code, message)
    return thought, written, calls[:most]


def unusable(reply: Reply, context: Context) -> ActionError | None:
    """Return why a reply without an action could hold none: it was cut, or has no text; None for neither."""
    if reply.truncated:
        limit = context.max_reply_tokens
        return ActionError(
            REPLY_CUT,
            f"the reply was cut at {limit} tokens before its action was complete: it must be shorter, or the "
            f"limit higher (max_reply_tokens={2 * limit})",
        )
    tokens = 0 if reply.usage.estimated else reply.usage.output_tokens
    if tokens and not (reply.text or reply.tool_calls or reply.invalid_calls):
        return ActionError(
            REPLY_EMPTY,
            f"the reply has no text: the {tokens} tokens that the model wrote went into its reasoning, which "
            "is not read (reasoning_content, or a block <think>)",
        )
    return None


def read_values(text: str) -> tuple[str, ...]:
    """Return the values of an answer in words: one a line, or a list in square brackets; () for `unknown`."""
    text = re.sub(r"(?i)^\s*answer\s*:", "", text.strip()).strip()
    if text.startswith("[") and text.endswith("]"):
        values = scan_arguments(text[1:-1])[0]
    else:
        values = [line.strip(" \t-*•") for line in text.splitlines()]
    values = [v.strip("'\"") for v in values]
    return tuple(v for v in values if v and v.rstrip(".").casefold() != "unknown")
