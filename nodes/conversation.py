"""What a model is shown before the first step of a conversation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from triplewise.nodes.prompting import Prompt
from triplewise.tools.learning.conversation import Opening


def opening(prompt: Prompt, values: Mapping[str, Any]) -> Opening:
    """The first two messages, filled in as before the first step, whatever steps the values hold."""
    first = {**values, "history": [], "step": 1, "begun": False}
    return Opening(prompt.render("system", **first), prompt.render("turn", **first))
